"""The queue of jobs that admins have requested: any process claims the oldest one and runs it."""

from collections.abc import Collection, Sequence
from datetime import datetime
from typing import Any
from uuid import UUID

import msgspec
import sqlalchemy as sa

from tenantry.catalog.jobs import ADD, Job, JobState, is_dropping, is_running, updating
from tenantry.catalog.session import CatalogSession, RowId
from tenantry.catalog.tables import job, tenant
from tenantry.catalog.tenants import is_ready
from tenantry.db.statements import Count, Statement, columns_of, parameters
from tenantry.db.types import Ids, is_listed
from tenantry.kit.errors import Conflict

BACKUP, MOVE, DRIFT, OTHER = LANES = "backup", "move", "drift", "other"
"""Lanes of the queue: three kinds, and all others. None of them waits for another."""
VERIFY, RESTORE, REPLACE, CLONE, PRUNE = OTHERS = "verify", "restore", "replace", "clone", "prune"
"""The kinds of the last lane."""
CANCELLED = "It was cancelled."


class JobEnded(Conflict):
    """The job has ended."""


class JobOptions(msgspec.Struct, frozen=True, kw_only=True):
    """What a queued job needs to run.

    Attributes:
        request_id: The request that has queued it, for the audit log.
        address: The client of that request.
        archive: The name of an archive in the target.
        name: The name of a new tenant.
        server_name: The tenant server of a new database.
        keep_days: Which archives are kept, by their age.
        keep_last: How many archives of each tenant are kept.
    """

    request_id: str
    address: str
    archive: str | None = None
    name: str | None = None
    server_name: str | None = None
    keep_days: int | None = None
    keep_last: int | None = None


class Queued(msgspec.Struct, frozen=True):
    """A tenant whose backup or move is queued."""

    id: UUID
    name: str


_COLUMNS = columns_of(job, Job)
_by_id = job.c.id == sa.bindparam("job")
_worker = sa.bindparam("worker", type_=sa.Uuid)
_is_held = job.c.worker_id == _worker
# Not as a parameter, which would match no partial index.
_is_queued = job.c.state == sa.literal_column(f"'{JobState.QUEUED.value}'")
_is_backup, _is_move = job.c.kind == BACKUP, job.c.kind == MOVE
_IN_LANE = {
    BACKUP: _is_backup,
    MOVE: _is_move,
    DRIFT: job.c.kind == sa.literal_column(f"'{DRIFT}'"),
    OTHER: job.c.kind.in_([sa.literal_column(f"'{kind}'") for kind in OTHERS]),
}
_ids = sa.bindparam("ids", type_=Ids)
_at = sa.bindparam("at", type_=job.c.started_at.type)

_COUNT = Statement(
    sa.select(sa.func.count().label("count"))
    .select_from(job)
    .where(_is_queued, sa.or_(_IN_LANE[DRIFT], _IN_LANE[OTHER])),
    Count,
)
# Read once: SQLite would read the whole queue for each tenant.
_queued = sa.select(job.c.tenant_id).where(_is_queued, _is_backup).distinct().subquery("queued")
_QUEUED_BACKUP = Statement(
    sa.select(*_COLUMNS)
    .where(
        _is_queued,
        _is_backup,
        job.c.tenant_id.is_not_distinct_from(sa.bindparam("tenant", type_=sa.Uuid)),
    )
    .order_by(job.c.id)
    .limit(1),
    Job,
)
# A tenant whose backup is queued is left out.
_TO_BACK_UP = Statement(
    sa.select(*columns_of(tenant, Queued))
    .select_from(tenant.outerjoin(_queued, _queued.c.tenant_id == tenant.c.id))
    .where(
        is_ready,
        sa.or_(_ids.is_(None), is_listed(tenant.c.id, _ids)),
        _queued.c.tenant_id.is_(None),
    )
    .order_by(tenant.c.id),
    Queued,
)
# Those that are in `uq_job_tenant_id`, of moves that have not ended.
_TO_MOVE = Statement(
    sa.select(*columns_of(tenant, Queued))
    .where(
        is_ready,
        tenant.c.server_name == sa.bindparam("server"),
        ~sa.exists().where(
            _is_move,
            sa.or_(_is_queued, is_running, is_dropping),
            job.c.tenant_id == tenant.c.id,
        ),
    )
    .order_by(tenant.c.id),
    Queued,
)
_WAITING = {
    # In this order, so that SQLite uses the index of the queue.
    lane: Statement(sa.select(job.c.id).where(_is_queued, is_in).order_by(job.c.id).limit(1), RowId)
    for lane, is_in in _IN_LANE.items()
}


def _claim_of(is_in_lane: sa.ColumnElement[bool]) -> Statement[Job]:
    following = (
        sa.select(job.c.id)
        .where(_is_queued, is_in_lane)
        .order_by(job.c.id)
        .limit(1)
        .with_for_update(skip_locked=True)
        .scalar_subquery()
    )
    return updating(
        job.c.id == following,
        _is_queued,
        state=JobState.RUNNING.value,
        worker_id=_worker,
        started_at=_at,
    )


