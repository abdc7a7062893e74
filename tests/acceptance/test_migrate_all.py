"""POST /api/admin/tenants/migrate-all."""

import asyncio
import sqlite3
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import psycopg
import pytest

from tenantry.fleet.lifecycle import Provisioned
from tenantry.settings import Settings
from testkit.raw_sql import Raw
from tests.acceptance.migrations import Migrations
from tests.acceptance.shapes import MIGRATION_RESULT, instant, must_be
from tests.acceptance.support import (
    HISTORY,
    MIGRATE_ALL,
    POSTS,
    PROFILE,
    TENANTS,
    database_of,
    encoded,
    ok,
    patch_tenant,
    refused,
    session,
    until,
)
from tests.conftest import HEAD, HEAD_NAME, UNDO_HEAD, World


async def migrate_all(world: World) -> Any:
    """Return the data of a call, which must add up."""
    data = ok(await (await world.admin()).post(MIGRATE_ALL))
    must_be(data, MIGRATION_RESULT)
    assert data["total"] == data["success"] + data["failed"] == len(data["details"])
    statuses = [detail["status"] for detail in data["details"]]
    assert statuses.count("success") == data["success"]
    for detail in data["details"]:
        assert (detail["error"] is None) == (detail["status"] == "success")
    return data


async def last_run(world: World) -> Any:
    admin = await world.admin()
    return ok(await admin.get(HISTORY, params={"pageSize": 1}))["items"][0]


async def details_of_last_run(world: World) -> dict[str, Any]:
    return {one["customerName"]: one for one in (await last_run(world))["details"]}


def statuses_of(data: Any) -> dict[str, str]:
    return {one["customerName"]: one["status"] for one in data["details"]}


async def disconnected(world: World, of: Provisioned) -> Raw:
    """Close the service's connections to a tenant's database, and return it."""
    await world.services.databases.forget(of.tenant.id)
    return database_of(world, of.tenant)


class TestMigrateAll:
    async def test_returns_a_result_for_every_active_tenant(self, world: World) -> None:
        """A MigrationResultResponse: a tenant at the head is a success."""
        data = await migrate_all(world)

        assert (data["total"], data["success"], data["failed"]) == (2, 2, 0)
        assert {
            (one["customerId"], one["customerName"], one["status"], one["error"])
            for one in data["details"]
        } == {
            (str(world.acme.tenant.id), "acme", "success", None),
            (str(world.globex.tenant.id), "globex", "success", None),
        }
        for detail in (await details_of_last_run(world)).values():
            assert detail["appliedMigrations"] is None

    async def test_leaves_suspended_tenants_alone(self, world: World) -> None:
        """They are not in the run; with none active there is a run over nothing."""
        await patch_tenant(world, world.globex, isActive=False)
        one = await migrate_all(world)
        await patch_tenant(world, world.acme, isActive=False)
        none = await migrate_all(world)

        assert statuses_of(one) == {"acme": "success"}
        assert none == {"total": 0, "success": 0, "failed": 0, "details": []}
        run = await last_run(world)
        assert run["totalCount"] == 0
        assert run["finishedAt"] is not None

    async def test_brings_a_tenant_that_is_behind_to_the_head(self, world: World) -> None:
        """Its own revisions by the names of their files, and requests are served again."""
        raw = await disconnected(world, world.acme)
        for sql in UNDO_HEAD:
            raw.run(sql)

        data = await migrate_all(world)

        assert statuses_of(data) == {"acme": "success", "globex": "success"}
        details = await details_of_last_run(world)
        assert details["acme"]["appliedMigrations"] == HEAD_NAME
        assert details["globex"]["appliedMigrations"] is None
        assert raw.run("SELECT version_num FROM tenantry_version") == [(HEAD,)]
        ok(await world.public(world.acme).get(POSTS))
        await migrate_all(world)
        assert (await details_of_last_run(world))["acme"]["appliedMigrations"] is None

    async def test_takes_any_empty_body(self, world: World) -> None:
        """The operation needs no body; one that is sent must not have unknown members."""
        admin = await world.admin()

        for content_type in (None, "text/plain", "application/x-www-form-urlencoded", "nonsense"):
            headers = {"content-type": content_type} if content_type else {}
            ok(await admin.post(MIGRATE_ALL, headers=headers))
            ok(await admin.post(MIGRATE_ALL, content=b"", headers=headers))
        ok(await admin.post(MIGRATE_ALL, json={}))
        runs = ok(await admin.get(HISTORY))["totalCount"]
        for body in ({"dryrun": True}, {"dryRunn": True}, {"tenants": []}, [], "all", 1, None):
            refused(await admin.post(MIGRATE_ALL, content=encoded(body)), 400)
        refused(await admin.post(MIGRATE_ALL, content=b"{"), 400)
        refused(
            await admin.post(MIGRATE_ALL, content=b"{}", headers={"content-type": "text/plain"}),
            415,
        )

        assert ok(await admin.get(HISTORY))["totalCount"] == runs

    async def test_goes_on_when_the_caller_goes_away(self, world: World) -> None:
        """A call that is cut off is a run all the same, and it ends."""
        admin = await world.admin()
        for pause in (0, 0.005, 0.02):
            call = asyncio.create_task(admin.post(MIGRATE_ALL))
            await asyncio.sleep(pause)
            call.cancel()
            await asyncio.wait([call])
        planned = ok(await admin.get(HISTORY))["totalCount"]

        await ended(world)

        history = ok(await admin.get(HISTORY))
        # The last one can be committed after its call was cut off.
        assert planned <= history["totalCount"] <= 3
        assert all(run["successCount"] == run["totalCount"] == 2 for run in history["items"])


