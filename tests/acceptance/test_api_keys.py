"""/api/admin/tenants/{tenantId}/api-keys: the keys of a customer."""

import asyncio
from datetime import timedelta
from typing import Any

import pytest

from tenantry.access.credentials import EXPIRED_KEY_KEPT
from tenantry.catalog.credentials import KEYS_PER_TENANT_MAX
from tenantry.kit.clock import utc_now
from tests.acceptance.shapes import API_KEY, ISSUED_API_KEY, instant, list_of, must_be
from tests.acceptance.support import (
    LOGIN,
    POSTS,
    PROFILE,
    TENANTS,
    UNKNOWN_ID,
    catalog_of,
    done,
    encoded,
    ok,
    patch_tenant,
    refused,
    session,
)
from tests.conftest import PASSWORD, World

BAD_EXPIRIES: tuple[Any, ...] = (
    "2020-01-01T00:00:00Z",
    "0001-01-01T00:00:00+14:00",
    "2099-01-01T00:00:00",
    "2099-01-01",
    "2099-02-30T00:00:00Z",
    "tomorrow",
    "",
    None,
    4102444800,
    ["2099-01-01T00:00:00Z"],
)


def path_of(world: World) -> str:
    return f"{TENANTS}/{world.acme.tenant.id}/api-keys"


class TestListKeys:
    async def test_returns_no_secrets(self, world: World) -> None:
        """Every key of that tenant by its prefix, without the key itself."""
        admin = await world.admin()

        answer = await admin.get(path_of(world))

        data = ok(answer)
        must_be(data, {"items": list_of(API_KEY)})
        [key] = data["items"]
        assert key["id"] == str(world.acme.key.key.id)
        assert world.acme.key.secret.startswith(key["prefix"])
        assert len(key["prefix"]) < 20
        assert key["expiresAt"] is None
        assert world.acme.key.secret not in answer.text
        refused(await admin.get(f"{TENANTS}/{UNKNOWN_ID}/api-keys"), 404)

    async def test_returns_when_a_key_was_used(self, world: World) -> None:
        """It is written in the background, at most once a minute."""
        admin = await world.admin()
        [unused] = ok(await admin.get(path_of(world)))["items"]
        ok(await world.public(world.acme).get(POSTS))
        await world.services.usage.write()

        [used] = ok(await admin.get(path_of(world)))["items"]

        assert unused["lastUsedAt"] is None
        assert utc_now() - instant(used["lastUsedAt"]) < timedelta(seconds=30)


class TestIssueKey:
    async def test_returns_a_key_that_opens_the_tenant(self, world: World) -> None:
        """201 and the secret, this once; the keys before go on."""
        admin = await world.admin()

        answer = await admin.post(path_of(world), json={})

        issued = ok(answer, 201)
        must_be(issued, ISSUED_API_KEY)
        assert answer.headers["cache-control"] == "no-store"
        assert issued["key"].startswith("tnk_")
        assert len(issued["key"]) >= 4 + 43
        assert issued["lastUsedAt"] is None
        for key in (issued["key"], world.acme.key.secret):
            [post] = ok(await world.client(x_api_key=key).get(POSTS))["items"]
            assert post["title"] == "Hello from acme"
        owner = await session(world, world.acme)
        owner.headers["x-api-key"] = issued["key"]
        ok(await owner.get(PROFILE))
        assert len(ok(await admin.get(path_of(world)))["items"]) == 2
        ok(await admin.post(path_of(world)), 201)
        assert issued["key"] not in catalog_of(world).dump()

    @pytest.mark.slow
    async def test_ends_a_key_at_its_own_date(self, world: World) -> None:
        """It is good until then, and 401 from then on; for a login too."""
        admin = await world.admin()
        ends = utc_now() + timedelta(seconds=5)
        issued = ok(await admin.post(path_of(world), json={"expiresAt": ends.isoformat()}), 201)
        client = world.client(x_api_key=issued["key"])

        ok(await client.get(POSTS))
        await asyncio.sleep((ends - utc_now()).total_seconds() + 0.05)

        refused(await client.get(POSTS), 401)
        login = {"email": world.acme.owner.email, "password": PASSWORD}
        refused(await client.post(LOGIN, json=login), 401)
        ok(await world.public(world.acme).get(POSTS))

    async def test_returns_every_instant_in_utc(self, world: World) -> None:
        """Whatever the offset that was sent, at both ends of the calendar."""
        admin = await world.admin()

        offset = await admin.post(path_of(world), json={"expiresAt": "2099-01-01T02:00:00+02:00"})
        late = await admin.post(path_of(world), json={"expiresAt": "9999-12-31T23:00:00+00:00"})

        assert ok(offset, 201)["expiresAt"] == "2099-01-01T00:00:00Z"
        assert ok(late, 201)["expiresAt"] == "9999-12-31T23:00:00Z"
        must_be(ok(await admin.get(path_of(world))), {"items": list_of(API_KEY)})

    async def test_refuses_a_bad_body(self, world: World) -> None:
        """400: an expiry is an instant with an offset, in the future."""
        admin = await world.admin()

        for expiry in BAD_EXPIRIES:
            body = encoded({"expiresAt": expiry})
            refused(await admin.post(path_of(world), content=body), 400)
        refused(await admin.post(path_of(world), content=b"[]"), 400)
        refused(await admin.post(f"{TENANTS}/{UNKNOWN_ID}/api-keys", json={}), 404)

        assert len(ok(await admin.get(path_of(world)))["items"]) == 1

    async def test_never_breaks_at_the_end_of_the_calendar(self, world: World) -> None:
        """What cannot be expressed in UTC is 400, never 5xx."""
        admin = await world.admin()

        body = {"expiresAt": "9999-12-31T23:59:59-14:00"}

        refused(await admin.post(path_of(world), json=body), 400)


