"""The audit logs over HTTP, the catalog's and the tenants': who did what, and what changed."""

import asyncio
import json
import secrets
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import httpx
import pytest

from tenantry.access import sign_ins
from tenantry.fleet.lifecycle import Provisioned
from tenantry.kit.clock import utc_now
from tenantry.kit.ids import first_id_at
from testkit.raw_sql import Raw
from tests.acceptance.support import (
    ADMIN_LOGIN,
    CHANGE_PASSWORD,
    LOGIN,
    LOGIN_REFUSED,
    NEW_PASSWORD,
    OWN_POSTS,
    PROFILE,
    TENANTS,
    add_user,
    at,
    catalog_of,
    database_of,
    done,
    log_in,
    ok,
    patch_tenant,
    patch_user,
    refused,
    session,
    with_long_waits,
)
from tests.conftest import PASSWORD, World

LOG = "/api/admin/audit-log"
EXPORT = "/api/admin/audit-log/export"
WRONG = "not the password of anybody"
ADDRESS = "203.0.113.7"


async def entries(world: World, path: str = LOG, **wanted: object) -> list[dict[str, Any]]:
    """Return the entries of the first page, the newest first."""
    admin = await world.admin()
    query = {name: str(value) for name, value in wanted.items()}
    items: list[dict[str, Any]] = ok(await admin.get(path, params={"pageSize": "100", **query}))[
        "items"
    ]
    return items


async def inside(world: World, provisioned: Provisioned | None = None, **wanted: object) -> Any:
    """Return the entries of a tenant's own log, of acme's unless another is given."""
    return await entries(world, log_of(provisioned or world.acme), **wanted)


def log_of(provisioned: Provisioned) -> str:
    return f"{TENANTS}/{provisioned.tenant.id}/audit-log"


async def lines(world: World, path: str = EXPORT, **wanted: object) -> list[dict[str, Any]]:
    admin = await world.admin()
    answer = await admin.get(path, params={name: str(one) for name, one in wanted.items()})
    assert answer.status_code == 200, answer.text
    assert answer.headers["content-type"] == "application/x-ndjson"
    return [json.loads(line) for line in answer.text.splitlines()]


def written(world: World) -> list[tuple[Any, ...]]:
    """Return what an attempt writes at once; the log is written every few seconds."""
    return catalog_of(world).run("SELECT * FROM login_attempt ORDER BY key")


def changed(entry: dict[str, Any]) -> dict[str, tuple[object, object]]:
    return {one["field"]: (one.get("old"), one.get("new")) for one in entry["changes"]}


