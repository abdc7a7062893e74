"""Move tenants to another tenant server.

The new database is filled and compared while the old one rejects writes. One transaction on the
catalog then gives it to the tenant. So after a kill at any moment, the tenant is on exactly one
server, and the other database is named by the job, which any process cleans up.
"""

import asyncio
from dataclasses import dataclass

from tenantry.backup import dumps, loading, other_engine, same_engine
from tenantry.backup.jobs import Copying, Progress, drop_old, new_job, running, set_read_only
from tenantry.backup.restoring import TenantChanged
from tenantry.catalog import jobs, moves
from tenantry.catalog.cache import CHECK_SECONDS, FRESH_SECONDS
from tenantry.catalog.jobs import Job
from tenantry.catalog.tenants import Tenant
from tenantry.db import audit_log
from tenantry.fleet.lifecycle import UnknownServer
from tenantry.kit.clock import monotonic_seconds
from tenantry.kit.context import OperationContext
from tenantry.kit.errors import Invalid, TenantryError, Unavailable
from tenantry.kit.ids import new_id
from tenantry.migration.errors import explain

COPIED_AT_ONCE = 4
"""Tenants that `move_all` copies at the same time."""
MOVED_AT_ONCE = 64
"""Including those that only wait until every process knows the new database."""
# Every process has read the epoch again, or bypasses its cache.
KNOWN_SECONDS = CHECK_SECONDS + FRESH_SECONDS


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
        tenant: As it is now.
        rejected_seconds: How long its writes were rejected.
    """

    tenant: Tenant
    rejected_seconds: float


@dataclass(frozen=True, kw_only=True)
class NotMoved:
    """A tenant that was not moved, and why."""

    tenant: Tenant
    error: TenantryError


async def move(
    ctx: OperationContext,
    copying: Copying,
    tenant: Tenant,
    *,
    server_name: str,
    progress: Progress,
) -> Moved:
    """Move a tenant to another tenant server. It is read-only for that time.

    Args:
        ctx: Who moves it.
        copying: The services.
        tenant: The tenant, active or not.
        server_name: The new tenant server.
        progress: Counts the bytes.

    Raises:
        UnknownServer, SameServer, NoSpace, ServerTooOld: The server cannot be used.
        TenantBehind, NotCarried: It cannot be moved to the other engine.
        TenantMoving, TenantChanged: The tenant is moved already, or was changed by another caller.
        DatabaseBusy, FenceIneffective: Its database could not be made read-only.
        CopyDiffers, RowsDiffer: The copy is not the same; it was dropped.
        DatabaseUnavailable: A database cannot be reached.
        ToolMissing, ToolTooOld, ToolFailed: See `db.postgres_tools`.
        MoveFailed: Any other error.
    """
    job, moved = await carry(ctx, copying, tenant, server_name=server_name, progress=progress)
    await drop_when_known(copying, job)
    return moved


async def move_all(
    ctx: OperationContext,
    copying: Copying,
    chosen: list[Tenant],
    *,
    server_name: str,
    progress: Progress,
) -> list[Moved | NotMoved]:
    """Move several tenants, each as `move` does; an error of one does not stop the others."""
    copies, places = asyncio.Semaphore(COPIED_AT_ONCE), asyncio.Semaphore(MOVED_AT_ONCE)

    async def move_one(tenant: Tenant) -> Moved | NotMoved:
        async with places:
            try:
                async with copies:
                    job, moved = await carry(
                        ctx,
                        copying,
                        tenant,
                        server_name=server_name,
                        progress=Progress(total=progress),
                    )
            except TenantryError as error:
                return NotMoved(tenant=tenant, error=error)
            await drop_when_known(copying, job)
            return moved

    async with asyncio.TaskGroup() as tasks:
        begun = [tasks.create_task(move_one(tenant)) for tenant in chosen]
    return [one.result() for one in begun]


def check_servers(copying: Copying, from_server: str, to_server: str) -> None:
    """Check the tenant servers of a move.

    Raises:
        UnknownServer, SameServer: One of them is not in the settings, or they are the same.
    """
    if not {from_server, to_server} <= copying.databases.server_names:
        raise UnknownServer
    if from_server == to_server:
        raise SameServer


async def carry(
    ctx: OperationContext,
    copying: Copying,
    tenant: Tenant,
    *,
    server_name: str,
    progress: Progress,
) -> tuple[Job, Moved]:
    """Copy a tenant and give it the copy.

    Returns:
        The job, which holds the old database: see `drop_when_known`.

    Raises:
        Exception: As for `move`.
    """
    check_servers(copying, tenant.server_name, server_name)
    source = copying.databases.server(tenant.server_name)
    target = copying.databases.server(server_name)
    name = f"tenantry_{new_id().hex}"
    job = new_job(
        ctx,
        "move",
        progress,
        tenant=(tenant.id, tenant.name),
        database=(server_name, name),
        source=(tenant.server_name, tenant.database_name),
        has_made_read_only=not tenant.is_read_only,
    )
    urls = source.url(tenant.database_name), target.url(name)
    is_same = dumps.engine_of(urls[0]) == dumps.engine_of(urls[1])
    try:
        async with running(copying, job, progress):
            if is_same:
                await loading.create_empty(target, name)
                await same_engine.check_server(*urls)
            else:
                await other_engine.prepare(
                    ctx, copying, urls[0], target, server_name=server_name, database_name=name
                )
            if job.has_made_read_only:
                await set_read_only(ctx, copying, tenant, is_read_only=True)
            since = monotonic_seconds()
            await source.reject_writes(tenant.database_name)
            if is_same:
                await same_engine.copy(*urls, progress, tools=copying.tools)
            else:
                await other_engine.copy(*urls, progress)
            held, moved = await _cut_over(ctx, copying, job, tenant)
    except TenantryError:
        raise
    except Exception as error:
        raise MoveFailed(f"The tenant could not be moved: {explain(error)}") from error
    return held, Moved(tenant=moved, rejected_seconds=monotonic_seconds() - since)


async def _cut_over(
    ctx: OperationContext, copying: Copying, job: Job, tenant: Tenant
) -> tuple[Job, Tenant]:
    """Give the tenant the new database, and the job the old one: both, or neither."""
    assert job.server_name is not None
    assert job.database_name is not None
    changes: audit_log.Changes = []
    async with copying.catalog.change(
        ctx, "tenant.move", tenant.id, tenant_id=tenant.id, changes=changes
    ) as session:
        moved = await moves.relocate(
            session,
            tenant,
            server_name=job.server_name,
            database_name=job.database_name,
            is_read_only=tenant.is_read_only,
        )
        if moved is None:
            raise TenantChanged
        held = await jobs.hand_over(session, job.id, worker_id=copying.heartbeat.worker_id)
        if held is None:
            raise MoveLost
        changes += audit_log.changes_between(tenant, moved, "server_name", "database_name")
    await copying.databases.forget(tenant.id)
    return held, moved


async def drop_when_known(copying: Copying, job: Job) -> None:
    """Drop the old database when every process knows the new one."""
    await asyncio.sleep(KNOWN_SECONDS)
    await drop_old(copying, [job])
