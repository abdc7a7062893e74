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
    """The milliseconds for one tenant, by contender and round."""

    milliseconds: Mapping[str, Sequence[float]]

    def median(self, name: str) -> float:
        """Return the milliseconds of the middle round."""
        return statistics.median(self.milliseconds[name])

    def over(self, name: str, base: str) -> float:
        """Return how many times as long as *base* a contender takes: the median of the rounds."""
        return statistics.median(self._ratios(name, base))

    def quickest(self, *names: str) -> str:
        """Return which of *names* is the quickest."""
        return min(names, key=self.median)

    def lines(self, base: str) -> list[str]:
        """Return a line for each contender, for people."""
        return [
            f"{name}: {shown(self.median(name))} ms for a tenant "
            f"({shown(min(seen))} to {shown(max(seen))}), "
            f"{self.over(name, base):.2f} of the limit "
            f"({min(self._ratios(name, base)):.2f} to {max(self._ratios(name, base)):.2f})"
            for name, seen in self.milliseconds.items()
        ]

    def _ratios(self, name: str, base: str) -> list[float]:
        pairs = zip(self.milliseconds[name], self.milliseconds[base], strict=True)
        return [one / other for one, other in pairs]


def take_turns(work: str, contenders: Sequence[Contender], rounds: int) -> Seen:
    """Return what was seen of *contenders* in so many *rounds*.

    Args:
        work: What they do, for the lines about the progress.
        contenders: Who.
        rounds: How many.
    """
    seen: dict[str, list[float]] = {one.name: [] for one in contenders}
    for number in range(rounds):
        # The next one begins, and the order is the other way round in every second round.
        order = [*contenders[number % len(contenders) :], *contenders[: number % len(contenders)]]
        for one in order[:: -1 if number % 2 else 1]:
            began = time.monotonic()
            one.reset()
            reset = time.monotonic() - began
            milliseconds = one.run() / one.count * 1000
            one.check()
            seen[one.name].append(milliseconds)
            say(
                f"{work}, round {number + 1} of {rounds}: {one.name}: "
                f"{shown(milliseconds)} ms for each of {one.count:,} (put back in {reset:.1f} s)"
            )
    return Seen(seen)


def shown(number: float) -> str:
    """Return *number* with three digits that say something."""
    digits = 0 if number >= 100 else 1 if number >= 10 else 2 if number >= 1 else 3
    return f"{number:,.{digits}f}"
