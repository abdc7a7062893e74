"""A tenant is created completely or not at all, whatever fails on the way."""

import asyncio
import random
import secrets
import signal
import time
from collections.abc import AsyncIterator, Callable  # noqa: F401
from contextlib import asynccontextmanager
from uuid import UUID

import pytest

from tenantry.access.emails import BadEmail
from tenantry.access.passwords import BadPassword
from tenantry.catalog import jobs, tenants
from tenantry.catalog.jobs import JobNotFound
from tenantry.catalog.tenants import TenantNameInUse
from tenantry.db.sessions import DatabaseUnavailable
from tenantry.fleet.lifecycle import ActivationFailed, ProvisioningFailed
from tenantry.kit.context import system_context
from tenantry.kit.pages import Window
from tenantry.kit.text import BadText
from tenantry.services import Services, open_services
from tenantry.settings import Settings
from tenantry.tenant.modules import UnknownModule
from testkit import raw_sql
from testkit.faults import Faults
from testkit.revisions import AlembicFolder
from tests.conftest import HEAD, provision
from tests.integration.engines import on_postgresql
from tests.integration.gates import Gate
from tests.integration.programs import Program, running
from tests.integration.test_runs import SILENCE_MS, set_back

KILLS = 4
CLEARED_SECONDS_MAX = 100
CREATE_NOTES = "op.create_table('note', sa.Column('id', sa.Integer, primary_key=True))"


@pytest.fixture(name="with_user")
def _with_user(settings: Settings, folder: AlembicFolder) -> Settings:
    """Settings with a directory of the user's own revisions."""
    return settings.model_copy(update={"tenant_migrations": folder.begin()})


def listed(settings: Settings) -> set[str]:
    return {name for (name,) in raw_sql.rows(settings.catalog, "SELECT name FROM tenant")}


async def all_names(services: Services) -> set[str]:
    return set(await services.databases.server("default").names("tenantry_"))


