"""Adopt a copy of a tenant's database that another program has restored, as a new tenant.

The copy is only read: the new tenant gets a database of its own, filled from it.
"""

import asyncio

from tenantry.backup import dumps, loading, same_engine
from tenantry.backup.jobs import Copying, Progress
from tenantry.backup.restoring import Restored, create_tenant
from tenantry.db.copying.survey import Survey
from tenantry.db.inspection import DatabaseMissing
from tenantry.db.urls import sqlite_path
from tenantry.fleet.lifecycle import UnknownServer, new_tenant
from tenantry.kit.context import OperationContext
from tenantry.kit.errors import Conflict
from tenantry.settings import SERVER_DEFAULT
from tenantry.tenant.tables import user


class NotATenantDatabase(Conflict):
    """This is not a copy of a tenant's database. To adopt one of your own, omit --as."""


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
    its limit of requests are the defaults: they are in the catalog, not in the copy.

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

    async def fill() -> None:
        await loading.create_empty(server, tenant.database_name)
        await same_engine.check_server(source, target)
        # As with a foreign archive: no authentication code says who has written it.
        await dumps.check_role(target)
        contents = await dumps.copy(
            source, target, progress.add, tools=copying.tools, is_foreign=True
        )
        _check_tables(contents.survey)
        await dumps.check_loaded(target, contents, is_foreign=True)

    return await create_tenant(ctx, copying, tenant, fill, kind="adopt", progress=progress)


def _url(copying: Copying, database: str, server_name: str | None) -> str:
    if "://" in database:
        return database
    if server_name is not None and server_name not in copying.databases.server_names:
        raise UnknownServer
    return copying.databases.server(server_name or SERVER_DEFAULT).foreign_url(database)


def _check_tables(found: Survey) -> None:
    # On PostgreSQL, each name has its schema.
    if user.name not in {name.rpartition(".")[2] for name in found.row_counts}:
        raise NotATenantDatabase
