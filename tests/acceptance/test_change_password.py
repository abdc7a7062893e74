"""PUT /api/tenant/auth/change-password."""

from typing import Any

import argon2
import httpx
import pytest
from zxcvbn.frequency_lists import FREQUENCY_LISTS

from tests.acceptance.support import (
    BROKEN_JSON,
    CHANGE_PASSWORD,
    LOGIN_REFUSED,
    MODULES,
    NEW_PASSWORD,
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
    patch_user,
    refused,
    session,
)
from tests.conftest import PASSWORD, World

CHANGE = {"currentPassword": PASSWORD, "newPassword": NEW_PASSWORD}

BAD_CHANGES: tuple[Any, ...] = (
    {"currentPassword": PASSWORD},
    {"newPassword": NEW_PASSWORD},
    {"currentPassword": None, "newPassword": NEW_PASSWORD},
    {"currentPassword": PASSWORD, "newPassword": None},
    {"currentPassword": PASSWORD, "newPassword": 12345678},
    {"currentPassword": PASSWORD, "newPassword": [NEW_PASSWORD]},
    {"currentPassword": True, "newPassword": NEW_PASSWORD},
    {"currentPassword": PASSWORD, "newPassword": f"{NEW_PASSWORD}\0"},
    {"currentPassword": PASSWORD, "newPassword": f"{NEW_PASSWORD}\ud800"},
    {"currentPassword": f"{PASSWORD}\udfff", "newPassword": NEW_PASSWORD},
    {"current_password": PASSWORD, "new_password": NEW_PASSWORD},
)


async def change(client: httpx.AsyncClient, current: str, new: str) -> httpx.Response:
    return await client.put(CHANGE_PASSWORD, json={"currentPassword": current, "newPassword": new})


COMPOSED, DECOMPOSED = "Caf\u00e9 cr\u00e8me", "Cafe\u0301 cre\u0300me"


