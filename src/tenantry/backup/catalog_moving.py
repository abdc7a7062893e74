"""Move the catalog to another database, while no process uses it."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from enum import Enum

import sqlalchemy as sa

from tenantry.backup import dumps
from tenantry.backup.dumps import CONNECT_SECONDS
from tenantry.backup.recovery import CatalogExists
from tenantry.catalog import audit, tables, workers
from tenantry.catalog import stream as catalog_stream
from tenantry.catalog.cache import READ_EPOCH
from tenantry.catalog.database import Catalog
from tenantry.db import write_fence
from tenantry.db.copying import survey, table_copy
from tenantry.db.sessions import DatabaseUnavailable
from tenantry.db.sqlite import files
from tenantry.db.statements import Count, Statement
from tenantry.db.urls import sqlite_path
from tenantry.kit.context import OperationContext
from tenantry.kit.errors import Conflict, Invalid, Unavailable
from tenantry.kit.ids import new_id
from tenantry.kit.stopping import run_in_thread
from tenantry.migration import schema_state
from tenantry.migration.errors import explain
from tenantry.migration.migrator import Migrator
from tenantry.migration.run_scripts import RunScripts
from tenantry.migration.streams import Streams

# The tables that are created before those of the first revision.
_BEGUN = {one.name for one in schema_state.metadata.sorted_tables}
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


class CatalogMoved(Conflict):
    """The catalog rejects writes since a move to another URL: repeat that, or use --cancel."""


class CatalogMoveUnknown(Unavailable):
    """It is unknown whether the catalog was moved, so it rejects writes: repeat the move."""


class CatalogNotCreated(Unavailable):
    """The new catalog cannot be created; the message has the reason."""


class CatalogInUse(Conflict):
    """Processes use a catalog; the message names them. Stop them, and try again after 5 s."""


class Found(Enum):
    """What a new database has before a move."""

    NOTHING = "nothing"
    TABLES = "tables"  # some or all of a catalog without tenants and admins
    COPY = "copy"
    OTHER = "other"


@dataclass(frozen=True, kw_only=True)
class CatalogMove:
    """What moving the catalog needs.

    Attributes:
        source: The URL of the catalog.
        target: The URL of the new one: an empty database, or a file that does not exist.
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
    with it by mistake. The rows are copied in one transaction. So at every moment, at most one of
    the two has all rows and accepts writes. After an interruption, repeat this, or call
    `accept_writes`.

    *count* is called with the bytes of some rows.

    Raises:
        SameCatalog, NoCatalog, CatalogBehind: It cannot be moved.
        CatalogInUse: A process uses it, or the new database.
        CatalogExists: There is a catalog in the new database already.
        CatalogMoved: It rejects writes, and this database has nothing of an interrupted move.
        CatalogMoveUnknown: The new database cannot be read after an error, or has all rows.
        CatalogNotCreated: The tables of the new one cannot be created.
        NotCarried, RowsDiffer: The copy is not used; the old catalog accepts writes again.
        DatabaseBusy, DatabaseUnavailable: A database cannot be written.
    """
    if work.source == work.target:
        raise SameCatalog
    await _check_source(work)
    await _check_unused(work, work.source)
    is_fenced, found = await _rejects_writes(work.source), await _inspect_target(work)
    if is_fenced and found is Found.COPY:  # the command was killed after its last transaction
        await _note(ctx, work)
        return
    if found in {Found.COPY, Found.OTHER}:
        raise CatalogExists
    if is_fenced and found is Found.NOTHING:
        raise CatalogMoved
    if found is Found.TABLES:
        with contextlib.suppress(DatabaseUnavailable):  # the table of the workers may be missing
            await _check_unused(work, work.target)
    await _copy_catalog(work, count)
    await _note(ctx, work)


async def _copy_catalog(work: CatalogMove, count: Callable[[int], None]) -> None:
    path = sqlite_path(work.target)
    is_new = path is not None and not await asyncio.to_thread(path.exists)
    try:
        await _reject_writes(work.source)
        await _check_unused(work, work.source)
        if is_new and path is not None:
            await asyncio.to_thread(files.create, path)
        await _create_tables(work)
        await run_in_thread(
            lambda stop: table_copy.copy_rows(
                work.source,
                work.target,
                connect_seconds=CONNECT_SECONDS,
                count=count,
                stop=stop,
            )
        )
    except BaseException as error:
        await _check_not_copied(work, error)
        await accept_writes(work.source)
        if is_new and path is not None:
            await asyncio.to_thread(files.remove, path)
        raise


async def _create_tables(work: CatalogMove) -> None:
    scripts = RunScripts(Streams(catalog_stream.STREAM))
    try:
        await work.migrator.initialise(work.target, scripts, run_id=new_id())
    except Exception as error:
        raise CatalogNotCreated(f"The new catalog cannot be created: {explain(error)}") from error


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
        await write_fence.lift_postgres(raw, name)


async def _reject_writes(url: str) -> None:
    path = sqlite_path(url)
    if path is not None:
        await run_in_thread(lambda _stop: write_fence.fence_sqlite(path))
        return
    async with dumps.connected(url) as raw:
        name = str(await raw.fetchval("SELECT current_database()"))
        await write_fence.fence_postgres(raw, name)
    async with dumps.connected(url) as raw:
        await write_fence.check_fence(raw)


async def _check_source(work: CatalogMove) -> None:
    streams = Streams(catalog_stream.STREAM)
    path = sqlite_path(work.source)
    if path is not None and not await asyncio.to_thread(path.exists):
        raise NoCatalog
    if path is None and not await _tables(work.source):
        raise NoCatalog
    found = (await work.migrator.read_state(work.source, streams)).revision
    if found != streams.head:
        raise CatalogBehind


async def _check_unused(work: CatalogMove, url: str) -> None:
    """Check that no process has had a heartbeat lately."""
    async with _opened(work, url) as catalog:
        found = await workers.published(catalog)
    if found:
        names = ", ".join(sorted(one.program or str(one.id) for one in found))
        which = "old" if url == work.source else "new"
        raise CatalogInUse(
            f"Processes use the {which} catalog: {names}. Stop them, and try again after 5 s."
        )


async def _rejects_writes(url: str) -> bool:
    path = sqlite_path(url)
    if path is not None:
        return await run_in_thread(lambda _stop: write_fence.is_fenced_sqlite(path))
    async with dumps.connected(url) as raw:
        return await write_fence.is_fenced_postgres(raw)


async def _inspect_target(work: CatalogMove) -> Found:
    names = await _tables(work.target)
    if not names:
        return Found.NOTHING
    if names <= _BEGUN:
        return Found.TABLES
    try:
        async with _opened(work, work.target) as catalog:
            found, used = await catalog.fetch_one(READ_EPOCH), await catalog.fetch_one(_USES)
    except DatabaseUnavailable:  # it has other tables
        return Found.OTHER
    if found is not None:
        async with _opened(work, work.source) as catalog:
            if found == await catalog.fetch_one(READ_EPOCH):
                return Found.COPY
    return Found.OTHER if used is None or used.count else Found.TABLES


async def _tables(url: str) -> set[str]:
    path = sqlite_path(url)
    if path is None:
        async with dumps.connected(url) as raw:
            found = await survey.survey_postgres(raw)
    elif await asyncio.to_thread(path.exists):
        found = await asyncio.to_thread(survey.survey_sqlite, path, is_private=False)
    else:
        return set()
    return {name.rpartition(".")[2] for name in found.row_counts}


async def _check_not_copied(work: CatalogMove, error: BaseException) -> None:
    """Check that the new database is not the catalog: the response to its COMMIT can be lost."""
    try:
        found = await _inspect_target(work)
    except Unavailable:
        raise CatalogMoveUnknown from error
    if found is Found.COPY:
        raise CatalogMoveUnknown from error


async def _note(ctx: OperationContext, work: CatalogMove) -> None:
    async with _opened(work, work.target) as catalog:
        await catalog.cache.check_epoch()
        await audit.LOG.add(catalog, ctx, "catalog.move", catalog.cache.catalog_id)


@contextlib.asynccontextmanager
async def _opened(work: CatalogMove, url: str) -> AsyncIterator[Catalog]:
    catalog = Catalog(
        url, connections_max=1, timeout_seconds=CONNECT_SECONDS, synchronous=work.synchronous
    )
    try:
        yield catalog
    finally:
        await catalog.close()
