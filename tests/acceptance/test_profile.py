"""GET and PUT /api/tenant/auth/profile."""

import asyncio
import itertools
from collections.abc import Mapping
from typing import Any
from uuid import UUID

import httpx
import jwt
import pytest

from tenantry.access.principal import Person, Role
from tenantry.kit.clock import utc_now
from testkit.raw_sql import Raw
from tests.acceptance.shapes import TENANT_USER_PROFILE, must_be
from tests.acceptance.support import (
    BROKEN_JSON,
    LOGIN_REFUSED,
    MODULES,
    PROFILE,
    TENANTS,
    add_owner,
    add_user,
    database_of,
    done,
    encoded,
    log_in,
    must_be_for_tenants,
    ok,
    refused,
    session,
)
from tests.conftest import World

CHANGE = {"fullName": "Grace Hopper", "email": "grace@acme.example.com"}

BAD_PROFILES: tuple[Any, ...] = (
    {"fullName": "Grace Hopper"},
    {"email": "grace@acme.example.com"},
    {"fullName": None, "email": "grace@acme.example.com"},
    {"fullName": "Grace Hopper", "email": None},
    {"fullName": 1, "email": "grace@acme.example.com"},
    {"fullName": ["Grace"], "email": "grace@acme.example.com"},
    {"fullName": "", "email": "grace@acme.example.com"},
    {"fullName": "   ", "email": "grace@acme.example.com"},
    {"fullName": "x" * 10_000, "email": "grace@acme.example.com"},
    {"fullName": "Grace\0", "email": "grace@acme.example.com"},
    {"fullName": "Grace\nHopper", "email": "grace@acme.example.com"},
    {"fullName": "Grace\ud800", "email": "grace@acme.example.com"},
    {"fullName": "Grace", "email": ""},
    {"fullName": "Grace", "email": "grace"},
    {"fullName": "Grace", "email": "grace@"},
    {"fullName": "Grace", "email": "@example.com"},
    {"fullName": "Grace", "email": "a@b@example.com"},
    {"fullName": "Grace", "email": "grace hopper@example.com"},
    {"fullName": "Grace", "email": "Grace <grace@example.com>"},
    {"fullName": "Grace", "email": "grace@example.com\r\nBcc: all@example.com"},
    {"fullName": "Grace", "email": "grace@example.com\0"},
    {"fullName": "Grace", "email": f"{'x' * 64}@{'y' * 60}.{'z' * 60}.{'w' * 60}.example.com"},
    {"fullName": "Grace", "email": f"{'x' * 65}@example.com"},
)

# Whether a second address is the first one in other clothes. The same on both engines.
PAIRS = (
    ("ann@example.com", "ANN@example.com", True),
    ("ann@example.com", "ann@EXAMPLE.com", True),
    ("jos\u00e9@example.com", "jose\u0301@example.com", True),
    ("jos\u00e9@example.com", "JOSE\u0301@example.com", True),
    ("jos\u00e9@example.com", "jose@example.com", False),
    ("\u00c4nn@example.com", "\u00e4nn@example.com", True),
    ("iris@example.com", "\u0131ris@example.com", False),
    ("kate@example.com", "\u212aate@example.com", True),
    ("ann@example.com", "ann@example.org", False),
    ("ann.b@example.com", "annb@example.com", False),
    ("ann+b@example.com", "ann@example.com", False),
    ("\u0430nn@example.com", "ann@example.com", False),
)


class TestShowProfile:
    async def test_returns_the_callers_own(self, world: World) -> None:
        """A TenantUserProfile, by a session or by a token that is bound to the user."""
        for client in (
            await session(world, world.acme),
            world.client(x_mcp_token=await world.mcp_token(world.acme, "profile:read")),
        ):
            profile = ok(await client.get(PROFILE))

            must_be(profile, TENANT_USER_PROFILE)
            assert profile["id"] == str(world.acme.owner.id)
            assert profile["email"] == world.acme.owner.email
            assert profile["fullName"] == "Owner acme-canary"
            assert profile["isActive"] is True

    async def test_is_for_people_of_the_tenant(self, world: World) -> None:
        """The table of refusals; an unbound token, or one without the scope, is 403."""
        await must_be_for_tenants(world, lambda client: client.get(PROFILE))

        for secret in (
            await world.mcp_token(world.acme, bound=False),
            await world.mcp_token(world.acme, "modules:read"),
        ):
            refused(await world.client(x_mcp_token=secret).get(PROFILE), 403)


