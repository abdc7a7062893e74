"""Move the catalog to another database, while no process uses it."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import sqlalchemy as sa

from tenantry.backup import dumps
from tenantry.backup.dumps import CONNECT_SECONDS
from tenantry.backup.recovery import CatalogExists
from tenantry.catalog import audit, tables, workers
from tenantry.catalog import database as catalog_database
from tenantry.catalog.database import Catalog
from tenantry.db import files, table_copy, write_fence
from tenantry.db.servers import quoted
from tenantry.db.sessions import DatabaseUnavailable
from tenantry.db.statements import Count, Statement
from tenantry.db.urls import sqlite_path
from tenantry.kit.context import OperationContext
from tenantry.kit.errors import Conflict, Invalid
from tenantry.kit.ids import new_id
from tenantry.kit.stopping import run_in_thread
from tenantry.migration.migrator import Migrator
from tenantry.migration.run_scripts import RunScripts
from tenantry.migration.streams import Streams

_USES = Statement(
    sa.select(
        (
            sa.select(sa.func.count()).select_from(tables.tenant).scalar_subquery()
            + sa.select(sa.func.count()).select_from(tables.admin).scalar_subquery()
        ).label("count")
    ),
    Count,
)


class SameCatalog(Invalid):
    """The catalog is at this URL already."""


class NoCatalog(Conflict):
    """There is no catalog at TENANTRY_CATALOG_URL."""


class CatalogBehind(Conflict):
    """The catalog is of another release: start this release once, stop it, and try again."""


class CatalogInUse(Conflict):
    """Processes use the catalog; the message names them. Stop them, and try again after 5 s."""


@dataclass(frozen=True, kw_only=True)
class CatalogMove:
    """What moving the catalog needs.

    Attributes:
        source: The URL of the catalog.
        target: The URL of the new one: an empty database, or a file that does not exist.
        migrator: Creates the tables of the new one.
        synchronous: As in the settings, for SQLite.
    """

    source: str
    target: str
    migrator: Migrator
    synchronous: str


async def move_catalog(
    ctx: OperationContext, work: CatalogMove, *, count: Callable[[int], None]
) -> None:
    """Copy every row of the catalog to another database, and compare them.

    Afterwards, and during the copy, the old catalog rejects writes, so that no process continues
    with it by mistake. After an interruption, repeat this, or call `accept_writes`.

    Args:
        ctx: Who moves it.
        work: From where to where.
        count: Called with the bytes of some rows.

    Raises:
        SameCatalog, NoCatalog, CatalogBehind, CatalogInUse: It cannot be moved.
        CatalogExists: There is a catalog in the new database already.
        NotCarried, RowsDiffer: The copy is not used; the old catalog accepts writes again.
        DatabaseBusy, DatabaseUnavailable: A database cannot be written.
    """
    if work.source == work.target:
        raise SameCatalog
    await _check_source(work)
    await _check_unused(work)
    path = sqlite_path(work.target)
    is_new = path is not None and not await asyncio.to_thread(path.exists)
    try:
        await _reject_writes(work.source)
        await _check_unused(work)
        await _prepare_target(work, path, is_new=is_new)
        await run_in_thread(
            lambda stop: table_copy.copy_rows(
                work.source,
                work.target,
                connect_seconds=CONNECT_SECONDS,
                count=count,
                stop=stop,
            )
        )
        await _note(ctx, work)
    except BaseException:
        await accept_writes(work.source)
        if is_new and path is not None:
            await asyncio.to_thread(files.remove, path)
        raise


async def accept_writes(url: str) -> None:
    """Let the catalog at *url* accept writes again: its move was interrupted, or is given up.

    Raises:
        DatabaseBusy, DatabaseUnavailable: It cannot be written.
    """
    path = sqlite_path(url)
    if path is not None:
        await run_in_thread(lambda _stop: write_fence.lift_sqlite(path))
        return
    async with dumps.connected(url) as raw:
        name = str(await raw.fetchval("SELECT current_database()"))
        await write_fence.lift_postgres(raw, name, quoted(name))


async def _reject_writes(url: str) -> None:
    path = sqlite_path(url)
    if path is not None:
        await run_in_thread(lambda _stop: write_fence.fence_sqlite(path))
        return
    async with dumps.connected(url) as raw:
        name = str(await raw.fetchval("SELECT current_database()"))
        await write_fence.fence_postgres(raw, name, quoted(name))
    async with dumps.connected(url) as raw:
        await write_fence.check_fence(raw)


async def _check_source(work: CatalogMove) -> None:
    streams = Streams(catalog_database.STREAM)
    path = sqlite_path(work.source)
    if path is not None and not await asyncio.to_thread(path.exists):
        raise NoCatalog
    if path is None and not await dumps.has_tables(work.source):
        raise NoCatalog
    found = await work.migrator.read_revision(work.source, streams)
    if found != streams.head:
        raise CatalogBehind


async def _check_unused(work: CatalogMove) -> None:
    """Check that no process has had a heartbeat lately."""
    catalog = _open(work, work.source)
    try:
        found = await workers.published(catalog)
    finally:
        await catalog.close()
    if found:
        names = ", ".join(sorted(one.program or str(one.id) for one in found))
        raise CatalogInUse(
            f"Processes use the catalog: {names}. Stop them, and try again after 5 s."
        )


async def _prepare_target(work: CatalogMove, path: Path | None, *, is_new: bool) -> None:
    """Create the tables, unless there are those of a catalog without tenants and admins."""
    if is_new and path is not None:
        await asyncio.to_thread(files.create, path)
    elif path is not None or await dumps.has_tables(work.target):
        await _check_empty(work)
    scripts = RunScripts(Streams(catalog_database.STREAM))
    await work.migrator.initialise(work.target, scripts, run_id=new_id())


async def _check_empty(work: CatalogMove) -> None:
    catalog = _open(work, work.target)
    try:
        found = await catalog.fetch_one(_USES)
    except DatabaseUnavailable as error:  # it has other tables
        raise CatalogExists from error
    finally:
        await catalog.close()
    if found is None or found.count:
        raise CatalogExists


async def _note(ctx: OperationContext, work: CatalogMove) -> None:
    catalog = _open(work, work.target)
    try:
        await catalog.cache.check_epoch()
        await audit.LOG.add(catalog, ctx, "catalog.move", catalog.cache.catalog_id)
    finally:
        await catalog.close()


def _open(work: CatalogMove, url: str) -> Catalog:
    return Catalog(
        url, connections_max=1, timeout_seconds=CONNECT_SECONDS, synchronous=work.synchronous
    )
