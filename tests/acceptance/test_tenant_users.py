"""/api/admin/tenants/{tenantId}/users: the users of a customer."""

import asyncio
from typing import Any

from tests.acceptance.shapes import TENANT_USER, must_be, page_of
from tests.acceptance.support import (
    BROKEN_JSON,
    LOGIN_REFUSED,
    MODULES,
    NEW_PASSWORD,
    PROFILE,
    TENANTS,
    UNKNOWN_ID,
    add_owner,
    add_user,
    done,
    encoded,
    log_in,
    ok,
    patch_user,
    refused,
    session,
)
from tests.conftest import PASSWORD, World

BOB = {"email": "bob@acme.example.com", "fullName": "Bob", "password": PASSWORD}

BAD_USERS: tuple[Any, ...] = (
    *({name: value for name, value in BOB.items() if name != left_out} for left_out in BOB),
    *({**BOB, name: None} for name in BOB),
    *({**BOB, name: 1} for name in BOB),
    *({**BOB, name: f"{value}\0"} for name, value in BOB.items()),
    *({**BOB, name: f"{value}\ud800"} for name, value in BOB.items()),
    {**BOB, "email": "bob"},
    {**BOB, "fullName": " "},
    {**BOB, "password": "short77"},
    {**BOB, "password": "x" * 1_025},
    {**BOB, "password": "password1"},
    {**BOB, "password": BOB["email"].upper()},
)
BAD_CHANGES: tuple[Any, ...] = (
    {"fullName": None},
    {"fullName": ""},
    {"email": None},
    {"email": "bob"},
    {"isActive": None},
    {"isActive": "no"},
    {"password": None},
    {"password": "short77"},
    {"password": "password1"},
)


def path_of(world: World, user: object = "") -> str:
    return f"{TENANTS}/{world.acme.tenant.id}/users{f'/{user}' if user else ''}"


class TestListUsers:
    async def test_returns_a_page_of_profiles(self, world: World) -> None:
        """Of that tenant alone, the oldest first."""
        admin = await world.admin()
        for number in range(3):
            await add_user(world, world.acme, f"{number}@acme.example.com")

        page = ok(await admin.get(path_of(world)))
        second = ok(await admin.get(path_of(world), params={"page": 2, "pageSize": 3}))

        must_be(page, page_of(TENANT_USER))
        assert [one["email"] for one in page["items"]] == [
            world.acme.owner.email,
            *(f"{number}@acme.example.com" for number in range(3)),
        ]
        assert (page["page"], page["pageSize"], page["totalCount"]) == (1, 10, 4)
        assert [one["email"] for one in second["items"]] == ["2@acme.example.com"]
        assert second["totalPages"] == 2
        refused(await admin.get(path_of(world), params={"page": 0}), 400)
        refused(await admin.get(f"{TENANTS}/{UNKNOWN_ID}/users"), 404)


class TestCreateUser:
    async def test_returns_a_user_who_can_log_in(self, world: World) -> None:
        """201 and a TenantUserProfile; it is unknown to other tenants."""
        admin = await world.admin()

        made = ok(await admin.post(path_of(world), json=BOB), 201)

        must_be(made, TENANT_USER)
        assert (made["email"], made["fullName"], made["isActive"]) == (BOB["email"], "Bob", True)
        ok(await log_in(world, world.acme, email=BOB["email"]))
        refused(await log_in(world, world.globex, email=BOB["email"]), 401, LOGIN_REFUSED)

    async def test_refuses_what_cannot_be(self, world: World) -> None:
        """409 for a taken address, 400 for a bad body, 404 for no tenant."""
        admin = await world.admin()

        for taken in (world.acme.owner.email, world.acme.owner.email.upper()):
            refused(await admin.post(path_of(world), json={**BOB, "email": taken}), 409)
        for broken in BROKEN_JSON:
            refused(await admin.post(path_of(world), content=broken), 400)
        for body in BAD_USERS:
            refused(await admin.post(path_of(world), content=encoded(body)), 400)
        refused(await admin.post(f"{TENANTS}/{UNKNOWN_ID}/users", json=BOB), 404)

        assert ok(await admin.get(path_of(world)))["totalCount"] == 1