class TestBrokenTenants:
    @pytest.mark.slow
    async def test_fail_alone(self, world: World, engine: str) -> None:
        """200, with the failure counted and reported; the others are migrated."""
        broken = {
            name: await world.provision(name)
            for name in ("missing", "unknown", "twofold", "empty", "tableless")
        }
        raws = {name: await disconnected(world, of) for name, of in broken.items()}
        raws["missing"].destroy()
        raws["unknown"].run("UPDATE tenantry_version SET version_num = 'f00f'")
        raws["twofold"].run("INSERT INTO tenantry_version VALUES ('0001')")
        raws["empty"].run("DELETE FROM tenantry_version")
        raws["tableless"].run("DROP TABLE tenantry_version")
        if engine == "sqlite":
            corrupt = await disconnected(world, await world.provision("corrupt"))
            corrupt.destroy()
            assert corrupt.path is not None
            corrupt.path.write_bytes(b"this is no database" * 1_000)
            broken["corrupt"] = broken["missing"]

        data = await migrate_all(world)

        assert statuses_of(data) == {
            "acme": "success",
            "globex": "success",
            **dict.fromkeys(broken, "failed"),
        }
        assert data["failed"] == len(broken)
        run = await last_run(world)
        assert (run["successCount"], run["failedCount"]) == (2, len(broken))
        details = {one["customerName"]: one for one in run["details"]}
        for name in broken:
            detail = details[name]
            assert detail["status"] == "Failed"
            assert detail["appliedMigrations"] == ""
            assert detail["errorMessage"].endswith(".")
            assert instant(detail["startedAt"]) <= instant(detail["finishedAt"])
        errors_by_name = {one["customerName"]: one["error"] for one in data["details"]}
        assert {name: details[name]["errorMessage"] for name in details} == errors_by_name
        assert "does not exist" in errors_by_name["missing"]
        assert "f00f" in errors_by_name["unknown"]
        for name in ("acme", "globex"):
            assert details[name]["appliedMigrations"] is None
            assert details[name]["errorMessage"] is None
        text = str(data)
        assert "postgresql://" not in text
        assert "/tenants/" not in text
        path = raws["missing"].path
        assert path is None or not path.exists()  # reading does not create it
        ok(await world.public(world.acme).get(POSTS))
        refused(await world.public(broken["missing"]).get(POSTS), 503)

    async def test_succeed_when_they_are_mended(self, world: World) -> None:
        """The next call tries again what failed in the one before."""
        raw = await disconnected(world, world.acme)
        raw.run("UPDATE tenantry_version SET version_num = 'f00f'")
        assert statuses_of(await migrate_all(world)) == {"acme": "failed", "globex": "success"}

        raw.run(f"UPDATE tenantry_version SET version_num = '{HEAD}'")

        assert statuses_of(await migrate_all(world)) == {"acme": "success", "globex": "success"}


class WithMigrations:
    @pytest.fixture(name="mine")
    def _mine(self, tmp_path: Path) -> Migrations:
        return Migrations(tmp_path / "mine")

    @pytest.fixture(name="settings")
    def _settings(self, settings: Settings, mine: Migrations) -> Settings:
        return settings.model_copy(update={"tenant_migrations": mine.begin()})


