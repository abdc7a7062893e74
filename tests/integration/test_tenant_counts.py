"""The counts of tenants: equal to what counting the rows would return, whatever is changed."""

import asyncio
from collections import Counter

import pytest
import sqlalchemy as sa

from tenantry.catalog import deleted_tenants, tenant_counts, tenant_list, tenants
from tenantry.catalog.tables import tenant, tenant_count
from tenantry.catalog.tenant_counts import Filters
from tenantry.catalog.tenants import TenantState
from tenantry.cli.doctor.findings import Finding, State
from tenantry.cli.doctor.leftovers import check_leftovers
from tenantry.db.statements import Count, Statement
from tenantry.fleet.run_options import RunOptions
from tenantry.kit.context import system_context
from tenantry.kit.pages import Window
from tenantry.services import Services, open_services
from tenantry.settings import Settings
from testkit import raw_sql
from tests.contracts.ledger import sync_engine
from tests.integration import gates
from tests.integration.gates import Gate, spoil

_ROWS = Statement(sa.select(sa.func.count().label("count")).select_from(tenant_count), Count)


def by_rows(services: Services) -> Counter[tuple[object, ...]]:
    """Count the tenants themselves."""
    of_tenant = (
        tenant.c.server_name,
        tenant.c.state,
        tenant.c.is_active,
        tenant.c.is_read_only,
        tenant.c.schema_revision,
        tenant.c.failing_run_id.is_not(None),
    )
    return Counter(tuple(row) for row in _read(services, sa.select(*of_tenant)))


def by_counts(services: Services) -> Counter[tuple[object, ...]]:
    """Return the counts that are kept."""
    found: Counter[tuple[object, ...]] = Counter()
    for *values, count in _read(services, sa.select(tenant_count)):
        found[tuple(values)] += count
    return Counter({values: count for values, count in found.items() if count})


def _read(services: Services, query: sa.Select[tuple[object, ...]]) -> list[tuple[object, ...]]:
    engine = sync_engine(services.settings.catalog)
    with engine.connect() as connection:
        rows = [tuple(row) for row in connection.execute(query)]
    engine.dispose()
    return rows


async def change_everything(services: Services, gate: Gate) -> None:
    """Create, migrate, fail, suspend, delete, undelete and purge."""
    ctx = system_context("ada")
    made = await gates.tenants(services, 6)
    gate.build()
    gate.open()
    spoil(services, made[1])
    run = await services.fleet.plan(ctx, triggered_by="ada", options=RunOptions())
    await services.fleet.wait(run)
    await services.lifecycle.update(ctx, made[2], is_read_only=True)
    for one in made[3:]:
        suspended = await services.lifecycle.update(ctx, one, is_active=False)
        await services.deletion.delete(ctx, suspended, name=one.name)
    await services.deletion.undelete(ctx, await _deleted(services, made[4].name), name=None)
    gone = await _deleted(services, made[5].name)
    await services.deletion.purge(ctx, gone, name=gone.name)


async def _deleted(services: Services, name: str) -> tenants.Tenant:
    return await deleted_tenants.get_by_name(services.catalog, name)


class TestCounts:
    @pytest.mark.slow
    async def test_are_those_of_the_rows_after_every_change(self, gated: Settings, gate: Gate):
        async with open_services(gated) as services:
            await change_everything(services, gate)

            counted = by_counts(services)

            assert counted == by_rows(services)
            assert {values[1] for values in counted} == {"ready", "deleted"}
            assert any(values[5] for values in counted)
            deleted = await deleted_tenants.page(services.catalog, Window())
            assert deleted.total_count == len(deleted.items) == 1

    @pytest.mark.slow
    async def test_are_the_totals_of_filtered_lists(self, gated: Settings, gate: Gate):
        async with open_services(gated) as services:
            await change_everything(services, gate)
            (first, *_) = (await tenant_list.page(services.catalog, Window())).items
            chosen = [
                Filters(),
                Filters(is_active=True),
                Filters(is_active=False),
                Filters(is_read_only=True),
                Filters(is_read_only=False, is_active=True),
                Filters(is_failing=True),
                Filters(is_failing=False, server_name="default"),
                Filters(schema_revision=first.schema_revision),
                Filters(server_name="elsewhere"),
            ]

            pages = [
                await tenant_list.page(services.catalog, Window(), filters=one) for one in chosen
            ]

            assert [one.total_count for one in pages] == [len(one.items) for one in pages]
            assert [one.total_count for one in pages[:6]] == [4, 3, 1, 1, 2, 1]

    async def test_are_merged_without_a_change_of_the_sums(self, settings: Settings):
        """Also if several processes merge them, and a tenant is changed, at the same time."""
        async with open_services(settings) as services:
            made = (await gates.tenants(services, 1))[0]
            for active in [False, True] * 5:
                made = await services.lifecycle.update(
                    system_context("ada"), made, is_active=active
                )
            rows = await services.catalog.fetch_one(_ROWS)
            before = by_counts(services)

            await asyncio.gather(
                *(tenant_counts.merge(services.catalog, rows_min=2) for _ in range(4)),
                services.lifecycle.update(system_context("ada"), made, is_read_only=True),
            )
            await tenant_counts.merge(services.catalog, rows_min=2)
            merged = await services.catalog.fetch_one(_ROWS)

            assert rows is not None
            is_sqlite = settings.catalog.startswith("sqlite")
            assert rows.count > 20 or is_sqlite
            assert before == Counter({next(iter(before)): 1})
            assert by_counts(services) == by_rows(services)
            assert merged == Count(1)
            assert await tenant_counts.total(services.catalog, Filters(is_read_only=True)) == 1
            assert await tenant_counts.total(services.catalog, state=TenantState.DELETED) == 0


class TestDoctor:
    @pytest.mark.parametrize(
        "sql",
        [
            "DELETE FROM tenant_count",
            "UPDATE tenant_count SET tenants = tenants + 1",
            "DELETE FROM tenant_name",
            "UPDATE tenant_name SET canonical_name = 'other'",
        ],
    )
    async def test_finds_wrong_counts_and_says_how_to_correct_them(
        self, settings: Settings, sql: str
    ):
        async with open_services(settings, works=False) as services:
            await gates.tenants(services, 1)
            assert await _findings(services) == []
            await asyncio.to_thread(raw_sql.run, settings.catalog, sql)

            [finding] = await _findings(services)
            assert finding.state is State.FAILED
            assert finding.advice is not None
            corrections = finding.advice.partition("run: ")[2].split("; ")
            await asyncio.to_thread(raw_sql.run, settings.catalog, *corrections)

            assert await _findings(services) == []
            assert by_counts(services) == by_rows(services)
            found = await tenant_list.page(services.catalog, Window(), search="tenant")
            assert len(found.items) == found.total_count == 1


async def _findings(services: Services) -> list[Finding]:
    found = await check_leftovers(services.settings, services.catalog)
    return [one for one in found if one.check == "tenant counts"]
