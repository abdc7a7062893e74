"""The users of a database of the release before, which has no roles, and after the upgrade."""

import pytest

from testkit import raw_sql
from tests.acceptance.support import (
    CHANGE_PASSWORD,
    MIGRATE_ALL,
    NEW_PASSWORD,
    OWN_POSTS,
    PROFILE,
    TENANTS,
    add_user,
    done,
    log_in,
    ok,
    refused,
)
from tests.conftest import HEAD, PASSWORD, UNDO_HEAD, World
from tests.integration.test_post_upgrade import url_of

ROLES = "SELECT email, role FROM tenantry_user ORDER BY id"


@pytest.fixture(name="old")
async def _old(world: World) -> World:
    """The world with a second user of acme, whose database is as the release before left it."""
    await add_user(world, world.acme, "bob@acme.example.com", role="reader")
    raw_sql.run(url_of(world), *UNDO_HEAD)
    await world.services.databases.forget(world.acme.tenant.id)
    return world


async def test_users_are_owners_before_the_upgrade_and_after_it(old: World) -> None:
    """Users are read before it; changes of users and posts wait for it."""
    owner, admin = await old.owner(old.acme), await old.admin()
    users = f"{TENANTS}/{old.acme.tenant.id}/users"
    listed = ok(await admin.get(users))["items"]
    assert [one["role"] for one in listed] == ["owner", "owner"]
    profile = ok(await owner.get(PROFILE))
    assert ok(await owner.get("/api/tenant/auth/role")) == {"role": "owner"}
    assert ok(await owner.get("/api/tenant/users"))["items"] == listed
    ok(await log_in(old, old.acme, PASSWORD))
    body = {"currentPassword": PASSWORD, "newPassword": NEW_PASSWORD}
    done(await owner.put(CHANGE_PASSWORD, json=body))
    password = {"password": PASSWORD}
    bob = f"{users}/{listed[1]['id']}"
    for answer in (
        await owner.post(OWN_POSTS, json={"title": "A", "content": "B"}),
        await owner.put(PROFILE, json={"fullName": "New", "email": profile["email"]}),
        await admin.patch(bob, json={"role": "reader"}),
        await admin.delete(bob),
        await admin.post(users, json={"email": "c@b.example.com", "fullName": "C", **password}),
    ):
        refused(answer, 503)
        assert answer.headers["x-error-code"] == "tenant_outdated"

    ok(await admin.post(MIGRATE_ALL))

    assert raw_sql.rows(url_of(old), "SELECT version_num FROM tenantry_version") == [(HEAD,)]
    assert raw_sql.rows(url_of(old), ROLES) == [(one["email"], "owner") for one in listed]
    assert ok(await admin.get(users))["items"] == listed
    assert ok(await owner.get(PROFILE)) == profile
    assert ok(await admin.patch(bob, json={"role": "reader"}))["role"] == "reader"


async def test_a_user_that_the_release_before_creates_is_an_owner(world: World) -> None:
    """Its statements name no role, also while the database has one."""
    columns = "id, email, canonical_email, full_name, password_hash, is_active, created_at"
    raw_sql.run(
        url_of(world),
        f"INSERT INTO tenantry_user ({columns}) SELECT "
        "'01a21c8000007000a000000000000001', 'b@example.com', 'b@example.com', full_name, "
        "password_hash, is_active, created_at FROM tenantry_user",
    )

    shown = ok(await (await world.owner(world.acme)).get("/api/tenant/users"))["items"]

    assert {one["email"]: one["role"] for one in shown} == {
        world.acme.owner.email: "owner",
        "b@example.com": "owner",
    }
