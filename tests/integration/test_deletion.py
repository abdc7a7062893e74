"""A deleted tenant is kept, can be undeleted, and is then removed completely."""

import asyncio
import signal
from datetime import timedelta
from typing import Any

import pytest
import sqlalchemy as sa

from tenantry.catalog import audit, deleted_tenants, tenants
from tenantry.catalog.deleted_tenants import DeletedTenantNotFound
from tenantry.catalog.run_claims import DELETED
from tenantry.catalog.tables import tenant as tenant_table
from tenantry.catalog.tenants import Tenant, TenantNameInUse
from tenantry.db.sessions import DatabaseUnavailable
from tenantry.db.statements import Statement
from tenantry.db.urls import with_database
from tenantry.fleet.deletion import PURGED_MAX, DatabaseNotDropped, TenantActive, WrongName
from tenantry.kit.context import system_context
from tenantry.kit.pages import Window
from tenantry.services import Services, open_services
from tenantry.settings import Settings
from testkit import raw_sql
from testkit.faults import Faults
from testkit.postgres import connected
from tests.conftest import PASSWORD, World, provision
from tests.integration import gates
from tests.integration.engines import on_postgresql
from tests.integration.gates import Gate, is_migrated
from tests.integration.programs import running
from tests.integration.test_lifecycle import all_names, listed
from tests.integration.test_run_options import plan

_AGE = Statement[Any](
    sa.update(tenant_table)
    .values(deleted_at=sa.bindparam("at"))
    .where(tenant_table.c.id == sa.bindparam("tenant"))
)

LOGIN = "/api/tenant/auth/login"
PROFILE = "/api/tenant/auth/profile"
POSTS = "/api/public/blog/posts"
WEEK = timedelta(days=7)


async def suspend(services: Services, tenant: Tenant) -> Tenant:
    return await services.lifecycle.update(system_context("ada"), tenant, is_active=False)


async def delete(services: Services, tenant: Tenant) -> Tenant:
    """Delete a tenant; return it as the catalog then has it."""
    suspended = await suspend(services, tenant)
    await services.deletion.delete(system_context("ada"), suspended, name=tenant.name)
    return await deleted_tenants.get(services.catalog, tenant.id)


async def undelete(services: Services, deleted: Tenant, name: str | None = None) -> Tenant:
    return await services.deletion.undelete(system_context("ada"), deleted, name=name)


async def age(services: Services, deleted: Tenant, by: timedelta) -> None:
    """Change when a tenant was deleted."""
    await services.catalog.execute(_AGE, tenant=deleted.id, at=system_context("ada").now - by)


def states(settings: Settings) -> dict[str, str]:
    return dict(raw_sql.rows(settings.catalog, "SELECT name, state FROM tenant"))


class TestDelete:
    async def test_rejects_the_credentials_at_once_and_keeps_the_database(self, world: World):
        services, acme = world.services, world.acme
        token = await world.mcp_token(acme)
        async with world.public(acme) as by_key, world.client(x_mcp_token=token) as by_token:
            assert (await by_key.get(POSTS)).status_code == 200

            deleted = await delete(services, acme.tenant)

            assert (await by_key.get(POSTS)).status_code == 401
            assert (await by_token.get(POSTS)).status_code == 401
        assert deleted.database_name in await all_names(services)
        assert await tenants.find(services.catalog, acme.tenant.id) is None
        listed_ = await deleted_tenants.page(services.catalog, Window())
        assert [one.id for one in listed_.items] == [acme.tenant.id]

    async def test_needs_a_suspended_tenant_and_its_exact_name(self, services: Services):
        acme = (await provision(services, "acme")).tenant
        ctx = system_context("ada")

        with pytest.raises(TenantActive):
            await services.deletion.delete(ctx, acme, name="acme")
        suspended = await suspend(services, acme)
        with pytest.raises(WrongName):
            await services.deletion.delete(ctx, suspended, name="Acme")

        assert await tenants.find(services.catalog, acme.id) == suspended

    @pytest.mark.slow
    async def test_frees_the_name_and_not_the_database(
        self, services: Services, settings: Settings
    ):
        deleted = await delete(services, (await provision(services, "acme")).tenant)

        await provision(services, "acme")

        found = raw_sql.rows(settings.catalog, "SELECT name, state FROM tenant ORDER BY state")
        assert found == [("acme", "deleted"), ("acme", "ready")]
        assert deleted.database_name in await all_names(services)

    @pytest.mark.slow
    async def test_of_nothing_is_kept_with_zero_days(self, settings: Settings):
        at_once = settings.model_copy(update={"deleted_days": 0})
        async with open_services(at_once, works=False) as services:
            acme = await suspend(services, (await provision(services, "acme")).tenant)

            kept_until = await services.deletion.delete(system_context("ada"), acme, name="acme")

            assert kept_until is None
            assert listed(settings) == set()
            assert acme.database_name not in await all_names(services)

    @pytest.mark.slow
    async def test_takes_a_planned_tenant_out_of_a_run(self, gated: Settings, gate: Gate):
        async with open_services(gated, works=False) as services:
            made = await gates.tenants(services, 2)
            gate.build()
            gate.open()
            run_id = await plan(services)
            await delete(services, made[0])

            async with open_services(gated) as worker:
                run = await worker.fleet.wait(run_id)

            errors = raw_sql.rows(gated.catalog, "SELECT error FROM tenant_migration")
            assert (run.success_count, run.failed_count) == (1, 1)
            assert (DELETED,) in errors
            assert [is_migrated(services, one) for one in made] == [False, True]


