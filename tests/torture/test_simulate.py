"""The simulator: it finds planted faults, plays a history again, and finds nothing otherwise."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from harness.processes import ROOT
from harness.simulate.planted import FAULTS, planted

SECONDS_MAX = 900
SEARCH_SECONDS = "240"  # a planted fault is found in seconds of an idle machine
HISTORIES = Path(__file__).parent / "histories"
FAILED = {
    # A process that had lost its job was still dropping its database at the end.
    "790458af-2482",
    # The catalog did not answer when a process failed a job that it had lost: its database stayed.
    "41a-227",
    # A process was killed after it had created the database of a job that it had lost.
    "41b-653",
    # The simulator took a change for stored whose transaction was rolled back.
    "42b-5962",
    # A process tried a tenant again that others had taken over, ended and undone.
    "suite-118",
    # A fence that a frozen process had set stayed, because another one was just ending its move.
    "43a-1789",
    # A process that was paused went on with a tenant that others had taken over and ended, after an
    # undo of another run had taken it back.
    "old1-726",
    # A process that was frozen in a tenant of a run applied a revision after others had ended it.
    "51a-7571",
    # An undo asked the catalog after it had checked that the tenant was still its own.
    "suite-45",
    # An undo waited for the catalog after it had read its run.
    "suite-948",
    # A move was cancelled while it lifted the fence of a job that it had lost.
    "52a-9260",
    # The simulator gave up a notification that its target had refused again and again.
    "52b-8217",
    # A process took a tenant back on which it still worked, and ended it by its first attempt.
    "63a-16972",
    # A process waited for others to end the move that it had lost, and none was left.
    "65a-7616",
    # The simulator copied a tenant into a database that had been dropped.
    "65d-8044",
    # A process took what it had read of a run for new after it had read other runs.
    "67b-40355",
}
"""Seeds of histories that have failed, and what happened in them: `events_of` has changed since."""


def _simulate(*arguments: str, seconds: int = SECONDS_MAX) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "harness.simulate", *arguments]
    return subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, timeout=seconds, check=False
    )


@pytest.mark.timeout(2 * SECONDS_MAX)
class TestSimulate:
    @pytest.mark.slow
    def test_finds_a_planted_fault_and_plays_it_again(self):
        fault = ("--fault", "jobs_of_the_living_are_taken")
        found = _simulate(*fault, "--seconds", SEARCH_SECONDS)

        seed = re.search(r"seed (\S+): (.+)\. These events are enough", found.stdout)
        assert seed is not None, found.stdout + found.stderr
        again = _simulate(*fault, "--seed", seed[1])
        assert (found.returncode, again.returncode) == (1, 1)
        assert again.stdout.rstrip().endswith(seed[2])

    @pytest.mark.parametrize("seconds", ["2", pytest.param("20", marks=pytest.mark.slow)])
    def test_finds_nothing_in_the_product(self, seconds: str):
        """Nor in what it remembers of statements that it has run before."""
        done = _simulate("--seconds", seconds, "--seed", "suite", "--verify")

        assert done.returncode == 0, done.stdout + done.stderr
        assert re.search(r"[1-9][0-9]* histories, [1-9][0-9]* steps, 0 faults", done.stdout)

    def test_finds_nothing_any_longer_in_the_histories_that_have_failed(self):
        done = _simulate("--events", str(HISTORIES))

        assert done.returncode == 0, done.stdout + done.stderr
        assert set(re.findall(r"seed (\S+): no fault", done.stdout)) == FAILED
        planted = _simulate("--events", str(HISTORIES), "--fault", "outcomes_change")
        assert planted.returncode == 1, planted.stdout + planted.stderr
        assert "seed old1-726: an outcome is changed" in planted.stdout

    def test_plays_the_events_of_a_file_and_refuses_one_that_is_not_there(self):
        file = HISTORIES / "old1-726.json"
        played = _simulate("--events", str(file), "--fault", "outcomes_change")
        missing = _simulate("--events", str(file.with_name("missing.json")))

        assert played.returncode == 1, played.stdout + played.stderr
        assert played.stdout.rstrip().endswith("an outcome is changed")
        assert missing.returncode == 2
        assert "there is no" in missing.stderr

    @pytest.mark.parametrize("name", FAULTS)
    def test_can_plant_each_fault(self, name: str):
        """A statement that is renamed in the product is not found here any longer."""
        with planted(name):
            pass

    @pytest.mark.slow
    @pytest.mark.parametrize(
        "fault", ["outcomes_change", "undo_goes_forward", "nothing_is_dropped"]
    )
    def test_finds_a_fault_of_runs_of_undos_and_of_the_ledger(self, fault: str):
        done = _simulate("--fault", fault, "--seconds", SEARCH_SECONDS)

        seed = re.search(r"seed (\S+): (.+)\. These events are enough", done.stdout)
        assert seed is not None, done.stdout + done.stderr
        without = _simulate("--seed", seed[1])
        assert (done.returncode, without.returncode) == (1, 0), without.stdout + without.stderr
