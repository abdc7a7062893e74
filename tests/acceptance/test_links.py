"""One-time links: invitations, and resets of passwords."""

import asyncio
from typing import Any

import httpx
import pytest

from tenantry.backup import cloning
from tenantry.kit.context import system_context
from tenantry.work.progress import Progress
from testkit import raw_sql
from tests.acceptance.shapes import ISSUED_LINK, LINK, OPEN_LINK, instant, must_be, page_of
from tests.acceptance.support import (
    LOGIN_REFUSED,
    MODULES,
    NEW_PASSWORD,
    PROFILE,
    TENANTS,
    UNKNOWN_ID,
    add_owner,
    add_user,
    at,
    database_of,
    done,
    log_in,
    ok,
    patch_tenant,
    patch_user,
    refused,
    restarted,
    session,
)
from tests.conftest import UNDO_HEAD, World

SHOW, USE = "/api/links/show", "/api/links/use"
INVITATIONS, LINKS = "/api/tenant/invitations", "/api/tenant/links"
BOB = "bob@acme.example.com"
REFUSED = "The link does not work: it was used or revoked, or it has expired. Ask for a new one."
CHOSEN = {"password": NEW_PASSWORD, "fullName": "Bob"}


def path_of(world: World, *parts: object) -> str:
    return "/".join([f"{TENANTS}/{world.acme.tenant.id}", *map(str, parts)])


async def invited(world: World, email: str = BOB, **more: str) -> Any:
    """Return a new invitation to acme."""
    admin, body = await world.admin(), {"email": email, **more}
    return ok(await admin.post(path_of(world, "invitations"), json=body), 201)


async def reset(world: World, user: object = None) -> Any:
    """Return a new link to reset the password of a user of acme, by default of the owner."""
    admin, user = await world.admin(), user or world.acme.owner.id
    return ok(await admin.post(path_of(world, "users", user, "reset-link")), 201)


def secret_of(issued: Any) -> str:
    return str(issued["url"].partition("#")[2])


async def used(world: World, issued: Any, **more: object) -> httpx.Response:
    return await world.stranger().post(USE, json={"secret": secret_of(issued), **CHOSEN, **more})


async def must_be_refused(world: World, issued: Any) -> None:
    """Check that a link has the answer of every link that does not work."""
    shown = await world.stranger().post(SHOW, json={"secret": secret_of(issued)})
    refused(shown, 404, REFUSED)
    assert shown.headers["x-error-code"] == "link_refused"
    refused(await used(world, issued), 404, REFUSED)


async def logged(world: World) -> set[tuple[str, str]]:
    """Return the actions on users and links in the audit log of acme, and who did them."""
    rows = database_of(world, world.acme.tenant).run("SELECT action, actor FROM tenantry_audit")
    return {row for row in rows if row[0].startswith(("link.", "user.")) and row[1] != "test"}


