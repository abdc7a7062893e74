"""The progress of a run: how finished tenants change its state."""

import random
from datetime import UTC, datetime

import msgspec
import pytest

from tenantry.catalog.run_progress import LEFT_OUT, advance, resume
from tenantry.catalog.runs import CANCELLED, Progress, RunState
from tenantry.kit.ids import new_id

NOW = datetime(2030, 1, 1, tzinfo=UTC)


def run_of(
    total: int, *, waves: list[int] | None = None, max_failures: int | None = None
) -> Progress:
    return Progress(
        id=new_id(),
        started_at=NOW,
        triggered_by="ada@example.com",
        total_count=total,
        success_count=0,
        failed_count=0,
        finished_at=None,
        waves=waves,
        max_failures=max_failures,
        stop_reason=None,
        last_sequence=None,
    )


def after(before: Progress, successes: int, failures: int = 0) -> tuple[Progress, int]:
    found = advance(
        before,
        successes=successes,
        failures=failures,
        last_sequence=(before.last_sequence or 0) + successes + failures,
        now=NOW,
    )
    return found, found.unopened_count - before.unopened_count


class TestWithoutTerms:
    def test_ends_with_its_last_part(self):
        run, _ = after(run_of(3), 1, 1)
        assert (run.ended_count, run.finished_at, run.last_sequence) == (2, None, 2)

        run, opens = after(run, 0, 1)

        assert (run.success_count, run.failed_count, run.finished_at) == (1, 2, NOW)
        assert (run.stop_reason, opens) == (None, 0)


class TestWaves:
    def test_begin_when_all_before_have_ended(self):
        run, opens = after(run_of(100, waves=[1, 10, 100]), 1)
        assert (opens, run.opened_count) == (9, 10)

        run, opens = after(run, 5, 3)
        assert (opens, run.opened_count) == (0, 10), "one is still in work"

        run, opens = after(run, 1)
        assert (opens, run.opened_count) == (90, 100)

    def test_leave_out_what_is_in_none(self):
        run, opens = after(run_of(5, waves=[1, 2]), 1)
        assert (opens, run.stop_reason) == (1, None)

        run, opens = after(run, 1)

        assert (opens, run.stop_reason, run.finished_at) == (0, LEFT_OUT, None)
        run, _ = after(run, 0, 3)
        assert (run.finished_at, run.failed_count) == (NOW, 3)

    def test_do_not_begin_when_too_many_have_failed(self):
        run, opens = after(run_of(10, waves=[2, 10], max_failures=1), 0, 2)

        assert opens == 0
        assert run.stop_reason == "not attempted: more than one failed"

    @pytest.mark.parametrize("seed", range(20))
    def test_let_every_part_begin_once(self, seed: int):
        """However outcomes are batched, each wave opens exactly once."""
        chance = random.Random(seed)  # noqa: S311 - no secret
        total = chance.randint(1, 60)
        sizes = sorted({chance.randint(1, total) for _ in range(4)} | {total})
        run, opened = run_of(total, waves=sizes), sizes[0]

        while run.finished_at is None:
            run, opens = after(run, chance.randint(1, opened - run.ended_count))
            opened += opens
            assert run.finished_at or run.ended_count < opened <= total

        assert (opened, run.ended_count) == (total, total)


class TestHolds:
    def test_open_nothing_until_the_run_is_resumed(self):
        before = msgspec.structs.replace(run_of(10, waves=[2, 5, 10]), holds=[1])
        run, opens = after(before, 1, 1)
        assert (run.holding_wave, opens, run.state) == (1, 0, RunState.HOLDING)

        run = resume(run)
        assert (run.holding_wave, run.unopened_count, run.state) == (None, 3, RunState.RUNNING)

        run, opens = after(run, 3)
        assert (run.holding_wave, opens) == (None, 5), "it holds after the first wave alone"

    def test_do_not_begin_when_too_many_have_failed(self):
        before = msgspec.structs.replace(run_of(9, waves=[2, 9], max_failures=0), holds=[1])
        run, _ = after(before, 1, 1)
        assert (run.holding_wave, run.state) == (None, RunState.STOPPING)

    def test_after_a_wave_that_was_once_without_files_says_how_it_goes_on(self):
        """A slow process can have stored this before another one ended the wave."""
        run, _ = after(msgspec.structs.replace(run_of(2, waves=[1, 2]), holds=[1]), 1)
        run = msgspec.structs.replace(run, held_reason="No running process has the files.")
        assert run.held_because == "Wave 1 of 2 has ended. Continue or cancel the run."


class TestFailures:
    def test_stop_the_run_when_one_is_too_many(self):
        run, _ = after(run_of(10, max_failures=2), 1, 2)
        assert run.stop_reason is None

        run, _ = after(run, 0, 1)

        assert run.stop_reason == "not attempted: more than 2 failed"

    def test_stop_it_at_the_first_when_none_is_allowed(self):
        run, _ = after(run_of(10, max_failures=0), 5, 1)

        assert run.stop_reason == "not attempted: one failed"

    def test_that_are_not_attempted_change_nothing(self):
        before = msgspec.structs.replace(run_of(10, max_failures=0), stop_reason=CANCELLED)

        run, opens = after(before, 0, 9)

        assert (run.stop_reason, run.finished_at, opens) == (CANCELLED, None, 0)
