"""Virtual time, and ids that a seed determines. Install them before the product is imported."""

import random
from datetime import UTC, datetime, timedelta
from uuid import UUID

_EPOCH = datetime(2026, 1, 1, tzinfo=UTC)
_UUID7 = (7 << 76) | (2 << 62)


class Clock:
    """The time of one history.

    Attributes:
        now: Seconds since its beginning; it never goes back.
        database_skew: How far the clock of the catalog's database is ahead, in seconds.
        skew: How far the wall clock of the process that runs now is ahead, in seconds.
    """

    def __init__(self) -> None:
        self.now = 0.0
        self.database_skew = 0.0
        self.skew = 0.0
        self._ids = random.Random(0)  # noqa: S311 - no secret

    def reset(self, seed: str) -> None:
        """Begin another history."""
        self.now = self.database_skew = self.skew = 0.0
        self._ids.seed(seed)

    def monotonic(self) -> float:
        """Return the monotonic time in seconds, the same in every process."""
        return self.now

    def utc_now(self) -> datetime:
        """Return the wall time of the process that runs now."""
        return _EPOCH + timedelta(seconds=self.now + self.skew)

    def julian_day(self, _: str) -> float:
        """Return the wall time of the database as SQLite's ``julianday('now')`` does."""
        return (_EPOCH.timestamp() + self.now + self.database_skew) / 86_400 + 2_440_587.5

    def new_id(self) -> UUID:
        """Return a UUIDv7 of the wall time."""
        ms = round((_EPOCH.timestamp() + self.now + self.skew) * 1000)
        bits = self._ids.getrandbits(74)
        return UUID(int=(ms << 80) | _UUID7 | (bits >> 62) << 64 | bits & (2**62 - 1))


CLOCK = Clock()


def install() -> None:
    """Let the product read this clock; nothing else of the product may be imported before."""
    from tenantry.kit import clock, ids  # noqa: PLC0415 - only here, before all others

    clock.utc_now = CLOCK.utc_now  # type: ignore[assignment]
    clock.monotonic_seconds = CLOCK.monotonic
    ids.new_id = CLOCK.new_id