class TestProvision:
    async def test_makes_everything(self, services: Services, settings: Settings):
        made = await provision(services, "acme")

        assert made.tenant.schema_revision == HEAD
        assert listed(settings) == {"acme"}
        url = services.databases.server("default").url(made.tenant.database_name)
        assert raw_sql.rows(url, "SELECT email FROM tenantry_user") == [("owner@acme.example.com",)]
        assert raw_sql.rows(url, "SELECT version_num FROM tenantry_version") == [(HEAD,)]

    @pytest.mark.parametrize(
        ("name", "owner", "error"),
        [
            ("acme", {"email": "nobody"}, BadEmail),
            ("acme", {"password": "short"}, BadPassword),
            ("acme", {"full_name": ""}, BadText),
            (" ", {"email": "a@example.com"}, BadText),
            ("x" * 101, {"email": "a@example.com"}, BadText),
        ],
    )
    async def test_of_something_bad_leaves_nothing(
        self,
        services: Services,
        settings: Settings,
        name: str,
        owner: dict[str, str],
        error: type[Exception],
    ):
        before = await all_names(services)

        with pytest.raises(error):
            await provision(services, name, **owner)

        assert listed(settings) == set()
        assert await all_names(services) == before

    async def test_with_an_unknown_module_leaves_nothing(
        self, services: Services, settings: Settings
    ):
        acme = await provision(services, "acme")
        with pytest.raises(UnknownModule):
            await services.lifecycle.update(
                system_context("t"), acme.tenant, module_keys=["nothing"]
            )

        assert listed(settings) == {"acme"}

    async def test_of_a_name_that_is_taken_in_any_case_is_a_conflict(
        self, services: Services, settings: Settings
    ):
        await provision(services, "Zoë")

        with pytest.raises(TenantNameInUse):
            await provision(services, "ZOË", email="a@example.com")

        assert listed(settings) == {"Zoë"}

    @pytest.mark.slow
    @pytest.mark.parametrize(
        "failing",
        ["raise ValueError('a secret value')", "op.execute('DROP TABLE nothing')"],
        ids=["in the tenant's database", "in the template"],
    )
    async def test_with_a_failing_revision_leaves_nothing_and_can_be_tried_again(
        self, with_user: Settings, folder: AlembicFolder, failing: str
    ):
        file = folder.add("u1_fail", failing)
        async with open_services(with_user) as services:
            before = await all_names(services)
            with pytest.raises(ProvisioningFailed) as caught:
                await provision(services, "acme")
            cleared = await _cleared(services, before | await _templates(services))

            file.write_text(file.read_text().replace(failing, "pass"))
            made = await provision(services, "acme")

        assert "secret value" not in caught.value.message
        assert made.tenant.schema_revision == f"{HEAD}/u1"
        assert cleared, "a draft of a template is left for as long as the process lives"

    @on_postgresql
    async def test_without_a_database_leaves_nothing(self, settings: Settings, postgres_url: str):
        """The role may not create databases: the error says so, and the name is free at once."""
        role = f"limited_{secrets.token_hex(4)}"
        raw_sql.run(postgres_url, f"CREATE ROLE {role} LOGIN")
        values = settings.model_dump()
        values["tenant_server_url"] = postgres_url.replace("//postgres@", f"//{role}@")
        async with open_services(Settings(**values)) as services:
            for _ in range(2):
                with pytest.raises(ProvisioningFailed) as caught:
                    await provision(services, "acme")

                assert "permission denied" in caught.value.message
                assert role not in caught.value.message
                assert "acme" not in listed(settings)

        raw_sql.run(postgres_url, f"DROP ROLE {role}")

    @pytest.mark.slow
    async def test_many_at_once_makes_one_template(self, services: Services):
        made = await asyncio.gather(*(provision(services, f"tenant{n}") for n in range(10)))

        assert len({one.tenant.database_name for one in made}) == 10
        for one in made:
            database = await services.databases.open(one.tenant, writes=True)
            assert database is not None
        assert len(await _templates(services)) == 1

    async def test_of_one_name_at_once_makes_one_tenant(
        self, services: Services, settings: Settings
    ):
        done = await asyncio.gather(
            *(provision(services, "acme") for _ in range(5)), return_exceptions=True
        )

        assert (
            sorted(type(one).__name__ for one in done) == ["Provisioned"] + ["TenantNameInUse"] * 4
        )
        assert listed(settings) == {"acme"}

    @pytest.mark.slow
    async def test_that_is_cancelled_leaves_nothing(self, services: Services, settings: Settings):
        await provision(services, "first")
        before = await all_names(services)
        for number in range(12):
            task = asyncio.create_task(provision(services, "cut"))
            await asyncio.sleep(number * 0.012)
            task.cancel()
            result = (await asyncio.gather(task, return_exceptions=True))[0]
            if not isinstance(result, BaseException):
                break  # it was quicker
            if ("cut", "ready") in raw_sql.rows(settings.catalog, "SELECT name, state FROM tenant"):
                break  # cancelled after the COMMIT was sent

            assert listed(settings) == {"first"}, f"cancelled after {number * 12} ms"
            assert await all_names(services) == before

    async def test_is_no_job_that_an_admin_can_cancel(self, gated: Settings, gate: Gate):
        gate.build()
        async with open_services(gated, works=False) as services:
            making = asyncio.create_task(provision(services, "acme"))
            while not (found := raw_sql.rows(gated.catalog, "SELECT id FROM job")):  # noqa: ASYNC110
                await asyncio.sleep(0.01)

            assert (await jobs.page(services.catalog, Window(1, 9))).items == []
            with pytest.raises(JobNotFound):
                await services.queue.cancel(system_context("ada"), UUID(str(found[0][0])))
            gate.open()
            made = await making

        assert made.tenant.name == "acme"


