"""Jobs: durable work, as rows. A process holds the jobs that it runs, by its heartbeat."""

from collections.abc import Collection
from datetime import datetime
from typing import Any
from uuid import UUID

import msgspec
import sqlalchemy as sa

from tenantry.catalog.job_states import INTERRUPTED, Event, Job, JobState, transition, wanted
from tenantry.catalog.session import (
    CatalogSession,
    RowId,
    Value,
    fetch_or_raise,
    fetch_row,
    fetch_value,
)
from tenantry.catalog.tables import job
from tenantry.catalog.workers import is_abandoned, living
from tenantry.db.paging import Listing
from tenantry.db.statements import Statement, columns_of, parameters
from tenantry.db.types import Ids, is_listed
from tenantry.kit.errors import Conflict, NotFound
from tenantry.kit.pages import Page, Window

PRUNED_MAX = 1_000
"""Jobs that one call of `prune` removes."""
PROVISION, ADOPT, PURGE, TEMPLATE = "provision", "adopt", "purge", "template"
"""Kinds of jobs that are not queued, beside those in `catalog.job_queue`."""
UNKEPT = frozenset({PROVISION, PURGE, TEMPLATE})
"""Kinds of jobs that are removed at their end: the tenant, or its removal, is the result.

Until then they are not listed, and cannot be cancelled.
"""


class JobNotFound(NotFound):
    """There is no such job."""


class TenantMoving(Conflict):
    """The tenant is being moved, or a move of it is queued."""


class Left(msgspec.Struct, frozen=True):
    """Jobs that have left something.

    Attributes:
        abandoned: Unfinished ones of dead processes.
        kept: Those that keep the old database of a tenant.
    """

    abandoned: int
    kept: int


_COLUMNS = columns_of(job, Job)
_by_id = job.c.id == sa.bindparam("job")
_worker = sa.bindparam("worker", type_=sa.Uuid)
is_running = job.c.state == JobState.RUNNING.value
is_dropping = job.c.state == JobState.DROPPING.value
is_open = sa.or_(is_running, is_dropping)
_is_frozen = sa.and_(job.c.has_made_read_only, is_open)


def updating(*conditions: sa.ColumnElement[bool], **values: object) -> Statement[Job]:
    """Return a statement that updates the jobs that meet all *conditions*, and returns them."""
    return Statement(sa.update(job).values(values).where(*conditions).returning(*_COLUMNS), Job)


ADD = Statement[Any](sa.insert(job), conflicts={"uq_job_tenant_id": TenantMoving})
_NOTE = Statement(
    sa.update(job)
    .values(
        bytes_done=sa.bindparam("bytes_done"),
        note=sa.func.coalesce(sa.bindparam("note", type_=sa.String), job.c.note),
    )
    .where(_by_id)
    .returning(job.c.is_cancelled.label("value")),
    Value,
)
_of_tenant = job.c.tenant_id == sa.bindparam("tenant")
_LOCK_OPEN = Statement(sa.select(*_COLUMNS).where(_of_tenant, is_open).with_for_update(), Job)
_LOCK = Statement(
    sa.select(*_COLUMNS)
    .where(_by_id, sa.or_(_worker.is_(None), job.c.worker_id == _worker))
    .with_for_update(),
    Job,
)
_WRITTEN = [
    one for one in Job.__struct_fields__ if one not in {"id", "kind", "actor", "started_at"}
]
_WRITE = Statement[Any](sa.update(job).values(parameters(*_WRITTEN)).where(_by_id))
_REMOVE = Statement[Any](sa.delete(job).where(_by_id))
_is_listed = job.c.kind.not_in([sa.literal_column(f"'{kind}'") for kind in sorted(UNKEPT)])
_FIND = Statement(sa.select(*_COLUMNS).where(_by_id, _is_listed), Job)
_tenant = sa.bindparam("tenant", type_=sa.Uuid)
_is_finished = sa.bindparam("is_finished", type_=sa.Boolean)
_is_wanted = sa.and_(
    _is_listed,
    sa.or_(_tenant.is_(None), job.c.tenant_id == _tenant),
    sa.or_(_is_finished.is_(None), job.c.finished_at.is_not(None) == _is_finished),
)
_LISTING = Listing(sa.select(*_COLUMNS).where(_is_wanted).order_by(job.c.id.desc()), Job)
_is_lost = sa.and_(
    is_open,
    sa.or_(
        job.c.worker_id.is_(None),
        job.c.worker_id == _worker,
        is_abandoned(job.c.worker_id, _worker),
    ),
)
_LOST = Statement(sa.select(job.c.id).where(_is_lost).order_by(job.c.id), RowId)
_TAKE_LOST = updating(
    _is_lost,
    is_listed(job.c.id, sa.bindparam("ids", type_=Ids)),
    worker_id=_worker,
    error=sa.case((is_running, INTERRUPTED), else_=job.c.error),
    state=JobState.DROPPING.value,
)
_is_kept = job.c.state == JobState.KEPT.value
_TAKE_KEPT = updating(_is_kept, _of_tenant, worker_id=_worker, state=JobState.DROPPING.value)
is_left = sa.and_(is_open, sa.or_(job.c.worker_id.is_(None), ~job.c.worker_id.in_(living)))
"""Whether no living process holds an unfinished job."""
_LEFT = Statement(
    sa.select(
        sa.func.count(sa.case((is_left, 1))).label("abandoned"),
        sa.func.count(sa.case((_is_kept, 1))).label("kept"),
    ),
    Left,
)
_PRUNE = Statement[Any](
    sa.delete(job).where(
        job.c.id.in_(
            sa.select(job.c.id)
            .where(
                # No other condition with an index: most jobs of 90 days have ended.
                job.c.finished_at < sa.bindparam("before", type_=job.c.finished_at.type),
                job.c.state != JobState.KEPT.value,
                job.c.state != JobState.DROPPING.value,
            )
            .limit(PRUNED_MAX)
        )
    )
)