_CLAIM = {lane: _claim_of(is_in) for lane, is_in in _IN_LANE.items()}
_BEGUN = (
    "tenant_id",
    "tenant_name",
    "archive",
    "server_name",
    "database_name",
    "has_suspended",
    "source_server_name",
    "source_database_name",
    "has_made_read_only",
    "note",
)
_BEGIN = Statement(
    sa.update(job)
    .values(parameters(*_BEGUN))
    .where(_by_id, _is_held, is_running)
    .returning(job.c.id),
    RowId,
)
_QUEUE_AGAIN = Statement[Any](
    sa.update(job)
    .values(
        state=JobState.QUEUED.value,
        worker_id=None,
        error=None,
        server_name=None,
        database_name=None,
        source_server_name=None,
        source_database_name=None,
        has_made_read_only=False,
        note=None,
        bytes_done=0,
    )
    .where(_by_id, _is_held, is_dropping)
)
_is_claimed = sa.and_(is_running, job.c.options.is_not(None))
# Queued again, its next attempt would forget the database, and what it has done to its tenant.
_has_begun = job.c.database_name.is_not(None)
_GIVE_BACK = Statement[Any](
    sa.update(job)
    .values(state=JobState.QUEUED.value, worker_id=None)
    .where(_is_held, _is_claimed, ~_has_begun, ~is_listed(job.c.id, _ids))
)
_ABANDON = Statement[Any](
    sa.update(job)
    .values(worker_id=None)
    .where(
        _is_held,
        sa.or_(is_dropping, sa.and_(_is_claimed, _has_begun)),
        ~is_listed(job.c.id, _ids),
    )
)
_ended = {"state": JobState.FAILED.value, "error": CANCELLED, "finished_at": _at}
_FAIL = Statement(
    sa.update(job)
    .values({**_ended, "error": sa.bindparam("error", type_=sa.String), "worker_id": None})
    .where(_by_id, _is_held, is_running, ~_has_begun)
    .returning(job.c.id),
    RowId,
)
_CANCEL_QUEUED = updating(_by_id, _is_queued, **_ended)
_CANCEL_EVERY = Statement(
    sa.update(job).values(_ended).where(_is_queued).returning(job.c.id), RowId
)
_CANCEL_RUNNING = updating(_by_id, is_running, is_cancelled=True)


async def add(session: CatalogSession, queued: Sequence[Job]) -> None:
    """Queue jobs: all of them, or none.

    Raises:
        TenantMoving: A job is a move, and another one of its tenant has not ended.
    """
    rows = [
        {**msgspec.structs.asdict(one), "state": JobState.QUEUED.value, "worker_id": None}
        for one in queued
    ]
    await session.execute_many(ADD, rows)


async def count(session: CatalogSession) -> int:
    """Return how many jobs are queued, besides backups and moves."""
    found = await session.fetch_one(_COUNT)
    return found.count if found else 0


async def to_back_up(session: CatalogSession, tenant_ids: Sequence[UUID] | None) -> list[Queued]:
    """Return those of the tenants, or of all of them, whose backup is not queued already."""
    return await session.fetch_all(_TO_BACK_UP, ids=tenant_ids)


async def queued_backup(session: CatalogSession, tenant_id: UUID | None) -> Job | None:
    """Return a queued backup of a tenant, or of the catalog if *tenant_id* is None."""
    return await session.fetch_one(_QUEUED_BACKUP, tenant=tenant_id)


async def to_move(session: CatalogSession, server_name: str) -> list[Queued]:
    """Return the tenants of a tenant server that are not being moved, and will not be."""
    return await session.fetch_all(_TO_MOVE, server=server_name)


async def is_waiting(session: CatalogSession, lane: str) -> bool:
    """Return whether a job of a lane is queued."""
    return await session.fetch_one(_WAITING[lane]) is not None


async def claim(
    session: CatalogSession, lane: str, *, worker_id: UUID, now: datetime
) -> Job | None:
    """Claim the oldest queued job of a lane; None if there is none."""
    return await session.fetch_one(_CLAIM[lane], worker=worker_id, at=now)


async def begin(session: CatalogSession, begun: Job, *, worker_id: UUID) -> bool:
    """Store what a claimed job works on; return whether *worker_id* still holds it."""
    values = {name: getattr(begun, name) for name in _BEGUN}
    found = await session.fetch_one(_BEGIN, job=begun.id, worker=worker_id, **values)
    return found is not None


async def queue_again(session: CatalogSession, job_id: UUID, *, worker_id: UUID) -> None:
    """Queue a job again whose process is stopping, and whose database was dropped."""
    await session.execute(_QUEUE_AGAIN, job=job_id, worker=worker_id)


async def give_back(session: CatalogSession, *, worker_id: UUID, running: Collection[UUID]) -> None:
    """Release the jobs that *worker_id* holds and does not run.

    The response to a claim, or the end of a job, can be lost with the connection to the catalog. A
    job without a database is queued again; any process cleans up the others.
    """
    values = {"worker": worker_id, "ids": list(running)}
    await session.execute(_GIVE_BACK, **values)
    await session.execute(_ABANDON, **values)


async def fail(
    session: CatalogSession, job_id: UUID, *, worker_id: UUID, now: datetime, error: str
) -> bool:
    """End a claimed job that has failed before it held a database; return whether it was ended."""
    found = await session.fetch_one(_FAIL, job=job_id, worker=worker_id, at=now, error=error)
    return found is not None


async def cancel(session: CatalogSession, job_id: UUID, *, now: datetime) -> Job:
    """End a queued job; let the process that runs another one cancel it within a second or two.

    Raises:
        JobEnded: It has ended, or does not exist.
    """
    found = await session.fetch_one(_CANCEL_QUEUED, job=job_id, at=now)
    if found is None:
        found = await session.fetch_one(_CANCEL_RUNNING, job=job_id)
    if found is None:
        raise JobEnded
    return found


async def cancel_queued(session: CatalogSession, *, now: datetime) -> int:
    """End every queued job; return how many."""
    return len(await session.fetch_all(_CANCEL_EVERY, at=now))
