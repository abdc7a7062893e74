"""The pace of a process: how often it reads and writes the catalog."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Pace:
    """How often a process reads and writes the catalog.

    These are no settings: the guarantees for several processes depend on them. Tests shorten them.

    Attributes:
        check_seconds: Between two readings of the epoch.
        fresh_seconds: After this time without one, the cache is not used.
    """

    check_seconds: float = 0.25
    fresh_seconds: float = 0.75

    @property
    def known_seconds(self) -> float:
        """The time within which every process sees a change: at most a second."""
        return self.check_seconds + self.fresh_seconds


PACE = Pace()