class TestUpdateProfile:
    @pytest.mark.slow
    async def test_returns_the_profile_as_it_then_is(self, world: World) -> None:
        """Name and address are changed, shown as they were typed, and the session goes on."""
        client = await session(world, world.acme)
        before = ok(await client.get(PROFILE))
        typed = {"fullName": " Grace  Hopper ", "email": "Grace.Hopper@Acme.Example.com"}

        after = ok(await client.put(PROFILE, json=typed))

        must_be(after, TENANT_USER_PROFILE)
        assert after == {**before, **typed}
        assert ok(await client.get(PROFILE)) == after
        ok(await log_in(world, world.acme, email="grace.hopper@acme.example.com"))
        refused(await log_in(world, world.acme), 401, LOGIN_REFUSED)
        assert (await (await session(world, world.globex)).get(PROFILE)).status_code == 200

    async def test_refuses_an_address_that_is_in_use(self, world: World) -> None:
        """409, in whatever case it is typed; one's own address is no conflict."""
        client = await session(world, world.acme)
        await add_user(world, world.acme, "taken@acme.example.com")
        before = ok(await client.get(PROFILE))

        for taken in ("taken@acme.example.com", "TAKEN@acme.EXAMPLE.com"):
            refused(await client.put(PROFILE, json={**CHANGE, "email": taken}), 409)

        assert ok(await client.get(PROFILE)) == before
        own = {"fullName": "Me", "email": world.acme.owner.email.upper()}
        assert ok(await client.put(PROFILE, json=own))["email"] == own["email"]
        # An address of another tenant is free here.
        elsewhere = {"fullName": "Me", "email": world.globex.owner.email}
        ok(await client.put(PROFILE, json=elsewhere))

    async def test_is_404_for_a_user_who_was_deleted(self, world: World) -> None:
        """After the body is validated; reading such a profile is 404, too."""
        client = await session(world, world.acme)
        admin = await world.admin()
        await add_owner(world, world.acme)
        done(await admin.delete(f"{TENANTS}/{world.acme.tenant.id}/users/{world.acme.owner.id}"))

        refused(await client.put(PROFILE, json=CHANGE), 404)
        refused(await client.put(PROFILE, json={}), 400)
        refused(await client.get(PROFILE), 404)
        refused(await client.get(MODULES), 401)

    async def test_refuses_a_bad_body(self, world: World) -> None:
        """400, and nothing has changed."""
        client = await session(world, world.acme)
        before = ok(await client.get(PROFILE))

        for broken in BROKEN_JSON:
            refused(await client.put(PROFILE, content=broken), 400)
        for body in BAD_PROFILES:
            refused(await client.put(PROFILE, content=encoded(body)), 400)

        refused(await world.stranger().put(PROFILE, content=b"{"), 401)
        assert "fullName" in refused(await client.put(PROFILE, json=BAD_PROFILES[1]), 400)
        assert "email" in refused(await client.put(PROFILE, json=BAD_PROFILES[0]), 400)
        assert ok(await client.get(PROFILE)) == before

    async def test_is_for_people_of_the_tenant(self, world: World) -> None:
        """The table of refusals; an unbound token, or one without the scope, is 403."""
        await must_be_for_tenants(world, lambda client: client.put(PROFILE, json=CHANGE))

        for secret in (
            await world.mcp_token(world.acme, bound=False),
            await world.mcp_token(world.acme, "profile:read"),
        ):
            refused(await world.client(x_mcp_token=secret).put(PROFILE, json=CHANGE), 403)
        bound = world.client(x_mcp_token=await world.mcp_token(world.acme, "profile:write"))
        assert ok(await bound.put(PROFILE, json=CHANGE))["id"] == str(world.acme.owner.id)

    @pytest.mark.slow
    async def test_compares_addresses_in_one_canonical_form(self, world: World) -> None:
        """Composed and in lower case, by our code: both engines give the same result."""
        client = await session(world, world.acme)
        raw = database_of(world, world.acme.tenant)
        found = []

        for first, second, _ in PAIRS:
            await add_user(world, world.acme, first)
            answer = await client.put(PROFILE, json={"fullName": "Me", "email": second})
            assert answer.status_code in {200, 409}
            found.append((first, second, answer.status_code == 409))
            logged_in = await log_in(world, world.acme, email=second)
            assert logged_in.status_code == 200
            raw.run("DELETE FROM tenantry_user WHERE email = ?", first)

        assert found == list(PAIRS)

    @pytest.mark.slow
    async def test_gives_one_address_to_one_of_many(self, world: World) -> None:
        """Thirty at once for one free address: one has it, the others conflict, none breaks."""
        users = [await add_user(world, world.acme, f"{n}@acme.example.com") for n in range(30)]
        clients = [await client_of_user(world, UUID(user["id"]), user["email"]) for user in users]
        body = {"fullName": "Me", "email": "free@acme.example.com"}

        answers = await asyncio.gather(*(client.put(PROFILE, json=body) for client in clients))

        assert sorted(answer.status_code for answer in answers) == [200] + [409] * 29
        for answer in answers:
            if answer.status_code == 409:
                refused(answer, 409)
        [(count,)] = database_of(world, world.acme.tenant).run(
            "SELECT count(*) FROM tenantry_user WHERE canonical_email = 'free@acme.example.com'"
        )
        assert count == 1