class TestUndelete:
    async def test_restores_the_tenant_suspended_with_its_credentials(self, world: World):
        services, acme = world.services, world.acme
        restored = await undelete(services, await delete(services, acme.tenant))

        async with world.public(acme) as client:
            while_suspended = (await client.get(POSTS)).status_code
            await services.lifecycle.update(system_context("ada"), restored, is_active=True)
            active = await client.get(POSTS)

        assert (restored.is_active, restored.deleted_at) == (False, None)
        assert (while_suspended, active.status_code) == (403, 200)
        assert "acme-canary" in active.text

    async def test_leaves_the_sessions_ended_and_mcp_tokens_valid(self, world: World):
        services, acme = world.services, world.acme
        token = await world.mcp_token(acme)
        async with await world.owner(acme) as before, world.client(x_mcp_token=token) as assistant:
            first = (await before.get(PROFILE)).status_code
            restored = await undelete(services, await delete(services, acme.tenant))
            await services.lifecycle.update(system_context("ada"), restored, is_active=True)

            old = (await before.get(PROFILE)).status_code
            by_assistant = (await assistant.get(PROFILE)).status_code
            async with world.public(acme) as client:
                login = await client.post(
                    LOGIN, json={"email": acme.owner.email, "password": PASSWORD}
                )

        assert (first, old, by_assistant, login.status_code) == (200, 401, 200, 200)

    async def test_keeps_the_tenant_deleted_if_its_database_is_missing(
        self, services: Services, settings: Settings
    ):
        """Then its sessions could not be ended."""
        deleted = await delete(services, (await provision(services, "acme")).tenant)
        await services.databases.server(deleted.server_name).drop(deleted.database_name)

        with pytest.raises(DatabaseUnavailable):
            await undelete(services, deleted)

        assert states(settings) == {"acme": "deleted"}

    async def test_brings_a_tenant_to_the_head_when_it_is_activated(
        self, gated: Settings, gate: Gate
    ):
        async with open_services(gated) as services:
            [made] = await gates.tenants(services, 1)
            deleted = await delete(services, made)
            gate.build()
            gate.open()
            await services.fleet.wait(await plan(services))

            restored = await undelete(services, deleted)
            behind = not is_migrated(services, made)
            await services.lifecycle.update(system_context("ada"), restored, is_active=True)

            assert behind
            assert is_migrated(services, made)

    async def test_needs_a_new_name_if_another_tenant_has_the_name(self, services: Services):
        deleted = await delete(services, (await provision(services, "acme")).tenant)
        await provision(services, "ACME", email="b@example.com")

        with pytest.raises(TenantNameInUse):
            await undelete(services, deleted)
        restored = await undelete(services, deleted, "acme 2")

        assert (restored.id, restored.name) == (deleted.id, "acme 2")
        assert await tenants.get_by_name(services.catalog, "acme 2") == restored

    async def test_is_possible_once(self, services: Services):
        deleted = await delete(services, (await provision(services, "acme")).tenant)
        await undelete(services, deleted)

        with pytest.raises(DeletedTenantNotFound):
            await undelete(services, deleted)
        with pytest.raises(DeletedTenantNotFound):
            await services.deletion.purge(system_context("ada"), deleted, name="acme")

        assert deleted.database_name in await all_names(services)

    async def test_is_in_the_audit_log(self, services: Services):
        made = (await provision(services, "acme")).tenant
        deleted = await undelete(services, await delete(services, made), "new")
        deleted = await delete(services, deleted)
        await services.deletion.purge(system_context("ada"), deleted, name="new")

        page = await audit.LOG.page(services.catalog, Window(1, 5))

        found = {one.action: one for one in page.items}
        assert set(found) == {"tenant.purge", "tenant.delete", "tenant.update", "tenant.undelete"}
        assert found["tenant.undelete"].changes == [{"field": "name", "old": "acme", "new": "new"}]
        assert {one.tenant_id for one in page.items} == {made.id}


