"""Jobs: backups, restores, copies and moves, as durable rows.

A job holds at most one database that no tenant has. While the job runs, that is the one it fills;
if its process dies, another one drops it. After a replacement, it is the tenant's old database,
which is kept until an operator confirms the new one; after a move, it is dropped.
"""

from datetime import datetime
from enum import StrEnum
from typing import Any
from uuid import UUID

import msgspec
import sqlalchemy as sa

from tenantry.catalog.session import CatalogSession, fetch_or_raise
from tenantry.catalog.tables import job
from tenantry.db.statements import Count, Statement, columns_of
from tenantry.kit.errors import Conflict, NotFound
from tenantry.kit.pages import Page, Window


class JobNotFound(NotFound):
    """There is no such job."""


class TenantMoving(Conflict):
    """The tenant is being moved, or a move of it is queued."""


class JobState(StrEnum):
    """The state of a job."""

    QUEUED = "queued"
    RUNNING = "running"
    DONE = "done"
    FAILED = "failed"
    KEPT = "kept"  # done, and the old database is kept
    DROPPING = "dropping"


class Job(msgspec.Struct, frozen=True):
    """A backup, a restore, a copy or a move.

    Attributes:
        archive: Where the archive is, if the job has one.
        database_name: A database on the server *server_name* that no tenant has.
        bytes_done: How much of the database was copied.
        error: Why the job failed.
        has_suspended: Whether it has suspended the tenant; if it fails, the tenant is activated.
        source_database_name: The database on the server *source_server_name* that a move copies.
            It rejects writes; if the job fails, it accepts them again, and this is None.
        has_made_read_only: Whether it has made the tenant read-only; if it fails, that is undone.
        note: How a move is done, and why; or what a check for drift has found so far.
        options: Of a job that was queued, as JSON: see `catalog.job_queue`.
        is_cancelled: Whether an admin has cancelled it, while a process runs it.
    """

    id: UUID
    kind: str
    tenant_id: UUID | None
    tenant_name: str | None
    actor: str
    started_at: datetime
    archive: str | None = None
    server_name: str | None = None
    database_name: str | None = None
    state: str = JobState.RUNNING.value
    finished_at: datetime | None = None
    bytes_done: int = 0
    error: str | None = None
    has_suspended: bool = False
    source_server_name: str | None = None
    source_database_name: str | None = None
    has_made_read_only: bool = False
    note: str | None = None
    options: str | None = None
    is_cancelled: bool = False


class _Noted(msgspec.Struct, frozen=True):
    is_cancelled: bool


