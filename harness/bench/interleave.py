"""Contenders side by side: a short window each, in turn, again and again.

What disturbs the machine for a while then disturbs all of them, and a ratio is taken
between windows of one round alone.
"""

import statistics
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from harness.bench.load import Load
from harness.processes import Process
from harness.wire import Request

BUSY_MIN = 0.9
OTHERS_MAX = 0.05


@dataclass(frozen=True)
class Pace:
    """How long is measured.

    Attributes:
        rounds: Of every contender.
        seconds: Of each window.
        warm_seconds: Before it, and not counted.
    """

    rounds: int
    seconds: float
    warm_seconds: float


@dataclass(frozen=True)
class Contender:
    """A server, and what it is asked: in each window from the beginning, unless by an iterator."""

    name: str
    process: Process
    requests: Iterable[Request]


@dataclass(frozen=True)
class Window:
    """What was seen of a contender in one round."""

    answers: int
    seconds: float
    cpu_seconds: float
    core_seconds: float
    load_seconds: float

    @property
    def cpu_us(self) -> float:
        """The server's CPU time for one request, in microseconds."""
        return self.cpu_seconds / self.answers * 1e6

    @property
    def per_second(self) -> float:
        """Requests in a second."""
        return self.answers / self.seconds

    @property
    def busy(self) -> float:
        """How much of its core the server took."""
        return self.cpu_seconds / self.seconds

    @property
    def others(self) -> float:
        """How much of that core other processes took."""
        return max(0.0, (self.core_seconds - self.cpu_seconds) / self.seconds)

    @property
    def load_busy(self) -> float:
        """How much of a core the load took."""
        return self.load_seconds / self.seconds


@dataclass(frozen=True)
class Seen:
    """The windows of all contenders of one run."""

    windows: Mapping[str, Sequence[Window]]

    def ratio(self, one: str, other: str) -> float:
        """Return the CPU time of a request of *one* over that of *other*."""
        return statistics.median(self.ratios(one, other))

    def ratios(self, one: str, other: str) -> list[float]:
        """Return that ratio of each round."""
        pairs = zip(self.windows[one], self.windows[other], strict=True)
        return [a.cpu_us / b.cpu_us for a, b in pairs]

    def is_disturbed(self, *names: str) -> bool:
        """Return whether other processes used the core during the measurement."""
        return any(
            statistics.median(window.others for window in self.windows[name]) > OTHERS_MAX
            for name in names
        )

    def per_second(self, name: str) -> float:
        """Return how many requests of *name* were answered in a second."""
        return statistics.median(window.per_second for window in self.windows[name])

    def lines(self, bare: str) -> list[str]:
        """Return a line about each contender, for people."""
        return [self._line(name, bare) for name in self.windows]

    def _line(self, name: str, bare: str) -> str:
        windows = self.windows[name]
        cpu = statistics.median(window.cpu_us for window in windows)
        busy = statistics.median(window.busy for window in windows)
        load = statistics.median(window.load_busy for window in windows)
        ratios = self.ratios(bare, name)
        others = statistics.median(window.others for window in windows)
        disturbed = f", OTHERS {others:.0%}" if self.is_disturbed(name) else ""
        idle = "" if busy >= BUSY_MIN else " (NOT the bottleneck)"
        return (
            f"{name}: {cpu:.1f} µs of CPU per request, {self.per_second(name):,.0f} requests/s, "
            f"ratio {statistics.median(ratios):.3f} ({min(ratios):.3f} to {max(ratios):.3f}), "
            f"its core {busy:.0%} busy{idle}{disturbed}, the load's {load:.0%}"
        )


def interleave(contenders: Sequence[Contender], pace: Pace) -> Seen:
    """Measure each of the *contenders* in every round.

    Raises:
        WrongAnswer: One answered something else than it should.
    """
    windows: dict[str, list[Window]] = {one.name: [] for one in contenders}
    for _ in range(pace.rounds):
        for one in contenders:
            windows[one.name].append(_measure(one, pace))
    return Seen(windows)


def _measure(contender: Contender, pace: Pace) -> Window:
    process = contender.process
    with Load(process.port, contender.requests) as load:
        load.run(pace.warm_seconds)
        before = _clocks(process)
        answers = load.run(pace.seconds)
        return Window(
            answers, *(now - then for now, then in zip(_clocks(process), before, strict=True))
        )


def _clocks(process: Process) -> tuple[float, float, float, float]:
    return (
        time.perf_counter(),
        process.cpu_seconds(),
        process.core_seconds(),
        time.process_time(),
    )