class TestPurge:
    async def test_removes_everything(self, world: World, settings: Settings):
        await world.mcp_token(world.acme)
        deleted = await delete(world.services, world.acme.tenant)

        with pytest.raises(WrongName):
            await world.services.deletion.purge(system_context("ada"), deleted, name="Acme")
        await world.services.deletion.purge(system_context("ada"), deleted, name="acme")

        assert listed(settings) == {"globex"}
        assert deleted.database_name not in await all_names(world.services)
        # The other tenant has one key, and no McpToken.
        for table, left in (("api_key", 1), ("mcp_token", 0)):
            assert raw_sql.rows(settings.catalog, f"SELECT count(*) FROM {table}") == [(left,)]

    async def test_takes_those_that_were_deleted_long_enough_ago(self, settings: Settings):
        async with open_services(settings, works=False) as services:
            old, new = [
                await delete(services, (await provision(services, name)).tenant)
                for name in ("old", "new")
            ]
            await age(services, old, WEEK + timedelta(seconds=1))
            await age(services, new, WEEK - timedelta(minutes=5))

            await services.job_worker.reap()
            await services.deletion.purge_expired(system_context("housekeeping"))

            assert states(settings) == {"new": "deleted"}
            assert old.database_name not in await all_names(services)

    @on_postgresql
    async def test_says_that_another_session_kept_the_database_and_tries_again(
        self, settings: Settings, ordinary: Settings
    ):
        """The session is a superuser's, which Tenantry's role must not terminate."""
        async with open_services(ordinary, works=False) as services:
            deleted = await delete(services, (await provision(services, "acme")).tenant)
            other = await delete(services, (await provision(services, "other")).tenant)
            url = with_database(settings.servers["default"].address, deleted.database_name)

            with connected(url):
                with pytest.raises(DatabaseNotDropped, match=r"superuser|permission denied"):
                    await services.deletion.purge(system_context("ada"), deleted, name="acme")
                assert states(settings)["acme"] == "deleting"
                await services.job_worker.reap()
                assert states(settings)["acme"] == "deleting"
                await services.deletion.purge(system_context("ada"), other, name="other")
                assert other.database_name not in await all_names(services)
            await services.job_worker.reap()

            assert listed(settings) == set()
            assert deleted.database_name not in await all_names(services)

    @pytest.mark.slow
    async def test_removes_a_bounded_number_at_a_time(self, settings: Settings):
        async with open_services(settings, works=False) as services:
            for number in range(PURGED_MAX + 1):
                made = await provision(services, f"tenant{number}")
                await age(services, await delete(services, made.tenant), 2 * WEEK)

            await services.deletion.purge_expired(system_context("housekeeping"))

            assert len(listed(settings)) == 1

    async def test_that_is_interrupted_is_completed(self, settings: Settings, faults: Faults):
        async with open_services(settings, works=False) as services:
            deleted = await delete(services, (await provision(services, "acme")).tenant)

            def cut_short(_: object) -> None:
                raise asyncio.CancelledError

            faults.before(services.databases, "forget", cut_short, once=True)
            with pytest.raises(asyncio.CancelledError):
                await services.deletion.purge(system_context("ada"), deleted, name="acme")
            with pytest.raises(DeletedTenantNotFound):
                await undelete(services, deleted)

            await services.job_worker.reap()

            assert listed(settings) == set()
            assert deleted.database_name not in await all_names(services)

    @pytest.mark.slow
    async def test_happens_in_the_background_after_any_kill(self, settings: Settings):
        """Processes that purge are killed again and again; the next one completes the work."""
        async with open_services(settings, works=False) as services:
            names = set()
            for number in range(6):
                made = await provision(services, f"tenant{number}")
                deleted = await delete(services, made.tenant)
                await age(services, deleted, 2 * WEEK)
                names.add(deleted.database_name)
        for number in range(4):
            async with running("work", settings) as program:
                await program.line()
                await asyncio.sleep(0.03 * number)
                program.signal(signal.SIGKILL)
        async with running("work", settings):
            async with asyncio.timeout(60):
                while listed(settings):  # noqa: ASYNC110 - of another process
                    await asyncio.sleep(0.1)

        async with open_services(settings, works=False) as services:
            assert not names & await all_names(services)