_COLUMNS = columns_of(job, Job)
_by_id = job.c.id == sa.bindparam("job")
_is_held = sa.and_(_by_id, job.c.worker_id == sa.bindparam("worker"))
is_running = job.c.state == JobState.RUNNING.value
is_dropping = job.c.state == JobState.DROPPING.value
is_open = sa.or_(is_running, is_dropping)
_is_frozen = sa.and_(job.c.has_made_read_only, is_open)
_error = sa.bindparam("error", type_=sa.String)


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
    .returning(job.c.is_cancelled),
    _Noted,
)
_FINISH = updating(
    _is_held,
    is_open,
    state=sa.bindparam("state"),
    error=_error,
    server_name=sa.bindparam("server", type_=sa.String),
    database_name=sa.bindparam("database", type_=sa.String),
    finished_at=sa.bindparam("at", type_=job.c.finished_at.type),
    worker_id=None,
)
_NOTE_READ_ONLY = updating(_is_held, is_running, has_made_read_only=True)
_NOTE_SUSPENDED = updating(_is_held, is_running, has_suspended=True)
_NOTE_ACTIVATED = updating(_is_held, is_dropping, job.c.has_suspended, has_suspended=False)
_NOTE_UNDONE = Statement[Any](
    sa.update(job)
    .values(
        has_suspended=False,
        has_made_read_only=False,
        source_server_name=None,
        source_database_name=None,
    )
    .where(_is_held, is_dropping)
)
_HAND_OVER = updating(
    _is_held,
    is_running,
    state=JobState.DROPPING.value,
    server_name=job.c.source_server_name,
    database_name=job.c.source_database_name,
    has_made_read_only=False,
)
_LOCK_OPEN = Statement(
    sa.select(*_COLUMNS)
    .where(job.c.tenant_id == sa.bindparam("tenant"), is_open)
    .with_for_update(),
    Job,
)
_LOCK = Statement(sa.select(*_COLUMNS).where(_is_held, is_running).with_for_update(), Job)
_KEEP = Statement[Any](
    sa.update(job)
    .values(
        {
            name: sa.and_(job.c[name], ~sa.bindparam(f"keeps_{name}", type_=sa.Boolean))
            for name in ("has_made_read_only", "has_suspended")
        }
    )
    .where(job.c.tenant_id == sa.bindparam("tenant"), is_open)
)
_CONDEMN = updating(
    _is_held,
    is_open,
    state=JobState.DROPPING.value,
    # A job that is dropping has ended otherwise: the response to its COMMIT was lost.
    error=sa.case((is_running, _error), else_=job.c.error),
)
_FIND = Statement(sa.select(*_COLUMNS).where(_by_id), Job)
_tenant = sa.bindparam("tenant", type_=sa.Uuid)
_is_finished = sa.bindparam("is_finished", type_=sa.Boolean)
_is_wanted = sa.and_(
    sa.or_(_tenant.is_(None), job.c.tenant_id == _tenant),
    sa.or_(_is_finished.is_(None), job.c.finished_at.is_not(None) == _is_finished),
)
_PAGE = Statement(
    sa.select(*_COLUMNS)
    .where(_is_wanted)
    .order_by(job.c.id.desc())
    .limit(sa.bindparam("limit", type_=sa.BigInteger))
    .offset(sa.bindparam("offset", type_=sa.BigInteger)),
    Job,
)
_COUNT = Statement(
    sa.select(sa.func.count().label("count")).select_from(job).where(_is_wanted), Count
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
    await session.execute(ADD, worker_id=worker_id, **msgspec.structs.asdict(added))


async def get(session: CatalogSession, job_id: UUID) -> Job:
    """Return a job.

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
    wanted = {"tenant": tenant_id, "is_finished": is_finished}
    items = await session.fetch_all(_PAGE, limit=window.size, offset=window.offset, **wanted)
    total = await session.fetch_one(_COUNT, **wanted)
    return Page(items, window, total.count if total else 0)


async def note(
    session: CatalogSession, job_id: UUID, *, bytes_done: int, note: str | None = None
) -> bool:
    """Store the progress of a job, and a *note* if given; return whether an admin cancelled it."""
    noted = await session.fetch_one(_NOTE, job=job_id, bytes_done=bytes_done, note=note)
    return noted is not None and noted.is_cancelled


async def finish(
    session: CatalogSession,
    job_id: UUID,
    *,
    worker_id: UUID,
    at: datetime,
    error: str | None = None,
    kept: tuple[str, str] | None = None,
) -> Job | None:
    """End a job; return None if *worker_id* does not hold it.

    It has failed if there is an *error*; *kept* is the server and the name of a database that is
    kept.
    """
    state = JobState.FAILED if error else JobState.KEPT if kept else JobState.DONE
    server_name, database_name = kept or (None, None)
    return await session.fetch_one(
        _FINISH,
        job=job_id,
        worker=worker_id,
        state=state.value,
        error=error,
        server=server_name,
        database=database_name,
        at=at,
    )


async def note_read_only(session: CatalogSession, job_id: UUID, *, worker_id: UUID) -> Job | None:
    """Note that a move makes its tenant read-only; return None if *worker_id* does not hold it."""
    return await session.fetch_one(_NOTE_READ_ONLY, job=job_id, worker=worker_id)


async def note_suspended(session: CatalogSession, job_id: UUID, *, worker_id: UUID) -> Job | None:
    """Note that a job suspends its tenant; return None if *worker_id* does not hold it."""
    return await session.fetch_one(_NOTE_SUSPENDED, job=job_id, worker=worker_id)


async def note_activated(session: CatalogSession, job_id: UUID, *, worker_id: UUID) -> bool:
    """Note that the tenant of a failed job is activated again.

    Returns:
        False if it must not be: *worker_id* does not hold the job, or an admin wants the tenant
        suspended (`keep`).
    """
    noted = await session.fetch_one(_NOTE_ACTIVATED, job=job_id, worker=worker_id)
    return noted is not None


async def keep(
    session: CatalogSession, tenant_id: UUID, *, read_only: bool, suspended: bool
) -> bool:
    """Let no job of a tenant undo that it is read-only, or suspended: an admin wants it, too.

    Call it before the row of the tenant is changed: every transaction locks the job first.

    Returns:
        Whether a job would have undone it.
    """
    would_undo = any(
        (read_only and one.has_made_read_only) or (suspended and one.has_suspended)
        for one in await session.fetch_all(_LOCK_OPEN, tenant=tenant_id)
    )
    if would_undo:
        await session.execute(
            _KEEP,
            tenant=tenant_id,
            keeps_has_made_read_only=read_only,
            keeps_has_suspended=suspended,
        )
    return would_undo


async def lock(session: CatalogSession, job_id: UUID, *, worker_id: UUID) -> Job | None:
    """Lock a running job until the transaction ends; return None if *worker_id* lost it."""
    return await session.fetch_one(_LOCK, job=job_id, worker=worker_id)


async def note_undone(session: CatalogSession, job_id: UUID, *, worker_id: UUID) -> None:
    """Note that a failed job has changed nothing of its tenant any longer."""
    await session.execute(_NOTE_UNDONE, job=job_id, worker=worker_id)


async def hand_over(session: CatalogSession, job_id: UUID, *, worker_id: UUID) -> Job | None:
    """Let a move drop the old database instead of the new one, which the tenant has now.

    Returns:
        None if *worker_id* does not hold the job.
    """
    return await session.fetch_one(_HAND_OVER, job=job_id, worker=worker_id)


async def condemn(
    session: CatalogSession, job_id: UUID, *, worker_id: UUID, error: str | None
) -> Job | None:
    """Prevent a job from succeeding, if *worker_id* holds it; its database may then be dropped.

    Returns:
        None if it is not held, or has ended because a COMMIT without a received response has
        succeeded.
    """
    return await session.fetch_one(_CONDEMN, job=job_id, worker=worker_id, error=error)
