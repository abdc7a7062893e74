"""Rebuild the indexes of all databases after an upgrade of the libraries that sort text."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from functools import partial
from uuid import UUID

from tenantry.backup import dumps
from tenantry.backup.copying import Copying
from tenantry.backup.dumps import POSTGRESQL
from tenantry.catalog import audit, tenants
from tenantry.db.audit_log import Changes
from tenantry.db.postgres import collations
from tenantry.db.postgres.collations import Refreshed
from tenantry.db.sessions import retry_deadlock
from tenantry.kit.clock import utc_now
from tenantry.kit.context import OperationContext
from tenantry.migration.errors import explain

CONCURRENCY = 4
"""How many databases are worked on concurrently."""
TENANTS_READ = 200
"""Tenants that are read from the catalog at a time."""
FAILED_MAX = 100
"""How many failures are named."""
CATALOG = "the catalog"


@dataclass(frozen=True, slots=True)
class _Database:
    name: str
    url: str
    tenant_id: UUID | None


@dataclass(kw_only=True)
class CollationReport:
    """What was done.

    Attributes:
        checked: The databases on PostgreSQL.
        refreshed: How many of them had indexes to rebuild, or versions to record.
        indexes: How many indexes were rebuilt.
        failed: The names of the first databases that are not up to date, each with the reason.
    """

    checked: int = 0
    refreshed: int = 0
    indexes: int = 0
    failed_count: int = 0
    failed: list[tuple[str, str]] = field(default_factory=list)

    def add(self, name: str, done: Refreshed | Exception) -> None:
        """Count a database: with what was done, or with why nothing was."""
        self.checked += 1
        why = explain(done) if isinstance(done, Exception) else _explain_left(done)
        if isinstance(done, Refreshed):
            self.indexes += done.indexes
            self.refreshed += bool(done.indexes or done.versions)
        if why is not None:
            self.failed_count += 1
            if len(self.failed) < FAILED_MAX:
                self.failed.append((name, why))


async def refresh_all(ctx: OperationContext, copying: Copying, report: CollationReport) -> None:
    """Rebuild outdated indexes of the catalog and of every tenant; *report* counts them.

    A database that fails does not stop the others. The audit log gets an entry for each that was
    changed.

    Raises:
        DatabaseUnavailable: The catalog cannot be reached.
    """
    queue: asyncio.Queue[_Database | None] = asyncio.Queue(CONCURRENCY)

    async def refresh_queued() -> None:
        while (database := await queue.get()) is not None:
            report.add(database.name, await _refresh(ctx, copying, database))

    async with asyncio.TaskGroup() as group:
        for _ in range(CONCURRENCY):
            group.create_task(refresh_queued())
        async for database in _databases(copying):
            await queue.put(database)
        for _ in range(CONCURRENCY):
            await queue.put(None)


async def _databases(copying: Copying) -> AsyncIterator[_Database]:
    """Yield the databases on PostgreSQL."""
    if dumps.engine_of(copying.catalog_url) == POSTGRESQL:
        yield _Database(CATALOG, copying.catalog_url, None)
    after = partial(tenants.after, copying.catalog, limit=TENANTS_READ, only_served=True)
    page = await after(None)
    while page:
        for tenant in page:
            url = copying.databases.server(tenant.server_name).url(tenant.database_name)
            if dumps.engine_of(url) == POSTGRESQL:
                yield _Database(tenant.name, url, tenant.id)
        page = await after(page[-1].id)


async def _refresh(
    ctx: OperationContext, copying: Copying, database: _Database
) -> Refreshed | Exception:
    try:
        async with dumps.connected(database.url) as raw:
            done = await collations.refresh(raw)
    except Exception as error:  # noqa: BLE001 - the others are refreshed
        return error
    if done.indexes or done.versions:
        await retry_deadlock(partial(_audit, ctx, copying, database, done))
    return done


async def _audit(
    ctx: OperationContext, copying: Copying, database: _Database, done: Refreshed
) -> None:
    changes: Changes = [{"field": "indexes", "old": None, "new": done.indexes}]
    tenant_id, ctx = database.tenant_id, ctx.at(utc_now())
    target = tenant_id or "catalog"
    async with copying.catalog.begin() as session:
        await audit.LOG.add(
            session, ctx, "collation.refresh", target, tenant_id=tenant_id, changes=changes
        )


def _explain_left(done: Refreshed) -> str | None:
    if not done.left:
        return None
    return (
        f"The indexes are rebuilt, but only a superuser can record the version of {done.left[0]}: "
        "ALTER COLLATION … REFRESH VERSION."
    )
