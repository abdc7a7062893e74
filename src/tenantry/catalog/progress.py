"""The progress of a run: how its counts decide what may start next. Nothing here reads or writes.

A run without waves may start everything at once. With waves only the items of the first one
are pending, and the others wait; when all that may start has ended, the next wave begins.
When more tenants have failed than the run bears, or the last wave has ended and items are
left, the run stops: what has not started is ended as not attempted.
"""

from datetime import datetime
from uuid import UUID

import msgspec

NOT_ATTEMPTED = "not attempted: "
"""How the error of a tenant begins that was not started; the reason follows it."""
CANCELLED = f"{NOT_ATTEMPTED}run cancelled"
LEFT_OUT = f"{NOT_ATTEMPTED}left out by the last wave"


class Progress(msgspec.Struct, frozen=True):
    """How far a run is, and how it is to go.

    Attributes:
        total_count: Its items.
        finished_at: When the last of them ended.
        waves: How many items may have started when each wave has begun; None when all may
            start at once.
        max_failures: The failures that it bears; None when it bears all.
        stop_reason: Why nothing more is started: the error of what has not; None while it is.
        last_sequence: The sequence of the item that ended last; None before the first.
    """

    id: UUID
    total_count: int
    success_count: int
    failed_count: int
    finished_at: datetime | None
    waves: list[int] | None
    max_failures: int | None
    stop_reason: str | None
    last_sequence: int | None

    @property
    def ended_count(self) -> int:
        """How many items have ended."""
        return self.success_count + self.failed_count

    @property
    def opened_count(self) -> int:
        """How many items may have started by now."""
        sizes = (size for size in self.waves or () if size > self.ended_count)
        return next(sizes, self.total_count)


class Step(msgspec.Struct, frozen=True):
    """What follows from some outcomes.

    Attributes:
        progress: After them.
        opens: How many items that waited may start now.
    """

    progress: Progress
    opens: int = 0


def advance(
    before: Progress, *, successes: int, failures: int, last_sequence: int, now: datetime
) -> Step:
    """Return what follows when some more items have ended."""
    after = msgspec.structs.replace(
        before,
        success_count=before.success_count + successes,
        failed_count=before.failed_count + failures,
        last_sequence=last_sequence,
    )
    if after.ended_count >= after.total_count:
        return Step(msgspec.structs.replace(after, finished_at=now))
    if after.stop_reason is not None:
        return Step(after)
    if after.max_failures is not None and after.failed_count > after.max_failures:
        return Step(msgspec.structs.replace(after, stop_reason=_too_many(after.max_failures)))
    if after.ended_count < before.opened_count or after.waves is None:
        return Step(after)
    if after.ended_count >= after.waves[-1]:
        return Step(msgspec.structs.replace(after, stop_reason=LEFT_OUT))
    return Step(after, after.opened_count - before.opened_count)


def _too_many(max_failures: int) -> str:
    if max_failures < 2:  # noqa: PLR2004 - one, or more than one
        return f"{NOT_ATTEMPTED}{'more than one tenant' if max_failures else 'a tenant'} failed"
    return f"{NOT_ATTEMPTED}more than {max_failures} tenants failed"
