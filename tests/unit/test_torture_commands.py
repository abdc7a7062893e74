"""How long the next command of the torture takes, of which each moment may be its last."""

from harness.torture.commands import LONGER, next_length


def test_a_command_that_ended_is_the_measure_of_the_next_one():
    assert next_length(8.0, 2.0) == 2.0
    assert next_length(0.5, 2.0) == 2.0


def test_a_command_that_was_killed_is_expected_to_take_longer():
    assert next_length(2.0, None) == 2.0 * LONGER > 2.0