class TestReap:
    async def test_leaves_alone_what_this_process_makes_though_its_heartbeat_came_late(
        self, gated: Settings, gate: Gate
    ):
        gate.build()
        async with open_services(gated, works=False) as services:
            making = asyncio.create_task(provision(services, "acme"))
            while not listed(gated):  # noqa: ASYNC110 - seen from outside
                await asyncio.sleep(0.01)

            await asyncio.to_thread(_silence, gated, services)  # its own writers go on
            await services.job_worker.reap()
            gate.open()
            made = await making

        assert made.tenant.name == "acme"

    @pytest.mark.slow
    async def test_clears_what_another_process_has_left_when_that_is_silent(
        self, gated: Settings, gate: Gate
    ):
        gate.build()
        async with (
            open_services(gated, works=False) as services,
            open_services(gated, works=False) as other,
        ):
            making = asyncio.create_task(provision(services, "acme"))
            while not listed(gated):  # noqa: ASYNC110 - seen from outside
                await asyncio.sleep(0.01)

            await asyncio.to_thread(_silence, gated, services)  # its own writers go on
            await other.job_worker.reap()

            assert "acme" not in listed(gated)
            gate.open()
            with pytest.raises(ProvisioningFailed):
                await making

    @pytest.mark.slow
    async def test_clears_what_this_process_could_not_clear_before(
        self, settings: Settings, faults: Faults
    ):
        """The deletion was interrupted: the tenant is invisible, and its database exists."""
        at_once = settings.model_copy(update={"deleted_days": 0})
        async with open_services(at_once, works=False) as services:
            made = (await provision(services, "acme")).tenant
            ctx = system_context("test")
            suspended = await services.lifecycle.update(ctx, made, is_active=False)

            def cut_short(_: object) -> None:
                raise asyncio.CancelledError

            faults.before(services.databases, "forget", cut_short, once=True)
            with pytest.raises(asyncio.CancelledError):
                await services.deletion.delete(ctx, suspended, name="acme")
            assert made.database_name in await all_names(services)

            await services.job_worker.reap()

            assert listed(settings) == set()
            assert made.database_name not in await all_names(services)

    @pytest.mark.slow
    async def test_tries_one_tenant_of_a_server_that_is_away(
        self, settings: Settings, faults: Faults
    ):
        """Each attempt takes as long as a timeout; the others follow when the server is back."""
        async with open_services(settings, works=False) as services:
            made = [(await provision(services, name)).tenant for name in ("a1", "b2", "c3")]
            removed = ("DELETE FROM api_key", "UPDATE tenant SET state = 'deleting'")
            await asyncio.to_thread(raw_sql.run, settings.catalog, *removed)
            server = services.databases.server("default")
            tried, is_away = [], True

            def time_out(name: str) -> None:
                if is_away:
                    tried.append(name)
                    raise DatabaseUnavailable

            faults.before(server, "drop", time_out)
            for _ in range(3):
                await services.job_worker.reap()
            is_away = False
            await services.job_worker.reap()

            assert len(tried) == 3
            assert set(tried) == {one.database_name for one in made}
            assert listed(settings) == set()