class TestAnInvitation:
    async def test_makes_a_user_who_chose_the_password(self, world: World) -> None:
        """The link is shown once; it is valid for 72 hours, and is opened without credentials."""
        admin = await world.admin()

        issued = await invited(world)

        must_be(issued, ISSUED_LINK)
        assert (issued["email"], issued["userId"]) == (BOB, None)
        assert issued["url"].startswith(f"{world.services.settings.base_url}/link#tni_")
        lifetime = instant(issued["expiresAt"]) - instant(issued["createdAt"])
        assert lifetime.total_seconds() == 72 * 3600
        listed = await admin.get(path_of(world, "links"))
        must_be(ok(listed), page_of(LINK))
        assert ok(listed)["items"] == [{name: issued[name] for name in LINK}]
        assert secret_of(issued) not in listed.text
        assert secret_of(issued) not in database_of(world, world.acme.tenant).dump()
        shown = ok(await world.stranger().post(SHOW, json={"secret": secret_of(issued)}))
        must_be(shown, OPEN_LINK)
        assert (shown["email"], shown["isInvitation"]) == (BOB, True)
        assert shown["tenantName"] == world.acme.tenant.name

        assert ok(await used(world, issued)) == shown

        ok(await log_in(world, world.acme, NEW_PASSWORD, email=BOB))
        users = ok(await admin.get(path_of(world, "users")))["items"]
        assert [(one["email"], one["fullName"]) for one in users[1:]] == [(BOB, "Bob")]
        assert ok(await admin.get(path_of(world, "links")))["items"] == []
        by_link = f"link:{issued['id']}"
        assert await logged(world) == {
            ("link.issue", "ada@example.com"),
            ("link.use", by_link),
            ("user.create", by_link),
        }
        await must_be_refused(world, issued)

    @pytest.mark.parametrize("role", ["owner", "editor", "author", "reader", None])
    async def test_gives_the_user_its_role(self, world: World, role: str | None) -> None:
        """An editor's without a choice; a newer invitation has its own, and not the earlier one."""
        admin = await world.admin()
        await invited(world, role="reader" if role == "owner" else "owner")
        issued = await invited(world, **({} if role is None else {"role": role}))
        role = role or "editor"
        shown = ok(await world.stranger().post(SHOW, json={"secret": secret_of(issued)}))

        ok(await used(world, issued))

        assert (issued["role"], shown["role"]) == (role, role)
        users = ok(await admin.get(path_of(world, "users")))["items"]
        assert [one["role"] for one in users] == ["owner", role]
        logged = ok(await admin.get(path_of(world, "audit-log")))["items"]
        changes = {one["action"]: one["changes"] for one in reversed(logged)}
        for action in ("link.issue", "user.create"):
            assert {"field": "role", "old": None, "new": role} in changes[action]

    async def test_has_one_of_four_roles(self, world: World) -> None:
        admin, path = await world.admin(), path_of(world, "invitations")
        for role in ("Owner", "admin", "", None):
            refused(await admin.post(path, json={"email": BOB, "role": role}), 400)

    async def test_changes_the_role_of_no_user(self, world: World) -> None:
        """One who has the address by then keeps theirs; and who uses the link chooses none."""
        admin, issued = await world.admin(), await invited(world, role="owner")
        user = await add_user(world, world.acme, "bob2@acme.example.com", role="reader")
        await patch_user(world, world.acme, user["id"], email=BOB)

        await must_be_refused(world, issued)

        path = path_of(world, "users", user["id"])
        assert ok(await admin.get(path))["role"] == "reader"
        other = await invited(world, "carol@acme.example.com", role="reader")
        ok(await used(world, other, role="owner"))
        users = ok(await admin.get(path_of(world, "users")))["items"]
        assert [one["role"] for one in users] == ["owner", "reader", "reader"]

    async def test_needs_an_address_that_no_user_has(self, world: World) -> None:
        """Also when it is used: then its answer does not say why."""
        admin, path = await world.admin(), path_of(world, "invitations")
        owner = world.acme.owner.email.upper()
        refused(await admin.post(path, json={"email": owner}), 409)
        refused(await admin.post(path, json={"email": "bob"}), 400)
        issued = await invited(world)
        taken = await add_user(world, world.acme, "bob2@acme.example.com")
        await patch_user(world, world.acme, taken["id"], email=BOB)

        await must_be_refused(world, issued)

        assert ok(await admin.get(path_of(world, "links")))["items"] == []
        done(await admin.delete(path_of(world, "users", taken["id"])))
        await must_be_refused(world, issued)

    async def test_that_a_user_hides_by_an_own_address_is_listed_and_revoked(
        self, world: World
    ) -> None:
        """It works again when the user has another address, so owners must be able to find it."""
        admin, issued = await world.admin(), await invited(world)
        owner = await session(world, world.acme)
        ok(await owner.put("/api/tenant/auth/profile", json={"fullName": "Ada", "email": BOB}))
        await must_be_refused(world, issued)

        listed = ok(await admin.get(path_of(world, "links")))["items"]

        assert [one["id"] for one in listed] == [issued["id"]]
        done(await admin.delete(path_of(world, "links", issued["id"])))
        ok(await owner.put("/api/tenant/auth/profile", json={"fullName": "Ada", "email": "a@b.c"}))
        await must_be_refused(world, issued)

    async def test_ends_when_an_admin_adds_the_user(self, world: World) -> None:
        """For good: it does not come back when that user is deleted."""
        admin, issued = await world.admin(), await invited(world)
        user = await add_user(world, world.acme, BOB.upper())
        done(await admin.delete(path_of(world, "users", user["id"])))

        await must_be_refused(world, issued)

    async def test_stays_open_after_a_mistake(self, world: World) -> None:
        """The rules of passwords and names are those of other users."""
        issued = await invited(world)
        for mistake in (
            {"password": "short77"},
            {"password": BOB.upper()},
            {"password": "password1"},
            {"fullName": " "},
            {"fullName": "x" * 201},
        ):
            refused(await used(world, issued, **mistake), 400)
        bare = {"secret": secret_of(issued), "password": NEW_PASSWORD}
        answer = await world.stranger().post(USE, json=bare)
        refused(answer, 400)
        assert answer.headers["x-error-code"] == "name_required"

        ok(await used(world, issued))


