"""Installations and programs side by side: in each lane, one call fails at a time."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from harness.faults.programs import Programs, preloaded
from harness.faults.stage import SQLITE, Stage, make_stage
from testkit.postgres import own_server


class Lane:
    """Makes an installation for each engine when it is first needed, and keeps it.

    Args:
        folder: For its files.
        programs: Runs its commands.
        stack: Ends its servers.
    """

    def __init__(self, folder: Path, programs: Programs, stack: ExitStack) -> None:
        self._folder, self._programs, self._stack = folder, programs, stack
        self._stages: dict[str, Stage] = {}

    def begin(self, engine: str) -> Stage:
        """Return an installation as it was made; the one before is gone."""
        if engine not in self._stages:
            is_file = engine == SQLITE
            url = "" if is_file else self._stack.enter_context(own_server()).url
            folder = self._folder / engine
            self._stages[engine] = make_stage(folder, self._programs, engine, url)
        return self._stages[engine].begin()


@contextmanager
def opened(folder: Path, count: int) -> Iterator[list[Lane]]:
    """Yield *count* lanes, until the block ends."""
    with ExitStack() as stack:
        programs = stack.enter_context(preloaded(folder / "programs", count))
        yield [Lane(folder / str(number), one, stack) for number, one in enumerate(programs)]
