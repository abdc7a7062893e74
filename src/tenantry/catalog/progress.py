"""The progress of a run: which items may start next, computed from its counts, without a database.

Without waves, all items may start immediately. With waves, only those of the first one are
pending, and the others wait; when all items that may start have ended, the next wave starts. If
more tenants have failed than the run allows, or if items are left after the last wave, the run
stops: items that have not started end as not attempted.
"""

from datetime import datetime
from uuid import UUID

import msgspec

NOT_ATTEMPTED = "not attempted: "
"""The prefix of the error of a tenant that was not started; the reason follows."""
CANCELLED = f"{NOT_ATTEMPTED}run cancelled"
LEFT_OUT = f"{NOT_ATTEMPTED}left out by the last wave"


class Progress(msgspec.Struct, frozen=True):
    """The counts and the options of a run.

    Attributes:
        total_count: The number of items.
        finished_at: When the last item ended; None before that.
        waves: The cumulative number of items up to each wave; None without waves.
        max_failures: The failure budget; None without a limit.
        stop_reason: Why no more items start; it is the error of those that have not started.
            None while items may start.
        last_sequence: The sequence of the item that ended last; None before the first.
        unopened_count: Of the waves that have begun, how many items still wait; they are opened
            in batches.
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
    unopened_count: int = 0

    @property
    def ended_count(self) -> int:
        """How many items have ended."""
        return self.success_count + self.failed_count

    @property
    def opened_count(self) -> int:
        """The number of items that may have started."""
        sizes = (size for size in self.waves or () if size > self.ended_count)
        return next(sizes, self.total_count)


def advance(
    before: Progress, *, successes: int, failures: int, last_sequence: int, now: datetime
) -> Progress:
    """Return the progress after some more items have ended."""
    after = msgspec.structs.replace(
        before,
        success_count=before.success_count + successes,
        failed_count=before.failed_count + failures,
        last_sequence=last_sequence,
    )
    if after.ended_count >= after.total_count:
        return msgspec.structs.replace(after, finished_at=now)
    if after.stop_reason is not None:
        return after
    if after.max_failures is not None and after.failed_count > after.max_failures:
        return msgspec.structs.replace(after, stop_reason=_too_many(after.max_failures))
    if after.ended_count < before.opened_count or after.waves is None:
        return after
    if after.ended_count >= after.waves[-1]:
        return msgspec.structs.replace(after, stop_reason=LEFT_OUT)
    opens = after.opened_count - before.opened_count
    return msgspec.structs.replace(after, unopened_count=before.unopened_count + opens)


def _too_many(max_failures: int) -> str:
    if max_failures < 2:  # noqa: PLR2004 - one, or more than one
        return f"{NOT_ATTEMPTED}{'more than one tenant' if max_failures else 'a tenant'} failed"
    return f"{NOT_ATTEMPTED}more than {max_failures} tenants failed"