class TestAReset:
    async def test_sets_the_password_and_ends_sessions_and_tokens(self, world: World) -> None:
        """As a new password by an admin does; the name stays."""
        client = await session(world, world.acme)
        bound = world.client(x_mcp_token=await world.mcp_token(world.acme))
        issued = await reset(world)
        must_be(issued, ISSUED_LINK)
        assert issued["url"].partition("#")[2].startswith("tnr_")
        ok(await client.get(PROFILE))

        bare = {"secret": secret_of(issued), "password": NEW_PASSWORD}
        shown = ok(await world.stranger().post(USE, json=bare))

        assert (shown["isInvitation"], shown["fullName"]) == (False, world.acme.owner.full_name)
        refused(await client.get(PROFILE), 401)
        refused(await bound.get(MODULES), 401)
        refused(await log_in(world, world.acme), 401, LOGIN_REFUSED)
        ok(await log_in(world, world.acme, NEW_PASSWORD))
        admin = await world.admin()
        assert ok(await admin.get(f"{path_of(world)}/mcp-tokens"))["items"] == []
        assert await logged(world) == {
            ("link.issue", "ada@example.com"),
            ("link.use", f"link:{issued['id']}"),
            ("user.update", f"link:{issued['id']}"),
        }
        await must_be_refused(world, issued)

    async def test_changes_no_role(self, world: World) -> None:
        """Also one that was changed after the link was made; the last owner stays one."""
        admin = await world.admin()
        user = await add_user(world, world.acme, BOB, role="owner")
        issued, of_owner = await reset(world, user["id"]), await reset(world)
        await patch_user(world, world.acme, user["id"], role="reader")

        ok(await used(world, issued))
        ok(await used(world, of_owner))

        assert (issued["role"], of_owner["role"]) == (None, None)
        users = ok(await admin.get(path_of(world, "users")))["items"]
        assert [(one["role"], one["isActive"]) for one in users] == [
            ("owner", True),
            ("reader", True),
        ]

    async def test_ends_with_the_sessions_of_its_user(self, world: World) -> None:
        """By a deactivation, a new password, or a logout everywhere; and with the user."""
        await add_owner(world, world.acme)
        admin, user = await world.admin(), world.acme.owner.id
        client = await session(world, world.acme)
        issued = await reset(world)
        done(await client.post("/api/tenant/auth/logout", json={"everywhere": True}))
        await must_be_refused(world, issued)
        issued = await reset(world)
        await patch_user(world, world.acme, user, password=NEW_PASSWORD)
        await must_be_refused(world, issued)
        issued = await reset(world)
        await patch_user(world, world.acme, user, isActive=False)
        await must_be_refused(world, issued)
        answer = await admin.post(path_of(world, "users", user, "reset-link"))
        refused(answer, 409)
        await patch_user(world, world.acme, user, isActive=True)
        await must_be_refused(world, issued)
        assert ok(await admin.get(path_of(world, "links")))["items"] == []
        issued = await reset(world)
        done(await admin.delete(path_of(world, "users", user)))
        await must_be_refused(world, issued)
        refused(await admin.post(path_of(world, "users", user, "reset-link")), 404)

    async def test_ends_when_an_admin_changes_the_address_of_its_user(self, world: World) -> None:
        """Who reads the mail of the earlier address may have the link."""
        issued = await reset(world)
        user = await patch_user(world, world.acme, world.acme.owner.id, fullName="Zoe")
        assert ok(await (await world.admin()).get(path_of(world, "links")))["totalCount"] == 1

        await patch_user(world, world.acme, user["id"], email="zoe@acme.example.com")

        await must_be_refused(world, issued)
        await patch_user(world, world.acme, user["id"], email=user["email"])
        await must_be_refused(world, issued)

    async def test_cannot_be_used_when_its_user_changes_the_address(self, world: World) -> None:
        issued = await reset(world)
        client = await session(world, world.acme)
        ok(await client.put(PROFILE, json={"fullName": "Zoe", "email": "zoe@acme.example.com"}))

        await must_be_refused(world, issued)
        admin = await world.admin()
        [listed] = ok(await admin.get(path_of(world, "links")))["items"]
        assert listed["id"] == issued["id"]
        done(await admin.delete(path_of(world, "links", issued["id"])))