class TestUpdateUser:
    async def test_changes_what_is_given(self, world: World) -> None:
        """Name, address, activity, password; what is left out stays, and so do sessions."""
        user = world.acme.owner.id
        client = await session(world, world.acme)
        before = {**ok(await client.get(PROFILE)), "role": "owner"}

        renamed = await patch_user(world, world.acme, user, fullName="Zoe")
        moved = await patch_user(world, world.acme, user, email="Zoe@acme.example.com")
        same = await patch_user(world, world.acme, user)

        assert renamed == {**before, "fullName": "Zoe"}
        assert moved == same == {**renamed, "email": "Zoe@acme.example.com"}
        assert {**ok(await client.get(PROFILE)), "role": "owner"} == moved

    async def test_refuses_what_cannot_be(self, world: World) -> None:
        """409, 404, 400; then nothing has changed."""
        admin = await world.admin()
        bob = ok(await admin.post(path_of(world), json=BOB), 201)
        path = path_of(world, bob["id"])
        taken = {"email": world.acme.owner.email.upper(), "isActive": False}

        refused(await admin.patch(path, json=taken), 409)
        for body in BAD_CHANGES:
            refused(await admin.patch(path, content=encoded(body)), 400)
        refused(await admin.patch(path_of(world, UNKNOWN_ID), json={"fullName": "x"}), 404)
        refused(await admin.patch(path_of(world, "bob"), json={"fullName": "x"}), 404)
        stranger = path_of(world, world.globex.owner.id)
        refused(await admin.patch(stranger, json={"fullName": "x"}), 404)

        assert ok(await admin.get(path_of(world)))["items"][1] == bob

    async def test_keeps_a_user_switched_off(self, world: World) -> None:
        """A change of something else at the same moment does not switch the user on again."""
        admin = await world.admin()
        path = path_of(world, world.acme.owner.id)
        await add_owner(world, world.acme)

        for number in range(5):
            ok(await admin.patch(path, json={"isActive": True}))
            answers = await asyncio.gather(
                admin.patch(path, json={"password": f"{NEW_PASSWORD} {number}"}),
                admin.patch(path, json={"isActive": False}),
                admin.patch(path, json={"fullName": f"Zoe {number}"}),
            )
            for answer in answers:
                ok(answer)
            owner, _ = ok(await admin.get(path_of(world)))["items"]
            assert (owner["isActive"], owner["fullName"]) == (False, f"Zoe {number}")


class TestDeleteUser:
    async def test_takes_sessions_and_tokens_along(self, world: World) -> None:
        """A message; the bearer and the McpToken of the user are then 401."""
        admin = await world.admin()
        client = await session(world, world.acme)
        bound = world.client(x_mcp_token=await world.mcp_token(world.acme))
        unbound = world.client(x_mcp_token=await world.mcp_token(world.acme, bound=False))
        path = path_of(world, world.acme.owner.id)
        await add_owner(world, world.acme)
        ok(await bound.get(MODULES))

        done(await admin.delete(path))

        refused(await client.get(MODULES), 401)
        refused(await bound.get(MODULES), 401)
        refused(await bound.get(PROFILE), 401)
        ok(await unbound.get(MODULES))
        refused(await log_in(world, world.acme), 401, LOGIN_REFUSED)
        refused(await admin.delete(path), 404)
        refused(await admin.delete(path_of(world, world.globex.owner.id)), 404)
        ok(await log_in(world, world.globex))
        tokens = ok(await admin.get(f"{TENANTS}/{world.acme.tenant.id}/mcp-tokens"))["items"]
        assert [one["userId"] for one in tokens] == [None]
