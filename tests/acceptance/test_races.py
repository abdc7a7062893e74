"""Requests during the deletion of their tenant, or the deactivation of their user."""

import asyncio
from collections.abc import AsyncIterator, Callable

import httpx
import pytest

from tenantry.access.identify import Credentials
from tenantry.catalog.pace import Pace
from tenantry.kit.context import system_context
from tenantry.kit.ids import new_id
from tenantry.settings import Settings
from tenantry.tenant import entry, profile
from tenantry.tenant.entry import PersonContext, Requirements, SessionEnded, UserInactive
from tests.acceptance.support import (
    MODULES,
    NEW_PASSWORD,
    POSTS,
    PROFILE,
    TENANTS,
    add_owner,
    database_of,
    done,
    ok,
    patch_tenant,
    patch_user,
    refused,
    restarted,
)
from tests.conftest import PASSWORD, World

Other = Callable[..., httpx.AsyncClient]
NEVER = Pace(check_seconds=600.0, fresh_seconds=600.0)


@pytest.fixture(name="other")
async def _other(settings: Settings) -> AsyncIterator[Other]:
    """Another process, which does not poll for changes, and has one connection open."""
    async with restarted(settings.model_copy(update={"tenant_connections": 1}), NEVER) as other:
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


async def admitted(world: World, token: str) -> PersonContext:
    """Return the context of a request of acme's owner that was admitted."""
    services, ctx = world.services, system_context(str(new_id()))
    sent = Credentials(f"Bearer {token}", world.acme.key.secret)
    identity = await services.identifier.tenant(ctx, sent)
    return await entry.admit(
        ctx,
        services.databases,
        identity,
        Requirements(requires_session=True),
        PersonContext,
    )


async def change_password(world: World, ctx: PersonContext) -> None:
    services = world.services
    await profile.change_password(
        ctx,
        services.catalog,
        passwords=services.passwords,
        throttle=services.throttle,
        sign_ins=services.sign_ins,
        current_password=PASSWORD,
        new_password=NEW_PASSWORD,
        keep_mcp_tokens=True,
    )


async def switch_off_and_on(world: World) -> None:
    for is_active in (False, True):
        await patch_user(world, world.acme, world.acme.owner.id, isActive=is_active)


class TestDeactivatedUser:
    @pytest.mark.parametrize("is_back", [False, True])
    async def test_gets_no_token_for_a_request_that_was_admitted_before(
        self, world: World, *, is_back: bool
    ):
        services = world.services
        await add_owner(world, world.acme)
        ctx = await admitted(world, await world.token(world.acme))
        if is_back:
            await switch_off_and_on(world)
        else:
            await patch_user(world, world.acme, world.acme.owner.id, isActive=False)

        with pytest.raises(SessionEnded if is_back else UserInactive):
            await profile.confirm_password(
                ctx,
                passwords=services.passwords,
                throttle=services.throttle,
                sign_ins=services.sign_ins,
                password=PASSWORD,
            )

    async def test_does_not_keep_a_session_by_changing_the_password_meanwhile(self, world: World):
        """The deactivation comes while the passwords wait to be hashed."""
        await add_owner(world, world.acme)
        token = await world.token(world.acme)
        ctx = await admitted(world, token)
        others = [asyncio.create_task(world.services.passwords.hash(PASSWORD)) for _ in range(16)]
        changing = asyncio.create_task(change_password(world, ctx))
        while world.services.passwords.pending_count <= len(others):  # noqa: ASYNC110
            await asyncio.sleep(0)

        await switch_off_and_on(world)
        await asyncio.gather(*others)

        with pytest.raises(SessionEnded):
            await changing
        client = world.client(authorization=f"Bearer {token}", x_api_key=world.acme.key.secret)
        refused(await client.get(PROFILE), 401)
