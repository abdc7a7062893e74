"""McpTokens: issued by an admin or by the signed-in user, and what they open."""

import asyncio
from datetime import timedelta
from typing import Any

import httpx
import pytest

from tenantry.access import credentials
from tenantry.access.principal import ALL_SCOPES
from tenantry.catalog.credentials import TOKENS_PER_TENANT_MAX
from tenantry.kit.clock import utc_now
from tenantry.kit.context import system_context
from tests.acceptance.shapes import ISSUED_MCP_TOKEN, MCP_TOKEN, instant, list_of, must_be
from tests.acceptance.support import (
    CHANGE_PASSWORD,
    LOGIN,
    MODULES,
    NEW_PASSWORD,
    OWN_TOKENS,
    POSTS,
    PROFILE,
    TENANTS,
    UNKNOWN_ID,
    add_owner,
    add_user,
    catalog_of,
    done,
    encoded,
    log_in,
    ok,
    patch_tenant,
    patch_user,
    refused,
    session,
    with_long_waits,
)
from tests.conftest import PASSWORD, World

READ_SCOPES = ["content:read", "modules:read", "profile:read"]
FULL = {"name": "assistant"}
OWN = {**FULL, "password": PASSWORD}

BAD_TOKENS: tuple[Any, ...] = (
    {},
    {"name": None},
    {"name": ""},
    {"name": " "},
    {"name": 1},
    {"name": "x" * 5_000},
    {"name": "assis\0tant"},
    {"name": "assis\ud800tant"},
    {**FULL, "scopes": []},
    {**FULL, "scopes": ["content:read", "everything"]},
    {**FULL, "scopes": "content:read"},
    {**FULL, "scopes": [None]},
    {**FULL, "expiresAt": "2020-01-01T00:00:00Z"},
    {**FULL, "expiresAt": "9999-12-31T23:59:59-14:00"},
    {**FULL, "expiresAt": "2099-01-01T00:00:00"},
    {**FULL, "expiresAt": "soon"},
    {**FULL, "expiresAt": 4102444800},
)
BAD_BINDINGS: tuple[Any, ...] = (
    {**FULL, "userId": UNKNOWN_ID},
    {**FULL, "userId": "rubbish"},
    {**FULL, "userId": 1},
)


def path_of(world: World) -> str:
    return f"{TENANTS}/{world.acme.tenant.id}/mcp-tokens"


def in_days(days: float) -> str:
    return (utc_now() + timedelta(days=days)).isoformat()


async def issue(world: World, **wanted: object) -> Any:
    """Return what an admin gets for a new token of acme."""
    admin = await world.admin()
    return ok(await admin.post(path_of(world), json={**FULL, **wanted}), 201)


def bearer_of(issued: dict[str, str], world: World) -> httpx.AsyncClient:
    return world.client(x_mcp_token=issued["token"])


