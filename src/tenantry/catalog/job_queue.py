"""The queue of jobs that admins have requested: any process claims the oldest one and runs it."""

import functools
from collections.abc import Collection, Sequence
from datetime import datetime
from typing import Any
from uuid import UUID

import msgspec
import sqlalchemy as sa

from tenantry.catalog.job_states import CANCELLED, Job, JobState, cancelled
from tenantry.catalog.jobs import ADD, apply, is_dropping, is_running, updating
from tenantry.catalog.session import CatalogSession, RowId, Value, fetch_row, fetch_value
from tenantry.catalog.tables import job, tenant
from tenantry.catalog.tenants import is_ready
from tenantry.catalog.where import conditions_of
from tenantry.db.statements import Count, Statement, columns_of
from tenantry.db.types import Ids, is_listed
from tenantry.kit.errors import Conflict

BACKUP, MOVE, DRIFT, WAVE, OTHER = LANES = "backup", "move", "drift", "wave-check", "other"
"""Lanes of the queue: four kinds, and all others. None of them waits for another."""
VERIFY, RESTORE, REPLACE, CLONE, PRUNE = OTHERS = "verify", "restore", "replace", "clone", "prune"
"""The kinds of the last lane."""


class JobEnded(Conflict):
    """The job has ended."""


class JobOptions(msgspec.Struct, frozen=True, kw_only=True):
    """What a queued job needs to run.

    Attributes:
        request_id: The request that has queued it, for the audit log.
        address: The client of that request.
        archive: The name of an archive in the target.
        name: The name of a new tenant; of a replacement, its confirmation.
        server_name: The tenant server of a new database.
        keep_days: Which archives are kept, by their age.
        keep_last: How many archives of each tenant are kept.
        run_id: A migration run.
        wave: The wave of it that is checked.
        where: Selects the tenants that are checked for drift: see `catalog.where`.
    """

    request_id: str
    address: str
    archive: str | None = None
    name: str | None = None
    server_name: str | None = None
    keep_days: int | None = None
    keep_last: int | None = None
    run_id: UUID | None = None
    wave: int | None = None
    where: str | None = None


class Queued(msgspec.Struct, frozen=True):
    """A tenant whose backup or move is queued."""

    id: UUID
    name: str


class OldestBackup(msgspec.Struct, frozen=True):
    """The tenant whose newest backup is the oldest of all tenants.

    Attributes:
        finished_at: When that backup was done; None if no tenant has one.
        without_count: How many tenants have none among the jobs that are kept.
    """

    tenant_id: UUID
    tenant_name: str
    finished_at: datetime | None
    without_count: int


class Length(msgspec.Struct, frozen=True):
    """The queued jobs, and when the oldest was queued."""

    count: int
    oldest_at: datetime | None


class _Failed(msgspec.Struct, frozen=True):
    kind: str
    count: int


