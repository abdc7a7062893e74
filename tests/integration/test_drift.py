"""Drift: a tenant's schema is compared with what its revisions define."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from typing import Any

import httpx
import pytest

from tenantry.catalog import drift
from tenantry.catalog.job_queue import DRIFT
from tenantry.catalog.tenants import Tenant
from tenantry.db.copying.schema_listing import (
    OBJECTS_MAX,
    TEXT_CHARS_MAX,
    Difference,
    SchemaObject,
    SchemaTooLarge,
    differences,
    objects_in,
)
from tenantry.db.urls import sqlite_path
from tenantry.fleet.drift import DriftReport
from tenantry.kit.context import system_context
from tenantry.kit.pages import Window
from tenantry.services import Services, open_services
from tenantry.settings import Settings
from testkit import raw_sql
from testkit.revisions import AlembicFolder
from tests.black_hole import BlackHole, black_hole
from tests.conftest import World
from tests.integration.engines import on_postgresql, on_sqlite
from tests.integration.gates import tenants, url_of
from tests.integration.queued import JOBS, TENANTS, done, ended
from tests.own_time import own_seconds

CHECK, LIST = "/api/admin/drift/check", "/api/admin/drift"
STATUS, MAP = f"{TENANTS}/schema-status", f"{TENANTS}/map"
SHOP = """
op.create_table(
    "item",
    sa.Column("id", sa.Integer, primary_key=True),
    sa.Column("name", sa.String(80), nullable=False, server_default="new"),
    sa.Column("parent_id", sa.ForeignKey("item.id", name="fk_item_parent")),
    sa.UniqueConstraint("name", name="uq_item_name"),
    sa.CheckConstraint("id > 0", name="ck_item_id"),
)
op.create_index("ix_item_parent_id", "item", ["parent_id"])
op.execute("CREATE VIEW named AS SELECT name FROM item")
"""
SHOP_ON_POSTGRESQL = """
op.execute("CREATE TYPE mood AS ENUM ('sad', 'happy')")
op.execute("CREATE FUNCTION two() RETURNS integer LANGUAGE sql AS 'SELECT 2'")
op.execute("CREATE SEQUENCE numbers")
"""
NAME = "character varying(80)"
# A change of a database, and the difference that it makes.
ON_POSTGRESQL = [
    (
        "ALTER TABLE item ALTER parent_id TYPE bigint",
        ("column", "item.parent_id", "integer", "bigint"),
    ),
    (
        "ALTER TABLE item ALTER name DROP NOT NULL",
        ("column", "item.name", f"{NAME} NOT NULL DEFAULT", f"{NAME} DEFAULT"),
    ),
    (
        "ALTER TABLE item DROP CONSTRAINT ck_item_id",
        ("constraint", "item.ck_item_id", "CHECK", None),
    ),
    (
        "ALTER TABLE item DROP CONSTRAINT fk_item_parent",
        ("constraint", "item.fk_item_parent", "FOREIGN KEY REFERENCES public.item", None),
    ),
    ("ALTER TYPE mood ADD VALUE 'odd'", ("enum", "mood", "sad, happy", "sad, happy, odd")),
    ("DROP FUNCTION two()", ("function", "two()", "integer", None)),
    ("DROP SEQUENCE numbers", ("sequence", "numbers", "", None)),
    (
        "UPDATE pg_index SET indisvalid = false WHERE indexrelid = 'ix_item_parent_id'::regclass",
        ("index", "ix_item_parent_id", "ON item (parent_id)", "ON item (parent_id) INVALID"),
    ),
    (
        """CREATE TRIGGER own BEFORE UPDATE ON item
        FOR EACH ROW EXECUTE FUNCTION suppress_redundant_updates_trigger()""",
        ("trigger", "item.own", None, ""),
    ),
]


@pytest.fixture(name="shops")
async def _shops(settings: Settings, folder: AlembicFolder, engine: str) -> AsyncIterator[Services]:
    """A fleet whose tenants have tables of the user's."""
    folder.add("u1_shop", SHOP + (SHOP_ON_POSTGRESQL if engine == "postgresql" else ""))
    changed = settings.model_copy(update={"tenant_migrations": folder.begin()})
    async with open_services(changed) as services:
        yield services


@pytest.fixture(name="admin")
async def _admin(world: World) -> AsyncIterator[httpx.AsyncClient]:
    async with await world.admin() as client:
        yield client


async def checked(services: Services, tenant: Tenant | None = None) -> DriftReport:
    report = DriftReport()
    await services.drift.check(system_context("test"), report, only=tenant)
    return report


async def drifted(services: Services) -> dict[str, list[tuple[str, str, str | None, str | None]]]:
    page = await drift.page(services.catalog, Window(1, 100))
    return {
        one.name: [(d.kind, d.name.removeprefix("public."), d.expected, d.found) for d in found]
        for one in page.items
        if (found := one.differences)
    }