class TestIssueAsAdmin:
    async def test_returns_a_token_this_once(self, world: World) -> None:
        """201; by default it only reads, for 30 days, bound to no user."""
        admin = await world.admin()

        answer = await admin.post(path_of(world), json=FULL)

        issued = ok(answer, 201)
        must_be(issued, ISSUED_MCP_TOKEN)
        assert answer.headers["cache-control"] == "no-store"
        assert issued["token"].startswith("tnm_")
        assert issued["token"].startswith(issued["prefix"])
        assert len(issued["prefix"]) < 20
        assert issued["scopes"] == READ_SCOPES
        assert (issued["name"], issued["userId"]) == ("assistant", None)
        lifetime = instant(issued["expiresAt"]) - instant(issued["createdAt"])
        assert lifetime == timedelta(days=30)
        listed = await admin.get(path_of(world))
        must_be(ok(listed), {"items": list_of(MCP_TOKEN)})
        [shown] = ok(listed)["items"]
        assert shown == {name: issued[name] for name in MCP_TOKEN}
        assert issued["token"] not in listed.text
        assert issued["token"] not in catalog_of(world).dump()
        ok(await bearer_of(issued, world).get(MODULES))
        await world.services.usage.write()
        [used] = ok(await admin.get(path_of(world)))["items"]
        assert utc_now() - instant(used["lastUsedAt"]) < timedelta(seconds=30)

    async def test_takes_a_user_scopes_and_an_expiry(self, world: World) -> None:
        """At most 365 days ahead, returned in UTC."""
        user = str(world.acme.owner.id)
        expires_at = utc_now().replace(microsecond=0) + timedelta(days=364)
        local = expires_at.astimezone().isoformat().replace("+00:00", "Z")

        issued = await issue(world, userId=user, scopes=["profile:read"], expiresAt=local)

        assert issued["userId"] == user
        assert issued["scopes"] == ["profile:read"]
        assert instant(issued["expiresAt"]) == expires_at
        assert ok(await bearer_of(issued, world).get(PROFILE))["id"] == user

    async def test_returns_every_instant_in_utc(self, world: World) -> None:
        """Whatever the offset that was sent."""
        day = (utc_now() + timedelta(days=10)).date()

        issued = await issue(world, expiresAt=f"{day}T02:00:00+02:00")

        assert issued["expiresAt"] == f"{day}T00:00:00Z"

    async def test_refuses_a_bad_body(self, world: World) -> None:
        """400: in the past, too far ahead, no such scope, no such user here."""
        admin = await world.admin()
        other = {**FULL, "userId": str(world.globex.owner.id)}
        far = {**FULL, "expiresAt": in_days(365.01)}

        for body in (*BAD_TOKENS, *BAD_BINDINGS, other, far):
            refused(await admin.post(path_of(world), content=encoded(body)), 400)
        refused(await admin.post(f"{TENANTS}/{UNKNOWN_ID}/mcp-tokens", json=FULL), 404)
        refused(await admin.get(f"{TENANTS}/{UNKNOWN_ID}/mcp-tokens"), 404)

        assert ok(await admin.get(path_of(world)))["items"] == []

    async def test_is_revoked_at_the_next_request(self, world: World) -> None:
        """A revoked token is 401, also with a valid key and bearer; others go on."""
        admin = await world.admin()
        issued, other = await issue(world), await issue(world)
        client = bearer_of(issued, world)
        beside = await session(world, world.acme)
        beside.headers["x-mcp-token"] = issued["token"]
        path = f"{path_of(world)}/{issued['id']}"
        ok(await client.get(MODULES))
        ok(await beside.get(MODULES))

        done(await admin.delete(path))

        for request in (client.get(MODULES), client.get(POSTS), beside.get(MODULES)):
            refused(await request, 401)
        ok(await bearer_of(other, world).get(MODULES))
        refused(await admin.delete(path), 404)
        globex = f"{TENANTS}/{world.globex.tenant.id}/mcp-tokens/{other['id']}"
        refused(await admin.delete(globex), 404)
        ok(await bearer_of(other, world).get(MODULES))


