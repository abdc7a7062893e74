"""The progress of a run: which items may start next, computed from its counts, without a database.

Without waves, all items may start immediately. With waves, only those of the first one are
pending, and the others wait; when all items that may start have ended, the next wave starts, or
the run holds: nothing of it may start then until it is continued, and that starts the wave. If
more tenants have failed than the run or its current wave allows, or if items are left after the
last wave, the run stops: items that have not started end as not attempted.
"""

from datetime import datetime

import msgspec

from tenantry.catalog.runs import NOT_ATTEMPTED, Progress
from tenantry.catalog.waves import Wave

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
    too_many = _too_many(before, after.failed_count)
    if too_many is not None:
        return msgspec.structs.replace(after, stop_reason=too_many)
    if after.ended_count < before.opened_count or before.waves is None:
        return after
    after = msgspec.structs.replace(after, wave_failed_max=_wave_failed_max(after))
    if after.ended_count >= before.waves[-1]:
        return msgspec.structs.replace(after, stop_reason=LEFT_OUT)
    wave = sum(size <= after.ended_count for size in before.waves)
    holding = msgspec.structs.replace(after, holding_wave=wave, check_error=None)
    return holding if wave in (after.holds or ()) else resume(holding)


def resume(holding: Progress) -> Progress:
    """Return the progress of a run that is continued: its next wave starts."""
    opens = holding.opened_count - holding.ended_count
    return msgspec.structs.replace(
        holding, holding_wave=None, check_error=None, unopened_count=holding.unopened_count + opens
    )


def _wave_failed_max(run: Progress) -> int | None:
    """Return how many tenants may have failed while the next wave goes on, if it has a budget."""
    wave = _details(run)
    return None if wave.max_failures is None else run.failed_count + wave.max_failures


def _details(run: Progress) -> Wave:
    """Return what is known of the wave that starts next, or goes on."""
    details = run.wave_details or []
    return Wave(**details[number - 1]) if (number := _number(run)) <= len(details) else Wave()


def _number(run: Progress) -> int:
    return 1 + sum(size <= run.ended_count for size in run.waves or ())


def _too_many(before: Progress, failed_count: int) -> str | None:
    """Return why the run stops if these are too many failures, of all or of the current wave."""
    most, where = before.max_failures, ""
    if most is None or failed_count <= most:
        if before.wave_failed_max is None or failed_count <= before.wave_failed_max:
            return None
        wave = _details(before)
        most, name = wave.max_failures or 0, f" ({wave.where})" if wave.where else ""
        where = f" of wave {_number(before)}{name}"
    some = f"more than {most}" if most > 1 else "more than one"  # tenants, or databases
    return f"{NOT_ATTEMPTED}{some if most else 'one'}{where} failed"