async def databases(services: Services) -> set[str]:
    names = await services.databases.server("default").names("tenantry_")
    return {name for name in names if "template" not in name}


class TestCheck:
    async def test_finds_nothing_in_tenants_as_they_were_created(self, shops: Services):
        await tenants(shops, 3)

        assert str(await checked(shops)) == (
            "3 compared, 0 drifted, 0 not at the head, 0 not readable"
        )
        assert await drifted(shops) == {}

    async def test_names_what_is_missing_what_is_not_defined_and_what_is_different(
        self, shops: Services
    ):
        made = await tenants(shops, 3)
        raw_sql.run(
            url_of(shops, made[1]),
            "DROP INDEX ix_item_parent_id",
            "ALTER TABLE item ADD COLUMN extra integer",
            "CREATE INDEX ix_own ON item (extra, name)",
            "DROP VIEW named",
        )

        report = await checked(shops)

        assert (report.compared, report.drifted) == (3, 1)
        assert await drifted(shops) == {
            "tenant01": [
                ("column", "item.extra", None, "INTEGER" if _is_sqlite(shops) else "integer"),
                *(
                    []
                    if _is_sqlite(shops)
                    else [("column", "named.name", "character varying(80)", None)]
                ),
                ("index", "ix_item_parent_id", "ON item (parent_id)", None),
                ("index", "ix_own", None, "ON item (extra, name)"),
                ("view", "named", "", None),
            ]
        }

    @on_postgresql
    async def test_compares_on_postgresql(self, shops: Services):
        """Each change in a tenant of its own."""
        made = await tenants(shops, len(ON_POSTGRESQL))
        for tenant, (change, _) in zip(made, ON_POSTGRESQL, strict=True):
            raw_sql.run(url_of(shops, tenant), change)

        await checked(shops)

        found = await drifted(shops)
        assert {one.name for one in made} == found.keys()
        for tenant, (change, difference) in zip(made, ON_POSTGRESQL, strict=True):
            assert difference in found[tenant.name], change

    @on_postgresql
    async def test_calls_no_function_of_the_tenant(self, world: World, admin: httpx.AsyncClient):
        """With fitting types, it would take the place of one of PostgreSQL's own."""
        for signature in ("format(text, name, name)", "starts_with(name, text)"):
            raw_sql.run(
                url_of(world.services, world.acme.tenant),
                f"CREATE FUNCTION {signature} RETURNS text LANGUAGE plpgsql AS "
                "$$ BEGIN RAISE EXCEPTION 'called'; END $$",
            )

        job = await done(admin, CHECK)
        backup = await done(admin, f"{TENANTS}/{world.acme.tenant.id}/backup")

        assert job["note"] == "2 compared, 1 drifted, 0 not at the head, 0 not readable"
        assert backup["state"] == "done"

    @on_sqlite
    async def test_compares_constraints_of_a_table_on_sqlite(self, shops: Services):
        (tenant,) = await tenants(shops, 1)
        raw_sql.run(
            url_of(shops, tenant),
            "DROP TABLE item",
            "CREATE TABLE item (id INTEGER NOT NULL PRIMARY KEY, name TEXT, parent_id INTEGER)",
            "CREATE INDEX ix_item_parent_id ON item (parent_id)",
            "CREATE TRIGGER own AFTER DELETE ON item BEGIN SELECT 1; END",
        )

        await checked(shops)

        assert (await drifted(shops))["tenant00"] == [
            ("column", "item.name", "VARCHAR(80) NOT NULL DEFAULT", "TEXT"),
            ("constraint", "item (name)", "UNIQUE", None),
            ("constraint", "item.parent_id", "FOREIGN KEY REFERENCES item", None),
            ("trigger", "item.own", None, ""),
        ]

    async def test_forgets_what_was_mended(self, shops: Services):
        (tenant,) = await tenants(shops, 1)
        raw_sql.run(url_of(shops, tenant), "CREATE TABLE own (id INTEGER)")
        await checked(shops)
        assert "tenant00" in await drifted(shops)

        raw_sql.run(url_of(shops, tenant), "DROP TABLE own")
        await checked(shops)

        assert await drifted(shops) == {}

    async def test_of_one_tenant_leaves_the_others_as_they_were(self, shops: Services):
        made = await tenants(shops, 2)
        for tenant in made:
            raw_sql.run(url_of(shops, tenant), "CREATE TABLE own (id INTEGER)")

        report = await checked(shops, made[0])

        assert (report.compared, report.drifted) == (1, 1)
        assert list(await drifted(shops)) == ["tenant00"]

    async def test_leaves_out_tenants_that_are_not_at_the_head(
        self, shops: Services, folder: AlembicFolder
    ):
        await tenants(shops, 2)
        folder.add("u2_more", "op.add_column('item', sa.Column('more', sa.Integer))")

        report = await checked(shops)

        assert (report.compared, report.not_at_head, report.drifted) == (0, 2, 0)

    async def test_goes_by_the_database_and_not_by_the_index(self, shops: Services):
        """A tenant that another process has just migrated has the newer schema, and no drift."""
        made = await tenants(shops, 2)
        raw_sql.run(url_of(shops, made[0]), "UPDATE alembic_version SET version_num = 'u0'")

        report = await checked(shops)

        assert (report.compared, report.not_at_head, report.drifted) == (1, 1, 0)

    async def test_names_tenants_that_cannot_be_read_and_compares_the_others(self, shops: Services):
        made = await tenants(shops, 3)
        await shops.databases.server("default").drop(made[1].database_name)

        report = await checked(shops)

        assert (report.compared, report.unreadable_count) == (2, 1)
        assert report.unreadable[0][0] == "tenant01"
        assert "database" in report.unreadable[0][1]

    @on_postgresql
    @pytest.mark.slow
    async def test_of_a_server_that_falls_silent_waits_for_it_once(
        self, server_url: str, settings: Settings
    ):
        async with black_hole(server_url) as hole:
            changes = {"tenant_server_url": hole.url, "connect_timeout_s": 2.0}
            changed = Settings(**{**settings.model_dump(), **changes, "migrate_concurrency": 1})
            async with open_services(changed) as services:
                made = await tenants(services, 9)
                report = _Silencing(hole)
                with own_seconds() as seconds:
                    await services.drift.check(system_context("test"), report)
                    took = seconds()

                assert (report.compared, report.unreadable_count) == (1, len(made) - 1)
                assert took < len(made[1:]) * changed.connect_timeout_s, "not once for each"

    async def test_leaves_no_database(self, shops: Services):
        await tenants(shops, 1)
        before = await databases(shops)

        await checked(shops)

        assert await databases(shops) == before

    async def test_with_a_broken_revision_names_it_for_every_tenant(
        self, shops: Services, folder: AlembicFolder
    ):
        made = await tenants(shops, 2)
        before = await databases(shops)
        folder.add("u2_broken", "op.execute('SELECT FROM nothing_here')")
        for tenant in made:
            raw_sql.run(url_of(shops, tenant), "UPDATE alembic_version SET version_num = 'u2'")
        head = str(shops.streams().head)
        await asyncio.to_thread(
            raw_sql.run, shops.settings.catalog, f"UPDATE tenant SET schema_revision = '{head}'"
        )

        report = await checked(shops)

        assert report.unreadable_count == 2
        assert "u2_broken" in report.unreadable[0][1]
        async with asyncio.timeout(60):
            while await databases(shops) != before:  # noqa: ASYNC110 - housekeeping drops it
                await asyncio.sleep(0.1)

    async def test_finds_nothing_after_a_restore(self, world: World, admin: httpx.AsyncClient):
        """A dump and a restore write expressions anew; they are not compared."""
        backup = await done(admin, f"{TENANTS}/{world.acme.tenant.id}/backup")
        name = backup["archive"].rpartition("/")[2]
        await done(admin, "/api/admin/archives/restore", archive=name, name="copy")

        job = await done(admin, CHECK)

        assert job["note"] == "3 compared, 0 drifted, 0 not at the head, 0 not readable"