async def client_of_user(world: World, user_id: UUID, email: str) -> httpx.AsyncClient:
    person = Person(user_id, email, Role.TENANT_USER, 0, tenant_id=world.acme.tenant.id)
    issued = await world.services.tokens.issue(person, now=utc_now())
    return world.client(authorization=f"Bearer {issued.token}", x_api_key=world.acme.key.secret)


STATE = ("active", "current", "tokens current", "spared", "ended")


@pytest.mark.slow
class TestOneRule:
    async def test_admits_a_change_exactly_when_it_admits_a_read(self, world: World) -> None:
        """A change checks the session in its own statement: in every state as a read does."""
        raw, body = database_of(world, world.acme.tenant), {**CHANGE, "fullName": "Grace"}
        issued = await world.token(world.acme)
        jti = jwt.decode(issued, options={"verify_signature": False})["jti"]
        key, mcp_token = world.acme.key.secret, await world.mcp_token(world.acme)
        clients = (
            world.client(authorization=f"Bearer {issued}", x_api_key=key),
            world.client(x_mcp_token=mcp_token),
        )
        admitted = 0
        for values in itertools.product((True, False), repeat=len(STATE)):
            state = dict(zip(STATE, values, strict=True))
            set_state(raw, jti, state)
            for client in clients:
                raw.run("UPDATE tenantry_user SET full_name = 'Ada'")
                read = await client.get(PROFILE)
                changed = await client.put(PROFILE, json=body)
                ((name,),) = raw.run("SELECT full_name FROM tenantry_user")

                assert changed.status_code == read.status_code, state
                assert name == ("Grace" if read.status_code == 200 else "Ada"), state
                admitted += read.status_code == 200

        assert admitted == 6 + 8


def set_state(raw: Raw, jti: str, state: Mapping[str, bool]) -> None:
    """Set what the access of the only user depends on."""
    raw.run("DELETE FROM tenantry_ended_session")
    if state["ended"]:
        raw.run(
            "INSERT INTO tenantry_ended_session (jti, user_id, expires_at) "
            "SELECT ?, id, created_at FROM tenantry_user",
            jti,
        )
    raw.run(
        "UPDATE tenantry_user SET is_active = ?, generation = ?, token_generation = ?, "
        "spared_jti = ?",
        state["active"],
        0 if state["current"] else 1,
        0 if state["tokens current"] else 1,
        jti if state["spared"] else "another",
    )