def is_moving(tenant_id: sa.ColumnElement[Any]) -> sa.ColumnElement[bool]:
    """Return the condition that a tenant is being moved; its migrations wait until that ends."""
    return sa.exists().where(
        job.c.kind == "move",
        sa.or_(is_running, _is_frozen),
        job.c.tenant_id == tenant_id,
    )


def is_frozen(tenant_id: sa.ColumnElement[Any]) -> sa.ColumnElement[bool]:
    """Return the condition that a tenant is read-only only because it is being moved."""
    return sa.exists().where(job.c.kind == "move", _is_frozen, job.c.tenant_id == tenant_id)


async def add(session: CatalogSession, added: Job, *, worker_id: UUID) -> None:
    """Begin a job of *worker_id*.

    Raises:
        TenantMoving: It is a move, and another one of the tenant has not ended.
    """
    await session.execute(ADD, **{**msgspec.structs.asdict(added), "worker_id": worker_id})


async def get(session: CatalogSession, job_id: UUID) -> Job:
    """Return a job that is listed.

    Raises:
        JobNotFound: There is none.
    """
    return await fetch_or_raise(session, _FIND, JobNotFound, job=job_id)


async def page(
    session: CatalogSession,
    window: Window,
    *,
    tenant_id: UUID | None = None,
    is_finished: bool | None = None,
) -> Page[Job]:
    """Return some jobs, the newest first: all, or those of a tenant, or those (not) finished."""
    return await _LISTING.page(session, window, tenant=tenant_id, is_finished=is_finished)


async def lock(session: CatalogSession, job_id: UUID, *, worker_id: UUID | None) -> Job | None:
    """Lock a job until the transaction ends.

    Returns:
        None if *worker_id* does not hold it, unless that is None.
    """
    return await session.fetch_one(_LOCK, job=job_id, worker=worker_id)


async def apply(
    session: CatalogSession, job_id: UUID, event: Event, *, worker_id: UUID | None
) -> Job | None:
    """Write what an event makes of a job, in a transaction, and return it.

    Returns:
        None if the event cannot happen in the state of the job, or if *worker_id* does not hold
        it, unless that is None.
    """
    before = await lock(session, job_id, worker_id=worker_id)
    after = None if before is None else transition(before, event)
    if after is not None:
        await _write(session, after)
    return after


async def note(
    session: CatalogSession, job_id: UUID, *, bytes_done: int, note: str | None = None
) -> bool:
    """Store the progress of a job, and a *note* if given; return whether an admin cancelled it."""
    return bool(await fetch_value(session, _NOTE, job=job_id, bytes_done=bytes_done, note=note))


async def keep(
    session: CatalogSession, tenant_id: UUID, *, read_only: bool, suspended: bool
) -> bool:
    """Let no job of a tenant undo that it is read-only, or suspended: an admin wants it, too.

    Call it before the row of the tenant is changed: every transaction locks the job first.

    Returns:
        Whether a job would have undone it.
    """
    event, would_undo = wanted(read_only=read_only, suspended=suspended), False
    for before in await session.fetch_all(_LOCK_OPEN, tenant=tenant_id):
        after = transition(before, event)
        if after is not None and after != before:
            await _write(session, after)
            would_undo = True
    return would_undo


async def take_lost(
    session: CatalogSession, *, worker_id: UUID, busy: Collection[UUID]
) -> list[Job]:
    """Claim unfinished jobs for cleanup: of dead processes, and of this one if it is not *busy*.

    *busy* is read after the jobs: this process adds a job to it first, and then to the catalog.
    """
    found = await session.fetch_all(_LOST, worker=worker_id)
    ids = [one.id for one in found if one.id not in busy]
    return await session.fetch_all(_TAKE_LOST, worker=worker_id, ids=ids) if ids else []


async def take_if_lost(session: CatalogSession, job_id: UUID, *, worker_id: UUID) -> bool:
    """Claim an unfinished job for cleanup, unless another living process holds it.

    Return whether *worker_id* holds it now.
    """
    return bool(await session.fetch_all(_TAKE_LOST, worker=worker_id, ids=[job_id]))


async def take_kept(
    session: CatalogSession, tenant_id: UUID, *, worker_id: UUID | None
) -> list[Job]:
    """Claim the old databases of a tenant, to drop them; with None, let any process drop them."""
    return await session.fetch_all(_TAKE_KEPT, tenant=tenant_id, worker=worker_id)


async def count_left(session: CatalogSession) -> Left:
    """Count the jobs that have left something."""
    return await fetch_row(session, _LEFT)


async def prune(session: CatalogSession, *, before: datetime) -> None:
    """Remove up to `PRUNED_MAX` jobs that have finished before a time, and keep no database."""
    await session.execute(_PRUNE, before=before)


async def _write(session: CatalogSession, after: Job) -> None:
    if after.finished_at is not None and after.kind in UNKEPT:
        await session.execute(_REMOVE, job=after.id)
    else:
        values = {name: getattr(after, name) for name in _WRITTEN}
        await session.execute(_WRITE, job=after.id, **values)