@pytest.mark.slow
class TestUnansweredCommit:
    @on_postgresql
    async def test_leaves_a_tenant_whole_or_not_at_all(self, settings: Settings):
        """The commit that makes it visible succeeds, but its response is lost."""
        async with open_services(settings) as services:
            await provision(services, "first")
        host, _, port = settings.catalog.rpartition("@")[2].partition("/")[0].partition(":")
        async with _cutting_proxy(host, int(port)) as (own_port, cut):
            values = settings.model_dump()
            values["catalog_url"] = settings.catalog.replace(f":{port}/", f":{own_port}/")
            async with open_services(Settings(**values)) as services:
                cut.set()
                with pytest.raises(ProvisioningFailed):
                    await provision(services, "acme")
                cut.clear()
                await asyncio.sleep(0.2)

                left = raw_sql.rows(
                    settings.catalog, "SELECT state, database_name FROM tenant WHERE name = 'acme'"
                )
                names = await all_names(services)
                for state, name in left:
                    assert state != "ready" or name in names, "a ready tenant has its database"

    @on_postgresql
    async def test_of_a_deletion_leaves_nothing(self, settings: Settings):
        async with open_services(settings) as services:
            made = (await provision(services, "acme")).tenant
            ctx = system_context("test")
            suspended = await services.lifecycle.update(ctx, made, is_active=False)
        host, _, port = settings.catalog.rpartition("@")[2].partition("/")[0].partition(":")
        async with _cutting_proxy(host, int(port)) as (own_port, cut):
            values = settings.model_dump()
            values["catalog_url"] = settings.catalog.replace(f":{port}/", f":{own_port}/")
            values["deleted_days"] = 0
            async with open_services(Settings(**values), works=False) as services:
                cut.set()
                with pytest.raises(DatabaseUnavailable):
                    await services.deletion.delete(ctx, suspended, name="acme")
                cut.clear()

                await services.job_worker.reap()

                assert listed(settings) == set()
                assert made.database_name not in await all_names(services)


class TestTemplates:
    @pytest.mark.slow
    async def test_are_replaced_when_a_revision_is_edited(
        self, with_user: Settings, folder: AlembicFolder
    ):
        file = folder.add("u1_create_notes", CREATE_NOTES)
        async with open_services(with_user) as services:
            await provision(services, "first")
            await provision(services, "second")
            before = await _templates(services)

            file.write_text(file.read_text().replace("'note'", "'renamed_note'"))
            made = await provision(services, "third")
            after = await _templates(services)

            url = services.databases.server("default").url(made.tenant.database_name)
        assert len(before) == len(after) == 1
        assert before != after
        assert "renamed_note" in raw_sql.tables(url)
        assert "note" not in raw_sql.tables(url)

    async def test_hold_nothing_of_what_is_marked_online(
        self, with_user: Settings, folder: AlembicFolder
    ):
        folder.add("u1_create_notes", CREATE_NOTES)
        folder.add(
            "u2_online",
            'op.execute(f"INSERT INTO note VALUES ({time.time_ns() % 1000000007})")',
            head="import time\nonline = True",
        )
        async with open_services(with_user) as services:
            made = [await provision(services, name) for name in ("first", "second")]
            server = services.databases.server("default")
            found = [
                raw_sql.rows(server.url(one.tenant.database_name), "SELECT id FROM note")
                for one in made
            ]

        assert all(len(one) == 1 for one in found)
        assert found[0] != found[1], "each tenant has run it"
        assert {one.tenant.schema_revision for one in made} == {f"{HEAD}/u2"}


class TestActivate:
    @pytest.mark.slow
    async def test_brings_the_tenant_to_the_head_first(
        self, with_user: Settings, folder: AlembicFolder
    ):
        async with open_services(with_user) as services:
            made = (await provision(services, "acme")).tenant
            ctx = system_context("test")
            suspended = await services.lifecycle.update(ctx, made, is_active=False)
            folder.add("u1_create_notes", CREATE_NOTES)

            active = await services.lifecycle.update(ctx, suspended, is_active=True)

            url = services.databases.server("default").url(made.database_name)
            seen = (await tenants.get(services.catalog, made.id)).schema_revision
        assert active.is_active
        assert seen == f"{HEAD}/u1"
        assert "note" in raw_sql.tables(url)

    async def test_that_cannot_be_migrated_stays_inactive_and_as_it_was(
        self, with_user: Settings, folder: AlembicFolder
    ):
        async with open_services(with_user) as services:
            made = (await provision(services, "acme")).tenant
            ctx = system_context("test")
            suspended = await services.lifecycle.update(ctx, made, is_active=False)
            folder.add("u1_fail", "op.execute('SELEKT 1')")

            with pytest.raises(ActivationFailed) as caught:
                await services.lifecycle.update(ctx, suspended, is_active=True, name="renamed")

            now = await tenants.get(services.catalog, made.id)
        assert not now.is_active
        assert now.name == "acme"
        assert "syntax error" in caught.value.message


