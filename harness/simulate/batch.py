"""Many histories in a process of their own, and the shortest one that still fails."""

import gc
import itertools
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from harness.simulate.history import Event, History, Result, events_of
from harness.simulate.planted import planted
from harness.simulate.store import Store
from tenantry.migration.streams import Stream, Streams
from tenantry.tenant.stream import STREAM

REVISIONS = Path(__file__).parent / "revisions"
HISTORIES = 40
"""Of one process: what they leave is freed only at its end."""


@dataclass(frozen=True)
class Failure:
    """A history that has failed.

    Attributes:
        seed: Replays it.
        events: What is enough for it to fail.
    """

    seed: str
    fault: str
    events: Sequence[Event]


@dataclass(frozen=True)
class Report:
    """What came of a batch.

    Attributes:
        steps: Of all its histories.
        seconds: The time of the processor that it took.
    """

    histories: int
    steps: int
    seconds: float
    failure: Failure | None


class Player:
    """Plays histories over one image of a catalog.

    Args:
        fault: The fault that is planted; None without one.
    """

    def __init__(self, image: bytes, fault: str | None) -> None:
        gc.disable()  # see `History`
        self._store = Store(image)
        self._streams = Streams(STREAM, Stream("user", REVISIONS))
        self._plant = ExitStack()
        if fault is not None:
            self._plant.enter_context(planted(fault))

    def play(
        self, seed: str, events: Sequence[Event], note: Callable[[str], None] | None = None
    ) -> Result:
        """Play one history."""
        return History(seed, self._store, self._streams, note).play(events)

    def batch(self, base: str, first: int, until: float, *, shortens: bool) -> Report:
        """Play `HISTORIES`, up to the first that fails, or until a time; shorten that one."""
        began, steps, played, failure = time.process_time(), 0, 0, None
        for number in range(first, first + HISTORIES):
            seed = f"{base}-{number}"
            events = events_of(seed)
            result = self.play(seed, events)
            steps += result.steps
            played += 1
            if result.fault is not None:
                enough = self._shorten(seed, events) if shortens else events
                failure = Failure(seed, result.fault, enough)
                break
            if time.monotonic() > until:
                break
        return Report(played, steps, time.process_time() - began, failure)

    def _shorten(self, seed: str, events: Sequence[Event]) -> Sequence[Event]:
        """Leave out each event without which the history still fails."""
        for size in range(len(events), 0, -1):
            without = next(
                (
                    one
                    for one in itertools.combinations(events, size - 1)
                    if self.play(seed, one).fault is not None
                ),
                None,
            )
            if without is None:
                return events
            events = without
        return events
