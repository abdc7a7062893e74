"""The progress of a run: which items may start next, computed from its counts, without a database.

Without waves, all items may start immediately. With waves, only those of the first one are
pending, and the others wait; when all items that may start have ended, the next wave starts. If
more tenants have failed than the run allows, or if items are left after the last wave, the run
stops: items that have not started end as not attempted.
"""

from datetime import datetime

import msgspec

from tenantry.catalog.runs import NOT_ATTEMPTED, Progress

LEFT_OUT = f"{NOT_ATTEMPTED}left out by the last wave"


def advance(
    before: Progress,
    *,
    successes: int,
    failures: int,
    not_attempted: int = 0,
    last_sequence: int,
    now: datetime,
) -> Progress:
    """Return the progress after some more items have ended; *failures* includes *not_attempted*."""
    after = msgspec.structs.replace(
        before,
        success_count=before.success_count + successes,
        failed_count=before.failed_count + failures,
        not_attempted_count=before.not_attempted_count + not_attempted,
        last_sequence=last_sequence,
    )
    if after.ended_count >= after.total_count:
        # The run was started by another process, perhaps with another clock.
        return msgspec.structs.replace(after, finished_at=max(now, before.started_at))
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
