"""Preview a run: inspect each tenant's database, or rehearse its pending revisions."""

import asyncio
import heapq
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from uuid import UUID

import sqlalchemy as sa

from tenantry.catalog.durations import Duration
from tenantry.catalog.plans import Selected
from tenantry.catalog.stored_plans import SlowTenant, StoredPlan
from tenantry.fleet.pending_revisions import LostData, PendingRevision
from tenantry.fleet.pending_sql import sql_of
from tenantry.kit.errors import chain_of
from tenantry.migration.errors import explain, failure_cause
from tenantry.migration.guard import NotRehearsable
from tenantry.migration.lock_retries import Inspection, Loss
from tenantry.migration.migrator import Migrator
from tenantry.migration.run_scripts import RunScripts
from tenantry.migration.schema_state import Applied
from tenantry.tenant.databases import TenantDatabases

SLOWEST_MAX = 10
"""The slowest tenants of a rehearsal that are named."""


@dataclass(frozen=True, kw_only=True, slots=True)
class TenantPreview:
    """The preview of one tenant.

    Attributes:
        current_revision: The revision of its database; None if it is unknown.
        pending_migrations: The pending revisions, separated by commas; None if nothing is pending,
            empty if that is unknown.
        error: Why the revision is unknown, or why the rehearsal failed or was not possible.
        cause: What the error has in common with those of other tenants.
        is_rehearsable: False if a pending revision cannot be rolled back.
        wave: As in `plans.Selected`.
        sort_key: As in `plans.Selected`.
        executed_ms: How long its rehearsal took; None without one.
    """

    tenant_id: UUID
    tenant_name: str
    current_revision: str | None
    pending_migrations: str | None
    error: str | None
    is_rehearsable: bool = True
    cause: str | None = None
    wave: int | None = None
    sort_key: str | None = None
    executed_ms: int | None = None


@dataclass(frozen=True, kw_only=True)
class Preview:
    """The preview of a run; ``total = pending + up_to_date + failed``.

    A tenant with revisions that cannot be rehearsed counts as pending, not as failed.

    Attributes:
        revisions: The pending revisions, with their SQL.
        durations: Of earlier tenants, by the names of their revisions; see `Fleet.preview`.
        expected_ms: How long the run takes by these durations; None if one is not known.
        plan: The plan that was stored of it, if any.
        slowest: The tenants whose rehearsal took longest, the slowest first; at most `SLOWEST_MAX`.
        estimated_ms: How long one process needs for the run by the durations of the rehearsal, if
            every tenant starts as soon as there is a place on its server; None if a pending one was
            not rehearsed.
    """

    total: int
    pending: int
    up_to_date: int
    failed: int
    details: list[TenantPreview]
    revisions: list[PendingRevision]
    durations: list[Duration] = field(default_factory=list)
    expected_ms: int | None = None
    plan: StoredPlan | None = None
    slowest: list[SlowTenant] = field(default_factory=list)
    estimated_ms: int | None = None

    @property
    def paths(self) -> Counter[str]:
        """The number of tenants with each list of pending revisions."""
        return Counter(one.pending_migrations for one in self.details if one.pending_migrations)


