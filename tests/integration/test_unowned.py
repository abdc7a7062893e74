"""Databases of no tenant and no job are found, and named if they can be no other catalog's."""

import contextlib
from collections.abc import AsyncIterator

import pytest

from tenantry.catalog import jobs, owned_databases
from tenantry.catalog.job_states import RELEASED
from tenantry.cli.doctor.findings import Finding, State
from tenantry.cli.doctor.leftovers import check_unowned
from tenantry.db.postgres.connections import PostgresConnection
from tenantry.db.sessions import DatabaseUnavailable
from tenantry.db.sqlite.connections import SqliteConnection
from tenantry.fleet.templates import TEMPLATE
from tenantry.kit.context import system_context
from tenantry.kit.ids import new_id
from tenantry.services import Services, open_services
from tenantry.settings import Settings
from tenantry.work.job_functions import undone
from tenantry.work.ledger import JobLost, finish, new_job
from tenantry.work.progress import Progress
from tenantry.work.running import running
from tenantry.work.undoing import fail
from testkit import raw_sql
from testkit.faults import Faults
from tests.conftest import provision
from tests.integration.test_deletion import delete
from tests.integration.test_lifecycle import all_names

DRAFTS = "SELECT count(*) FROM job WHERE kind = 'template'"


async def _found(services: Services) -> list[Finding]:
    return await check_unowned(services.settings, services.catalog)


class TestCheckUnowned:
    async def test_names_what_neither_a_tenant_nor_a_job_has(self, ordinary: Settings):
        left = f"tenantry_{new_id().hex}"
        async with open_services(ordinary, works=False) as services:
            await provision(services, "acme")
            await delete(services, (await provision(services, "globex")).tenant)
            assert await _found(services) == []
            server = services.databases.server("default")
            await server.create(left)

            (found,) = await _found(services)

            assert (found.check, found.state) == ("unknown databases default", State.WARNING)
            assert f"1 are of no tenant and no job: {left}." in found.detail
            assert server.removal(left) in str(found.advice)
            await server.drop(left)

    async def test_names_what_is_left_on_a_server_that_has_two_names_once(
        self, ordinary: Settings, faults: Faults
    ):
        """A new server is the default one, and named for the tenants that will move."""
        url = ordinary.servers["default"].address
        again = url.replace("127.0.0.1", "localhost")
        servers = {**ordinary.tenant_servers, "pg1": {"url": again}}
        values = {**ordinary.model_dump(exclude_unset=True), "tenant_servers": servers}
        left, reads = f"tenantry_{new_id().hex}", []
        async with open_services(Settings(**values), works=False) as services:
            await provision(services, "acme")
            assert await _found(services) == []
            server = services.databases.server("default")
            await server.create(left)
            faults.before(owned_databases, "names", lambda *_: reads.append(1))

            assert [one.check for one in await _found(services)] == ["unknown databases default"]

            assert len(reads) == 1
            await server.drop(left)

    async def test_names_nothing_that_another_catalog_can_have(self, ordinary: Settings):
        foreign = f"{TEMPLATE}{'0' * 12}_{'0' * 16}"
        async with open_services(ordinary, works=False) as services:
            await provision(services, "acme")
            server = services.databases.server("default")
            names = [foreign, f"tenantry_{new_id().hex}"]
            for name in names:
                await server.create(name)

            (found,) = await _found(services)

            assert (found.state, found.advice) == (State.OK, None)
            assert names[1] not in found.detail
            for name in names:
                await server.drop(name)

    async def test_names_what_an_interrupted_creation_has_left(self, ordinary: Settings):
        async with open_services(ordinary, works=False) as services:
            made = await provision(services, "acme")
            raw_sql.run(
                ordinary.catalog,
                "DELETE FROM api_key",
                "UPDATE tenant SET state = 'provisioning', worker_id = NULL",
            )

            (found,) = await _found(services)

            assert (found.check, found.state) == ("unfinished tenants", State.WARNING)
            assert made.tenant.database_name in found.detail
            await services.job_worker.reap()
            assert await _found(services) == []


class TestDraftOfATemplate:
    @pytest.mark.parametrize("is_published", [False, True])
    async def test_is_removed_by_its_own_process(
        self, ordinary: Settings, faults: Faults, *, is_published: bool
    ):
        """The catalog is away when the draft could not be published, or when it was."""
        async with open_services(ordinary, works=False) as services:
            is_away = True

            def lose(*_: object, **__: object) -> None:
                if is_away:
                    raise DatabaseUnavailable

            server = services.databases.server("default")
            if not is_published:
                faults.before(server, "publish", lose, once=True)
            faults.before(jobs, "apply", lose)
            with contextlib.suppress(Exception):
                await provision(services, "acme")
            assert raw_sql.rows(ordinary.catalog, DRAFTS) == [(1,)]

            is_away = False
            await services.job_worker.reap()

            assert raw_sql.rows(ordinary.catalog, DRAFTS) == [(0,)]
            assert not [one for one in await all_names(services) if "draft" in one]


