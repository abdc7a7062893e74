"""A read-only tenant is left out by migration runs and by housekeeping."""

from datetime import timedelta
from functools import partial

import pytest
from argon2 import PasswordHasher

from tenantry.catalog import runs, tenants
from tenantry.catalog.run_claims import READ_ONLY
from tenantry.catalog.tenants import Tenant
from tenantry.db import audit_log
from tenantry.db.audit_log import AuditFilter
from tenantry.fleet.lifecycle import ActivationFailed
from tenantry.fleet.run_options import BadRunOptions, RunOptions
from tenantry.fleet.status import schema_status
from tenantry.kit.clock import utc_now
from tenantry.kit.context import system_context
from tenantry.kit.pages import Window
from tenantry.services import Services, open_services
from tenantry.settings import Settings
from tenantry.tenant.audit import LOG, Retention
from testkit import raw_sql
from tests.conftest import PASSWORD, World
from tests.integration import gates
from tests.integration.gates import Gate, is_migrated
from tests.integration.test_run_options import plan


async def set_read_only(services: Services, tenant: Tenant, *, is_read_only: bool) -> Tenant:
    now = await tenants.get(services.catalog, tenant.id)
    return await services.lifecycle.update(system_context("ada"), now, is_read_only=is_read_only)


class TestRun:
    async def test_leaves_a_read_only_tenant_out_until_it_is_writable(
        self, gated: Settings, gate: Gate
    ):
        async with open_services(gated) as services:
            made = await gates.tenants(services, 2)
            gate.build()
            gate.open()
            await set_read_only(services, made[0], is_read_only=True)

            run = await services.fleet.wait(await plan(services))
            status = await schema_status(services.catalog, services.streams())
            states = [is_migrated(services, one) for one in made]
            with pytest.raises(BadRunOptions, match="no active, writable tenant"):
                await plan(services, RunOptions(tenant_ids=[made[0].id]))
            writable = await set_read_only(services, made[0], is_read_only=False)

            assert (run.total_count, run.success_count) == (1, 1)
            assert (status.total, status.up_to_date) == (1, 1)
            assert states == [False, True]
            assert is_migrated(services, made[0])
            assert writable.schema_revision == status.head

    async def test_does_not_attempt_a_tenant_that_became_read_only_after_it_was_planned(
        self, gated: Settings, gate: Gate
    ):
        async with open_services(gated, works=False) as services:
            made = await gates.tenants(services, 2)
            gate.build()
            gate.open()
            run_id = await plan(services)
            await set_read_only(services, made[0], is_read_only=True)

            async with open_services(gated) as worker:
                run = await worker.fleet.wait(run_id)

            items = await runs.ended(services.catalog, run_id)
            assert (run.success_count, run.failed_count) == (1, 1)
            assert {one.tenant_id: one.error for one in items} == {
                made[0].id: READ_ONLY,
                made[1].id: None,
            }
            assert [is_migrated(services, one) for one in made] == [False, True]

    async def test_that_would_fail_keeps_the_tenant_read_only(self, gated: Settings, gate: Gate):
        async with open_services(gated) as services:
            made = await gates.tenants(services, 1)
            await set_read_only(services, made[0], is_read_only=True)
            gate.build()
            gate.open()
            gates.spoil(services, made[0])

            with pytest.raises(ActivationFailed, match="stays read-only"):
                await set_read_only(services, made[0], is_read_only=False)

            assert (await tenants.get(services.catalog, made[0].id)).is_read_only


class TestHousekeeping:
    async def test_keeps_the_audit_log_of_a_read_only_tenant(self, world: World):
        services, acme, now = world.services, world.acme.tenant, utc_now()
        database = await services.databases.open(acme, writes=True)
        entry = audit_log.new_entry(system_context("ada"), action="test", target="")
        await LOG.add_all(database, [entry])
        retention = Retention(services.catalog, services.databases)
        later = now + timedelta(days=400)

        left = []
        for is_read_only in (True, False):
            await set_read_only(services, acme, is_read_only=is_read_only)
            await retention.prune(now=later, works=[partial(LOG.prune, before=later)])
            found = await LOG.page(database, Window(), AuditFilter(tenant_id=acme.id))
            left.append(found.total_count)
            later += timedelta(hours=2)

        assert left[0] > 0
        assert left[1] == 0


class TestLogin:
    async def test_does_not_renew_the_hash_of_a_read_only_tenant(self, world: World):
        """A hash of a lower cost is replaced at the first login after that."""
        services, acme = world.services, world.acme
        cheap = PasswordHasher(time_cost=1, memory_cost=64, parallelism=1).hash(PASSWORD)
        url = gates.url_of(services, acme.tenant)
        raw_sql.run(url, f"UPDATE tenantry_user SET password_hash = '{cheap}'")
        stored = []
        for is_read_only in (True, False):
            await set_read_only(services, acme.tenant, is_read_only=is_read_only)
            async with world.public(acme) as client:
                body = {"email": acme.owner.email, "password": PASSWORD}
                answer = await client.post("/api/tenant/auth/login", json=body)
            assert answer.status_code == 200, answer.text
            stored += raw_sql.rows(url, "SELECT password_hash FROM tenantry_user")

        assert stored[0] == (cheap,)
        assert stored[1] != (cheap,)
