"""An outage of a server is not a failure of its tenants: they wait, and the run goes on."""

import asyncio
import contextlib
import random
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import UUID

import psycopg
import pytest

from tenantry.catalog import run_results, runs
from tenantry.catalog.activity import activity_of
from tenantry.catalog.runs import MigrationRun, MigrationState, RunTenant
from tenantry.catalog.tenants import Tenant
from tenantry.db.sessions import DatabaseUnavailable, retry_deadlock
from tenantry.db.urls import sqlite_path, with_database
from tenantry.fleet.run_options import RunOptions
from tenantry.kit.context import system_context
from tenantry.kit.ids import new_id
from tenantry.services import Services, open_services
from tenantry.settings import Settings
from tenantry.tenant.users import NewUser
from testkit import raw_sql
from testkit.hook_endpoint import endpoint
from testkit.postgres import Server, own_server
from testkit.revisions import AlembicFolder
from testkit.toxics import Proxy
from tests.conftest import HOST, PASSWORD, SECRET_KEY, World
from tests.integration.engines import on_postgresql, on_sqlite
from tests.integration.gates import url_of
from tests.own_time import own_seconds

pytestmark = pytest.mark.slow

TENANTS = 40
PROFILE = "/api/tenant/auth/profile"
RESUMED_SECONDS_MAX = 5.0
SOON_SECONDS_MAX = 60.0
"""Also on a busy machine, and far less than the patience with a server: five minutes."""
# So that the outage is in the middle of the run.
SLEEP_SECONDS = 0.15
SLOW = f"""
    op.execute("SELECT pg_sleep({SLEEP_SECONDS})")
    op.create_table("note", sa.Column("id", sa.Integer, primary_key=True))
    op.create_table("tag", sa.Column("id", sa.Integer, primary_key=True))
"""
LIVE = f"""
    op.get_bind().execute(sa.text("SELECT count(*) FROM tenantry_user")).scalar(){SLOW}"""
BLOCK = f"""
    with op.get_context().autocommit_block():
        op.execute("CREATE TABLE note (id int)")
        op.execute("SELECT pg_sleep({SLEEP_SECONDS})")
        op.execute("CREATE TABLE tag (id int)")
"""
NO_FAILURES = RunOptions(max_failures=0)


@pytest.fixture(name="away", scope="module")
def _away() -> Iterator[Server]:
    """A server that the tests stop and start."""
    with own_server() as server:
        yield server


@pytest.fixture(name="new_settings")
def _new_settings(
    tmp_path: Path, folder: AlembicFolder, new_database: Callable[[], str], away: Server
) -> Callable[..., Settings]:
    """Makes settings of a fleet on the server that goes away, with the catalog elsewhere."""

    def make(**more: Any) -> Settings:
        values: dict[str, Any] = {
            "data_dir": tmp_path / "data",
            "catalog_url": new_database(),
            "tenant_server_url": away.url,
            "secret_key": SECRET_KEY,
            "host": HOST,
            "tenant_migrations": folder.begin(),
            "connect_timeout_s": 2,
        }
        return Settings(**values | more)

    return make


@dataclass(frozen=True)
class Fleet:
    """Some tenants, of which each has a slow revision pending."""

    services: Services
    tenants: list[Tenant]

    async def begin(self, options: RunOptions = NO_FAILURES) -> UUID:
        return await self.services.fleet.plan(
            system_context("ada"), triggered_by="ada", options=options
        )

    async def done(self, run_id: UUID, count: int) -> MigrationRun:
        """Return the run when so many tenants have ended, or all."""
        while True:
            with contextlib.suppress(DatabaseUnavailable):
                run = await runs.get(self.services.catalog, run_id)
                if min(count, run.total_count) <= run.success_count + run.failed_count:
                    return run
            await asyncio.sleep(0.02)

    async def items(self, run_id: UUID) -> list[RunTenant]:
        return await runs.ended(self.services.catalog, run_id)

    def half_migrated(self) -> list[str]:
        """Return the tenants that have one of the revision's tables, and not the other."""
        halves = []
        for tenant in self.tenants:
            there = {"note", "tag"} & set(raw_sql.tables(url_of(self.services, tenant)))
            if len(there) == 1:
                halves.append(tenant.name)
        return halves


