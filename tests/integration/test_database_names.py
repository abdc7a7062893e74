"""The name of a database is unique on its server, not among servers."""

from dataclasses import dataclass

import msgspec
import pytest

from tenantry.catalog import tenants
from tenantry.catalog.jobs import ADOPT
from tenantry.catalog.tenants import DatabaseInUse, Tenant, TenantState
from tenantry.kit.clock import utc_now
from tenantry.kit.context import system_context
from tenantry.kit.ids import new_id
from tenantry.services import Services
from tenantry.work.ledger import new_job


@dataclass(frozen=True)
class Listed:
    """Adds and lists tenants with databases of one name."""

    services: Services

    async def add(self, name: str, server_name: str) -> Tenant:
        added = Tenant(
            id=new_id(),
            name=name,
            database_name="shop",
            server_name=server_name,
            state=TenantState.ADOPTING.value,
            is_active=True,
            modules=frozenset(),
            created_at=utc_now(),
            schema_revision=None,
        )
        await tenants.add(self.services.catalog, added, worker_id=self.services.heartbeat.worker_id)
        return added


@pytest.fixture(name="listed")
async def _listed(services: Services) -> Listed:
    await services.worker.stop()
    return Listed(services)


async def test_two_servers_may_have_a_database_of_one_name(listed: Listed):
    await listed.add("acme", "eu")
    await listed.add("globex", "us")


async def test_one_server_may_not(listed: Listed):
    await listed.add("acme", "eu")

    with pytest.raises(DatabaseInUse):
        await listed.add("globex", "eu")


async def test_both_may_be_abandoned(listed: Listed):
    """Abandoned databases do not block the name."""
    catalog, worker_id = listed.services.catalog, listed.services.heartbeat.worker_id
    ctx = system_context("test")
    both = [await listed.add("acme", "eu"), await listed.add("globex", "us")]

    for one in both:
        place = (one.server_name, one.database_name)
        await tenants.condemn(catalog, new_job(ctx, ADOPT, tenant=(one.id, one.name), source=place))

    again = msgspec.structs.replace(both[0], id=new_id(), server_name="asia")
    await tenants.add(catalog, again, worker_id=worker_id)