class TestIssueAsUser:
    async def test_binds_the_token_to_the_caller(self, world: World) -> None:
        """It acts as that user, whatever the body says of others."""
        user = await session(world, world.acme)
        other = await add_user(world, world.acme, "other@acme.example.com")

        answer = await user.post(OWN_TOKENS, json={**OWN, "userId": other["id"]})

        issued = ok(answer, 201)
        must_be(issued, ISSUED_MCP_TOKEN)
        assert answer.headers["cache-control"] == "no-store"
        assert issued["userId"] == str(world.acme.owner.id)
        profile = ok(await bearer_of(issued, world).get(PROFILE))
        assert profile["id"] == str(world.acme.owner.id)

    async def test_shows_and_revokes_ones_own_alone(self, world: World) -> None:
        """Tokens of other users, and unbound ones, do not exist for the caller."""
        user = await session(world, world.acme)
        added = await add_user(world, world.acme, "other@acme.example.com")
        token = ok(await log_in(world, world.acme, email=added["email"]))["token"]
        other = world.client(authorization=f"Bearer {token}", x_api_key=world.acme.key.secret)
        mine = ok(await user.post(OWN_TOKENS, json=OWN), 201)
        theirs = ok(await other.post(OWN_TOKENS, json=OWN), 201)
        nobodys = await issue(world)

        listed = ok(await user.get(OWN_TOKENS))
        must_be(listed, {"items": list_of(MCP_TOKEN)})
        assert [one["id"] for one in listed["items"]] == [mine["id"]]
        for one in (theirs, nobodys, {"id": UNKNOWN_ID}, {"id": "rubbish"}):
            refused(await user.delete(f"{OWN_TOKENS}/{one['id']}"), 404)
        done(await user.delete(f"{OWN_TOKENS}/{mine['id']}"))

        refused(await bearer_of(mine, world).get(MODULES), 401)
        ok(await bearer_of(theirs, world).get(MODULES))
        assert ok(await user.get(OWN_TOKENS)) == {"items": []}

    @pytest.mark.slow
    async def test_refuses_a_bad_body(self, world: World) -> None:
        """400, by the same rules as for admins."""
        user = await session(world, world.acme)
        far = {**FULL, "expiresAt": in_days(365.01)}

        for body in (*BAD_TOKENS, far):
            asked = {**body, "password": PASSWORD}
            refused(await user.post(OWN_TOKENS, content=encoded(asked)), 400)

        assert ok(await user.get(OWN_TOKENS)) == {"items": []}

    async def test_is_for_signed_in_people(self, world: World) -> None:
        """403 for every McpToken, to list, to issue and to revoke: none makes another."""
        sends = (
            lambda client: client.get(OWN_TOKENS),
            lambda client: client.post(OWN_TOKENS, json=OWN),
            lambda client: client.delete(f"{OWN_TOKENS}/{UNKNOWN_ID}"),
        )
        for bound in (True, False):
            token = world.client(x_mcp_token=await world.mcp_token(world.acme, bound=bound))
            for send in sends:
                refused(await send(token), 403)
        await patch_tenant(world, world.acme, modules=["blog"])
        for send in sends:
            refused(await send(await session(world, world.acme)), 403)


def copy_tokens(world: World, copies: int) -> None:
    """Copy the only McpToken of the installation so many times, without requests."""
    raw = catalog_of(world)
    new_id = "gen_random_uuid()" if raw.path is None else "lower(hex(randomblob(16)))"
    raw.multiply("mcp_token", copies, id=new_id, digest="digest || ' ' || i")


class TestMaximum:
    @pytest.mark.slow
    async def test_of_a_user_is_named_in_the_refusal(self, world: World) -> None:
        """409; a revoked or expired token makes room, and other users are not affected."""
        owner = await world.owner(world.acme)
        first = ok(await owner.post(OWN_TOKENS, json=OWN), 201)
        copy_tokens(world, credentials.TOKENS_PER_USER_MAX - 2)
        ok(await owner.post(OWN_TOKENS, json=OWN), 201)

        message = refused(await owner.post(OWN_TOKENS, json=OWN), 409)

        assert "50 McpTokens" in message
        admin = await world.admin()
        bound = {**FULL, "userId": str(world.acme.owner.id)}
        refused(await admin.post(path_of(world), json=bound), 409)
        ok(await admin.post(path_of(world), json=FULL), 201)
        done(await owner.delete(f"{OWN_TOKENS}/{first['id']}"))
        ends = utc_now() + timedelta(seconds=8)
        ok(await owner.post(OWN_TOKENS, json={**OWN, "expiresAt": ends.isoformat()}), 201)
        refused(await owner.post(OWN_TOKENS, json=OWN), 409)
        await asyncio.sleep((ends - utc_now()).total_seconds() + 0.1)
        ok(await owner.post(OWN_TOKENS, json=OWN), 201)
        assert len(ok(await owner.get(OWN_TOKENS))["items"]) == credentials.TOKENS_PER_USER_MAX

    async def test_of_a_tenant_holds_under_concurrent_requests(self, world: World) -> None:
        admin = await world.admin()
        await issue(world)
        copy_tokens(world, TOKENS_PER_TENANT_MAX - 4)

        answers = await asyncio.gather(*(admin.post(path_of(world), json=FULL) for _ in range(8)))

        assert sorted(answer.status_code for answer in answers) == [201] * 3 + [409] * 5
        assert len(ok(await admin.get(path_of(world)))["items"]) == TOKENS_PER_TENANT_MAX
        other = f"{TENANTS}/{world.globex.tenant.id}/mcp-tokens"
        ok(await admin.post(other, json=FULL), 201)


