"""A client holds back a body, and its credential or its right ends in the meantime."""

import asyncio
import dataclasses
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import httpx
import pytest

from tenantry.api.door import Api
from tenantry.api.request_body import BodyLimits
from tenantry.api.table import ENDPOINTS
from tenantry.kit.request_log import AccessLog
from tests.acceptance.support import OWN_POSTS, OWN_TOKENS, TENANTS, add_owner, done, ok, refused
from tests.conftest import PASSWORD, World

ADMINS = "/api/admin/admins"
ADMIN_LOGOUT = "/api/admin/auth/logout"
LOGOUT = "/api/tenant/auth/logout"
SLOW_SECONDS = 0.05
POST = {"title": "held back", "content": "text"}
JSON = {"content-type": "application/json"}

Revoke = Callable[[], Awaitable[object]]


@pytest.fixture(name="world")
def _world(world: World) -> World:
    """A world in which a body is slow sooner."""
    limits = BodyLimits(slow_seconds=SLOW_SECONDS)
    api = Api(ENDPOINTS, world.services, AccessLog(as_json=True), body_limits=limits)
    return dataclasses.replace(world, app=api)


async def held(client: httpx.AsyncClient, path: str, body: Any, revoke: Revoke) -> httpx.Response:
    """Send the first byte of a body, revoke, send the rest, and return the response."""
    raw = json.dumps(body).encode()

    async def pieces() -> AsyncIterator[bytes]:
        yield raw[:1]
        await revoke()
        await asyncio.sleep(2 * SLOW_SECONDS)
        yield raw[1:]

    return await client.post(path, content=pieces(), headers=JSON)


async def change_tenant(world: World, **values: bool) -> None:
    async with await world.admin() as admin:
        ok(await admin.patch(f"{TENANTS}/{world.acme.tenant.id}", json=values))


async def titles(world: World) -> list[str]:
    async with await world.owner(world.acme) as owner:
        return [post["title"] for post in ok(await owner.get(OWN_POSTS))["items"]]


class TestSlowBody:
    async def test_is_accepted_while_the_credentials_are_valid(self, world: World):
        async with await world.owner(world.acme) as owner:
            ok(await held(owner, OWN_POSTS, POST, lambda: asyncio.sleep(0)), 201)

    async def test_of_an_admin_who_logged_out_is_rejected(self, world: World):
        body = {"email": "mallory@example.com", "password": PASSWORD}
        async with await world.admin() as admin:

            async def revoke() -> None:
                done(await admin.post(ADMIN_LOGOUT))

            refused(await held(admin, ADMINS, body, revoke), 401)
        async with await world.admin() as admin:
            listed = ok(await admin.get(ADMINS))["items"]
        assert body["email"] not in [one["email"] for one in listed]

    async def test_of_a_user_who_logged_out_is_rejected(self, world: World):
        token = await world.token(world.acme)
        key = world.acme.key.secret
        async with world.client(authorization=f"Bearer {token}", x_api_key=key) as owner:

            async def revoke() -> None:
                done(await owner.post(LOGOUT))

            refused(await held(owner, OWN_POSTS, POST, revoke), 401)
        assert POST["title"] not in await titles(world)

    async def test_of_a_deactivated_user_is_rejected(self, world: World):
        of = world.acme
        await add_owner(world, world.acme)
        path = f"{TENANTS}/{of.tenant.id}/users/{of.owner.id}"
        async with await world.owner(of) as owner, await world.admin() as admin:

            async def revoke() -> None:
                ok(await admin.patch(path, json={"isActive": False}))

            body = {"name": "kept", "password": PASSWORD}
            refused(await held(owner, OWN_TOKENS, body, revoke), 403)

    async def test_of_a_tenant_that_became_read_only_is_rejected(self, world: World):
        async with await world.owner(world.acme) as owner:
            answer = await held(
                owner, OWN_POSTS, POST, lambda: change_tenant(world, isReadOnly=True)
            )
        assert (answer.status_code, answer.headers["x-error-code"]) == (403, "tenant_read_only")
        assert POST["title"] not in await titles(world)

    async def test_of_a_suspended_tenant_is_rejected(self, world: World):
        async with await world.owner(world.acme) as owner:
            refused(
                await held(owner, OWN_POSTS, POST, lambda: change_tenant(world, isActive=False)),
                403,
            )
        await change_tenant(world, isActive=True)
        assert POST["title"] not in await titles(world)

    async def test_with_a_revoked_mcp_token_is_rejected(self, world: World):
        token = await world.mcp_token(world.acme)
        path = f"{TENANTS}/{world.acme.tenant.id}/mcp-tokens"
        async with world.client(x_mcp_token=token) as assistant, await world.admin() as admin:
            token_id = ok(await admin.get(path))["items"][-1]["id"]

            async def revoke() -> None:
                done(await admin.delete(f"{path}/{token_id}"))

            refused(await held(assistant, OWN_POSTS, POST, revoke), 401)
        assert POST["title"] not in await titles(world)
