"""The contents of the databases, read and restored with other drivers than the product's."""

import asyncio
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import sqlalchemy as sa

from tenantry.catalog import tables as catalog_tables
from tenantry.catalog.tenants import Tenant
from tenantry.services import Services
from tenantry.tenant import tables as tenant_tables

# Written in the background, independently of the request.
TRACES = {"last_used_at", "seen_at_ms"}
UNWATCHED = {"worker", "login_attempt"}
# Kept by triggers of `tenant`; a restore changes the numbers of rows.
DERIVED = {"tenant_count", "tenant_name"}
RESTORED = ("tenant", "api_key", "mcp_token", "admin", "ended_session", "job")

Rows = list[dict[str, Any]]
Dump = dict[str, Rows]


def sync_engine(url: str) -> sa.Engine:
    return sa.create_engine(url.replace("postgresql://", "postgresql+psycopg://", 1))


@dataclass(frozen=True)
class Ledger:
    """The catalog and the tenants' databases, read directly from the server."""

    services: Services
    _engines: dict[str, sa.Engine] = field(default_factory=dict)

    @property
    def catalog(self) -> sa.Engine:
        return self._engine(self.services.settings.catalog)

    def of(self, tenant: Tenant) -> sa.Engine:
        server = self.services.databases.server(tenant.server_name)
        return self._engine(server.url(tenant.database_name))

    def dump_catalog(self) -> Dump:
        return _dump(self.catalog, catalog_tables.metadata.sorted_tables)

    def dump(self, tenant: Tenant) -> Dump:
        return _dump(self.of(tenant), tenant_tables.metadata.sorted_tables)

    def dump_all(self, tenants: Iterable[Tenant]) -> dict[str, Dump]:
        dumps = {tenant.name: self.dump(tenant) for tenant in tenants}
        return {"catalog": self.dump_catalog(), **dumps}

    def restore_catalog(self, dump: Dump) -> None:
        """Restore credentials, users and jobs from *dump*; the history stays."""
        every = catalog_tables.metadata.sorted_tables
        _restore(self.catalog, [table for table in every if table.name in RESTORED], dump)
        self.services.catalog.cache.clear()

    def restore(self, tenant: Tenant, dump: Dump) -> None:
        _restore(self.of(tenant), tenant_tables.metadata.sorted_tables, dump)

    async def write(self, engine: sa.Engine, statement: sa.Executable) -> None:
        """Execute *statement* in a thread: the loop is needed to release the lock of SQLite."""
        await asyncio.to_thread(_write, engine, statement)

    def close(self) -> None:
        for engine in self._engines.values():
            engine.dispose()

    def _engine(self, url: str) -> sa.Engine:
        if url not in self._engines:
            self._engines[url] = sync_engine(url)
        return self._engines[url]


def essence(dump: Dump) -> dict[str, list[str]]:
    """Return *dump* without the traces that requests may leave."""
    return {
        table: sorted(
            repr({name: value for name, value in row.items() if name not in TRACES}) for row in rows
        )
        for table, rows in dump.items()
        if table not in UNWATCHED | DERIVED
    }


def difference(before: dict[str, Dump], after: dict[str, Dump]) -> list[str]:
    """Return the differences as readable lines."""
    found = []
    for name, dump in before.items():
        old, new = essence(dump), essence(after[name])
        for table in old:
            found += [f"{name}.{table} lost {row}" for row in set(old[table]) - set(new[table])]
            found += [f"{name}.{table} got {row}" for row in set(new[table]) - set(old[table])]
    return found


def _write(engine: sa.Engine, statement: sa.Executable) -> None:
    with engine.begin() as connection:
        connection.execute(statement)


def _dump(engine: sa.Engine, tables: Iterable[sa.Table]) -> Dump:
    with engine.begin() as connection:
        return {
            table.name: [dict(row) for row in connection.execute(sa.select(table)).mappings()]
            for table in tables
        }


def _restore(engine: sa.Engine, tables: list[sa.Table], dump: Dump) -> None:
    with engine.begin() as connection:
        for table in reversed(tables):
            connection.execute(sa.delete(table))
        for table in tables:
            if dump[table.name]:
                connection.execute(sa.insert(table), dump[table.name])