@contextlib.asynccontextmanager
async def _two_processes(settings: Settings) -> AsyncIterator[tuple[Services, Services]]:
    async with (
        open_services(settings, works=False) as one,
        open_services(settings, works=False) as other,
    ):
        yield one, other


class TestLostJobs:
    async def test_leave_no_database_that_is_created_after_another_process_has_ended_them(
        self, ordinary: Settings
    ):
        """As if this process had been stopped for some seconds, and continued."""
        ctx, name = system_context("test"), f"tenantry_{new_id().hex}"
        async with _two_processes(ordinary) as (slow, other):
            held, progress = slow.lifecycle.ledger, Progress()
            job = new_job(ctx, "restore", progress, database=("default", name))

            async def run() -> None:
                async with running(held, job, progress):
                    async with slow.catalog.begin() as session:
                        await jobs.apply(session, job.id, RELEASED, worker_id=held.worker_id)
                    await other.job_worker.reap()
                    await slow.databases.server("default").create(name)
                    async with slow.catalog.begin() as session:
                        await finish(session, held, job)

            with pytest.raises(JobLost):
                await run()

            assert name not in await all_names(slow)

    @pytest.mark.parametrize("where", [(owned_databases, "owner_state"), (jobs, "apply")])
    async def test_leave_none_either_if_the_catalog_does_not_answer_at_that_moment(
        self, ordinary: Settings, faults: Faults, where: tuple[object, str]
    ):
        ctx, name = system_context("test"), f"tenantry_{new_id().hex}"
        async with _two_processes(ordinary) as (slow, other):
            held, progress = slow.lifecycle.ledger, Progress()
            job = new_job(ctx, "restore", progress, database=("default", name))

            async def no_answer(*_: object, **__: object) -> None:
                raise DatabaseUnavailable

            async def run() -> None:
                async with running(held, job, progress):
                    async with slow.catalog.begin() as session:
                        await jobs.apply(session, job.id, RELEASED, worker_id=held.worker_id)
                    await other.job_worker.reap()
                    await slow.databases.server("default").create(name)
                    faults.before(*where, no_answer)
                    raise JobLost

            with pytest.raises(JobLost):
                await run()
            assert name in await all_names(slow)
            faults.restore()
            await slow.job_worker.reap()

            assert name not in await all_names(slow)

    async def test_leave_none_either_if_the_other_process_has_not_ended_them_yet(
        self, ordinary: Settings, faults: Faults
    ):
        """It has dropped the database, and notes that after this process has created it."""
        ctx, name = system_context("test"), f"tenantry_{new_id().hex}"
        async with _two_processes(ordinary) as (slow, other):
            held = slow.lifecycle.ledger
            job = new_job(ctx, "restore", Progress(), database=("default", name))

            async def create(*_: object, **__: object) -> None:
                await slow.databases.server("default").create(name)
                await fail(held, job, undo=undone, error="It was lost.", again=False)

            async with slow.catalog.begin() as session:
                await jobs.add(session, job, worker_id=held.worker_id)
                await jobs.apply(session, job.id, RELEASED, worker_id=held.worker_id)
            faults.after(other.databases.server("default"), "drop", create, once=True)
            await other.job_worker.reap()
            await slow.job_worker.reap()

            assert name not in await all_names(slow)

    async def test_are_taken_over_again_if_the_answer_of_the_catalog_was_lost(
        self, ordinary: Settings, faults: Faults
    ):
        name = f"tenantry_{new_id().hex}"
        async with open_services(ordinary, works=False) as services:
            job = new_job(system_context("test"), "restore", database=("default", name))
            async with services.catalog.begin() as session:
                await jobs.add(session, job, worker_id=new_id())

            def lose(_connection: object, sql: str) -> None:
                if sql == "COMMIT":
                    raise DatabaseUnavailable

            for kind in (SqliteConnection, PostgresConnection):
                faults.after(kind, "command", lose)
            with pytest.raises(DatabaseUnavailable):
                await services.job_worker.reap()
            faults.restore()
            await services.job_worker.reap()

            assert (await jobs.get(services.catalog, job.id)).state == "failed"