class TestAnOwner:
    async def test_invites_lists_and_revokes(self, world: World) -> None:
        """With the bodies and the results of the endpoints of admins; the log names the owner."""
        owner, admin = await session(world, world.acme), await world.admin()
        bob = {"email": BOB, "role": "author"}

        issued = ok(await owner.post(INVITATIONS, json=bob), 201)

        must_be(issued, ISSUED_LINK)
        listed = ok(await owner.get(LINKS))
        assert listed == ok(await admin.get(path_of(world, "links")))
        assert listed["items"] == [{name: issued[name] for name in LINK}]
        by_admin = await invited(world, "carol@acme.example.com")
        done(await owner.delete(f"{LINKS}/{by_admin['id']}"))
        await must_be_refused(world, by_admin)
        refused(await owner.delete(f"{LINKS}/{by_admin['id']}"), 404)
        ok(await used(world, issued))
        refused(await owner.post(INVITATIONS, json=bob), 409)
        by_owner = f"user:{world.acme.owner.id}"
        assert {("link.issue", by_owner), ("link.revoke", by_owner)} <= await logged(world)

    async def test_lets_others_reset_the_password_and_not_themselves(self, world: World) -> None:
        """A session alone, perhaps a stolen one, is no proof of the password."""
        owner, user = await session(world, world.acme), await add_user(world, world.acme, BOB)
        path = "/api/tenant/users/{}/reset-link"

        answer = await owner.post(path.format(world.acme.owner.id))
        issued = ok(await owner.post(path.format(user["id"])), 201)

        refused(answer, 400)
        assert answer.headers["x-error-code"] == "own_password"
        assert [one["id"] for one in ok(await owner.get(LINKS))["items"]] == [issued["id"]]
        ok(await used(world, issued))
        ok(await log_in(world, world.acme, NEW_PASSWORD, email=BOB))
        await patch_user(world, world.acme, user["id"], isActive=False)
        refused(await owner.post(path.format(user["id"])), 409)

    async def test_reaches_only_their_own_tenant(self, world: World) -> None:
        """Neither the links nor the users of another one."""
        stranger = await session(world, world.globex)
        issued = await invited(world)

        assert ok(await stranger.get(LINKS))["items"] == []
        refused(await stranger.delete(f"{LINKS}/{issued['id']}"), 404)
        path = f"/api/tenant/users/{world.acme.owner.id}/reset-link"
        refused(await stranger.post(path), 404)

        ok(await used(world, issued))

    @pytest.mark.parametrize("role", ["editor", "author", "reader", None])
    async def test_is_the_only_one_who_has_these_endpoints(
        self, world: World, role: str | None
    ) -> None:
        """No user of another role, and no McpToken: also one that is bound to an owner."""
        user = await add_user(world, world.acme, BOB, role=role or "owner")
        issued = await invited(world, "carol@acme.example.com")
        if role is None:
            client = world.client(x_mcp_token=await world.mcp_token(world.acme))
        else:
            token = ok(await log_in(world, world.acme, email=BOB))["token"]
            key = world.acme.key.secret
            client = world.client(authorization=f"Bearer {token}", x_api_key=key)

        for answer in (
            await client.post(INVITATIONS, json={"email": "dora@acme.example.com"}),
            await client.post(f"/api/tenant/users/{user['id']}/reset-link"),
            await client.get(LINKS),
            await client.delete(f"{LINKS}/{issued['id']}"),
        ):
            refused(answer, 403)
        ok(await used(world, issued))


