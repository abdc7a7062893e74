"""Check for drift: compare each tenant's schema with the one that its revisions define.

What they define is read from a new database on the same tenant server, to which all revisions are
applied, and which is dropped again. Only tenants at the head are compared.
"""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, TypeAlias
from uuid import UUID

from tenantry.catalog import drift, tenants
from tenantry.catalog.database import Catalog
from tenantry.catalog.tenants import Tenant
from tenantry.db.copying.schema_listing import Difference, differences
from tenantry.db.outage_errors import ServerAway, is_outage
from tenantry.db.urls import sqlite_path
from tenantry.fleet.templates import Templates
from tenantry.kit.context import OperationContext
from tenantry.kit.errors import Unavailable
from tenantry.migration.errors import explain
from tenantry.migration.migrator import Migrator
from tenantry.migration.schema_state import Schema
from tenantry.migration.statements import SchemaMoved
from tenantry.migration.streams import Streams
from tenantry.tenant.databases import ELSEWHERE, TenantDatabases

TENANTS_READ = 200
"""Tenants that are read from the catalog, and whose results are stored, at a time."""
UNREADABLE_MAX = 100
"""How many tenants that could not be compared are named."""
NOTE_NAMES_MAX = 5
"""How many of them are named in the note of a job."""
NOTE_CHARS_MAX = 1_000


class NoServerToCompare(Unavailable):
    """To compare it, add its server to TENANTRY_TENANT_SERVERS, and attach the database again."""


class _Kind(NamedTuple):
    """Tenants with the same schema: those on a server, or the attached databases on it."""

    server_name: str
    is_attached: bool


Expected: TypeAlias = Schema | Exception
"""The schema that all revisions define on a server, or why it could not be read."""


@dataclass(kw_only=True)
class DriftReport:
    """What a check has found.

    Attributes:
        drifted: How many of the compared ones have drifted.
        not_at_head: How many were left out, because a migration run comes first.
        unreadable_count: How many could not be compared.
        unreadable: The names of the first ones, each with the reason.
    """

    compared: int = 0
    drifted: int = 0
    not_at_head: int = 0
    unreadable_count: int = 0
    unreadable: list[tuple[str, str]] = field(default_factory=list)

    def add(self, tenant: Tenant, found: Sequence[Difference] | Exception) -> None:
        """Count a tenant: with what differs, or with why it could not be compared."""
        if isinstance(found, SchemaMoved):
            self.not_at_head += 1
        elif isinstance(found, Exception):
            self.unreadable_count += 1
            if len(self.unreadable) < UNREADABLE_MAX:
                self.unreadable.append((tenant.name, explain(found)))
        else:
            self.compared += 1
            self.drifted += bool(found)

    @property
    def total(self) -> int:
        """How many tenants were inspected."""
        return self.compared + self.not_at_head + self.unreadable_count

    def __str__(self) -> str:
        """Return it as one line, with the first tenants that could not be compared."""
        named = [f"{name}: {why}" for name, why in self.unreadable[:NOTE_NAMES_MAX]]
        more = ["…"] if self.unreadable_count > len(named) else []
        return "; ".join([self.counts, *named, *(more if named else [])])[:NOTE_CHARS_MAX]

    @property
    def counts(self) -> str:
        """The counts, as one line."""
        return (
            f"{self.compared:,} compared, {self.drifted:,} drifted, {self.not_at_head:,} not at "
            f"the head, {self.unreadable_count:,} not readable"
        )


@dataclass(frozen=True, kw_only=True)
class DriftCheck:
    """Compares the schemas of tenants.

    Attributes:
        templates: Makes the new database on each server.
        concurrency: How many databases are read concurrently.
    """

    catalog: Catalog
    databases: TenantDatabases
    migrator: Migrator
    templates: Templates
    streams: Callable[[], Streams]
    concurrency: int

    async def check(
        self,
        ctx: OperationContext,
        report: DriftReport,
        *,
        only: Tenant | None = None,
        where: str | None = None,
    ) -> None:
        """Compare all tenants, or *only* one, and store which have drifted; *report* counts them.

        With *where*, those that it selects when they are read, some at a time.

        Raises:
            BadText, BadWhere: It breaks a rule of the language: see `catalog.where`.
            BadStream: The directory of revisions cannot be read.
            DatabaseUnavailable: The catalog cannot be reached.
        """
        streams = self.streams()
        head = await asyncio.to_thread(lambda: str(streams.head))
        expected: dict[_Kind, Expected] = {}
        page = [only] if only else await self._after(None, where)
        while page:
            # An attached database that has left the list has no URL.
            some = [one for one in page if one.is_active or not streams.is_attached]
            at_head = [one for one in some if one.schema_revision == head]
            report.not_at_head += len(some) - len(at_head)
            for kind in set(map(_kind_of, at_head)) - expected.keys():
                expected[kind] = await self._expected(ctx, kind, streams)
            found = await self._compare(report, at_head, streams, expected)
            await drift.store(self.catalog, found, at=ctx.now)
            page = [] if only else await self._after(page[-1].id, where)

    async def _after(self, after: UUID | None, where: str | None) -> list[Tenant]:
        return await tenants.after(self.catalog, after, limit=TENANTS_READ, where=where)

    async def _expected(self, ctx: OperationContext, kind: _Kind, streams: Streams) -> Expected:
        try:
            streams = streams.of(is_attached=kind.is_attached)
            return await self.templates.read_schema(ctx, kind.server_name, streams=streams)
        except Exception as error:  # noqa: BLE001 - the tenants of other servers are compared
            return error

    async def _compare(
        self,
        report: DriftReport,
        at_head: Sequence[Tenant],
        streams: Streams,
        expected: dict[_Kind, Expected],
    ) -> list[tuple[Tenant, list[Difference]]]:
        found: list[tuple[Tenant, list[Difference]]] = []
        todo = iter(at_head)

        async def compare_each() -> None:
            for tenant in todo:
                kind = _kind_of(tenant)
                compared = await self._differences(tenant, streams, expected[kind])
                report.add(tenant, compared)
                if isinstance(compared, list):
                    found.append((tenant, compared))
                elif compared is not expected[kind] and await self._is_away(
                    tenant.server_name, compared
                ):
                    expected[kind] = compared  # its other tenants do not wait for it

        async with asyncio.TaskGroup() as group:
            for _ in range(self.concurrency):
                group.create_task(compare_each())
        return found

    async def _is_away(self, server_name: str, error: Exception) -> bool:
        if not is_outage(error):
            return False
        try:
            await self.databases.server(server_name).probe()
        except ServerAway:
            return True
        return False

    async def _differences(
        self, tenant: Tenant, streams: Streams, expected: Expected
    ) -> list[Difference] | Exception:
        if isinstance(expected, Exception):
            return expected
        try:
            place = await self.databases.place_of(tenant)
            if tenant.server_name == ELSEWHERE and sqlite_path(place.url) is None:
                return NoServerToCompare()
            streams = streams.of(is_attached=place.is_attached)
            schema = await self.migrator.read_schema(place.url, streams)
        except Exception as error:  # noqa: BLE001 - the others are compared
            return error
        if schema.revision != expected.revision:
            return SchemaMoved()
        return await asyncio.to_thread(differences, expected.objects, schema.objects)


def _kind_of(tenant: Tenant) -> _Kind:
    return _Kind(tenant.server_name, tenant.is_attached)