class TestOverHttp:
    async def test_a_tenant_that_cannot_be_read_is_named(
        self, world: World, admin: httpx.AsyncClient
    ):
        acme = world.acme.tenant
        await world.services.databases.server("default").drop(acme.database_name)

        job = await done(admin, CHECK)

        counts, _, named = job["note"].partition("; ")
        assert counts == "1 compared, 0 drifted, 0 not at the head, 1 not readable"
        assert named.startswith("acme: The database ")

    async def test_a_drifted_tenant_is_listed_counted_and_on_the_map(
        self, world: World, admin: httpx.AsyncClient
    ):
        acme = world.acme.tenant
        raw_sql.run(url_of(world.services, acme), "CREATE TABLE own (id INTEGER)")

        job = await done(admin, CHECK)

        assert (job["kind"], job["state"]) == ("drift", "done")
        assert job["note"] == "2 compared, 1 drifted, 0 not at the head, 0 not readable"
        (listed,) = (await data(admin, LIST))["items"]
        assert (listed["customerName"], listed["differences"][0]["kind"]) == ("acme", "column")
        status = await data(admin, STATUS)
        assert (status["total"], status["upToDate"], status["drifted"]) == (2, 2, 1)
        assert [one["drifted"] for one in status["revisions"]] == [1]
        on_map = {one["name"]: one["driftedAt"] for one in (await data(admin, MAP))["items"]}
        shown = await data(admin, f"{TENANTS}/{acme.id}")
        assert on_map == {"acme": shown["driftedAt"], "globex": None}
        assert shown["driftedAt"] is not None

    @on_sqlite
    async def test_the_counts_are_read_from_the_few_that_have_drifted(self, world: World):
        """Without reading a million rows: SQLite has no statistics to choose by."""
        sql = drift.BY_REVISION.sqlite.sql.replace("?", "''")
        plan = raw_sql.rows(world.services.settings.catalog, f"EXPLAIN QUERY PLAN {sql}")

        assert "ix_tenant_drifted" in plan[0][3]

    async def test_one_tenant_is_checked_alone_and_shown(
        self, world: World, admin: httpx.AsyncClient
    ):
        of = f"{TENANTS}/{world.acme.tenant.id}/drift"
        assert await data(admin, of) == {"drift": None}
        raw_sql.run(url_of(world.services, world.acme.tenant), "CREATE TABLE own (id INTEGER)")

        job = await done(admin, f"{of}/check")

        assert (job["tenantName"], job["note"][:22]) == ("acme", "1 compared, 1 drifted,")
        shown = (await data(admin, of))["drift"]
        assert {"kind": "table", "name": _named(world, "own"), "expected": None, "found": ""} in (
            shown["differences"]
        )

    async def test_it_is_in_the_audit_log_with_the_admin(self, admin: httpx.AsyncClient):
        job = await done(admin, CHECK)

        entries = (await data(admin, "/api/admin/audit-log"))["items"]
        found = [one for one in entries if one["target"] == job["id"]]
        assert [one["action"] for one in found] == ["drift.check", "drift.queue"]
        assert {one["actor"] for one in found} == {"ada@example.com"}

    async def test_a_suspended_tenant_is_checked_and_not_counted_twice(
        self, world: World, admin: httpx.AsyncClient
    ):
        acme = world.acme.tenant
        raw_sql.run(url_of(world.services, acme), "CREATE TABLE own (id INTEGER)")
        await admin.patch(f"{TENANTS}/{acme.id}", json={"isActive": False})

        await done(admin, CHECK)

        status = await data(admin, STATUS)
        assert (status["total"], status["suspended"], status["drifted"]) == (1, 1, 0)
        assert (await data(admin, LIST))["totalCount"] == 1

    async def test_a_job_that_another_process_has_queued_is_run(
        self, world: World, settings: Settings
    ):
        changed = settings.model_copy(update={"job_concurrency": 0})
        async with open_services(changed, works=False) as idle:
            await idle.queue.add(system_context("test"), DRIFT)
        async with await world.admin() as admin:
            (job,) = (await data(admin, JOBS))["items"]
            assert (await ended(admin, job["id"]))["state"] == "done"