class TestChangePassword:
    async def test_takes_one_password_in_every_form_of_unicode(self, world: World) -> None:
        client = await session(world, world.acme)

        done(await change(client, PASSWORD, DECOMPOSED))
        ok(await log_in(world, world.acme, COMPOSED))
        ok(await log_in(world, world.acme, DECOMPOSED))
        same = await change(client, DECOMPOSED, COMPOSED)
        done(await change(client, COMPOSED, NEW_PASSWORD))

        assert "`newPassword` must not be the current one" in same.json()["message"]

    async def test_takes_an_older_hash_of_another_form(self, world: World) -> None:
        """It is replaced at the next login, so the other form logs in from then on."""
        older = argon2.PasswordHasher(time_cost=2, memory_cost=19_456, parallelism=1)
        raw = database_of(world, world.acme.tenant)
        raw.run("UPDATE tenantry_user SET password_hash = ?", older.hash(DECOMPOSED))

        refused(await log_in(world, world.acme, COMPOSED), 401, LOGIN_REFUSED)
        ok(await log_in(world, world.acme, DECOMPOSED))
        ok(await log_in(world, world.acme, COMPOSED))

    async def test_confirms_with_a_message_and_no_data(self, world: World) -> None:
        """From then on the new password logs in, and the old one does not."""
        client = await session(world, world.acme)

        message = done(await client.put(CHANGE_PASSWORD, json=CHANGE))

        assert "password" in message
        ok(await log_in(world, world.acme, NEW_PASSWORD))
        refused(await log_in(world, world.acme, PASSWORD), 401, LOGIN_REFUSED)
        ok(await log_in(world, world.globex, PASSWORD))

    async def test_refuses_a_wrong_current_password(self, world: World) -> None:
        """400, and nothing has changed."""
        client = await session(world, world.acme)

        refused(await change(client, "wrong password", NEW_PASSWORD), 400)

        ok(await log_in(world, world.acme))
        ok(await client.get(PROFILE))

    async def test_refuses_a_bad_body(self, world: World) -> None:
        """400, after the credentials and before anything is changed."""
        client = await session(world, world.acme)

        for broken in BROKEN_JSON:
            refused(await client.put(CHANGE_PASSWORD, content=broken), 400)
        for body in BAD_CHANGES:
            refused(await client.put(CHANGE_PASSWORD, content=encoded(body)), 400)

        refused(await world.stranger().put(CHANGE_PASSWORD, content=b"{"), 401)
        assert "newPassword" in refused(await client.put(CHANGE_PASSWORD, json=BAD_CHANGES[0]), 400)
        ok(await log_in(world, world.acme))

    async def test_is_for_users_of_the_tenant(self, world: World) -> None:
        """Bearer and key of one tenant; the table of refusals."""
        await must_be_for_tenants(world, lambda client: client.put(CHANGE_PASSWORD, json=CHANGE))

        ok(await log_in(world, world.acme))

    async def test_holds_new_passwords_to_the_rules(self, world: World) -> None:
        """8 to 1,024 characters, not common, not the address, not the current one."""
        client = await session(world, world.acme)
        email = world.acme.owner.email
        common = FREQUENCY_LISTS["passwords"]

        for new in (
            "",
            "short77",
            "\N{GRINNING FACE}" * 7,
            "a1" * 512 + "b",
            "\N{GRINNING FACE}" * 1_025,
            "password1",
            "PASSWORD1",
            next(one for one in common[2_900:3_000] if len(one) >= 8),
            email,
            email.upper(),
            PASSWORD,
        ):
            message = refused(await change(client, PASSWORD, new), 400)
            assert "newPassword" in message

        ok(await log_in(world, world.acme))

    @pytest.mark.slow
    async def test_takes_every_character_of_a_password(self, world: World) -> None:
        """Counted in characters, never trimmed, folded or cut: the last character counts."""
        client = await session(world, world.acme)
        now = PASSWORD

        for new, others in (
            ("\N{GRINNING FACE}" * 7 + "ab", ("\N{GRINNING FACE}" * 6 + "ab",)),
            ("  with spaces  ", ("with spaces", "  with spaces", "with spaces  ")),
            (" " * 8 + "ab", (" " * 7 + "ab", "ab")),
            ("Upper And Lower", ("upper and lower",)),
            ("caf\u00e9 au lait", ("cafe au lait", "CAF\u00c9 au lait")),
            ("x" * 1_022 + "yz", ("x" * 1_022 + "yx", "x" * 1_022 + "y", "x" * 72)),
            ("\N{GRINNING FACE}" * 1_022 + "xy", ("\N{GRINNING FACE}" * 1_022 + "xz",)),
        ):
            done(await change(client, now, new))
            now = new
            for other in others:
                refused(await log_in(world, world.acme, other), 401, LOGIN_REFUSED)
            ok(await log_in(world, world.acme, now))

    async def test_is_404_for_a_user_who_was_deleted(self, world: World) -> None:
        """After the body is validated; elsewhere such a session is 401."""
        client = await session(world, world.acme)
        admin = await world.admin()
        await add_owner(world, world.acme)
        done(await admin.delete(f"{TENANTS}/{world.acme.tenant.id}/users/{world.acme.owner.id}"))

        refused(await client.put(CHANGE_PASSWORD, json=CHANGE), 404)
        refused(await client.put(CHANGE_PASSWORD, json={}), 400)
        refused(await client.get(MODULES), 401)


