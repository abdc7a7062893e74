"""The audit log as a table: order, retention, and plans that stay quick when it is long."""

import sqlite3
from datetime import datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from tenantry.catalog import audit
from tenantry.catalog.tables import audit_entry
from tenantry.db import audit_log
from tenantry.db.audit_log import PRUNED_MAX, AuditEntry, AuditFilter
from tenantry.db.statements import Count, Statement
from tenantry.kit.clock import utc_now
from tenantry.kit.context import system_context
from tenantry.kit.ids import first_id_at, new_id, new_id_at
from tenantry.kit.pages import Window
from tenantry.services import Services, open_services
from tenantry.settings import Settings
from tenantry.tenant import audit as tenant_audit
from tenantry.tenant import tables
from tenantry.tenant.audit import Retention
from tests.acceptance.support import database_of, until
from tests.conftest import World
from tests.integration.engines import on_sqlite

FILTERS = ("actor", "action", "target", "tenant_id")
COUNT = Statement(sa.select(sa.func.count().label("count")).select_from(audit_entry), Count)


def entry(at: datetime, **others: Any) -> AuditEntry:
    values: dict[str, Any] = {
        "id": new_id_at(at),
        "at": at,
        "last_at": at,
        "count": 1,
        "actor": "ada@example.com",
        "action": "tenant.update",
        "target": "a target",
        "tenant_id": None,
        "address": "192.0.2.1",
        "command": None,
        "changes": [],
        "request_id": "a request",
    }
    return AuditEntry(**values | others)


async def count(services: Services) -> int:
    found = await services.catalog.fetch_one(COUNT)
    assert found is not None
    return found.count


class TestPrune:
    async def test_removes_the_oldest_a_bounded_number_at_a_time(self, settings: Settings):
        now = utc_now()
        old = [entry(now - timedelta(days=400, seconds=number)) for number in range(PRUNED_MAX + 5)]
        async with open_services(settings, works=False) as services:  # so that no other task prunes
            await audit.LOG.add_all(services.catalog, old)
            kept = await count(services) - len(old)

            await audit.LOG.prune(services.catalog, before=now - timedelta(days=365))
            after_one = await count(services)
            await audit.LOG.prune(services.catalog, before=now - timedelta(days=365))

            assert after_one == kept + 5
            assert await count(services) == kept

    async def test_is_done_by_a_process_that_serves(self, services: Services):
        await audit.LOG.add_all(services.catalog, [entry(utc_now() - timedelta(days=400))])
        oldest = AuditFilter(until=utc_now() - timedelta(days=365))

        async def total_count() -> int:
            return (await audit.LOG.page(services.catalog, Window(), oldest)).total_count

        assert await until(total_count, lambda count: not count) == 0


class TestPages:
    async def test_are_in_the_order_of_time_whatever_the_order_of_writing(self, services: Services):
        now = utc_now()
        times = [now - timedelta(minutes=minutes) for minutes in (5, 1, 9, 3)]
        await audit.LOG.add_all(services.catalog, [entry(at, action="some") for at in times])

        found = await audit.LOG.page(services.catalog, Window(1, 10), AuditFilter(action="some"))

        assert [one.at for one in found.items] == sorted(times, reverse=True)

    @on_sqlite
    @pytest.mark.parametrize("given", [(), *((name,) for name in FILTERS)])
    async def test_are_read_from_an_index_without_sorting(
        self, services: Services, given: tuple[str, ...]
    ):
        statements = audit.LOG.statements(given)
        values = dict.fromkeys(given, "x") | {"limit": 10, "offset": 900_000}
        values |= {"first": new_id(), "end": new_id()}
        if "tenant_id" in given:
            values["tenant_id"] = new_id()

        for statement in (statements.page, statements.older, statements.count):
            plan = _plan(services.settings.data_dir / "catalog.db", statement, values)

            # The rows of one page are put in order once more; all that it skips are not.
            assert plan.count("TEMP B-TREE") == (1 if statement is statements.page else 0)
            assert "SCAN audit_entry\n" not in plan
            for name in given:
                assert f"{name}=?" in plan, plan


