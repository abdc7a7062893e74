"""Recover a whole installation: first the catalog, then every tenant without a database."""

import asyncio
from collections.abc import Iterable, Sequence
from functools import partial
from pathlib import Path
from uuid import UUID

from tenantry.backup import dumps
from tenantry.backup.archive import ArchiveDamaged, ArchiveNotFound, ArchiveReader
from tenantry.backup.copying import Copying
from tenantry.backup.creating import CATALOG, CatalogRecord
from tenantry.backup.loading import WrongEngine, load
from tenantry.backup.targets import Stored, Target
from tenantry.catalog import restored, signing_keys, tenants
from tenantry.catalog.database import Catalog
from tenantry.catalog.records import TenantRecord
from tenantry.catalog.tenants import Tenant
from tenantry.db.copying.survey import survey_postgres
from tenantry.db.postgres.tools import PostgresTools
from tenantry.db.sqlite import files
from tenantry.db.urls import SQLITE_PREFIX, sqlite_path
from tenantry.kit.context import OperationContext
from tenantry.kit.errors import Conflict, Invalid
from tenantry.kit.pages import PAGE_SIZE_MAX
from tenantry.kit.stopping import Stop, run_in_thread


class NotACatalog(Invalid):
    """The archive is of a tenant, and not of the catalog."""


class CatalogExists(Conflict):
    """The database contains a catalog, or other tables: use an empty one."""


async def restore_catalog(
    ctx: OperationContext, url: str, reader: ArchiveReader, *, tools: PostgresTools
) -> None:
    """Restore the catalog where there is none, completely or not at all.

    All sessions end: one may have been ended since, or a signing key been revoked. Nothing that was
    in progress is cleaned up, because its database can be a tenant's by now: open jobs end, tenants
    that were being created or removed are not listed, and deleted ones are kept as long as if they
    were deleted now. Unfinished migration runs are stopped.

    *url* is an empty PostgreSQL database, or a file that does not exist. The archive must be of
    this installation's secret key.

    Raises:
        NotACatalog, CatalogExists, WrongEngine: It cannot be restored there.
        ArchiveDamaged, CopyDiffers: The archive is not used.
        DatabaseUnavailable, ToolMissing, ToolTooOld, ToolFailed, OSError: As for a tenant.
    """
    if reader.header.kind != CATALOG:
        raise NotACatalog
    if dumps.engine_of(url) != reader.header.engine:
        raise WrongEngine(
            f"The archive is of {reader.header.engine}, and TENANTRY_CATALOG_URL of the other "
            "engine."
        )
    await run_in_thread(lambda _stop: reader.record(CatalogRecord))
    path = sqlite_path(url)
    if path is None:
        async with dumps.connected(url) as raw:
            if (await survey_postgres(raw)).row_counts:
                raise CatalogExists
        await _load(ctx, url, reader, tools)
    else:
        await _load_file(ctx, path, reader, tools)


async def tenants_without_database(copying: Copying) -> list[Tenant]:
    """Return the listed tenants that have no database.

    Raises:
        DatabaseUnavailable: The catalog or a tenant server cannot be reached.
    """
    found = await every_tenant(copying)
    missing: set[UUID] = set()
    for server_name in {one.server_name for one in found}:
        there = {one.database_name: one.id for one in found if one.server_name == server_name}
        names = await copying.databases.server(server_name).missing(list(there))
        missing |= {there[name] for name in names}
    return [one for one in found if one.id in missing]


def archives_by_tenant(archives: Iterable[Stored]) -> dict[UUID, list[Stored]]:
    """Return the usable archives of each tenant, in the same order."""
    found: dict[UUID, list[Stored]] = {}
    for one in archives:
        if one.fault is None and one.header is not None and one.header.tenant_id is not None:
            found.setdefault(one.header.tenant_id, []).append(one)
    return found


async def undamaged(
    copying: Copying, target: Target, archives: Sequence[Stored]
) -> tuple[Stored, list[str]]:
    """Return the first of *archives* that is not damaged, and the names of those before it.

    Each is read to its end: a restore that fails half-way would leave its tenant suspended.

    Raises:
        ArchiveNotFound: There is none.
        ArchiveDamaged: All of them are damaged.
    """
    damaged: list[str] = []
    for one in archives:
        try:
            await run_in_thread(partial(_read_all, copying, target, one.name))
        except ArchiveDamaged:
            damaged.append(one.name)
        else:
            return one, damaged
    raise ArchiveDamaged if damaged else ArchiveNotFound


async def every_tenant(
    copying: Copying, *, where: str | None = None, page_size: int = PAGE_SIZE_MAX
) -> list[Tenant]:
    """Return every listed tenant, in the order of creation; with *where*, those that it selects.

    Attached databases are left out.
    A tenant that is deleted at the same time does not hide another one, as it would with pages.

    Raises:
        NoTenantMatches: *where* selects no tenant.
        BadText, BadWhere: It breaks a rule of the language: see `catalog.where`.
    """
    await tenants.check_selects(copying.catalog, where, only_served=True)
    found: list[Tenant] = []
    after = partial(tenants.after, copying.catalog, limit=page_size, where=where, only_served=True)
    while some := await after(found[-1].id if found else None):
        found += some
    return found


def _read_all(copying: Copying, target: Target, name: str, stop: Stop) -> None:
    with target.reading(name) as file:
        reader = ArchiveReader(file, copying.keys)
        reader.record(TenantRecord)
        for _ in reader.chunks():
            stop.check()


async def _load_file(
    ctx: OperationContext, path: Path, reader: ArchiveReader, tools: PostgresTools
) -> None:
    if await asyncio.to_thread(path.exists):
        raise CatalogExists
    unfinished = path.with_name(f"{path.name}.{reader.header.id}")
    try:
        await _load(ctx, f"{SQLITE_PREFIX}{unfinished}", reader, tools)
        await asyncio.to_thread(files.move, unfinished, path)
    finally:
        await asyncio.to_thread(files.remove, unfinished)


async def _load(
    ctx: OperationContext, url: str, reader: ArchiveReader, tools: PostgresTools
) -> None:
    await load(url, reader, reader.chunks(), tools=tools)
    catalog = Catalog(
        url, connections_max=1, timeout_seconds=dumps.CONNECT_SECONDS, synchronous="FULL"
    )
    try:
        await catalog.cache.check_epoch()
        catalog_id = catalog.cache.catalog_id
        async with catalog.change(ctx, "catalog.restore", catalog_id) as session:
            await signing_keys.remove_all(session)
            await restored.settle(session, now=ctx.now)
    finally:
        await catalog.close()
