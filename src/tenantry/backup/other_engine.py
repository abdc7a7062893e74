"""Copy a tenant's database to a server of the other engine: its revisions, and then its rows."""

import asyncio

from tenantry.backup.copying import Copying
from tenantry.backup.dumps import CONNECT_SECONDS
from tenantry.db.copying import table_copy
from tenantry.kit.context import OperationContext
from tenantry.kit.errors import Conflict
from tenantry.kit.stopping import run_in_thread
from tenantry.migration.run_scripts import RunScripts
from tenantry.work.progress import Progress


class TenantBehind(Conflict):
    """The tenant is not at the head: migrate it first, then move it to the other engine."""


async def checked_scripts(copying: Copying, source: str) -> RunScripts:
    """Return the current revisions, for a tenant's database that has all of them.

    Raises:
        TenantBehind: It has not.
        DatabaseUnavailable: It cannot be reached.
    """
    lifecycle = copying.lifecycle
    scripts = RunScripts(lifecycle.streams())
    state = await lifecycle.migrator.read_state(source, scripts.streams)
    if state.revision != await asyncio.to_thread(scripts.head):
        raise TenantBehind
    return scripts


async def prepare(
    ctx: OperationContext,
    copying: Copying,
    source: str,
    *,
    server_name: str,
    database_name: str,
) -> None:
    """Create a database with the tables of a tenant, and check that they can hold its rows.

    The tenant's database, at the URL *source*, must be at the head.

    Raises:
        TenantBehind: The tenant is not at the head.
        NotCarried: A table or a column has no counterpart.
        DatabaseUnavailable: A database cannot be reached.
        Exception: Any error of the drivers and the revisions.
    """
    scripts = await checked_scripts(copying, source)
    await copying.lifecycle.create_database(ctx, server_name, scripts=scripts, name=database_name)
    url = copying.databases.server(server_name).url(database_name)
    await asyncio.to_thread(table_copy.check, source, url, connect_seconds=CONNECT_SECONDS)


async def copy(source: str, target: str, progress: Progress) -> None:
    """Copy the rows of a database that rejects writes, and compare them.

    Raises:
        NotCarried: A value has no counterpart.
        RowsDiffer: The copy is not the same.
        DatabaseUnavailable: A database cannot be read or written.
    """
    await run_in_thread(
        lambda stop: table_copy.copy_rows(
            source, target, connect_seconds=CONNECT_SECONDS, count=progress.add, stop=stop
        )
    )
