"""Move tenants to another tenant server.

The new database is filled and compared while the old one rejects writes. One transaction on the
catalog then gives it to the tenant. So after a kill at any moment, the tenant is on exactly one
server, and the other database is named by the job, which any process cleans up.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial

from tenantry.backup import dumps, loading, online, other_engine, same_engine
from tenantry.backup.copying import Copying
from tenantry.backup.move_undo import lift_if_lost, undo
from tenantry.backup.online import MOVE_LIMITS, MoveLimits, Way
from tenantry.backup.replacing import TenantChanged
from tenantry.catalog import job_states, jobs, moves, tenants
from tenantry.catalog.job_queue import MOVE, JobOptions
from tenantry.catalog.job_states import Job, JobState
from tenantry.catalog.pace import PACE
from tenantry.catalog.tenants import Tenant
from tenantry.db import audit_log
from tenantry.db.sessions import retry_deadlock
from tenantry.fleet.lifecycle import UnknownServer
from tenantry.kit.clock import monotonic_seconds, utc_now
from tenantry.kit.context import OperationContext
from tenantry.kit.errors import Invalid, TenantryError, Unavailable
from tenantry.kit.ids import new_id
from tenantry.work.ledger import JobLost, new_job, note_event, reason_of
from tenantry.work.progress import Progress
from tenantry.work.running import JobCancelled, running
from tenantry.work.undoing import drop_old
from tenantry.work.worker import ENDED_AT_ONCE

COPIED_AT_ONCE = 4  # tenants, by `move_all`
# Every process has read the epoch again, or bypasses its cache.
KNOWN_SECONDS = PACE.known_seconds
MADE_READ_ONLY = [{"field": "isReadOnly", "old": False, "new": True}]  # for the audit log


class SameServer(Invalid):
    """The tenant is on this tenant server already."""


class MoveLost(Unavailable):
    """Another process has ended this job, because this one was silent for too long: try again."""


class MoveFailed(Unavailable):
    """The tenant could not be moved, and is where it was; the message has the reason."""


@dataclass(frozen=True, kw_only=True)
class Moved:
    """A moved tenant.

    Attributes:
        rejected_seconds: How long its writes were rejected.
        obstacle: Why it was read-only during the copy; None if it was moved online.
    """

    tenant: Tenant
    rejected_seconds: float
    obstacle: str | None


@dataclass(frozen=True, kw_only=True)
class Planned:
    """How a tenant would be moved.

    Attributes:
        obstacle: Why it would be read-only during the copy; None if it can be moved online.
    """

    tenant: Tenant
    obstacle: str | None


@dataclass(frozen=True, kw_only=True)
class NotMoved:
    """A tenant that was not moved, and why."""

    tenant: Tenant
    error: TenantryError


async def check(copying: Copying, job: Job, options: JobOptions) -> Job:
    """Check the tenant servers of a queued move.

    Raises:
        UnknownServer, SameServer: See `check_servers`.
    """
    assert job.tenant_id is not None
    tenant = await tenants.get(copying.catalog, job.tenant_id)
    check_servers(copying, tenant.server_name, options.server_name or "")
    return job


async def run(
    copying: Copying, ctx: OperationContext, job: Job, options: JobOptions, progress: Progress
) -> Job:
    """Move the tenant of a queued job; return the job, which holds the old database."""
    assert job.tenant_id is not None
    tenant, to = await tenants.get(copying.catalog, job.tenant_id), options.server_name or ""
    return (await carry(ctx, copying, tenant, server_name=to, progress=progress))[0]


async def move(
    ctx: OperationContext,
    copying: Copying,
    tenant: Tenant,
    *,
    server_name: str,
    progress: Progress,
    way: Way = Way.AUTO,
    limits: MoveLimits = MOVE_LIMITS,
) -> Moved:
    """Move a tenant, active or not, to another tenant server.

    It is read-only while it is copied, or only at the end if it is moved online. It can be
    cancelled until the tenant is given the new database; then it ends as if it was not.

    Raises:
        UnknownServer, SameServer, NoSpace, ServerTooOld, RoleMissing, SettingNotCarried: The server
            cannot be used.
        TenantBehind, NotCarried: It cannot be moved to the other engine.
        OnlineImpossible: It cannot be moved online, and *way* wants nothing else.
        NotCaughtUp, PauseTooLong, SchemaChanged, TransactionsTooLong, TooManyChanges: It cannot be
            moved online at this time.
        TenantMoving, TenantChanged: The tenant is moved already, or was changed by another caller.
        DatabaseBusy, FenceIneffective: Its database could not be made read-only.
        CopyDiffers, ChangeDiffers, RowsDiffer: The copy is not the same; it was dropped.
        DatabaseUnavailable: A database cannot be reached.
        ToolMissing, ToolTooOld, ToolFailed: See `db.postgres.tools`.
        MoveFailed: Any other error.
    """

    async def work() -> Moved:
        job, moved = await carry(
            ctx, copying, tenant, server_name=server_name, progress=progress, way=way, limits=limits
        )
        await drop_when_known(copying, job)
        return moved

    return await _cancellable(work(), progress)


async def move_all(
    ctx: OperationContext,
    copying: Copying,
    chosen: list[Tenant],
    *,
    server_name: str,
    progress: Progress,
    way: Way = Way.AUTO,
) -> list[Moved | NotMoved]:
    """Move several tenants, each as `move` does; an error of one does not stop the others.

    If it is cancelled, the tenants that were not moved have the error `JobCancelled`.
    """
    copies, places = asyncio.Semaphore(COPIED_AT_ONCE), asyncio.Semaphore(ENDED_AT_ONCE)

    async def move_one(tenant: Tenant) -> Moved | NotMoved:
        own = Progress(total=progress)

        async def work() -> Moved:
            async with places:
                async with copies:
                    job, moved = await carry(
                        ctx, copying, tenant, server_name=server_name, progress=own, way=way
                    )
                await drop_when_known(copying, job)
                return moved

        try:
            return await _cancellable(work(), own)
        except asyncio.CancelledError:
            return NotMoved(tenant=tenant, error=JobCancelled())
        except TenantryError as error:
            return NotMoved(tenant=tenant, error=error)

    begun = [asyncio.create_task(move_one(tenant)) for tenant in chosen]
    everything = asyncio.gather(*begun)
    try:
        return await asyncio.shield(everything)
    except asyncio.CancelledError:
        for one in begun:
            one.cancel()
        return await everything


async def _cancellable(work: Awaitable[Moved], progress: Progress) -> Moved:
    """Await *work*, and let a cancellation reach it only until `Progress.is_final`."""
    task, carrying = asyncio.current_task(), asyncio.ensure_future(work)
    assert task is not None
    while not carrying.done():
        try:
            await asyncio.wait({carrying})
        except asyncio.CancelledError:
            if progress.is_final:
                task.uncancel()
            else:
                carrying.cancel()
    return carrying.result()


def check_servers(copying: Copying, from_server: str | None, to_server: str) -> None:
    """Check the tenant servers of a move.

    Raises:
        UnknownServer, SameServer: One of them is not in the settings, or they are the same.
    """
    if not {from_server or to_server, to_server} <= copying.databases.server_names:
        raise UnknownServer
    if from_server == to_server:
        raise SameServer


async def plan(
    copying: Copying, chosen: list[Tenant], *, server_name: str, way: Way = Way.AUTO
) -> list[Planned | NotMoved]:
    """Return how each tenant would be moved, or why it cannot be; nothing is changed."""
    found: list[Planned | NotMoved] = []
    for tenant in chosen:
        try:
            obstacle = await _inspect(copying, tenant, server_name, way)
            found.append(Planned(tenant=tenant, obstacle=obstacle))
        except TenantryError as error:
            found.append(NotMoved(tenant=tenant, error=error))
    return found


async def carry(
    ctx: OperationContext,
    copying: Copying,
    tenant: Tenant,
    *,
    server_name: str,
    progress: Progress,
    way: Way = Way.AUTO,
    limits: MoveLimits = MOVE_LIMITS,
) -> tuple[Job, Moved]:
    """Copy a tenant and give it the copy.

    Returns:
        The job, which holds the old database: see `drop_when_known`.

    Raises:
        Exception: As for `move`.
    """
    obstacle = await _inspect(copying, tenant, server_name, way)
    of, old = (tenant.id, tenant.name), (tenant.server_name, tenant.database_name)
    new = server_name, f"tenantry_{new_id().hex}"
    job = new_job(
        ctx, MOVE, progress, tenant=of, database=new, source=old, note=online.describe(obstacle)
    )
    try:
        async with (
            running(copying.ledger, job, progress, undo=partial(undo, copying)),
            _prepared(
                ctx, copying, job, tenant, progress, is_online=obstacle is None, limits=limits
            ) as complete,
        ):
            since = monotonic_seconds()
            if not tenant.is_read_only:
                await retry_deadlock(partial(_freeze, ctx, copying, job, tenant))
            seconds_max = limits.fence_seconds if obstacle else limits.online_fence_seconds
            await _fence(copying, job, tenant, wait_seconds=seconds_max)
            await complete()
            progress.is_final = True
            held, moved = await retry_deadlock(partial(_cut_over, ctx, copying, job, tenant))
            seconds = monotonic_seconds() - since
    except JobLost as error:
        raise MoveLost from error
    except TenantryError:
        raise
    except Exception as error:
        raise MoveFailed(f"The tenant could not be moved: {reason_of(error)}") from error
    copying.ledger.busy.add(held.id)  # until `drop_when_known`
    return held, Moved(tenant=moved, rejected_seconds=seconds, obstacle=obstacle)


@asynccontextmanager
async def _prepared(
    ctx: OperationContext,
    copying: Copying,
    job: Job,
    tenant: Tenant,
    progress: Progress,
    *,
    is_online: bool,
    limits: MoveLimits,
) -> AsyncIterator[Callable[[], Awaitable[None]]]:
    """Prepare the copy; yield what completes it while the old database rejects writes."""
    assert job.server_name is not None
    assert job.database_name is not None
    source = copying.databases.server(tenant.server_name)
    target, name = copying.databases.server(job.server_name), job.database_name
    urls = source.url(tenant.database_name), target.url(name)
    if dumps.engine_of(urls[0]) != dumps.engine_of(urls[1]):
        await other_engine.prepare(
            ctx, copying, urls[0], server_name=job.server_name, database_name=name
        )
        yield lambda: other_engine.copy(*urls, progress)
        return
    await loading.create_empty(target, name)
    if not is_online:
        yield lambda: same_engine.copy(*urls, progress, tools=copying.tools)
        return
    async with online.following(
        source,
        tenant.database_name,
        urls[1],
        job_id=job.id,
        progress=progress,
        tools=copying.tools,
        limits=limits,
    ) as copy:
        yield copy.finish


async def _inspect(copying: Copying, tenant: Tenant, server_name: str, way: Way) -> str | None:
    tenant.check_served()
    check_servers(copying, tenant.server_name, server_name)
    source, target = (copying.databases.server(name) for name in (tenant.server_name, server_name))
    urls = source.url(tenant.database_name), target.url_before(tenant.database_name)
    if dumps.engine_of(urls[0]) == dumps.engine_of(urls[1]):
        await same_engine.check_server(*urls)
    else:
        await other_engine.checked_scripts(copying, urls[0])
    return await online.find_obstacle(tenant, source, target, way=way)


async def _freeze(ctx: OperationContext, copying: Copying, job: Job, tenant: Tenant) -> None:
    """Make the tenant read-only, and note that in the job: both, or neither."""
    async with copying.catalog.change(
        ctx.at(utc_now()), "tenant.update", tenant.id, tenant_id=tenant.id, changes=MADE_READ_ONLY
    ) as session:
        await note_event(session, copying.ledger, job, job_states.MADE_READ_ONLY)
        if await moves.freeze(session, tenant) is None:
            raise TenantChanged


async def _fence(copying: Copying, job: Job, tenant: Tenant, *, wait_seconds: float) -> None:
    """Let the old database reject writes, as long as this process holds the job."""
    source = copying.databases.server(tenant.server_name)
    try:
        await source.reject_writes(tenant.database_name, wait_seconds=wait_seconds)
    finally:  # after an error, the fence can be set; a second cancellation must not keep it there
        is_lost = await asyncio.shield(lift_if_lost(copying, job))
    if is_lost:
        raise JobLost


async def _cut_over(
    ctx: OperationContext, copying: Copying, job: Job, tenant: Tenant
) -> tuple[Job, Tenant]:
    """Give the tenant the new database, and the job the old one: both, or neither."""
    assert job.server_name is not None
    assert job.database_name is not None
    changes: audit_log.Changes = []
    async with copying.catalog.change(
        ctx.at(utc_now()), "tenant.move", tenant.id, tenant_id=tenant.id, changes=changes
    ) as session:
        locked = await jobs.lock(session, job.id, worker_id=copying.ledger.worker_id)
        if locked is None or locked.state != JobState.RUNNING:
            raise JobLost
        moved = await moves.relocate(
            session,
            tenant,
            server_name=job.server_name,
            database_name=job.database_name,
            is_read_only=not locked.has_made_read_only,
        )
        if moved is None:
            raise TenantChanged
        held = await note_event(session, copying.ledger, job, job_states.HANDED_OVER)
        changes += audit_log.changes_between(tenant, moved, "server_name", "database_name")
    await copying.databases.forget(tenant.id)
    return held, moved


async def drop_when_known(copying: Copying, job: Job) -> None:
    """Drop the old database when every process knows the new one."""
    try:
        await asyncio.sleep(KNOWN_SECONDS)
        await drop_old(copying.ledger, [job])
    finally:
        copying.ledger.busy.discard(job.id)