@asynccontextmanager
async def fleet_of(
    settings: Settings, folder: AlembicFolder, count: int = TENANTS, body: str = SLOW
) -> AsyncIterator[Fleet]:
    async with open_services(settings) as services:
        names = sorted(settings.servers)
        made = [
            await _provision(services, f"tenant{number:02}", names[number % len(names)])
            for number in range(count)
        ]
        folder.add("u1_create_notes", body)
        yield Fleet(services, made)


async def _provision(services: Services, name: str, server_name: str) -> Tenant:
    provisioned = await services.lifecycle.provision(
        system_context("test"),
        name=name,
        owner=NewUser(email=f"owner@{name}.example.com", full_name="Owner", password=PASSWORD),
        module_keys=None,
        server_name=server_name,
    )
    return provisioned.tenant


async def changed(raw: str, *statements: str) -> None:
    """Execute statements on a server, each outside a transaction."""
    async with await psycopg.AsyncConnection.connect(raw, autocommit=True) as connection:
        for statement in statements:
            await connection.execute(statement)  # type: ignore[arg-type]


async def cut(raw: str, databases: Sequence[str]) -> set[str]:
    """End the connections of migrations to some databases, and return those that had one."""
    sql = """
        SELECT datname, pg_terminate_backend(pid) FROM pg_stat_activity
        WHERE application_name = 'tenantry-migrate' AND datname = ANY(%s)
    """
    async with await psycopg.AsyncConnection.connect(raw, autocommit=True) as connection:
        ended = await connection.execute(sql, [[*databases]])
        return {name for name, _ in await ended.fetchall()}


async def waited_for(fleet: Fleet, run_id: UUID, server: str = "default") -> None:
    """Return when the catalog says that the run waits for a server."""
    while True:
        run = await runs.get(fleet.services.catalog, run_id)
        found = (await activity_of(fleet.services.catalog, run)).away
        if causes := [one.cause for one in found if one.server == server]:
            assert causes[0]
            assert not causes[0].endswith("."), "it is shown in parentheses"
            return
        await asyncio.sleep(0.05)


@on_postgresql
class TestRestart:
    @pytest.mark.parametrize(
        "outage",
        [
            ("immediate", 1.5, False, SLOW),
            ("immediate", 1.5, False, LIVE),
            ("fast", 10.0, False, SLOW),
            ("fast", 1.5, False, LIVE),
            ("immediate", 1.5, True, SLOW),
        ],
        ids=["crash", "crash-live", "fast", "fast-live", "with-the-catalog"],
    )
    async def test_in_the_middle_of_a_run_fails_no_tenant(
        self,
        new_settings: Callable[..., Settings],
        folder: AlembicFolder,
        away: Server,
        outage: tuple[Any, float, bool, str],
    ):
        mode, seconds, has_catalog, body = outage
        more = {"catalog_url": await new_catalog(away)} if has_catalog else {}
        async with fleet_of(new_settings(**more), folder, body=body) as fleet:
            run_id = await fleet.begin()
            await fleet.done(run_id, 4)
            waiting = asyncio.create_task(fleet.services.fleet.wait(run_id))

            await asyncio.to_thread(away.stop, mode)
            await asyncio.sleep(seconds)
            await asyncio.to_thread(away.start)
            with own_seconds() as seconds:
                stuck = await runs.get(fleet.services.catalog, run_id)
                await fleet.done(run_id, stuck.success_count + stuck.failed_count + 1)
                resumed = seconds()
            run = await waiting
            applied = {item.applied for item in await fleet.items(run_id)}
            halves = fleet.half_migrated()

        assert stuck.success_count < TENANTS, "the outage was in the middle"
        assert (run.total_count, run.success_count, run.failed_count) == (TENANTS, TENANTS, 0)
        assert applied == {"u1_create_notes"}
        assert halves == []
        assert resumed <= RESUMED_SECONDS_MAX

    @pytest.mark.parametrize("mode", ["immediate", "fast"])
    async def test_in_the_middle_of_a_block_fails_only_where_statements_may_remain(
        self,
        new_settings: Callable[..., Settings],
        folder: AlembicFolder,
        away: Server,
        mode: Any,
    ):
        async with fleet_of(new_settings(), folder, body=BLOCK) as fleet:
            run_id = await fleet.begin(RunOptions())
            await fleet.done(run_id, 4)
            await asyncio.to_thread(away.stop, mode)
            await asyncio.to_thread(away.start)
            run = await fleet.services.fleet.wait(run_id)
            errors = {item.error for item in await fleet.items(run_id) if item.error}

        assert run.success_count > TENANTS / 2, "those that were not in work have waited"
        assert all("statements that may remain" in error for error in errors), errors