class TestRotateKey:
    async def test_returns_a_key_with_the_end_of_the_old_one(self, world: World) -> None:
        admin, ends = await world.admin(), "2099-01-01T00:00:00Z"
        limited = ok(await admin.post(path_of(world), json={"expiresAt": ends}), 201)
        [unlimited, _] = ok(await admin.get(path_of(world)))["items"]

        new = [
            ok(await admin.post(f"{path_of(world)}/{one['id']}/rotate", json={}), 201)["expiresAt"]
            for one in (limited, unlimited)
        ]

        assert new == [ends, None]

    @pytest.mark.parametrize("grace", [0, 86_400], ids=["expired", "replaced"])
    async def test_is_409_for_a_key_that_ends(self, world: World, grace: int) -> None:
        """Else its successor would have no end, or that of the grace period."""
        admin = await world.admin()
        old = ok(await admin.post(path_of(world), json={}), 201)
        rotating = f"{path_of(world)}/{old['id']}/rotate"
        ok(await admin.post(rotating, json={"gracePeriodSeconds": grace}), 201)
        before = ok(await admin.get(path_of(world)))

        answer = await admin.post(rotating, json={})

        refused(answer, 409)
        assert answer.headers["x-error-code"] == "api_key_ending"
        assert ok(await admin.get(path_of(world))) == before

    async def test_removes_the_keys_that_expired_a_week_ago(self, world: World) -> None:
        """Else a key in use would leave the list after a thousand rotations."""
        admin = await world.admin()
        newest = ok(await admin.post(path_of(world), json={}), 201)
        for number in range(3):
            rotating = f"{path_of(world)}/{newest['id']}/rotate"
            newest = ok(await admin.post(rotating, json={"gracePeriodSeconds": 0}), 201)
            if number == 0:
                long_ago = utc_now() - EXPIRED_KEY_KEPT
                of_ended = "WHERE expires_at IS NOT NULL"
                await catalog_of(world).write(
                    f"UPDATE api_key SET expires_at = ? {of_ended}", f"{long_ago}"
                )

        listed = ok(await admin.get(path_of(world)))["items"]

        assert [one["expiresAt"] is None for one in listed] == [True, False, False, True]
        assert listed[-1]["id"] == newest["id"]

    async def test_is_404_while_its_tenant_is_deleted(self, world: World) -> None:
        """As to list and to issue keys; else the key would be valid after an undelete."""
        admin = await world.admin()
        key = ok(await admin.post(path_of(world), json={}), 201)
        await patch_tenant(world, world.acme, isActive=False)
        acme = world.acme.tenant
        done(await admin.delete(f"{TENANTS}/{acme.id}", params={"name": acme.name}))

        refused(await admin.post(f"{path_of(world)}/{key['id']}/rotate", json={}), 404)


class TestMaximum:
    async def test_of_a_tenant_holds_under_concurrent_requests(self, world: World) -> None:
        """409, so every key is in the list."""
        admin = await world.admin()
        raw = catalog_of(world)
        new_id = "gen_random_uuid()" if raw.path is None else "lower(hex(randomblob(16)))"
        raw.multiply("api_key", KEYS_PER_TENANT_MAX - 4, id=new_id, digest="digest || ' ' || i")

        answers = await asyncio.gather(*(admin.post(path_of(world), json={}) for _ in range(8)))

        assert sorted(answer.status_code for answer in answers) == [201] * 3 + [409] * 5
        assert len(ok(await admin.get(path_of(world)))["items"]) == KEYS_PER_TENANT_MAX


class TestRevokeKey:
    async def test_holds_at_the_very_next_request(self, world: World) -> None:
        """401 for that key, and for no other."""
        admin = await world.admin()
        issued = ok(await admin.post(path_of(world), json={}), 201)
        client = world.client(x_api_key=issued["key"])
        owner = await session(world, world.acme)
        owner.headers["x-api-key"] = issued["key"]
        path = f"{path_of(world)}/{issued['id']}"
        ok(await client.get(POSTS))
        ok(await owner.get(PROFILE))

        done(await admin.delete(path))

        refused(await client.get(POSTS), 401)
        refused(await owner.get(PROFILE), 401)
        ok(await world.public(world.acme).get(POSTS))
        assert len(ok(await admin.get(path_of(world)))["items"]) == 1

    async def test_is_404_for_what_is_not_there(self, world: World) -> None:
        """Unknown, revoked already, or another tenant's."""
        admin = await world.admin()
        others = world.globex.key.key.id

        for key in (UNKNOWN_ID, "rubbish", others):
            refused(await admin.delete(f"{path_of(world)}/{key}"), 404)

        ok(await world.public(world.globex).get(POSTS))