class TestMcpToken:
    async def test_opens_tenant_and_public_endpoints(self, world: World) -> None:
        """Alone: no user's password, no JWT and no key is needed; but no admin endpoint."""
        token = world.client(x_mcp_token=await world.mcp_token(world.acme))

        assert ok(await token.get(PROFILE))["email"] == world.acme.owner.email
        assert len(ok(await token.get(MODULES))["items"]) == 2
        [post] = ok(await token.get(POSTS))["items"]
        assert post["title"] == "Hello from acme"
        ok(await token.get(f"{POSTS}/{post['slug']}"))
        ok(await token.put(PROFILE, json={"fullName": "Me", "email": "me@acme.example.com"}))
        refused(await token.get(TENANTS), 401)
        login = {"email": world.acme.owner.email, "password": "x"}
        refused(await token.post(LOGIN, json=login), 401)

    @pytest.mark.slow
    async def test_ends_at_its_own_date(self, world: World) -> None:
        """It is valid until then, and 401 afterwards, whatever other credentials are sent."""
        user = str(world.acme.owner.id)
        beside = await session(world, world.acme)
        longer = await issue(world)
        ends = utc_now() + timedelta(seconds=5)
        issued = await issue(world, userId=user, expiresAt=ends.isoformat())
        token = bearer_of(issued, world)
        beside.headers["x-mcp-token"] = issued["token"]
        for path in (PROFILE, MODULES, POSTS):
            ok(await token.get(path))

        await asyncio.sleep((ends - utc_now()).total_seconds() + 0.05)

        for path in (PROFILE, MODULES, POSTS):
            refused(await token.get(path), 401)
            refused(await beside.get(path), 401)
        ok(await bearer_of(longer, world).get(MODULES))

    async def test_is_checked_first(self, world: World) -> None:
        """Where there is none, the key counts; where there is one, it alone is the principal."""
        good = await world.mcp_token(world.acme)
        key = world.acme.key.secret
        bearer = f"Bearer {await world.token(world.acme)}"
        others = f"Bearer {await world.token(world.globex)}"
        no_token: list[dict[str, str]] = [{}, {"x_mcp_token": ""}, {"x_mcp_token": "  "}]
        bad_token = ["tnm_unknown", f"{good}x", good[:-1], key, bearer, good.upper()]

        for headers in no_token:  # none is found: the key is the fallback
            ok(await world.client(**headers, x_api_key=key).get(POSTS))
            ok(await world.client(**headers, x_api_key=key, authorization=bearer).get(PROFILE))
            refused(await world.client(**headers, authorization=bearer).get(PROFILE), 401)
        for bad in bad_token:  # one is found, and it is bad: no fall-back
            client = world.client(x_mcp_token=bad, x_api_key=key, authorization=bearer)
            for path in (PROFILE, MODULES, POSTS):
                refused(await client.get(path), 401)
        for beside in (  # a valid token is found: other credentials are ignored
            {"authorization": "Bearer rubbish"},
            {"authorization": others},
            {"authorization": f"Bearer {await world.admin_token()}"},
            {"x_api_key": "tnk_unknown"},
            {"x_api_key": ""},
            {"x_api_key": key, "authorization": others},
        ):
            client = world.client(x_mcp_token=good, **beside)
            for path in (PROFILE, MODULES, POSTS):
                ok(await client.get(path))
            assert ok(await client.get(PROFILE))["id"] == str(world.acme.owner.id)

    async def test_agrees_with_the_key_of_the_same_request(self, world: World) -> None:
        """A valid key of another tenant is 403; an invalid one is ignored."""
        token = await world.mcp_token(world.acme)
        admin = await world.admin()
        keys = f"{TENANTS}/{world.globex.tenant.id}/api-keys"
        issued = ok(await admin.post(keys, json={}), 201)
        client = world.client(x_mcp_token=token, x_api_key=issued["key"])

        for path in (PROFILE, MODULES, POSTS):
            refused(await client.get(path), 403)
        done(await admin.delete(f"{keys}/{issued['id']}"))

        for path in (PROFILE, MODULES, POSTS):
            ok(await client.get(path))

    async def test_is_closed_with_its_tenant_its_user_and_its_module(self, world: World) -> None:
        """403 while one of them is off, at the very next request; back when it is on again.

        But a token that is bound to a deactivated user stays invalid.
        """
        user = world.acme.owner.id
        bound = world.client(x_mcp_token=await world.mcp_token(world.acme))
        unbound = world.client(x_mcp_token=await world.mcp_token(world.acme, bound=False))
        for token in (bound, unbound):
            ok(await token.get(MODULES))

        await patch_tenant(world, world.acme, isActive=False)
        for token in (bound, unbound):
            refused(await token.get(MODULES), 403)
        await patch_tenant(world, world.acme, isActive=True, modules=["blog"])
        for token in (bound, unbound):
            refused(await token.get(MODULES), 403)
            refused(await token.get(POSTS), 403)
        await patch_tenant(world, world.acme, modules=["blog", "mcp"])
        await add_owner(world, world.acme)
        await patch_user(world, world.acme, user, isActive=False)
        refused(await bound.get(MODULES), 403)
        refused(await bound.get(POSTS), 403)
        ok(await unbound.get(MODULES))
        await patch_user(world, world.acme, user, isActive=True)
        refused(await bound.get(MODULES), 401)
        ok(await unbound.get(MODULES))

    async def test_opens_what_its_scopes_allow(self, world: World) -> None:
        """403 for the rest; without a user, no profile at all."""
        needs = {"profile:read": PROFILE, "modules:read": MODULES, "content:read": POSTS}

        for scope in sorted(ALL_SCOPES):
            token = world.client(x_mcp_token=await world.mcp_token(world.acme, scope))
            for needed, path in needs.items():
                answer = await token.get(path)
                assert answer.status_code == (200 if needed == scope else 403)
        unbound = world.client(x_mcp_token=await world.mcp_token(world.acme, bound=False))
        ok(await unbound.get(POSTS))
        refused(await unbound.get(PROFILE), 403)

    async def test_is_refused_when_sent_twice_or_elsewhere(self, world: World) -> None:
        """400 twice; in the query, in a cookie or as a bearer it is no McpToken."""
        token = await world.mcp_token(world.acme)
        twice = [("x-mcp-token", token)] * 2

        refused(await world.stranger().get(POSTS, headers=twice), 400)
        refused(await world.stranger().get(POSTS, params={"X-Mcp-Token": token}), 401)
        refused(await world.client(cookie=f"X-Mcp-Token={token}").get(POSTS), 401)
        refused(await world.client(authorization=f"Bearer {token}").get(POSTS), 401)
        key = world.acme.key.secret
        as_bearer = world.client(authorization=f"Bearer {token}", x_api_key=key)
        refused(await as_bearer.get(MODULES), 401)