class TestSignIns:
    async def test_of_a_user_are_recorded_with_the_address(self, world: World):
        ok(await log_in(world, world.acme, address=ADDRESS))

        [entry] = await entries(world, action="login.success", tenantId=world.acme.tenant.id)

        assert entry["actor"] == f"user:{world.acme.owner.id}"
        assert entry["target"] == str(world.acme.owner.id)
        assert (entry["address"], entry["count"]) == (ADDRESS, 1)

    async def test_of_an_admin_are_recorded_with_the_address(self, world: World):
        body = {"email": world.admin_account.email, "password": PASSWORD}
        ok(await at(world, ADDRESS).post(ADMIN_LOGIN, json=body))

        entry = (await entries(world, action="login.success"))[0]

        assert (entry["actor"], entry["tenantId"]) == (world.admin_account.email, None)
        assert entry["target"] == str(world.admin_account.id)

    async def test_from_one_address_are_one_entry_with_a_count(self, world: World):
        for _ in range(3):
            ok(await log_in(world, world.acme, address=ADDRESS))
        ok(await log_in(world, world.acme, address="203.0.113.8"))

        found = await entries(world, action="login.success", tenantId=world.acme.tenant.id)

        assert sorted(one["count"] for one in found) == [1, 3]
        assert all(one["lastAt"] >= one["at"] for one in found)

    async def test_that_fail_are_one_entry_for_each_account_and_address(self, world: World):
        for _ in range(3):
            refused(await log_in(world, world.acme, WRONG, address=ADDRESS), 401, LOGIN_REFUSED)

        [entry] = await entries(world, action="login.failure")

        assert entry["target"] == str(world.acme.owner.id)
        assert entry["tenantId"] == str(world.acme.tenant.id)
        assert (entry["address"], entry["count"]) == (ADDRESS, 3)

    async def test_that_are_refused_write_nothing_until_they_are_counted_together(
        self, world: World
    ):
        world = with_long_waits(world)
        tries = world.services.settings.login_tries
        for _ in range(tries):
            await log_in(world, world.acme, WRONG, address=ADDRESS)
        await entries(world)
        before = written(world)
        for _ in range(5):
            refused(await log_in(world, world.acme, WRONG, address=ADDRESS), 429)
        while_refused = written(world)

        [entry] = await entries(world, action="login.lockout")

        assert while_refused == before
        assert (entry["target"], entry["count"]) == (str(world.acme.owner.id), 5)

    async def test_of_an_unknown_account_do_not_repeat_what_was_typed(self, world: World):
        for _ in range(3):
            typed = f"{secrets.token_hex(4)}@example.com"
            refused(
                await log_in(world, world.acme, WRONG, email=typed, address=ADDRESS),
                401,
                LOGIN_REFUSED,
            )

        [entry] = await entries(world, action="login.failure")

        assert (entry["target"], entry["count"]) == (sign_ins.UNKNOWN, 3)

    async def test_are_written_when_the_process_ends(self, world: World):
        refused(await log_in(world, world.acme, WRONG), 401, LOGIN_REFUSED)

        await world.services.sign_ins.write()

        rows = catalog_of(world).run("SELECT count FROM audit_entry WHERE action='login.failure'")
        assert rows == [(1,)]

    async def test_fail_when_the_current_password_is_wrong_at_a_change(self, world: World):
        client = await session(world, world.acme)
        body = {"currentPassword": WRONG, "newPassword": NEW_PASSWORD}
        assert (await client.put(CHANGE_PASSWORD, json=body)).status_code >= 400

        [entry] = await entries(world, action="password.failure")

        assert entry["actor"] == f"user:{world.acme.owner.id}"

    @pytest.mark.slow
    async def test_of_many_networks_fill_no_more_than_a_bounded_number_of_entries(
        self, world: World
    ):
        few = sign_ins.SignIns(world.services.catalog, hourly_of_tenant_max=3)
        world = world.with_services(sign_ins=few)
        for number in range(8):
            await log_in(world, world.acme, WRONG, address=f"198.51.100.{number}")

        found = await entries(world, action="login.failure")

        assert len(found) == 4
        assert sum(one["count"] for one in found) == 8
        [rest] = [one for one in found if one["target"] == sign_ins.SEVERAL]
        assert (rest["address"], rest["count"]) == (sign_ins.SEVERAL, 5)