@on_postgresql
class TestServer:
    async def test_that_is_away_holds_up_no_tenant_of_another(
        self,
        new_settings: Callable[..., Settings],
        folder: AlembicFolder,
        away: Server,
        postgres_url: str,
    ):
        settings = new_settings(tenant_server_url=postgres_url, tenant_servers={"eu": away.url})
        async with fleet_of(settings, folder, 20) as fleet:
            await asyncio.to_thread(away.stop)
            try:
                run_id = await fleet.begin()
                meanwhile = await fleet.done(run_id, 10)
                servers = {item.server_name for item in await fleet.items(run_id)}
                await waited_for(fleet, run_id, "eu")
            finally:
                await asyncio.to_thread(away.start)
            run = await fleet.services.fleet.wait(run_id)
            left = (await activity_of(fleet.services.catalog, run)).away

        assert (meanwhile.success_count, meanwhile.failed_count, servers) == (10, 0, {"default"})
        assert (run.success_count, run.failed_count) == (20, 0)
        assert left == []

    async def test_is_told_once_when_two_processes_notice_it_and_once_when_it_is_back(
        self, new_settings: Callable[..., Settings], folder: AlembicFolder, away: Server
    ):
        with endpoint() as hooked:
            hook = {"url": hooked.url, "format": "slack", "events": ["server.away", "server.back"]}
            settings = new_settings(hooks={"ops": hook})
            async with fleet_of(settings, folder) as fleet, open_services(settings):
                run_id = await fleet.begin()
                await fleet.done(run_id, 4)
                await asyncio.to_thread(away.stop)
                try:
                    await asyncio.to_thread(hooked.wait_for, 1)
                    await asyncio.sleep(3)  # both have published it
                finally:
                    await asyncio.to_thread(away.start)
                await fleet.services.fleet.wait(run_id)
                await asyncio.to_thread(hooked.wait_for, 2)
                await asyncio.sleep(2)  # the other one polls
        assert [one["text"] for one in hooked.messages] == [
            "Server default is away: its databases wait.",
            "Server default is back.",
        ]

    async def test_that_stays_away_fails_its_tenants_with_one_cause(
        self, new_settings: Callable[..., Settings], folder: AlembicFolder, away: Server
    ):
        async with fleet_of(new_settings(server_patience_s=6), folder, 10) as fleet:
            await asyncio.to_thread(away.stop)
            try:
                run_id = await fleet.begin(RunOptions())
                run = await fleet.services.fleet.wait(run_id)
                causes = await run_results.failure_causes(fleet.services.catalog, run_id)
            finally:
                await asyncio.to_thread(away.start)
            errors = {item.error for item in await fleet.items(run_id)}
            again = await fleet.services.fleet.wait(await fleet.begin())

        assert (run.success_count, run.failed_count) == (0, 10)
        away_for = "The server 'default' has been away for more than 6 s."
        assert errors == {f"{away_for} The database cannot be reached (Connection refused)."}
        assert [one.count for one in causes] == [10]
        assert again.success_count == 10

    async def test_that_is_read_only_is_away(
        self, new_settings: Callable[..., Settings], folder: AlembicFolder, away: Server
    ):
        """As a primary is that was demoted."""
        async with fleet_of(new_settings(), folder, 10) as fleet:
            await changed(
                away.url,
                "ALTER SYSTEM SET default_transaction_read_only = on",
                "SELECT pg_reload_conf()",
            )
            try:
                run_id = await fleet.begin()
                await waited_for(fleet, run_id)
            finally:
                await changed(
                    away.url,
                    "SET default_transaction_read_only = off",
                    "ALTER SYSTEM RESET default_transaction_read_only",
                    "SELECT pg_reload_conf()",
                )
            run = await fleet.services.fleet.wait(run_id)

        assert (run.success_count, run.failed_count) == (10, 0)

    async def test_that_is_full_is_away(
        self, new_settings: Callable[..., Settings], folder: AlembicFolder, away: Server
    ):
        role = f"app_{new_id().hex}"
        await changed(away.url, f"CREATE ROLE {role} LOGIN CREATEDB")
        url = away.url.replace("postgres@", f"{role}@")
        async with fleet_of(new_settings(tenant_server_url=url), folder, 10) as fleet:
            await changed(away.url, f"ALTER ROLE {role} CONNECTION LIMIT 0")
            run_id = await fleet.begin()
            await waited_for(fleet, run_id)
            await changed(away.url, f"ALTER ROLE {role} CONNECTION LIMIT 2")  # of four at once
            run = await fleet.services.fleet.wait(run_id)

        assert (run.success_count, run.failed_count) == (10, 0)

    async def test_that_hangs_is_away(
        self, new_settings: Callable[..., Settings], folder: AlembicFolder, away: Server
    ):
        async with Proxy(away.port) as proxy:
            url = away.url.replace(f":{away.port}/", f":{proxy.port}/")
            async with fleet_of(new_settings(tenant_server_url=url), folder, 10) as fleet:
                async with proxy.poisoned("hang"):
                    run_id = await fleet.begin()
                    await waited_for(fleet, run_id)
                run = await fleet.services.fleet.wait(run_id)

        assert (run.success_count, run.failed_count) == (10, 0)


