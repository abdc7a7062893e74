"""A server without a connection left: idle connections are closed for those that need one."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import pytest
import sqlalchemy as sa
from pydantic import SecretStr

from tenantry.catalog.tenants import Tenant
from tenantry.cli.doctor.capacity import check_connections, check_limits, connections_needed
from tenantry.db.sessions import ServerFull
from tenantry.db.statements import Statement
from tenantry.fleet.outages import Outages
from tenantry.services import Services, open_services
from tenantry.settings import Settings
from testkit import raw_sql
from testkit.faults import Faults
from testkit.revisions import AlembicFolder
from tests.conftest import provision
from tests.integration.engines import on_postgresql
from tests.integration.test_outages import Fleet

pytestmark = on_postgresql

TENANTS = 4
ONE = Statement[Any](sa.text("SELECT 1"))
FULL_TRIES_MAX = 12  # in 2 s, and the losses afterwards
NOTES = """
    op.create_table("note", sa.Column("id", sa.Integer, primary_key=True))
"""


@pytest.fixture(name="made")
async def _made(ordinary: Settings) -> list[Tenant]:
    """Some tenants on the server, to which nothing is connected."""
    async with open_services(ordinary, works=False) as services:
        return [(await provision(services, f"t{number}")).tenant for number in range(TENANTS)]


def limit(settings: Settings, ordinary: Settings, most: int) -> None:
    """Let the role of *ordinary* have so many connections."""
    role = ordinary.servers["default"].address.partition("//")[2].partition("@")[0]
    raw_sql.run(settings.servers["default"].address, f"ALTER ROLE {role} CONNECTION LIMIT {most}")


async def ask(services: Services, tenant: Tenant) -> None:
    await (await services.databases.open(tenant, writes=False)).fetch_all(ONE)


@asynccontextmanager
async def using(services: Services, tenant: Tenant) -> AsyncIterator[None]:
    """Have a connection in use."""
    async with (await services.databases.open(tenant, writes=False)).begin() as session:
        await session.fetch_all(ONE)
        yield


class TestRequest:
    async def test_gets_the_connection_that_another_tenant_has_left_idle(
        self, settings: Settings, ordinary: Settings, made: list[Tenant]
    ):
        limit(settings, ordinary, 2)
        async with open_services(ordinary, works=False) as services:
            for tenant in made * 2:
                await ask(services, tenant)

            assert services.databases.server("default").budget.open_count == 2

    async def test_waits_for_a_connection_that_is_in_use(
        self, settings: Settings, ordinary: Settings, made: list[Tenant]
    ):
        limit(settings, ordinary, 1)
        async with open_services(ordinary, works=False) as services:
            async with using(services, made[0]):
                asking = asyncio.create_task(ask(services, made[1]))
                await asyncio.sleep(0.3)
                assert not asking.done()
            await asking

    async def test_that_gets_none_says_that_the_server_is_full(
        self, settings: Settings, ordinary: Settings, made: list[Tenant]
    ):
        limit(settings, ordinary, 1)
        impatient = ordinary.model_copy(update={"connect_timeout_s": 3.0})
        async with open_services(impatient, works=False) as services:
            async with using(services, made[0]):
                with pytest.raises(ServerFull):
                    await ask(services, made[1])

            budget = services.databases.server("default").budget
            await ask(services, made[1])
            assert budget.open_count == 1

    async def test_of_a_database_with_a_limit_waits(self, ordinary: Settings, made: list[Tenant]):
        raw_sql.run(
            ordinary.servers["default"].address,
            f"ALTER DATABASE {made[0].database_name} CONNECTION LIMIT 1",
        )
        async with open_services(ordinary, works=False) as services, asyncio.TaskGroup() as group:
            for _ in range(10):
                group.create_task(ask(services, made[0]))


class TestRun:
    async def test_migrates_with_connections_that_requests_have_left_idle(
        self,
        settings: Settings,
        ordinary: Settings,
        made: list[Tenant],
        folder: AlembicFolder,
    ):
        limit(settings, ordinary, 2)
        migrated = ordinary.model_copy(
            update={"tenant_migrations": folder.begin(), "server_patience_s": 5.0}
        )
        async with open_services(migrated) as services:
            for tenant in made:
                await ask(services, tenant)
            folder.add("u1_create_notes", NOTES)
            fleet = Fleet(services, made)

            run = await services.fleet.wait(await fleet.begin())

        assert (run.success_count, run.failed_count) == (TENANTS, 0)

    async def test_without_any_connection_says_so(
        self,
        settings: Settings,
        ordinary: Settings,
        made: list[Tenant],
        folder: AlembicFolder,
    ):
        migrated = ordinary.model_copy(
            update={"tenant_migrations": folder.begin(), "server_patience_s": 1.0}
        )
        async with open_services(migrated) as services:
            limit(settings, ordinary, 0)
            folder.add("u1_create_notes", NOTES)
            fleet = Fleet(services, made)
            run_id = await fleet.begin()
            await services.fleet.wait(run_id)
            messages = {item.error for item in await fleet.items(run_id)}
            limit(settings, ordinary, -1)

        assert "away for more than 1 s. The database server has no connection left" in str(messages)

    async def test_tries_a_full_database_less_and_less_often(
        self, ordinary: Settings, made: list[Tenant], folder: AlembicFolder, faults: Faults
    ):
        """The server answers, so only the pause keeps the tenant from being tried at once."""
        tries: list[object] = []
        faults.before(Outages, "judge", lambda *arguments: tries.append(arguments))
        migrated = ordinary.model_copy(
            update={"tenant_migrations": folder.begin(), "server_patience_s": 2.0}
        )
        async with open_services(migrated) as services:
            await services.databases.forget(made[0].id)
            name = made[0].database_name
            raw_sql.run(
                ordinary.servers["default"].address, f"ALTER DATABASE {name} CONNECTION LIMIT 0"
            )
            folder.add("u1_create_notes", NOTES)
            run = await services.fleet.wait(await Fleet(services, made).begin())

        assert (run.success_count, run.failed_count) == (TENANTS - 1, 1)
        assert len(tries) <= FULL_TRIES_MAX


class TestDoctor:
    def test_counts_the_connections_of_a_server_with_two_names_together(self, ordinary: Settings):
        catalog = SecretStr(ordinary.catalog.replace("127.0.0.1", "localhost"))

        needed = connections_needed(ordinary.model_copy(update={"catalog_url": catalog}))

        assert needed.keys() == connections_needed(ordinary).keys()
        assert len(needed) == 1

    async def test_compares_limits_of_the_role_and_of_databases(
        self, settings: Settings, ordinary: Settings, made: list[Tenant]
    ):
        limit(settings, ordinary, 30)
        name = made[0].database_name
        raw_sql.run(
            ordinary.servers["default"].address, f"ALTER DATABASE {name} CONNECTION LIMIT 3"
        )
        few = ordinary.model_copy(
            update={"tenant_connections": 4, "migrate_concurrency": 2, "catalog_connections": 2}
        )
        async with AsyncExitStack() as stack:
            one = [await stack.enter_async_context(open_services(few, works=False)) for _ in "ab"]
            found = await check_limits(few, one[0].catalog)
            alone = await check_connections(ordinary)

        assert f"{name} allows 3 of 9." in [one.detail for one in found]
        assert any("the server allows the role 30" in one.detail for one in alone)
