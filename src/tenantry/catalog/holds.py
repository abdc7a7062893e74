"""Runs that hold after a wave, until a person or the operator's check continues them.

A run that holds after a wave has no item that may start: those of its next wave wait. So no process
works on it, and it costs the others nothing. No other run with one of its waiting tenants begins,
and no run with a tenant that has not ended in one of the other direction.
"""

from uuid import UUID

import msgspec
import sqlalchemy as sa

from tenantry.catalog import job_queue, notices
from tenantry.catalog.job_queue import WAVE, JobOptions
from tenantry.catalog.job_states import Job, JobState
from tenantry.catalog.outbox import Subscribed
from tenantry.catalog.run_tables import migration_run, tenant_migration
from tenantry.catalog.runs import Progress, is_open
from tenantry.catalog.session import CatalogSession, RowId
from tenantry.catalog.tables import catalog
from tenantry.catalog.waves import is_waiting
from tenantry.db.paging import LIMIT
from tenantry.db.statements import Statement, columns_of
from tenantry.kit.clock import utc_now
from tenantry.kit.errors import Conflict
from tenantry.kit.ids import new_id

# Of others, the processes do not count the answers.
RATED_MAX = 10
CHECKER = "wave check"
"""Who continues a run after a check, in the audit log."""


class TenantsHeld(Conflict):
    """A tenant has not ended in another run: continue or cancel that one first."""


class _Held(msgspec.Struct, frozen=True):
    """A tenant that waits in a run that holds, or has not ended in one of the other direction."""

    tenant_name: str
    run_id: UUID
    holding_wave: int | None
    stop_reason: str | None
    is_undo: bool


_run, _item, _own = migration_run.c, tenant_migration.c, tenant_migration.alias("own")
_reason = sa.bindparam("reason", type_=sa.String)
_is_run = _run.id == sa.bindparam("run")
_RATED = Statement(
    sa.select(*columns_of(migration_run, Progress))
    .where(_run.planner_id.is_(None), _run.finished_at.is_(None), _run.max_error_rate.is_not(None))
    .order_by(_run.id)
    .limit(RATED_MAX),
    Progress,
)
_NOTE_CHECK = Statement(
    sa.update(migration_run)
    .values(check_error=_reason)
    .where(_is_run, _run.holding_wave == sa.bindparam("wave"))
    .returning(_run.id),
    RowId,
)
# Those that only a process with other files can continue come last, so that they never keep others
# from being read.
_WORKABLE = Statement(
    sa.select(*columns_of(migration_run, Progress))
    .where(_run.planner_id.is_(None), _run.finished_at.is_(None), _run.holding_wave.is_(None))
    .order_by(_run.held_reason.is_not(None), _run.id)
    .limit(LIMIT),
    Progress,
)

# Also one that does not hold yet: its process may have been killed in the first wave.
_is_stopped = _run.stop_reason.is_not(None)
_is_held = sa.and_(_run.holds.is_not(None), is_waiting, ~_is_stopped)
_forward = sa.bindparam("forward", type_=sa.Boolean)
# Which of the two comes last decides what the tenant has. Of one that was stopped, those in work
# finish.
_is_in_other_direction = sa.and_(
    _forward.is_distinct_from(_run.undoes.is_(None)),
    is_open,
    sa.or_(~_is_stopped, _item.worker_id.is_not(None)),
)
# Of two runs that begin at the same time, the second one sees the first.
_LOCK = Statement(sa.select(catalog.c.id).with_for_update(), RowId)
_HELD = Statement(
    sa.select(
        _item.tenant_name,
        _item.run_id,
        _run.holding_wave,
        _run.stop_reason,
        sa.type_coerce(_run.undoes.is_not(None), sa.Boolean).label("is_undo"),
    )
    .join_from(migration_run, tenant_migration, _item.run_id == _run.id)
    .join(_own, _own.c.tenant_id == _item.tenant_id)
    .where(
        _run.planner_id.is_(None),
        _run.finished_at.is_(None),
        sa.or_(_is_held, _is_in_other_direction),
        _own.c.run_id == sa.bindparam("run", type_=sa.Uuid),
    )
    .limit(1),
    _Held,
)


async def workable(session: CatalogSession, *, limit: int) -> list[Progress]:
    """Return up to *limit* runs that have not ended and do not hold after a wave."""
    return await session.fetch_all(_WORKABLE, limit=limit)


async def rated(session: CatalogSession) -> list[Progress]:
    """Return the `RATED_MAX` oldest runs with an error rate that have not ended."""
    return await session.fetch_all(_RATED)


async def began(session: CatalogSession, run: Progress) -> None:
    """Note that *run* has begun to hold after a wave, in the transaction that ends the wave.

    This is the only place: no other code makes a run hold after a wave. Its check is queued here.
    """
    if run.is_checked:
        options = JobOptions(
            request_id=str(new_id()), address="local", run_id=run.id, wave=run.holding_wave
        )
        job = Job(
            id=new_id(),
            kind=WAVE,
            tenant_id=None,
            tenant_name=None,
            actor=CHECKER,
            started_at=utc_now(),
            state=JobState.QUEUED.value,
            options=msgspec.json.encode(options).decode(),
        )
        await job_queue.add(session, [job])


async def refuse_waiting(session: CatalogSession, run: Progress) -> None:
    """Refuse to begin *run* if one of its tenants waits in another run, which holds.

    Also if one has not ended in a run of the other direction: an undo would take back what *run*
    finds at the head, or a migration apply again what *run* takes back.

    Raises:
        TenantsHeld: One does. The message names it, and that run.
    """
    await session.fetch_one(_LOCK)
    held = await session.fetch_one(_HELD, run=run.id, forward=run.undoes is None)
    if held is None:
        return
    does, why, then = "waits", "has waves to come", "Wait for its end, or cancel it."
    if held.holding_wave is not None:
        why = f"holds after wave {held.holding_wave}"
        then = "Continue or cancel that run first."
    elif held.is_undo != (run.undoes is not None):
        does, why = "has not ended", "undoes another one" if held.is_undo else "goes forward"
        if held.stop_reason is not None:
            then = "It is ending: wait, or continue it if its process was killed."
    raise TenantsHeld(
        f"Nothing was started: {held.tenant_name} {does} in the migration run {held.run_id}, "
        f"which {why}. {then}"
    )


async def check_failed(session: CatalogSession, subscribed: Subscribed, job: Job) -> None:
    """Store why the check of a run has failed, if the run still holds after that wave.

    Targets are notified.
    """
    options = msgspec.json.decode(job.options or "", type=JobOptions)
    reason = f"The check has failed: {job.error}"
    noted = await session.fetch_one(
        _NOTE_CHECK, run=options.run_id, wave=options.wave, reason=reason
    )
    if noted is not None:
        await notices.left_to_person(session, subscribed, noted.id, now=utc_now())