class TestChanges:
    async def test_of_a_tenant_have_the_old_and_the_new_values(self, world: World):
        await patch_tenant(world, world.acme, name="Acme Ltd", modules=["blog"])

        [entry] = await entries(world, action="tenant.update")

        assert entry["actor"] == world.admin_account.email
        assert entry["tenantId"] == entry["target"] == str(world.acme.tenant.id)
        assert changed(entry) == {"name": ("acme", "Acme Ltd"), "modules": ("blog mcp", "blog")}
        assert UUID(entry["requestId"])

    async def test_of_a_user_by_an_admin_have_them_too_but_no_password(self, world: World):
        made = await add_user(world, world.acme, "bob@example.com")
        await patch_user(
            world, world.acme, made["id"], email="rob@example.com", password=NEW_PASSWORD
        )

        [entry] = await inside(world, action="user.update", target=made["id"])

        assert changed(entry) == {
            "email": ("bob@example.com", "rob@example.com"),
            "password": (None, None),
        }
        assert {"field": "password"} in entry["changes"]

    async def test_of_a_persons_own_account_are_recorded(self, world: World):
        client = await session(world, world.acme)
        body = {"fullName": "Another Name", "email": world.acme.owner.email}
        ok(await client.put(PROFILE, json=body))
        passwords = {"currentPassword": PASSWORD, "newPassword": NEW_PASSWORD}
        done(await client.put(CHANGE_PASSWORD, json=passwords))

        own = await inside(world, actor=f"user:{world.acme.owner.id}")
        by_action = {one["action"]: one for one in own}

        assert changed(by_action["profile.update"]) == {
            "fullName": (world.acme.owner.full_name, "Another Name")
        }
        assert by_action["password.change"]["changes"] == [{"field": "password"}]
        assert {one["tenantId"] for one in own} == {str(world.acme.tenant.id)}

    async def test_that_change_nothing_leave_no_entry(self, world: World):
        client = await world.owner(world.acme)
        body = {"fullName": world.acme.owner.full_name, "email": world.acme.owner.email}
        ok(await client.put(PROFILE, json=body))

        assert await inside(world, action="profile.update") == []

    async def test_that_are_refused_leave_no_entry(self, world: World):
        await add_user(world, world.acme, "bob@example.com")
        client = await world.owner(world.acme)
        body = {"fullName": "Another Name", "email": "bob@example.com"}
        refused(await client.put(PROFILE, json=body), 409)

        assert await inside(world, action="profile.update") == []

    async def test_made_at_the_same_time_are_all_recorded(self, world: World):
        client = await world.owner(world.acme)
        email = world.acme.owner.email
        bodies = [{"fullName": f"Name {number}", "email": email} for number in range(20)]
        for answer in await asyncio.gather(*(client.put(PROFILE, json=one) for one in bodies)):
            ok(answer)

        found = [changed(one)["fullName"] for one in await inside(world, action="profile.update")]

        # Each old value is the new value of another entry: none is lost or invented.
        assert len(found) == 20
        assert {old for old, _ in found} - {new for _, new in found} == {world.acme.owner.full_name}

    async def test_of_a_tenant_are_in_its_own_log_alone(self, world: World):
        """One database, one log: neither the catalog nor another tenant has the entry."""
        client = await session(world, world.acme)
        body = {"fullName": "Another Name", "email": world.acme.owner.email}
        ok(await client.put(PROFILE, json=body))
        await add_user(world, world.acme, "bob@example.com")

        own = [one["action"] for one in await inside(world)]

        assert own == ["user.create", "profile.update", "user.create"]
        assert [one["action"] for one in await inside(world, world.globex)] == ["user.create"]
        assert not set(own) & {one["action"] for one in await entries(world)}

    async def test_of_both_fields_of_a_profile_are_one_entry(self, world: World):
        """Of texts that JSON must escape, too."""
        client = await world.owner(world.acme)
        for name, email in (('"Ada" \\ Łove', "ada@example.net"), ("Ada", "ada@example.org")):
            ok(await client.put(PROFILE, json={"fullName": name, "email": email}))

        entry = (await inside(world, action="profile.update"))[0]

        assert changed(entry) == {
            "email": ("ada@example.net", "ada@example.org"),
            "fullName": ('"Ada" \\ Łove', "Ada"),
        }
        assert (entry["actor"], entry["target"], entry["count"], entry["command"]) == (
            f"user:{world.acme.owner.id}",
            str(world.acme.owner.id),
            1,
            None,
        )
        assert entry["lastAt"] == entry["at"]
        assert entry["address"]

    @pytest.mark.parametrize("what", ["profile", "password", "post", "user"])
    async def test_do_not_happen_when_their_entry_cannot_be_written(self, world: World, what: str):
        """The entry and the change are one transaction: what fails, fails for both."""
        send = await _change(world, what)
        raw = database_of(world, world.acme.tenant)
        before = _essence(raw)
        raw.run("ALTER TABLE tenantry_audit RENAME TO audit_gone")

        answer = await send()

        raw.run("ALTER TABLE audit_gone RENAME TO tenantry_audit")
        assert answer.status_code >= 500
        assert _essence(raw) == before

    @pytest.mark.parametrize("what", ["profile", "password", "post", "user"])
    async def test_leave_no_entry_when_they_are_not_committed(self, world: World, what: str):
        """The COMMIT itself fails, by a constraint that is checked only then."""
        send = await _change(world, what)
        raw = database_of(world, world.acme.tenant)
        _fail_at_commit(raw, "tenantry_post" if what == "post" else "tenantry_user")
        before = _essence(raw)

        answer = await send()

        refused(answer, 409)
        assert _essence(raw) == before

    async def test_do_not_need_the_catalog_to_be_writable(self, world: World):
        client = await world.owner(world.acme)
        await catalog_of(world).write("ALTER TABLE audit_entry RENAME TO audit_entry_gone")

        body = {"fullName": "Another Name", "email": world.acme.owner.email}
        ok(await client.put(PROFILE, json=body))

        await catalog_of(world).write("ALTER TABLE audit_entry_gone RENAME TO audit_entry")
        [entry] = await inside(world, action="profile.update")
        assert changed(entry)["fullName"][1] == "Another Name"


async def _change(world: World, what: str) -> Callable[[], Awaitable[httpx.Response]]:
    """Return a request that changes something, with a client that may."""
    client = await session(world, world.acme)
    admin = await world.admin()
    users = f"{TENANTS}/{world.acme.tenant.id}/users"
    profile = {"fullName": "Another Name", "email": "another@example.com"}
    passwords = {"currentPassword": PASSWORD, "newPassword": NEW_PASSWORD}
    post = {"title": "A title", "content": "A text"}
    return {
        "profile": lambda: client.put(PROFILE, json=profile),
        "password": lambda: client.put(CHANGE_PASSWORD, json=passwords),
        "post": lambda: client.post(OWN_POSTS, json=post),
        "user": lambda: admin.patch(f"{users}/{world.acme.owner.id}", json={"fullName": "Bob"}),
    }[what]