class _Silencing(DriftReport):
    """Silences a server after the first tenant."""

    def __init__(self, hole: BlackHole) -> None:
        super().__init__()
        self._hole = hole

    def add(self, tenant: Tenant, found: Sequence[Difference] | Exception) -> None:
        super().add(tenant, found)
        self._hole.fall_silent()


class TestObjects:
    def test_of_a_schema_have_a_limit(self):
        rows = [("table", str(number), "") for number in range(OBJECTS_MAX + 1)]

        assert len(objects_in(rows[1:])) == OBJECTS_MAX
        with pytest.raises(SchemaTooLarge):
            objects_in(rows)


class TestDifferences:
    def test_of_equal_schemas_are_none(self):
        objects = [SchemaObject("table", "a", ""), SchemaObject("column", "a.b", "text")]

        assert differences(objects, reversed(objects)) == []

    def test_of_one_name_are_one_difference(self):
        """A function has a name for several lists of parameters; a column several keys."""
        expected = [SchemaObject("constraint", "a.b", "REFERENCES c")]
        found = [SchemaObject("constraint", "a.b", f"REFERENCES {one}") for one in "ed"]

        assert differences(expected, found) == [
            Difference("constraint", "a.b", "REFERENCES c", "REFERENCES d; REFERENCES e")
        ]

    def test_texts_are_bounded(self):
        (found,) = differences([], [SchemaObject("table", "x" * 1_000, "y" * 1_000)])

        assert (len(found.name), len(found.found or "")) == (TEXT_CHARS_MAX, TEXT_CHARS_MAX)


async def data(admin: httpx.AsyncClient, path: str) -> Any:
    answer = await admin.get(path)
    assert answer.status_code == 200, answer.text
    return answer.json()["data"]


def _is_sqlite(services: Services) -> bool:
    return sqlite_path(services.settings.servers["default"].address) is not None


def _named(world: World, table: str) -> str:
    return table if _is_sqlite(world.services) else f"public.{table}"