class TestEveryLink:
    @pytest.mark.parametrize("make", [invited, reset])
    async def test_works_once_for_simultaneous_requests(self, world: World, make: Any) -> None:
        """One of them succeeds; the others have the answer of a used link."""
        issued = await make(world)

        answers = await asyncio.gather(
            *(used(world, issued, password=f"{NEW_PASSWORD} {number}") for number in range(4))
        )

        won = [n for n, one in enumerate(answers) if one.status_code == 200]
        assert len(won) == 1
        for one in answers:
            if one.status_code != 200:
                refused(one, 404, REFUSED)
        email = issued["email"]
        ok(await log_in(world, world.acme, f"{NEW_PASSWORD} {won[0]}", email=email))

    @pytest.mark.parametrize("make", [invited, reset])
    async def test_is_used_or_revoked_and_never_both(self, world: World, make: Any) -> None:
        """Also when it is revoked while the password of its use is hashed."""
        admin = await world.admin()
        for pause_ms in (0, 5, 10, 20, 30):
            issued = await make(world)
            using = asyncio.create_task(used(world, issued, password=f"{NEW_PASSWORD} {pause_ms}"))
            await asyncio.sleep(pause_ms / 1000)
            revoked = await admin.delete(path_of(world, "links", issued["id"]))
            outcome = [(await using).status_code, revoked.status_code]
            assert sorted(outcome) == [200, 404]
            if make is invited and outcome[0] == 200:
                break

    @pytest.mark.parametrize("make", [invited, reset])
    async def test_is_replaced_revoked_and_suspended(self, world: World, make: Any) -> None:
        """A newer one ends it; it does not work while the tenant is suspended."""
        admin = await world.admin()
        first, second = await make(world), await make(world)
        await must_be_refused(world, first)
        assert [one["id"] for one in ok(await admin.get(path_of(world, "links")))["items"]] == [
            second["id"]
        ]
        refused(await admin.delete(path_of(world, "links", first["id"])), 404)
        done(await admin.delete(path_of(world, "links", second["id"])))
        await must_be_refused(world, second)
        assert ("link.revoke", "ada@example.com") in await logged(world)
        third = await make(world)
        await patch_tenant(world, world.acme, isActive=False)
        await must_be_refused(world, third)
        await patch_tenant(world, world.acme, isActive=True)
        ok(await used(world, third))

    @pytest.mark.parametrize("make", [invited, reset])
    async def test_ends_after_72_hours(self, world: World, make: Any) -> None:
        """The next link of the tenant removes what has expired."""
        issued = await make(world)
        database_of(world, world.acme.tenant).run(
            "UPDATE tenantry_link SET expires_at = '2020-01-01 00:00:00+00'"
        )

        await must_be_refused(world, issued)

        admin = await world.admin()
        assert ok(await admin.get(path_of(world, "links")))["items"] == []
        await invited(world, "carol@acme.example.com")
        rows = database_of(world, world.acme.tenant).run("SELECT count(*) FROM tenantry_link")
        assert rows == [(1,)]

    async def test_is_of_one_tenant(self, world: World) -> None:
        """The secret alone names it; one that names another tenant is none."""
        issued = await invited(world)
        secret = secret_of(issued)
        for wrong in (
            "",
            "tni_",
            secret[:-1],
            f"{secret}x",
            secret.upper(),
            secret.replace("tni_", "tnr_"),
            world.acme.key.secret,
            "tni_" + "é" * 80,
            "x" * 10_000,
        ):
            refused(await world.stranger().post(SHOW, json={"secret": wrong}), 404, REFUSED)
        stranger = path_of(world, "links", issued["id"]).replace(
            str(world.acme.tenant.id), str(world.globex.tenant.id)
        )
        refused(await (await world.admin()).delete(stranger), 404)
        globex = world.client(x_api_key=world.globex.key.secret)

        ok(await globex.post(USE, json={"secret": secret, **CHOSEN}))

        ok(await log_in(world, world.acme, NEW_PASSWORD, email=BOB))
        refused(await log_in(world, world.globex, NEW_PASSWORD, email=BOB), 401, LOGIN_REFUSED)

    async def test_is_rejected_by_a_read_only_tenant(self, world: World) -> None:
        """And works afterwards: nothing was written."""
        issued = await invited(world)
        await patch_tenant(world, world.acme, isReadOnly=True)
        answer = await used(world, issued)
        assert answer.status_code == 403
        assert answer.headers["x-error-code"] == "tenant_read_only"
        await patch_tenant(world, world.acme, isReadOnly=False)
        ok(await used(world, issued))

    async def test_needs_the_revision_with_links(self, world: World) -> None:
        """503 before it."""
        admin, database = await world.admin(), database_of(world, world.acme.tenant)
        await world.services.databases.forget(world.acme.tenant.id)
        raw_sql.run(database.url, *UNDO_HEAD)

        for answer in (
            await admin.post(path_of(world, "invitations"), json={"email": BOB}),
            await admin.get(path_of(world, "links")),
        ):
            refused(answer, 503)


