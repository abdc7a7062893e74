"""Requests during the deletion of their tenant: authentication is repeated."""

from collections.abc import AsyncIterator, Callable

import httpx
import pytest

from tenantry.catalog import cache
from tenantry.settings import Settings
from tests.acceptance.support import (
    MODULES,
    POSTS,
    TENANTS,
    database_of,
    done,
    ok,
    patch_tenant,
    refused,
    restarted,
)
from tests.conftest import World

Other = Callable[..., httpx.AsyncClient]
FOREVER = 600.0


@pytest.fixture(name="other")
async def _other(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Other]:
    """Another process, which does not poll for changes, and has one connection open."""
    monkeypatch.setattr(cache, "CHECK_SECONDS", FOREVER)
    monkeypatch.setattr(cache, "FRESH_SECONDS", FOREVER)
    async with restarted(settings.model_copy(update={"tenant_connections": 1})) as other:
        yield other


async def delete(world: World) -> None:
    """Delete acme and its database in the one process."""
    await patch_tenant(world, world.acme, isActive=False)
    for parent in (TENANTS, "/api/admin/deleted-tenants"):
        path = f"{parent}/{world.acme.tenant.id}"
        done(await (await world.admin()).delete(path, params={"name": world.acme.tenant.name}))


class TestDeletedTenant:
    async def test_is_unknown_to_a_request_that_came_in_before(self, world: World, other: Other):
        """Authentication uses the cache, and finds no database to open."""
        token = await world.mcp_token(world.acme, "content:read")
        client = other(x_mcp_token=token)
        refused(await client.get(MODULES), 403)  # the token is known by now, and nothing opened

        await delete(world)

        refused(await client.get(POSTS), 401)
        refused(await client.get(MODULES), 401)

    async def test_is_unknown_to_an_operation_that_has_begun(self, world: World, other: Other):
        """The database was open, and was closed for another one."""
        client = other(x_api_key=world.acme.key.secret)
        ok(await client.get(POSTS))
        ok(await other(x_api_key=world.globex.key.secret).get(POSTS))

        await delete(world)

        refused(await client.get(POSTS), 401)

    async def test_is_distinguished_from_a_lost_database(self, world: World, other: Other):
        """Whatever else has changed: a caller that is still accepted gets 503."""
        client = other(x_api_key=world.acme.key.secret)
        ok(await client.get(POSTS))
        ok(await other(x_api_key=world.globex.key.secret).get(POSTS))

        database_of(world, world.acme.tenant).destroy()

        refused(await client.get(POSTS), 503)
        await patch_tenant(world, world.globex, name="initech")
        refused(await client.get(POSTS), 503)
        await patch_tenant(world, world.acme, isActive=False)
        refused(await client.get(POSTS), 403)