class TestPasswordOfTheUser:
    """A bound token ends with the password of its user, and is issued with it."""

    @pytest.mark.slow
    async def test_is_asked_for_again(self, world: World) -> None:
        """A stolen session alone issues nothing, and cannot guess."""
        world = with_long_waits(world)
        user = await session(world, world.acme)

        refused(await user.post(OWN_TOKENS, json=FULL), 400)
        for _ in range(5):
            refused(await user.post(OWN_TOKENS, json={**FULL, "password": "wrong"}), 400)
        refused(await user.post(OWN_TOKENS, json=OWN), 429)

        assert ok(await user.get(OWN_TOKENS)) == {"items": []}

    async def test_ends_the_tokens_when_it_is_changed(self, world: World) -> None:
        """At the next request, at every endpoint, and off the list; other tokens live on."""
        user = await session(world, world.acme)
        mine = bearer_of(ok(await user.post(OWN_TOKENS, json=OWN), 201), world)
        by_admin = bearer_of(await issue(world, userId=str(world.acme.owner.id)), world)
        unbound = bearer_of(await issue(world), world)

        body = {"currentPassword": PASSWORD, "newPassword": NEW_PASSWORD}
        done(await user.put(CHANGE_PASSWORD, json=body))

        for token in (mine, by_admin):
            refused(await token.get(PROFILE), 401)
            refused(await token.get(MODULES), 401)
            refused(await token.put(PROFILE, json={"fullName": "A", "email": "a@x.org"}), 401)
        ok(await unbound.get(MODULES))
        assert ok(await user.get(OWN_TOKENS)) == {"items": []}

    async def test_keeps_them_on_request(self, world: World) -> None:
        """`keepMcpTokens` is a choice that the client makes."""
        user = await session(world, world.acme)
        mine = bearer_of(ok(await user.post(OWN_TOKENS, json=OWN), 201), world)

        body = {"currentPassword": PASSWORD, "newPassword": NEW_PASSWORD, "keepMcpTokens": True}
        done(await user.put(CHANGE_PASSWORD, json=body))

        ok(await mine.get(PROFILE))
        assert len(ok(await user.get(OWN_TOKENS))["items"]) == 1

    async def test_ends_the_tokens_when_it_is_reset(self, world: World) -> None:
        """By an admin."""
        token = bearer_of(await issue(world, userId=str(world.acme.owner.id)), world)

        await patch_user(world, world.acme, world.acme.owner.id, password=NEW_PASSWORD)

        refused(await token.get(PROFILE), 401)
        refused(await token.put(PROFILE, json={"fullName": "A", "email": "a@x.org"}), 401)

    async def test_ends_a_token_that_is_issued_at_the_same_moment(self, world: World) -> None:
        """The token belongs to the password that was checked, whenever it is written."""
        user = await session(world, world.acme)
        before = {"user_id": world.acme.owner.id, "user_generation": 0}
        body = {"currentPassword": PASSWORD, "newPassword": NEW_PASSWORD}
        done(await user.put(CHANGE_PASSWORD, json=body))

        late = await credentials.issue_mcp_token(
            system_context("test"),
            world.services.catalog,
            world.acme.tenant.id,
            name="late",
            **before,  # type: ignore[arg-type]
        )

        refused(await world.client(x_mcp_token=late.secret).get(PROFILE), 401)

    async def test_a_deactivation_ends_them_for_good(self, world: World) -> None:
        """403 while the user is inactive, and 401 when they are active again."""
        owner = world.acme.owner.id
        token = bearer_of(await issue(world, userId=str(owner)), world)

        await add_owner(world, world.acme)
        await patch_user(world, world.acme, owner, isActive=False)
        refused(await token.get(PROFILE), 403)
        await patch_user(world, world.acme, owner, isActive=True)

        refused(await token.get(PROFILE), 401)
        refused(await token.get(MODULES), 401)
        ok(await bearer_of(await issue(world, userId=str(owner)), world).get(PROFILE))