async def test_guesses_are_limited_as_those_of_passwords(world: World) -> None:
    """Those of one network, and those at one link; both requests count."""
    issued, wrong = await invited(world), {"secret": "tni_wrong"}
    guesser, other = at(world, "203.0.113.7"), at(world, "198.51.100.7")
    for _ in range(2):
        refused(await guesser.post(SHOW, json=wrong), 404, REFUSED)
        refused(await guesser.post(USE, json={**wrong, **CHOSEN}), 404, REFUSED)
    refused(await guesser.post(SHOW, json=wrong), 404, REFUSED)
    refused(await guesser.post(SHOW, json=wrong), 429)
    refused(await other.post(SHOW, json=wrong), 404)
    ok(await guesser.post(SHOW, json={"secret": secret_of(issued)}))

    few = world.services.settings.model_copy(update={"login_address_minutely": 8})
    async with restarted(few) as clients:
        statuses = [
            (await clients().post(SHOW, json={"secret": f"tni_{n}"})).status_code for n in range(9)
        ]
        assert statuses == [404] * 8 + [429]
        refused(await clients().post(USE, json={"secret": secret_of(issued), **CHOSEN}), 429)
    ok(await other.post(USE, json={"secret": secret_of(issued), **CHOSEN}))


async def test_a_tenant_that_is_not_there_is_no_other_answer(world: World) -> None:
    """Neither an unknown one, nor a deleted one."""
    admin, issued = await world.admin(), await invited(world)
    refused(await admin.post(f"{TENANTS}/{UNKNOWN_ID}/invitations", json={"email": BOB}), 404)
    await patch_tenant(world, world.acme, isActive=False)
    done(await admin.request("DELETE", path_of(world), params={"name": world.acme.tenant.name}))

    await must_be_refused(world, issued)


async def test_a_copy_and_a_deleted_tenant_that_is_back_have_no_links(world: World) -> None:
    """The links of a tenant that is copied work on."""
    invitation, new_password = await invited(world), await reset(world)
    copying, now = world.services.copying, system_context("test")
    copy = await cloning.clone(now, copying, world.acme.tenant, name="Copy", progress=Progress())
    links = "SELECT count(*) FROM tenantry_link"
    assert database_of(world, copy.tenant).run(links) == [(0,)]
    ok(await used(world, invitation))
    admin = await world.admin()
    await patch_tenant(world, world.acme, isActive=False)
    done(await admin.delete(path_of(world), params={"name": world.acme.tenant.name}))
    await must_be_refused(world, new_password)
    ok(await admin.post(f"/api/admin/deleted-tenants/{world.acme.tenant.id}/undelete"))
    await patch_tenant(world, world.acme, isActive=True)

    await must_be_refused(world, new_password)

    assert database_of(world, world.acme.tenant).run(links) == [(0,)]