class TestSessions:
    @pytest.mark.slow
    async def test_end_with_the_password_but_for_the_callers_own(self, world: World) -> None:
        """Each change ends every session but the one that made it; three times over."""
        now = PASSWORD
        caller = await session(world, world.acme, now)

        for number in range(3):
            other = await session(world, world.acme, now)
            ok(await other.get(PROFILE))
            new = f"{NEW_PASSWORD} {number}"
            done(await change(caller, now, new))
            now = new

            refused(await other.get(PROFILE), 401)
            refused(await other.get(MODULES), 401)
            refused(await change(other, now, f"{NEW_PASSWORD} taken over"), 401)
            ok(await caller.get(PROFILE))
            caller = caller if number == 0 else await session(world, world.acme, now)

        ok(await (await session(world, world.acme, now)).get(PROFILE))

    async def test_spare_one_session_only(self, world: World) -> None:
        """The session that was spared ends when another one changes the password."""
        first = await session(world, world.acme)
        done(await change(first, PASSWORD, NEW_PASSWORD))
        second = await session(world, world.acme, NEW_PASSWORD)
        done(await change(second, NEW_PASSWORD, PASSWORD))

        refused(await first.get(PROFILE), 401)
        ok(await second.get(PROFILE))

    @pytest.mark.slow
    async def test_end_when_the_user_is_switched_off(self, world: World) -> None:
        """403 while inactive; 401 when active again, the spared one too."""
        user = world.acme.owner.id
        spared = await session(world, world.acme)
        done(await change(spared, PASSWORD, NEW_PASSWORD))
        other = await session(world, world.acme, NEW_PASSWORD)

        await add_owner(world, world.acme)
        for _ in range(3):
            await patch_user(world, world.acme, user, isActive=False)
            for client in (spared, other):
                refused(await client.get(PROFILE), 403)
                refused(await client.put(CHANGE_PASSWORD, json={}), 403)
                refused(await client.get(MODULES), 403)
            refused(await log_in(world, world.acme, NEW_PASSWORD), 401, LOGIN_REFUSED)
            await patch_user(world, world.acme, user, isActive=True)
            for client in (spared, other):
                refused(await client.get(PROFILE), 401)
            other = await session(world, world.acme, NEW_PASSWORD)
            ok(await other.get(PROFILE))

    async def test_end_when_an_admin_sets_the_password(self, world: World) -> None:
        """All of them; the new password can log in."""
        client = await session(world, world.acme)

        await patch_user(world, world.acme, world.acme.owner.id, password=NEW_PASSWORD)

        refused(await client.get(PROFILE), 401)
        refused(await log_in(world, world.acme, PASSWORD), 401, LOGIN_REFUSED)
        ok(await log_in(world, world.acme, NEW_PASSWORD))

    async def test_of_others_go_on(self, world: World) -> None:
        """One user's change ends no session of another user."""
        other = await add_user(world, world.acme, "other@acme.example.com")
        answer = await log_in(world, world.acme, email=other["email"])
        token = ok(answer)["token"]
        theirs = world.client(authorization=f"Bearer {token}", x_api_key=world.acme.key.secret)

        done(await change(await session(world, world.acme), PASSWORD, NEW_PASSWORD))

        assert ok(await theirs.get(PROFILE))["id"] == other["id"]


class TestChangePasswordByMcpToken:
    async def test_acts_as_the_user_it_is_bound_to(self, world: World) -> None:
        """The current password is required as well, and every session ends."""
        client = await session(world, world.acme)
        token = world.client(x_mcp_token=await world.mcp_token(world.acme))

        refused(await change(token, "wrong password", NEW_PASSWORD), 400)
        done(await change(token, PASSWORD, NEW_PASSWORD))

        refused(await client.get(PROFILE), 401)
        ok(await log_in(world, world.acme, NEW_PASSWORD))

    async def test_needs_a_user_and_the_scope(self, world: World) -> None:
        """403 when it is bound to no user, or lacks the scope for writing profiles."""
        unbound = await world.mcp_token(world.acme, bound=False)
        scoped = await world.mcp_token(world.acme, "profile:read", "content:write")

        for secret in (unbound, scoped):
            token = world.client(x_mcp_token=secret)
            refused(await change(token, PASSWORD, NEW_PASSWORD), 403)

        ok(await log_in(world, world.acme))
        assert database_of(world, world.acme.tenant).run(
            "SELECT generation FROM tenantry_user"
        ) == [(0,)]
