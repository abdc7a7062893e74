"""Make a new tenant of a copy: of a tenant, for staging or a rehearsal, or of a restored database.

What is copied is only read: the new tenant gets a database of its own, filled from it.
"""

import asyncio

import msgspec

from tenantry.backup import dumps, loading, same_engine
from tenantry.backup.copying import Copying
from tenantry.backup.restoring import Restored, create_tenant
from tenantry.catalog import tenants
from tenantry.catalog.job_queue import CLONE, JobOptions
from tenantry.catalog.job_states import Job
from tenantry.catalog.tenants import Tenant
from tenantry.db.copying.survey import Survey
from tenantry.db.inspection import DatabaseMissing
from tenantry.db.servers import Server
from tenantry.db.urls import sqlite_path
from tenantry.fleet.lifecycle import checked_name, new_tenant
from tenantry.kit.clock import utc_now
from tenantry.kit.context import OperationContext
from tenantry.kit.errors import Conflict, Invalid
from tenantry.migration.errors import explain
from tenantry.settings import SERVER_DEFAULT
from tenantry.tenant.blog import scheduling
from tenantry.tenant.databases import TenantDatabase
from tenantry.tenant.tables import user
from tenantry.work.progress import Progress

SQL_BYTES_MAX = 16 * 2**20


class AnonymisationFailed(Conflict):
    """The SQL of --anonymise has failed; the clone was removed."""


class BadAnonymisation(Invalid):
    """The file of --anonymise must be UTF-8 text of at most 16 MiB."""


class NotATenantDatabase(Conflict):
    """This is not a copy of a tenant's database. To adopt one of your own, omit --as."""


async def check(copying: Copying, job: Job, options: JobOptions) -> Job:
    """Check the name and the tenant server of a queued clone.

    Raises:
        BadText, UnknownServer: A rule is broken.
    """
    loading.check_server(copying, options.server_name)
    checked_name(options.name or "")
    return job


async def run(
    copying: Copying, ctx: OperationContext, job: Job, options: JobOptions, progress: Progress
) -> None:
    """Clone the tenant of a queued job, without an API key: its secret could not be shown."""
    assert job.tenant_id is not None
    assert options.name is not None
    source = await tenants.get(copying.catalog, job.tenant_id)
    await clone(
        ctx,
        copying,
        source,
        name=options.name,
        server_name=options.server_name,
        progress=progress,
        with_key=False,
    )


async def clone(
    ctx: OperationContext,
    copying: Copying,
    source: Tenant,
    *,
    name: str,
    server_name: str | None = None,
    anonymise: str | None = None,
    progress: Progress,
    with_key: bool = True,
) -> Restored:
    """Copy a tenant, which is served during the copy, to a new one.

    The clone has another id, one new API key and no sessions, and is at the head. It is on the
    server *server_name*, of the same engine; None for that of *source*. The SQL *anonymise* is
    executed in it before it is listed. Without *with_key*, it has no API key: an admin adds one
    later. Its posts have no schedule: a copy publishes nothing by itself.

    Raises:
        NotServed: *source* is an attached database.
        TenantNameInUse, BadText: The name cannot be used.
        UnknownServer, WrongEngine: The server cannot be used.
        AnonymisationFailed, CopyDiffers: The clone was removed.
        DatabaseUnavailable: A database cannot be reached.
        ToolMissing, ToolTooOld, ToolFailed: See `db.postgres.tools`.
    """
    source.check_served()
    url = copying.databases.server(source.server_name).url(source.database_name)
    server_name = loading.server_of_engine(
        copying, dumps.engine_of(url), server_name or source.server_name
    )
    server = copying.databases.server(server_name)
    tenant = msgspec.structs.replace(
        new_tenant(ctx, name, sorted(source.modules), server_name),
        requests_per_minute=source.requests_per_minute,
        size_bytes_max=source.size_bytes_max,
    )

    async def fill() -> int:
        target = server.url(tenant.database_name)
        await loading.create_empty(server, tenant.database_name)
        contents = await dumps.copy(url, target, progress.add, tools=copying.tools)
        await dumps.check_loaded(target, contents, is_foreign=False)
        removed = await _remove_schedules(server, tenant)
        if anonymise is not None:
            await _anonymise(target, anonymise)
        return removed

    return await create_tenant(
        ctx, copying, tenant, fill, kind=CLONE, progress=progress, with_key=with_key
    )


async def adopt_copy(
    ctx: OperationContext,
    copying: Copying,
    database: str,
    *,
    name: str,
    server_name: str | None,
    progress: Progress,
) -> Restored:
    """Make a new tenant from a copy of a tenant's database, of any moment.

    It has another id, one new API key and no sessions, and is migrated to the head. Its modules and
    its limit of requests are the defaults: they are in the catalog, not in the copy. Its posts have
    no schedule, as those of a clone.

    The copy is *database*: a URL; or the path of a file, or the name of a database on the server
    *server_name*. The tenant is on that server; if it is None, on the default one, or else on one
    of the copy's engine.

    Raises:
        TenantNameInUse, BadText: The name cannot be used.
        UnknownServer, WrongEngine, ServerTooOld, NoSpace: The server cannot be used.
        DatabaseMissing, NotATenantDatabase: There is no such file, or it is of something else.
        RoleTooPowerful, CopyDiffers, SourceChanged: The copy is not used.
        DatabaseUnavailable: A database cannot be reached, or is damaged.
        ToolMissing, ToolTooOld, ToolFailed: See `db.postgres.tools`.
    """
    source = _url(copying, database, server_name)
    path = sqlite_path(source)
    if path is not None and not await asyncio.to_thread(path.is_file):
        raise DatabaseMissing(f"There is no file {path}.")
    server_name = loading.server_of_engine(copying, dumps.engine_of(source), server_name)
    server = copying.databases.server(server_name)
    tenant = new_tenant(ctx, name, None, server_name)
    target = server.url(tenant.database_name)

    async def fill() -> int:
        await loading.create_empty(server, tenant.database_name)
        await same_engine.check_server(source, target)
        # As with a foreign archive: no authentication code says who has written it.
        await dumps.check_role(target)
        contents = await dumps.copy(
            source, target, progress.add, tools=copying.tools, is_foreign=True
        )
        _check_tables(contents.survey)
        await dumps.check_loaded(target, contents, is_foreign=True)
        return await _remove_schedules(server, tenant)

    return await create_tenant(ctx, copying, tenant, fill, kind="adopt", progress=progress)


async def _remove_schedules(server: Server, tenant: Tenant) -> int:
    database: TenantDatabase = server.open(tenant.database_name)
    try:
        return await scheduling.remove_all(database, now=utc_now())
    finally:
        await database.close()


async def _anonymise(url: str, sql: str) -> None:
    try:
        await dumps.execute(url, sql)
    except Exception as error:
        cause = error.__cause__ or error
        raise AnonymisationFailed(
            f"The SQL of --anonymise has failed; the clone was removed: "
            f"{explain(cause) if isinstance(cause, Exception) else cause}"
        ) from error


def _url(copying: Copying, database: str, server_name: str | None) -> str:
    if "://" in database:
        return database
    loading.check_server(copying, server_name)
    return copying.databases.server(server_name or SERVER_DEFAULT).foreign_url(database)


def _check_tables(found: Survey) -> None:
    # On PostgreSQL, each name has its schema.
    if user.name not in {name.rpartition(".")[2] for name in found.row_counts}:
        raise NotATenantDatabase