class TestKill:
    @pytest.mark.slow
    async def test_leaves_nothing_that_is_not_cleared_away(
        self, with_user: Settings, folder: AlembicFolder
    ):
        """SIGKILL at random moments of provisioning, templates included; then a fresh process."""
        folder.add("u0_create_notes", CREATE_NOTES)
        async with open_services(with_user) as services:
            before = await all_names(services)
            kept = (await provision(services, "kept")).tenant
        names = []
        for number in range(KILLS):
            # Another template each time, so that its making is killed too.
            folder.add(
                f"v{number}_step",
                f"op.execute('SELECT {number}')\ntime.sleep(0.05)",
                head="import time",
            )
            names.append(f"killed{number}")
            async with running("provision", with_user, names[-1]) as process:
                await _killed(process)
        began = time.monotonic()
        async with open_services(with_user) as services:
            while rest := [
                *(listed(with_user) - {"kept", *_ready(services, names)}),
                *(one for one in await all_names(services) - before if "_draft_" in one),
            ]:
                assert time.monotonic() - began < CLEARED_SECONDS_MAX, f"not cleared: {rest}"
                await asyncio.sleep(0.2)
            ready = _ready(services, names)
            left = await all_names(services) - before - await _templates(services)
            expected = {kept.database_name}
            for name in ready:
                expected.add((await tenants.get_by_name(services.catalog, name)).database_name)
            for name in set(names) - ready:
                again = await provision(services, name)
                expected.add(again.tenant.database_name)

        assert left <= expected


def _silence(settings: Settings, services: Services) -> None:
    set_back(settings, services.heartbeat.worker_id, SILENCE_MS + 1_000)


async def _killed(process: Program) -> None:
    assert await process.line() == "ready"
    await asyncio.sleep(random.uniform(0, 0.35))  # noqa: S311
    process.signal(signal.SIGKILL)


def _ready(services: Services, names: list[str]) -> set[str]:
    rows = raw_sql.rows(services.settings.catalog, "SELECT name FROM tenant WHERE state = 'ready'")
    return {name for (name,) in rows} & set(names)


async def _templates(services: Services) -> set[str]:
    own = services.catalog.cache.catalog_id.hex[-12:]
    return set(await services.databases.server("default").names(f"tenantry_template_{own}_"))


async def _cleared(services: Services, before: set[str]) -> bool:
    """Return whether every database is removed that is not in *before*."""
    began = time.monotonic()
    while await all_names(services) - before:
        if time.monotonic() - began > CLEARED_SECONDS_MAX:
            return False
        await asyncio.sleep(0.2)
    return True


@asynccontextmanager
async def _cutting_proxy(host: str, port: int) -> AsyncIterator[tuple[int, asyncio.Event]]:
    """Yield a port, and a function that makes it cut a connection after a COMMIT."""
    cut = asyncio.Event()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        up_reader, up_writer = await asyncio.open_connection(host, port)
        commits = asyncio.Event()

        async def up() -> None:
            while data := await reader.read(65536):
                if cut.is_set() and b"COMMIT" in data:
                    commits.set()
                up_writer.write(data)
                await up_writer.drain()

        async def down() -> None:
            while data := await up_reader.read(65536):
                if commits.is_set():
                    return  # the answer is lost
                writer.write(data)
                await writer.drain()

        tasks = [asyncio.create_task(up()), asyncio.create_task(down())]
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for one in (writer, up_writer):
            one.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    try:
        yield server.sockets[0].getsockname()[1], cut
    finally:
        server.close()