_COLUMNS = columns_of(job, Job)
_worker = sa.bindparam("worker", type_=sa.Uuid)
_is_held = job.c.worker_id == _worker
# Not as a parameter, which would match no partial index.
_is_queued = job.c.state == sa.literal_column(f"'{JobState.QUEUED.value}'")
_is_backup, _is_move = job.c.kind == BACKUP, job.c.kind == MOVE
_IN_LANE = {
    BACKUP: _is_backup,
    MOVE: _is_move,
    DRIFT: job.c.kind == sa.literal_column(f"'{DRIFT}'"),
    WAVE: job.c.kind == sa.literal_column(f"'{WAVE}'"),
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
_to_back_up = (
    sa.select(*columns_of(tenant, Queued))
    .select_from(tenant.outerjoin(_queued, _queued.c.tenant_id == tenant.c.id))
    .where(
        is_ready,
        ~tenant.c.is_attached,
        sa.or_(_ids.is_(None), is_listed(tenant.c.id, _ids)),
        _queued.c.tenant_id.is_(None),
    )
    .order_by(tenant.c.id)
)
# Those that are in `uq_job_tenant_id`, of moves that have not ended.
_to_move = (
    sa.select(*columns_of(tenant, Queued))
    .where(
        is_ready,
        ~tenant.c.is_attached,
        tenant.c.server_name != sa.bindparam("to_server", type_=sa.String),
        ~sa.exists().where(
            _is_move,
            sa.or_(_is_queued, is_running, is_dropping),
            job.c.tenant_id == tenant.c.id,
        ),
    )
    .order_by(tenant.c.id)
)
_to_move_from = _to_move.where(tenant.c.server_name == sa.bindparam("from_server"))
_LENGTH = Statement(
    sa.select(sa.func.count().label("count"), sa.func.min(job.c.started_at).label("oldest_at"))
    .select_from(job)
    .where(_is_queued),
    Length,
)
# By the index of the time, from its end.
_LAST_BACKUP = Statement(
    sa.select(job.c.finished_at.label("value"))
    .where(_is_backup, job.c.state == JobState.DONE.value, job.c.finished_at.is_not(None))
    .order_by(job.c.finished_at.desc())
    .limit(1),
    Value,
)
_FAILED = Statement(
    sa.select(job.c.kind, sa.func.count().label("count"))
    .where(
        job.c.finished_at >= sa.bindparam("since", type_=job.c.finished_at.type),
        job.c.state == JobState.FAILED.value,
        job.c.error != CANCELLED,
    )
    .group_by(job.c.kind),
    _Failed,
)
_newest_backup = (
    sa.select(job.c.finished_at)
    .where(job.c.tenant_id == tenant.c.id, _is_backup, job.c.state == JobState.DONE.value)
    .order_by(job.c.id.desc())
    .limit(1)
    .scalar_subquery()
)
_newest = (
    sa.select(
        tenant.c.id.label("tenant_id"),
        tenant.c.name.label("tenant_name"),
        _newest_backup.label("finished_at"),
    )
    .where(is_ready, ~tenant.c.is_attached)
    .subquery("newest")
)
_has_none = sa.case((_newest.c.finished_at.is_(None), 1), else_=0)
_OLDEST_BACKUP = Statement(
    sa.select(_newest, sa.func.sum(_has_none).over().label("without_count"))
    .order_by(_has_none, _newest.c.finished_at)
    .limit(1),
    OldestBackup,
)
_WAITING = {
    # In this order, so that SQLite uses the index of the queue.
    lane: Statement(sa.select(job.c.id).where(_is_queued, is_in).order_by(job.c.id).limit(1), RowId)
    for lane, is_in in _IN_LANE.items()
}


def _claim_of(is_in_lane: sa.ColumnElement[bool]) -> Statement[Job]:
    following = (
        sa.select(job.c.id)
        .where(_is_queued, is_in_lane, ~is_listed(job.c.id, _ids))
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
_is_claimed = sa.and_(is_running, job.c.options.is_not(None))
# Queued again, its next attempt would forget the database, and what it has done to its tenant.
_has_begun = job.c.database_name.is_not(None)
_GIVE_BACK = Statement[Any](
    sa.update(job)
    .values(state=JobState.QUEUED.value, worker_id=None)
    .where(_is_held, _is_claimed, ~_has_begun, ~is_listed(job.c.id, _ids))
)
_ended = {"state": JobState.FAILED.value, "error": CANCELLED, "finished_at": _at}
_CANCEL_EVERY = updating(_is_queued, **_ended)


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
    """Return how many jobs are queued, besides backups, moves and checks of waves."""
    return (await fetch_row(session, _COUNT)).count


async def to_back_up(
    session: CatalogSession, tenant_ids: Sequence[UUID] | None, *, where: str | None = None
) -> list[Queued]:
    """Return those of the tenants, or of all of them, whose backup is not queued already.

    With *where*, only those that it selects.

    Raises:
        BadText, BadWhere: It breaks a rule of the language: see `catalog.where`.
    """
    return await session.fetch_all(_chosen(_to_back_up, where), ids=tenant_ids)


async def queued_backup(session: CatalogSession, tenant_id: UUID | None) -> Job | None:
    """Return a queued backup of a tenant, or of the catalog if *tenant_id* is None."""
    return await session.fetch_one(_QUEUED_BACKUP, tenant=tenant_id)


async def to_move(
    session: CatalogSession,
    *,
    from_server: str | None,
    to_server: str,
    where: str | None = None,
) -> list[Queued]:
    """Return the tenants that can be moved to a tenant server.

    Those that are being moved, or will be, are left out. With *from_server*, only those of this
    one; with *where*, only those that it selects.

    Raises:
        BadText, BadWhere: It breaks a rule of the language: see `catalog.where`.
    """
    some = _to_move if from_server is None else _to_move_from
    chosen = _chosen(some, where)
    return await session.fetch_all(chosen, from_server=from_server, to_server=to_server)


@functools.lru_cache(maxsize=64)
def _chosen(some: sa.Select[Any], where: str | None) -> Statement[Queued]:
    return Statement(some.where(*conditions_of(where)), Queued)


async def oldest_backup(session: CatalogSession) -> OldestBackup | None:
    """Return the tenant that was backed up the longest ago, by the jobs; None without tenants."""
    return await session.fetch_one(_OLDEST_BACKUP)


async def is_waiting(session: CatalogSession, lane: str) -> bool:
    """Return whether a job of a lane is queued."""
    return await session.fetch_one(_WAITING[lane]) is not None


async def claim(
    session: CatalogSession,
    lane: str,
    *,
    worker_id: UUID,
    now: datetime,
    busy: Collection[UUID] = (),
) -> Job | None:
    """Claim the oldest queued job of a lane; None if there is none.

    The *busy* ones are left out: *worker_id* has lost them, and is still working on them.
    """
    return await session.fetch_one(_CLAIM[lane], worker=worker_id, ids=list(busy), at=now)


async def give_back(session: CatalogSession, *, worker_id: UUID, running: Collection[UUID]) -> None:
    """Queue those jobs again that *worker_id* has claimed, has not begun, and does not run.

    The response to a claim can be lost with the connection to the catalog.
    """
    await session.execute(_GIVE_BACK, worker=worker_id, ids=list(running))


async def cancel(session: CatalogSession, job_id: UUID, *, now: datetime) -> Job:
    """End a queued job; let the process that runs another one cancel it within a second or two.

    Raises:
        JobEnded: It has ended, or does not exist.
    """
    found = await apply(session, job_id, cancelled(now), worker_id=None)
    if found is None:
        raise JobEnded
    return found


async def cancel_queued(session: CatalogSession, *, now: datetime) -> list[Job]:
    """End every queued job; return them."""
    return await session.fetch_all(_CANCEL_EVERY, at=now)


async def length(session: CatalogSession) -> Length:
    """Return how many jobs wait, and since when."""
    return await fetch_row(session, _LENGTH)


async def last_backup_at(session: CatalogSession) -> datetime | None:
    """Return when the newest backup of a tenant or of the catalog has ended, if one is listed."""
    ended_at: datetime | None = await fetch_value(session, _LAST_BACKUP)
    return ended_at


async def failed_since(session: CatalogSession, since: datetime) -> dict[str, int]:
    """Return how many jobs of each kind have failed, without those that were cancelled."""
    found = {one.kind: one.count for one in await session.fetch_all(_FAILED, since=since)}
    return dict.fromkeys((*LANES[:-1], *OTHERS), 0) | found