def _essence(raw: Raw) -> list[list[tuple[Any, ...]]]:
    tables = ("tenantry_user", "tenantry_post", "tenantry_audit")
    return [raw.run(f"SELECT * FROM {table} ORDER BY id") for table in tables]


def _fail_at_commit(raw: Raw, table: str) -> None:
    """Make every transaction that writes to *table* fail at its COMMIT."""
    raw.run("CREATE TABLE nowhere (id INTEGER PRIMARY KEY)")
    raw.run(
        "CREATE TABLE doomed (id INTEGER REFERENCES nowhere (id) DEFERRABLE INITIALLY DEFERRED)"
    )
    for event in ("INSERT", "UPDATE"):
        if raw.path is not None:
            raw.run(
                f"CREATE TRIGGER doom_{event} AFTER {event} ON {table}"
                " BEGIN INSERT INTO doomed VALUES (1); END"
            )
        else:
            raw.run(
                f"CREATE FUNCTION doom_{event}() RETURNS trigger LANGUAGE plpgsql AS"
                " $$ BEGIN INSERT INTO doomed VALUES (1); RETURN NULL; END $$"
            )
            raw.run(
                f"CREATE TRIGGER doom_{event} AFTER {event} ON {table}"
                f" FOR EACH ROW EXECUTE FUNCTION doom_{event}()"
            )


class TestFilters:
    async def test_find_by_actor_action_target_and_tenant(self, world: World):
        await patch_tenant(world, world.acme, name="acme-2")
        await patch_tenant(world, world.globex, name="globex-2")
        acme = str(world.acme.tenant.id)

        assert {one["tenantId"] for one in await entries(world, tenantId=acme)} == {acme}
        assert {one["target"] for one in await entries(world, target=acme)} == {acme}
        both = await entries(world, action="tenant.update", actor=world.admin_account.email)
        assert len(both) == 2
        assert len(await entries(world, action="tenant.update", tenantId=acme)) == 1
        assert await entries(world, actor="nobody@example.com") == []

    async def test_find_by_time(self, world: World):
        await patch_tenant(world, world.acme, name="acme-2")
        await asyncio.sleep(0.01)
        between = utc_now()
        await asyncio.sleep(0.01)
        await patch_tenant(world, world.acme, name="acme-3")
        only = {"action": "tenant.update"}

        [later] = await entries(world, since=between.isoformat(), **only)
        [earlier] = await entries(world, until=between.isoformat(), **only)

        assert changed(later)["name"] == ("acme-2", "acme-3")
        assert changed(earlier)["name"] == ("acme", "acme-2")
        assert await entries(world, since=(utc_now() + timedelta(days=1)).isoformat()) == []
        assert await entries(world, until=datetime(1, 1, 1, tzinfo=UTC).isoformat()) == []
        assert await entries(world, since=datetime(9999, 12, 31, tzinfo=UTC).isoformat()) == []

    async def test_of_a_tenants_log_are_the_same(self, world: World):
        for number in range(3):
            await add_user(world, world.acme, f"bob{number}@example.com")
        last = (await inside(world))[0]

        by_admin = await inside(world, actor=world.admin_account.email)
        assert len(by_admin) == 3
        assert await inside(world, target=last["target"]) == [last]
        assert await inside(world, action="user.create", target=last["target"]) == [last]
        assert await inside(world, actor="nobody@example.com") == []
        assert await inside(world, since=(utc_now() + timedelta(days=1)).isoformat()) == []
        assert len(await inside(world, until=last["at"])) == 3
        page = ok(await (await world.admin()).get(f"{log_of(world.acme)}?pageSize=2&page=2"))
        assert (page["totalCount"], page["totalPages"], len(page["items"])) == (4, 2, 2)
        assert {one["tenantId"] for one in page["items"]} == {str(world.acme.tenant.id)}

    @pytest.mark.parametrize("path", ["", "/export"])
    async def test_of_an_unknown_tenant_are_refused(self, world: World, path: str):
        admin = await world.admin()

        refused(await admin.get(f"{TENANTS}/{UUID(int=0)}/audit-log{path}"), 404)

    @pytest.mark.parametrize(
        "query", ["tenantId=acme", "since=yesterday", "since=2026-01-01T00:00:00", "actor=%00"]
    )
    async def test_that_are_malformed_are_refused(self, world: World, query: str):
        admin = await world.admin()

        refused(await admin.get(f"{LOG}?{query}"), 400)
        refused(await admin.get(f"{EXPORT}?{query}"), 400)