@on_postgresql
class TestTenant:
    @pytest.mark.parametrize(
        ("breaks", "sentence"),
        [
            ("DROP DATABASE {name} WITH (FORCE)", "The database does not exist (SQLSTATE 3D000)."),
            ("ALTER DATABASE {name} ALLOW_CONNECTIONS false", "SQLSTATE 55000"),
            ("ALTER DATABASE {name} SET default_transaction_read_only = on", "SQLSTATE 25006"),
        ],
    )
    async def test_with_a_problem_of_its_own_database_fails_alone_and_soon(
        self,
        new_settings: Callable[..., Settings],
        folder: AlembicFolder,
        away: Server,
        breaks: str,
        sentence: str,
    ):
        async with fleet_of(new_settings(), folder, 6) as fleet:
            name = fleet.tenants[2].database_name
            await fleet.services.databases.forget(fleet.tenants[2].id)
            await changed(away.url, breaks.format(name=name))
            run_id = await fleet.begin(RunOptions())
            async with asyncio.timeout(SOON_SECONDS_MAX):
                run = await fleet.services.fleet.wait(run_id)
            failed = await runs.ended_batch(
                fleet.services.catalog, run_id, state=MigrationState.FAILED
            )

        assert (run.success_count, run.failed_count) == (5, 1)
        assert [item.tenant_name for item in failed] == ["tenant02"]
        assert sentence in (failed[0].error or "")

    async def test_that_ends_its_own_connection_each_time_fails_alone(
        self, new_settings: Callable[..., Settings], folder: AlembicFolder
    ):
        body = """
            op.execute("SELECT pg_terminate_backend(pg_backend_pid()) FROM bad")
            op.create_table("note", sa.Column("id", sa.Integer))
        """
        async with fleet_of(new_settings(), folder, 4, body) as fleet:
            for tenant in fleet.tenants:
                raw_sql.run(url_of(fleet.services, tenant), "CREATE TABLE bad (id integer)")
            raw_sql.run(url_of(fleet.services, fleet.tenants[1]), "INSERT INTO bad VALUES (1)")
            run_id = await fleet.begin(RunOptions())
            run = await fleet.services.fleet.wait(run_id)
            failed = await runs.ended_batch(
                fleet.services.catalog, run_id, state=MigrationState.FAILED
            )

        assert (run.success_count, run.failed_count) == (3, 1)
        assert [(item.tenant_name, item.applied) for item in failed] == [("tenant01", "")]

    async def test_with_one_cut_connection_succeeds(
        self, new_settings: Callable[..., Settings], folder: AlembicFolder, away: Server
    ):
        """Also at COMMIT: then its own log says what was applied."""
        async with fleet_of(new_settings(), folder, 6) as fleet:
            run_id = await fleet.begin()
            ended = asyncio.create_task(fleet.services.fleet.wait(run_id))
            uncut = {tenant.database_name for tenant in fleet.tenants}
            while not ended.done():
                chosen = [name for name in uncut if random.random() < 0.3]  # noqa: S311
                uncut -= await cut(away.url, chosen)
                await asyncio.sleep(0.005)
            run = await ended
            applied = {item.applied for item in await fleet.items(run_id)}

        assert len(uncut) < len(fleet.tenants)
        assert (run.success_count, run.failed_count, applied) == (6, 0, {"u1_create_notes"})

    async def test_that_waits_is_not_attempted_when_the_run_is_cancelled(
        self, new_settings: Callable[..., Settings], folder: AlembicFolder, away: Server
    ):
        async with fleet_of(new_settings(), folder, 10) as fleet:
            await asyncio.to_thread(away.stop)
            try:
                run_id = await fleet.begin()
                await waited_for(fleet, run_id)
                await fleet.services.fleet.cancel(system_context("ada"), run_id)
                async with asyncio.timeout(SOON_SECONDS_MAX):
                    run = await fleet.services.fleet.wait(run_id)
            finally:
                await asyncio.to_thread(away.start)
            errors = {item.error for item in await fleet.items(run_id)}

        assert run.failed_count == 10
        assert errors == {"not attempted: run cancelled"}


