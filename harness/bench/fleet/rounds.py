"""Contenders in turn: each migrates the same tenants, put back before it, again and again.

What disturbs the machine for a while disturbs all of them, and a ratio is taken between
passes of one round alone. No contender always follows the same one.
"""

import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from harness.driver import say


@dataclass(frozen=True)
class Contender:
    """A way to migrate tenants.

    Attributes:
        name: For people.
        count: How many tenants it migrates in one pass.
        reset: Puts them back; it is not timed.
        run: Migrates them, and returns the seconds.
        check: Raises if they are not at the head; it is not timed.
    """

    name: str
    count: int
    reset: Callable[[], None]
    run: Callable[[], float]
    check: Callable[[], None]


@dataclass(frozen=True)
class Seen:
    """The milliseconds for one tenant, by contender and round.

    Attributes:
        milliseconds: That pass.
        on_cores: Of all processors.
    """

    milliseconds: Mapping[str, Sequence[float]]
    on_cores: Mapping[str, Sequence[float]]

    def median(self, name: str) -> float:
        """Return the milliseconds of the middle round."""
        return statistics.median(self.milliseconds[name])

    def over(self, name: str, base: str) -> float:
        """Return how many times as long as *base* a contender takes: the median of the rounds."""
        return statistics.median(_ratios(self.milliseconds, name, base))

    def costs_over(self, name: str, base: str) -> float:
        """Return how many times the CPU time of *base* a contender takes, on client and server."""
        return statistics.median(_ratios(self.on_cores, name, base))

    def quickest(self, *names: str) -> str:
        """Return which of *names* is the quickest."""
        return min(names, key=self.median)

    def lines(self, base: str) -> list[str]:
        """Return a line for each contender, for people."""
        return [
            f"{name}: {shown(self.median(name))} ms for a tenant "
            f"({shown(min(seen))} to {shown(max(seen))}), "
            f"{self.over(name, base):.2f} of the limit "
            f"({min(ratios := _ratios(self.milliseconds, name, base)):.2f} to {max(ratios):.2f}); "
            f"CPU {shown(statistics.median(self.on_cores[name]))} ms, "
            f"{self.costs_over(name, base):.2f} of the limit "
            f"({min(costs := _ratios(self.on_cores, name, base)):.2f} to {max(costs):.2f})"
            for name, seen in self.milliseconds.items()
        ]


def take_turns(
    work: str, contenders: Sequence[Contender], rounds: int, used: Callable[[], float]
) -> Seen:
    """Return what was seen of *contenders* in so many *rounds*.

    Args:
        work: What they do, for the lines about the progress.
        contenders: Who.
        rounds: How many.
        used: Returns the CPU seconds of client and server until now.
    """
    seen: dict[str, list[float]] = {one.name: [] for one in contenders}
    on_cores: dict[str, list[float]] = {one.name: [] for one in contenders}
    for number in range(rounds):
        # The next one begins, and the order is the other way round in every second round.
        order = [*contenders[number % len(contenders) :], *contenders[: number % len(contenders)]]
        for one in order[:: -1 if number % 2 else 1]:
            began = time.monotonic()
            one.reset()
            reset = time.monotonic() - began
            before = used()
            milliseconds = one.run() / one.count * 1000
            on_cores[one.name].append((used() - before) / one.count * 1000)
            one.check()
            seen[one.name].append(milliseconds)
            say(
                f"{work}, round {number + 1} of {rounds}: {one.name}: "
                f"{shown(milliseconds)} ms for each of {one.count:,} (put back in {reset:.1f} s)"
            )
    return Seen(seen, on_cores)


def _ratios(figures: Mapping[str, Sequence[float]], name: str, base: str) -> list[float]:
    return [one / other for one, other in zip(figures[name], figures[base], strict=True)]


def shown(number: float) -> str:
    """Return *number* with three digits that say something."""
    digits = 0 if number >= 100 else 1 if number >= 10 else 2 if number >= 1 else 3
    return f"{number:,.{digits}f}"