class TestOwnMigrations(WithMigrations):
    @pytest.mark.slow
    async def test_are_applied_in_order_and_named(self, world: World, mine: Migrations) -> None:
        """By the stems of their files, with commas, once; null when nothing was pending."""
        await migrate_all(world)
        assert (await details_of_last_run(world))["acme"]["appliedMigrations"] is None
        mine.add_table("aa1_create_pets", "pets")
        mine.add_table("zz9_create_toys", "toys")
        mine.add_table("bb2_create_games", "games")

        data = await migrate_all(world)

        assert (data["success"], data["failed"]) == (2, 0)
        run = await last_run(world)
        for detail in run["details"]:
            names = detail["appliedMigrations"]
            assert names == "aa1_create_pets,zz9_create_toys,bb2_create_games"
        for of in (world.acme, world.globex):
            raw = database_of(world, of.tenant)
            assert {"pets", "toys", "games"} <= raw.tables()
            assert raw.run("SELECT version_num FROM alembic_version") == [("bb2",)]
        await migrate_all(world)
        assert (await details_of_last_run(world))["acme"]["appliedMigrations"] is None
        born_later = await world.provision("later")
        assert {"pets", "toys", "games"} <= database_of(world, born_later.tenant).tables()
        admin = await world.admin()
        shown = ok(await admin.get(f"{TENANTS}/{world.acme.tenant.id}"))
        assert shown["schemaRevision"] == f"{HEAD}/bb2"
        assert ok(await admin.get(TENANTS, params={"revision": f"{HEAD}/bb2"}))["totalCount"] == 3

    async def test_leave_a_tenant_where_it_was_when_one_fails(
        self, world: World, mine: Migrations
    ) -> None:
        """Nothing of the failed tenant stays, not even what succeeded before the failure."""
        database_of(world, world.acme.tenant).run("CREATE TABLE toys (id INTEGER)")
        mine.add_table("a1_create_pets", "pets")
        mine.add_table("a2_create_toys", "toys")

        data = await migrate_all(world)

        assert statuses_of(data) == {"acme": "failed", "globex": "success"}
        details = await details_of_last_run(world)
        assert details["acme"]["appliedMigrations"] == ""
        assert "toys" in details["acme"]["errorMessage"]
        assert details["globex"]["appliedMigrations"] == "a1_create_pets,a2_create_toys"
        acme = database_of(world, world.acme.tenant)
        assert "pets" not in acme.tables()
        logged = acme.run("SELECT revision FROM tenantry_migration_log WHERE stream = 'user'")
        assert logged == [("begin",)]
        owner = await session(world, world.acme)
        ok(await owner.get(PROFILE))

        acme.run("DROP TABLE toys")

        assert statuses_of(await migrate_all(world)) == {"acme": "success", "globex": "success"}
        details = await details_of_last_run(world)
        assert details["acme"]["appliedMigrations"] == "a1_create_pets,a2_create_toys"
        assert details["globex"]["appliedMigrations"] is None

    async def test_fail_readably_when_they_are_not_one_line(
        self, world: World, mine: Migrations
    ) -> None:
        """Several heads, an unreadable file, an exception: each is one sentence."""
        mine.add_table("a1_create_pets", "pets")
        mine.add_table("b1_create_toys", "toys", after="a1")
        forked = mine.add_table("c1_create_games", "games", after="a1")
        heads = await migrate_all(world)
        mine.remove(forked)
        wrong = mine.add("d1_wrong", "raise ValueError('canary of a revision')", after="b1")
        raised = await migrate_all(world)
        (mine.folder / "versions" / f"{wrong}.py").write_text("this is no Python")
        unreadable = await migrate_all(world)

        for data in (heads, raised, unreadable):
            assert statuses_of(data) == {"acme": "failed", "globex": "failed"}
        assert all("heads" in one["error"] for one in heads["details"])
        assert all("ValueError" in one["error"] for one in raised["details"])
        assert "canary of a revision" not in str(raised)
        assert all("cannot be read" in one["error"] for one in unreadable["details"])
        for one in (*heads["details"], *raised["details"], *unreadable["details"]):
            assert str(mine.folder) not in one["error"]
        assert "pets" not in database_of(world, world.acme.tenant).tables()

    async def test_are_reported_without_the_values_of_rows(
        self, world: World, mine: Migrations
    ) -> None:
        """An error holds the reason, and no value of the tenant's rows."""
        raw = database_of(world, world.acme.tenant)
        raw.run("CREATE TABLE notes (body VARCHAR(200))")
        for _ in range(2):
            raw.run("INSERT INTO notes VALUES ('canary of a row')")
        mine.add("a1_unique_notes", "op.create_index('ux', 'notes', ['body'], unique=True)")

        data = await migrate_all(world)

        assert statuses_of(data)["acme"] == "failed"
        history = (await (await world.admin()).get(HISTORY)).text
        assert "canary of a row" not in history
        assert "canary of a row" not in str(data)

    async def test_are_applied_once_by_four_calls_at_once(
        self, world: World, mine: Migrations
    ) -> None:
        """Each call is 200 and adds up; each revision ran once for each tenant."""
        mine.add_table("a1_create_pets", "pets")
        mine.add_slow("a2_take_a_while", 0.2)
        mine.add("a3_fill", "op.execute('INSERT INTO pets (id) VALUES (1)')")

        results = await asyncio.gather(*(migrate_all(world) for _ in range(4)))

        for data in results:
            assert (data["total"], data["success"], data["failed"]) == (2, 2, 0)
        history = ok(await (await world.admin()).get(HISTORY))
        assert history["totalCount"] == 4
        assert all(run["finishedAt"] for run in history["items"])
        for of in (world.acme, world.globex):
            raw = database_of(world, of.tenant)
            log = raw.run(
                "SELECT position, revision FROM tenantry_migration_log WHERE stream = 'user'"
            )
            applied = [revision for _, revision in sorted(log)]
            assert applied == ["begin", "a1_create_pets", "a2_take_a_while", "a3_fill"]
            assert raw.run("SELECT count(*) FROM pets") == [(1,)]
        applied = [
            detail["appliedMigrations"] for run in history["items"] for detail in run["details"]
        ]
        assert (
            sorted(one for one in applied if one) == ["a1_create_pets,a2_take_a_while,a3_fill"] * 2
        )