@on_sqlite
class TestFolder:
    @pytest.fixture(name="folders")
    def _folders(self, engine: str, tmp_path: Path, folder: AlembicFolder) -> Settings:
        assert engine == "sqlite"
        return Settings(data_dir=tmp_path / "data", host=HOST, tenant_migrations=folder.begin())

    @pytest.mark.parametrize("is_mount_point", [False, True])
    async def test_that_is_not_mounted_is_away(
        self,
        folders: Settings,
        folder: AlembicFolder,
        is_mount_point: bool,  # noqa: FBT001 - pytest gives it
    ):
        body = 'op.create_table("note", sa.Column("id", sa.Integer))'
        async with fleet_of(folders, folder, 10, body) as fleet:
            path = folders.data_dir / "tenants"
            path.rename(folders.data_dir / "elsewhere")
            if is_mount_point:
                path.mkdir()
            run_id = await fleet.begin()
            await waited_for(fleet, run_id)
            if is_mount_point:
                path.rmdir()
            (folders.data_dir / "elsewhere").rename(path)
            run = await fleet.services.fleet.wait(run_id)

        assert (run.success_count, run.failed_count) == (10, 0)

    async def test_that_lacks_one_file_fails_one_tenant(
        self, folders: Settings, folder: AlembicFolder
    ):
        body = 'op.create_table("note", sa.Column("id", sa.Integer))'
        async with fleet_of(folders, folder, 4, body) as fleet:
            file = sqlite_path(url_of(fleet.services, fleet.tenants[0]))
            assert file is not None
            file.unlink()
            run_id = await fleet.begin(RunOptions())
            async with asyncio.timeout(SOON_SECONDS_MAX):
                run = await fleet.services.fleet.wait(run_id)

        assert (run.success_count, run.failed_count) == (3, 1)


async def new_catalog(away: Server) -> str:
    """Return the URL of an empty database on the server that goes away."""
    name = f"catalog_{new_id().hex}"
    await changed(away.url, f"CREATE DATABASE {name}")
    return with_database(away.url, name)


@on_postgresql
class TestRequest:
    async def test_that_reads_is_repeated_when_its_connection_was_lost(self, world: World):
        async with await world.owner(world.acme) as client:
            assert (await client.get(PROFILE)).status_code == 200
            # Without a turn of the loop, so that the process does not notice.
            raw_sql.run(
                url_of(world.services, world.acme.tenant),
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
                "WHERE datname = current_database() AND pid <> pg_backend_pid()",
            )
            answer = await client.get(PROFILE)

        assert answer.status_code == 200

    @pytest.mark.parametrize("state", ["40001", "40P01"])
    async def test_is_repeated_after_a_serialization_failure(self, services: Services, state: str):
        fails = f"DO $$ BEGIN RAISE EXCEPTION 'x' USING ERRCODE = '{state}'; END $$"
        tries = []

        async def work() -> None:
            tries.append(True)
            async with services.catalog.begin() as session:
                if len(tries) < 3:
                    await session.command(fails)  # type: ignore[attr-defined]

        await retry_deadlock(work)

        assert len(tries) == 3