class TestTenants:
    @pytest.fixture(name="settings")
    def _settings(self, settings: Settings) -> Settings:
        """Only the tests prune."""
        return settings.model_copy(update={"audit_days": 0})

    async def test_are_pruned_when_their_databases_are_open(self, world: World):
        """Within a bounded number of entries at a time, and again only after a while."""
        services, acme = world.services, world.acme.tenant
        retention = Retention(services.catalog, services.databases)
        database, now = await services.databases.open(acme, writes=True), utc_now()
        old = [entry(now - timedelta(days=400, seconds=one)) for one in range(PRUNED_MAX + 5)]
        limit = now - timedelta(days=365)
        prune = partial(tenant_audit.LOG.prune, before=limit)
        await tenant_audit.LOG.add_all(database, old)

        async def left() -> int:
            wanted = AuditFilter(until=limit, tenant_id=acme.id)
            return (await tenant_audit.LOG.page(database, Window(), wanted)).total_count

        counts = [await left()]
        for _ in range(2):
            await retention.prune(now=now, works=[prune])
            counts.append(await left())
        await tenant_audit.LOG.add_all(database, old[:1])
        for later in (timedelta(minutes=59), timedelta(minutes=61)):
            await retention.prune(now=now + later, works=[prune])
            counts.append(await left())

        assert counts == [PRUNED_MAX + 5, 5, 0, 1, 0]

    async def test_are_pruned_although_another_is_unavailable(self, world: World):
        services, now = world.services, utc_now()
        retention = Retention(services.catalog, services.databases)
        prune = partial(tenant_audit.LOG.prune, before=now - timedelta(days=365))
        for one in (world.acme, world.globex):
            database = await services.databases.open(one.tenant, writes=True)
            await tenant_audit.LOG.add_all(database, [entry(now - timedelta(days=400))])
        raw = [database_of(world, one.tenant) for one in (world.acme, world.globex)]
        raw[0].run("ALTER TABLE tenantry_audit RENAME TO audit_gone")

        await retention.prune(now=now, works=[prune])

        sql = "SELECT count(*) FROM {} WHERE actor = 'ada@example.com'"
        assert raw[0].run(sql.format("audit_gone")) == [(1,)]
        assert raw[1].run(sql.format("tenantry_audit")) == [(0,)]

    @pytest.mark.parametrize("given", [(), ("actor",), ("target",), ("actor", "action")])
    def test_are_read_from_an_index(self, tmp_path: Path, given: tuple[str, ...]):
        path = tmp_path / "tenant.db"
        tables.metadata.create_all(engine := sa.create_engine(f"sqlite:///{path}"))
        engine.dispose()
        statements = tenant_audit.LOG.statements(given)
        values = dict.fromkeys(given, "x") | {"limit": 10, "offset": 900_000}
        values |= {"first": new_id(), "end": new_id(), "tenant_id": new_id()}

        for statement in (statements.page, statements.older, statements.count):
            plan = _plan(path, statement, values)

            assert plan.count("TEMP B-TREE") == (1 if statement is statements.page else 0)
            assert "SCAN tenantry_audit\n" not in plan


class TestEntries:
    def test_repeat_no_more_of_a_value_than_a_bounded_number_of_characters(self):
        context = system_context("test")
        made = audit_log.new_entry(context, action="tenant.update", target="x" * 10_000)

        assert len(made.target) == audit_log.TARGET_CHARS_MAX

    @pytest.mark.parametrize("year", [1, 1970, 2026, 9999])
    def test_of_any_time_have_a_place(self, year: int):
        at = datetime(year, 1, 1, tzinfo=utc_now().tzinfo)

        assert first_id_at(at) <= new_id_at(at)


def _plan(path: Path, statement: Statement[Any], values: dict[str, Any]) -> str:
    compiled = statement.sqlite
    with sqlite3.connect(path) as connection:
        rows = connection.execute(f"EXPLAIN QUERY PLAN {compiled.sql}", compiled.arguments(values))
        return "\n".join(row[3] for row in rows) + "\n"