@pytest.mark.slow
class TestWithoutCaller(WithMigrations):
    @pytest.fixture(name="settings")
    def _settings(self, settings: Settings, mine: Migrations) -> Settings:
        # One tenant after the other, so that one has not begun when the caller is gone.
        changes = {"tenant_migrations": mine.begin(), "migrate_concurrency": 1}
        return settings.model_copy(update=changes)

    async def test_a_run_can_be_watched_and_ends(
        self, world: World, mine: Migrations, tmp_path: Path
    ) -> None:
        """While it runs it is in the history without an end; without its caller it ends."""
        mine.add_held("a1_take_a_while", go_on := tmp_path / "go_on")
        admin = await world.admin()
        call = asyncio.create_task(admin.post(MIGRATE_ALL))

        running = await begun(world)
        call.cancel()
        await asyncio.wait([call])
        served = await world.public(world.acme).get(POSTS)
        await ended(world, go_on.touch)

        assert call.cancelled()
        assert running["finishedAt"] is None
        assert (running["totalCount"], running["successCount"], running["failedCount"]) == (2, 0, 0)
        assert running["details"] == []
        ok(served)
        run = await last_run(world)
        assert run["id"] == running["id"]
        assert run["successCount"] == 2
        for detail in run["details"]:
            assert detail["appliedMigrations"] == "a1_take_a_while"


@pytest.mark.slow
class TestBlockedTenant(WithMigrations):
    @pytest.fixture(name="settings")
    def _settings(self, settings: Settings, mine: Migrations) -> Settings:
        changes = {
            "tenant_migrations": mine.begin(),
            "tenant_deadline_s": 6,
            "lock_timeout_ms": 100,
        }
        return settings.model_copy(update=changes)

    async def test_fails_alone_and_in_time(self, world: World, mine: Migrations) -> None:
        """A lock of another client fails one tenant, and delays the call for a bounded time."""
        mine.add("a1_add_a_column", "op.add_column('tenantry_post', sa.Column('x', sa.Integer))")
        began = time.monotonic()

        with locked(await disconnected(world, world.acme)):
            data = await migrate_all(world)

        assert time.monotonic() - began < 60
        assert statuses_of(data) == {"acme": "failed", "globex": "success"}
        assert (await details_of_last_run(world))["acme"]["appliedMigrations"] == ""
        assert statuses_of(await migrate_all(world)) == {"acme": "success", "globex": "success"}


class locked:  # noqa: N801 - a context manager
    """Holds the tables of a database."""

    def __init__(self, raw: Raw) -> None:
        self._raw = raw

    def __enter__(self) -> None:
        if self._raw.path is not None:
            self._held: Any = sqlite3.connect(self._raw.path, isolation_level=None)
            self._held.execute("BEGIN IMMEDIATE")
        else:
            self._held = psycopg.connect(self._raw.url)
            self._held.execute("LOCK TABLE tenantry_post IN ACCESS EXCLUSIVE MODE")

    def __exit__(self, *_: object) -> None:
        self._held.rollback()
        self._held.close()


async def begun(world: World) -> Any:
    """Return the first run, as soon as there is one."""
    admin = await world.admin()
    return (await until(lambda: history_of(admin), bool))[0]


async def history_of(admin: httpx.AsyncClient) -> Any:
    return ok(await admin.get(HISTORY))["items"]


async def ended(world: World, go_on: Callable[[], object] = lambda: None) -> None:
    """Wait until no run goes on; call *go_on* again and again."""
    admin = await world.admin()

    def has_ended(runs: Any) -> bool:
        go_on()
        return all(run["finishedAt"] for run in runs)

    await until(lambda: history_of(admin), has_ended)