@dataclass(frozen=True)
class Previewer:
    """Inspects or rehearses tenants' databases.

    Attributes:
        migrator: Inspects or rehearses one database, within the deadline of a migration.
        concurrency: How many databases are inspected concurrently.
        concurrencies: How many tenants a run migrates concurrently on each server, by its name.
    """

    databases: TenantDatabases
    migrator: Migrator
    concurrency: int
    concurrencies: Mapping[str, int] = field(default_factory=dict)

    async def preview(
        self, selected: list[Selected], scripts: RunScripts, *, rehearse: bool
    ) -> Preview:
        """Return the preview of the *selected* tenants.

        With *rehearse*, pending revisions are executed and rolled back. This takes the locks of a
        real run.
        """
        details: dict[UUID, TenantPreview] = {}
        pending: dict[sa.Dialect, set[Applied]] = defaultdict(set)
        losses: dict[tuple[str, str], list[Loss]] = defaultdict(list)
        todo = iter(selected)

        async def preview_each(shared: Iterator[Selected]) -> None:
            for tenant in shared:
                found = await self._read(tenant, scripts, rehearse=rehearse)
                details[tenant.tenant_id] = _previewed(tenant, scripts, found)
                if isinstance(found, Inspection) and found.pending:
                    pending[found.dialect].update(found.pending)
                    for one in found.losses:
                        key = scripts.streams.display(one.revision), found.dialect.name
                        losses[key].append(one)

        async with asyncio.TaskGroup() as group:
            for _ in range(self.concurrency):
                group.create_task(preview_each(todo))
        found = [details[tenant.tenant_id] for tenant in selected]
        failed = sum(one.error is not None and one.is_rehearsable for one in found)
        up_to_date = sum(one.pending_migrations is None for one in found)
        return Preview(
            total=len(found),
            pending=len(found) - failed - up_to_date,
            up_to_date=up_to_date,
            failed=failed,
            details=found,
            revisions=[
                replace(one, lost=_lost(losses[one.revision, one.engine]))
                for one in await sql_of(scripts, pending)
            ],
            slowest=_slowest(found),
            estimated_ms=self._estimate(selected, found) if rehearse else None,
        )

    def _estimate(self, selected: Sequence[Selected], found: Sequence[TenantPreview]) -> int | None:
        each: dict[str, list[int]] = defaultdict(list)
        for tenant, one in zip(selected, found, strict=True):
            if one.pending_migrations:
                if one.executed_ms is None:
                    return None
                each[tenant.server_name].append(one.executed_ms)
        return max(
            (
                max(
                    *some,
                    sum(some) // min(self.concurrencies.get(name, self.concurrency), len(some)),
                )
                for name, some in each.items()
            ),
            default=0,
        )

    async def _read(
        self, tenant: Selected, scripts: RunScripts, *, rehearse: bool
    ) -> Inspection | Exception:
        try:
            place = await self.databases.place_of(tenant)
            scripts = scripts.of(is_attached=place.is_attached)
            return await self.migrator.inspect(place.url, scripts, rehearses=rehearse)
        except Exception as error:  # noqa: BLE001 - one bad tenant must not hide the others
            return error


def _previewed(
    tenant: Selected, scripts: RunScripts, found: Inspection | Exception
) -> TenantPreview:
    revision: str | None = None
    pending: str | None = ""
    if isinstance(found, Inspection):
        error = found.error
        revision = str(found.revision)
        names = ",".join(scripts.streams.display(one) for one in found.pending)
        pending = names if names or error is not None else None
    else:
        error = found
    return TenantPreview(
        tenant_id=tenant.tenant_id,
        tenant_name=tenant.tenant_name,
        current_revision=revision,
        pending_migrations=pending,
        error=None if error is None else explain(error),
        cause=None if error is None else failure_cause(error),
        is_rehearsable=not any(isinstance(one, NotRehearsable) for one in chain_of(error)),
        wave=tenant.wave,
        sort_key=tenant.sort_key,
        executed_ms=found.executed_ms if isinstance(found, Inspection) else None,
    )


def _slowest(found: Iterable[TenantPreview]) -> list[SlowTenant]:
    timed = [(one, one.executed_ms) for one in found if one.executed_ms is not None]
    slowest = heapq.nlargest(SLOWEST_MAX, timed, key=lambda pair: pair[1])
    return [SlowTenant(one.tenant_id, one.tenant_name, took) for one, took in slowest]


def _lost(losses: Iterable[Loss]) -> list[LostData]:
    """Return the sum of the losses of each table and column, over all tenants."""
    each: dict[tuple[str, str | None], list[Loss]] = defaultdict(list)
    for one in losses:
        each[one.table, one.column].append(one)
    return [
        LostData(
            table=table,
            column=column,
            count=sum(one.count for one in some),
            is_more=any(one.is_more for one in some),
            tenant_count=len(some),
        )
        for (table, column), some in each.items()
    ]