class TestExport:
    async def test_has_the_entries_of_the_list(self, world: World):
        await patch_tenant(world, world.acme, name="acme-2")
        listed = await entries(world)

        assert await lines(world) == listed
        assert await lines(world, action="tenant.update") == [
            one for one in listed if one["action"] == "tenant.update"
        ]
        assert await lines(world, action="nothing") == []

    async def test_of_a_tenant_has_the_entries_of_its_list(self, world: World):
        await add_user(world, world.acme, "bob@example.com")
        listed = await inside(world)

        assert await lines(world, f"{log_of(world.acme)}/export") == listed
        only = await lines(world, f"{log_of(world.acme)}/export", actor=listed[0]["actor"])
        assert only == listed[:1]

    async def test_is_whole_when_it_is_long(self, world: World):
        """Over the bound of one batch, in order, and every entry once.

        The entries are of now: older ones would be removed after the retention period.
        """
        count = 1100
        sql = (
            "INSERT INTO audit_entry SELECT * FROM ("
            "WITH RECURSIVE numbers(n) AS"
            " (SELECT 1 UNION ALL SELECT n + 1 FROM numbers WHERE n < ?)"
            " SELECT {id}, at, last_at, count, actor, 'many', target, tenant_id, address, command,"
            " changes, request_id, NULL FROM numbers, (SELECT * FROM audit_entry LIMIT 1) AS one)"
            " AS many"
        )
        is_sqlite = catalog_of(world).path is not None
        millisecond = first_id_at(utc_now()).hex[:12]
        made = "printf('%020x', n)" if is_sqlite else "lpad(to_hex(n), 20, '0')"
        made = f"'{millisecond}' || {made}" if is_sqlite else f"('{millisecond}' || {made})::uuid"
        await catalog_of(world).write(sql.format(id=made), count)

        ids = [one["id"] for one in await lines(world, action="many")]

        assert len(ids) == len(set(ids)) == count
        assert ids == sorted(ids, reverse=True)


class TestSecrets:
    async def test_are_in_no_entry(self, world: World):
        """Every credential that goes in or out, and a password in the field for the address."""
        secret, another = f"canary {secrets.token_hex(16)}", f"canary {secrets.token_hex(16)}"
        admin = await world.admin()
        user = await add_user(world, world.acme, "bob@example.com", password=secret)
        key = ok(await admin.post(f"{TENANTS}/{world.acme.tenant.id}/api-keys", json={}), 201)
        token = ok(
            await admin.post(
                f"{TENANTS}/{world.acme.tenant.id}/mcp-tokens", json={"name": "assistant"}
            ),
            201,
        )
        ok(await log_in(world, world.acme, secret, email="bob@example.com"))
        refused(await log_in(world, world.acme, another, email=secret), 401, LOGIN_REFUSED)
        body = {"email": another, "password": secret}
        refused(await world.stranger().post(ADMIN_LOGIN, json=body), 401, LOGIN_REFUSED)
        await patch_user(world, world.acme, user["id"], password=another)
        client = await world.owner(world.acme)
        ok(await client.post(OWN_POSTS, json={"title": "A", "content": secret}), 201)
        canaries = [secret, another, world.acme.key.secret]
        canaries += [value for value in (*key.values(), *token.values()) if _is_secret(value)]

        own = await lines(world, f"{log_of(world.acme)}/export")
        log = json.dumps([*await lines(world), *own], ensure_ascii=False)
        rows = catalog_of(world).run("SELECT * FROM audit_entry")
        rows += database_of(world, world.acme.tenant).run("SELECT * FROM tenantry_audit")

        assert len(canaries) == 5
        for canary in canaries:
            assert canary not in log
            assert canary not in str(rows)


def _is_secret(value: object) -> bool:
    return isinstance(value, str) and value.startswith(("tnk_", "tnm_")) and len(value) > 20


class TestAddresses:
    @pytest.mark.parametrize("odd", ["", "unknown", "\0", "\ud800", "fe80::1%eth0", "x" * 5000])
    async def test_of_any_form_are_recorded(self, world: World, odd: str):
        """A trusted proxy may forward any text as the address of its client."""
        answer = await at(world, odd).post(
            LOGIN,
            headers={"x-api-key": world.acme.key.secret},
            json={"email": world.acme.owner.email, "password": PASSWORD},
        )

        ok(answer)
        [entry] = await entries(world, action="login.success", tenantId=world.acme.tenant.id)
        assert len(entry["address"]) <= 100
