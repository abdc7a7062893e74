"""POST /api/tenant/auth/logout and POST /api/admin/auth/logout."""

from datetime import timedelta

import httpx

from tenantry.catalog import admins
from tenantry.kit.clock import utc_now
from tenantry.settings import Settings
from tenantry.tenant import sessions
from tests.acceptance.support import (
    ADMIN_LOGIN,
    MODULES,
    PROFILE,
    TENANTS,
    catalog_of,
    database_of,
    done,
    ok,
    refused,
    restarted,
    session,
)
from tests.conftest import PASSWORD, World

LOGOUT = "/api/tenant/auth/logout"
ADMIN_LOGOUT = "/api/admin/auth/logout"
# The id of a copied session, in SQL.
NUMBERED = "jti || ' ' || i"
NEW_PROFILE = {"fullName": "Ann", "email": "ann@acme.example.com"}


async def admin_session(world: World) -> httpx.AsyncClient:
    body = {"email": world.admin_account.email, "password": PASSWORD}
    token = ok(await world.stranger().post(ADMIN_LOGIN, json=body))["token"]
    return world.client(authorization=f"Bearer {token}")


class TestLogout:
    async def test_ends_this_session_alone(self, world: World) -> None:
        """At the next request, whichever endpoint it is for."""
        one, other = await session(world, world.acme), await session(world, world.acme)

        done(await one.post(LOGOUT))

        refused(await one.get(PROFILE), 401)
        refused(await one.get(MODULES), 401)
        refused(await one.put(PROFILE, json=NEW_PROFILE), 401)
        refused(await one.post(LOGOUT), 401)
        ok(await other.put(PROFILE, json=NEW_PROFILE))
        ok(await (await session(world, world.globex)).get(PROFILE))

    async def test_has_one_name_in_the_audit_log(self, world: World) -> None:
        """Of an admin as of a user."""
        done(await (await session(world, world.acme)).post(LOGOUT))
        done(await (await admin_session(world)).post(ADMIN_LOGOUT))

        async with await world.admin() as admin:
            page = ok(await admin.get("/api/admin/audit-log", params={"action": "logout"}))
        actors = {entry["actor"].partition(":")[0] for entry in page["items"]}
        assert actors == {"user", world.admin_account.email}

    async def test_ends_all_sessions_on_request(self, world: World) -> None:
        """`everywhere`: those of this user, and no others; McpTokens live on."""
        one, other = await session(world, world.acme), await session(world, world.acme)
        others = await session(world, world.globex)
        token = world.client(x_mcp_token=await world.mcp_token(world.acme))

        done(await one.post(LOGOUT, json={"everywhere": True}))

        refused(await one.get(PROFILE), 401)
        refused(await other.get(PROFILE), 401)
        ok(await others.get(PROFILE))
        ok(await token.get(PROFILE))

    async def test_is_for_signed_in_people(self, world: World) -> None:
        """An McpToken is revoked, and not logged out."""
        token = world.client(x_mcp_token=await world.mcp_token(world.acme))
        refused(await token.post(LOGOUT), 403)

    async def test_holds_in_every_process(self, world: World, settings: Settings) -> None:
        """It is a row of the tenant's database."""
        one = await session(world, world.acme)
        done(await one.post(LOGOUT))

        async with restarted(settings) as client:
            there = client(
                authorization=one.headers["authorization"], x_api_key=world.acme.key.secret
            )
            refused(await there.get(PROFILE), 401)

    async def test_forgets_a_session_when_its_token_has_expired(self, world: World) -> None:
        """The list does not grow without bound."""
        raw = database_of(world, world.acme.tenant)
        done(await (await session(world, world.acme)).post(LOGOUT))
        long_ago = (utc_now() - timedelta(hours=3)).replace(tzinfo=None)
        raw.run("UPDATE tenantry_ended_session SET expires_at = ?", f"{long_ago}")

        done(await (await session(world, world.acme)).post(LOGOUT))

        assert raw.run("SELECT count(*) FROM tenantry_ended_session") == [(1,)]

    async def test_of_too_many_sessions_ends_all(self, world: World) -> None:
        """The list has a bound; above it, all sessions end."""
        ended = [await session(world, world.acme) for _ in range(2)]
        other = await session(world, world.acme)
        raw = database_of(world, world.acme.tenant)

        done(await ended[0].post(LOGOUT))
        raw.multiply("tenantry_ended_session", sessions.ENDED_SESSIONS_MAX - 1, jti=NUMBERED)
        ok(await other.get(PROFILE))
        done(await ended[1].post(LOGOUT))

        for one in (*ended, other):
            refused(await one.get(PROFILE), 401)
        assert raw.run("SELECT count(*) FROM tenantry_ended_session") == [(0,)]
        ok(await (await session(world, world.acme)).get(PROFILE))


class TestAdminLogout:
    async def test_ends_this_session_alone(self, world: World) -> None:
        """At the next request."""
        one, other = await admin_session(world), await admin_session(world)

        done(await one.post(ADMIN_LOGOUT))

        refused(await one.get(TENANTS), 401)
        refused(await one.post(ADMIN_LOGOUT), 401)
        ok(await other.get(TENANTS))

    async def test_ends_all_sessions_on_request(self, world: World) -> None:
        """`everywhere`."""
        one, other = await admin_session(world), await admin_session(world)

        done(await one.post(ADMIN_LOGOUT, json={"everywhere": True}))

        refused(await one.get(TENANTS), 401)
        refused(await other.get(TENANTS), 401)
        ok(await (await admin_session(world)).get(TENANTS))

    async def test_of_too_many_sessions_ends_all(self, world: World) -> None:
        """As for users."""
        ended = [await admin_session(world) for _ in range(2)]
        other = await admin_session(world)
        raw = catalog_of(world)

        done(await ended[0].post(ADMIN_LOGOUT))
        raw.multiply("ended_session", admins.ENDED_SESSIONS_MAX - 1, jti=NUMBERED)
        ok(await other.get(TENANTS))
        done(await ended[1].post(ADMIN_LOGOUT))

        refused(await other.get(TENANTS), 401)
        assert raw.run("SELECT count(*) FROM ended_session") == [(0,)]
        ok(await (await admin_session(world)).get(TENANTS))
