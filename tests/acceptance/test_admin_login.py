"""POST /api/admin/auth/login."""

import asyncio

import jwt
import pytest

from testkit.faults import Faults
from tests.acceptance.shapes import LOGIN_RESULT, instant, must_be
from tests.acceptance.support import (
    ADMIN_LOGIN,
    BROKEN_JSON,
    HISTORY,
    LOGIN_REFUSED,
    NEW_PASSWORD,
    PROFILE,
    TENANTS,
    at,
    catalog_of,
    count_hashes,
    encoded,
    must_be_for_admins,
    ok,
    refused,
    with_long_waits,
)
from tests.acceptance.test_tenant_login import BAD_LOGINS
from tests.conftest import PASSWORD, World

ADA = {"email": "ada@example.com", "password": PASSWORD}


class TestAdminLogin:
    async def test_returns_a_token_that_opens_admin_endpoints(self, world: World) -> None:
        """A LoginResult for address and password as JSON; no key is needed."""
        answer = await world.stranger().post(ADMIN_LOGIN, json=ADA)

        result = ok(answer)
        must_be(result, LOGIN_RESULT)
        assert answer.headers["cache-control"] == "no-store"
        admin = world.client(authorization=f"Bearer {result['token']}")
        assert ok(await admin.get(TENANTS))["totalCount"] == 2
        ok(await admin.get(HISTORY))

    async def test_signs_the_claims(self, world: World) -> None:
        """nameid, email, role Admin and exp; no TenantId, and an audience of its own."""
        result = ok(await world.stranger().post(ADMIN_LOGIN, json=ADA))

        keys = (await world.stranger().get("/.well-known/jwks.json")).json()["keys"]
        kid = jwt.get_unverified_header(result["token"])["kid"]
        [key] = [one for one in keys if one["kid"] == kid]
        claims = jwt.decode(
            result["token"], jwt.PyJWK(key), algorithms=["EdDSA"], audience="tenantry/admin"
        )
        assert claims["nameid"] == str(world.admin_account.id)
        assert claims["email"] == "ada@example.com"
        assert claims["role"] == "Admin"
        assert "TenantId" not in claims
        assert claims["exp"] == instant(result["expiresAt"]).timestamp()
        with pytest.raises(jwt.InvalidAudienceError):
            jwt.decode(
                result["token"], jwt.PyJWK(key), algorithms=["EdDSA"], audience="tenantry/tenant"
            )

    async def test_ignores_other_credentials(self, world: World) -> None:
        """The endpoint is open: no credential header changes the result."""
        client = world.client(authorization="Bearer no", x_api_key="tnk_no", x_mcp_token="tnm_no")

        ok(await client.post(ADMIN_LOGIN, json={**ADA, "email": "ADA@Example.com"}))

    async def test_answers_every_failure_alike(self, world: World, faults: Faults) -> None:
        """One response and one verification, also for a tenant's user and an inactive admin."""
        hashes = count_hashes(faults)
        client = world.stranger()
        tenants_user = {"email": world.acme.owner.email, "password": PASSWORD}

        answers = [
            await client.post(ADMIN_LOGIN, json={**ADA, "password": "wrong"}),
            await client.post(ADMIN_LOGIN, json={**ADA, "email": "nobody@example.com"}),
            await client.post(ADMIN_LOGIN, json=tenants_user),
        ]
        await catalog_of(world).write("UPDATE admin SET is_active = ?", False)  # noqa: FBT003 - a value
        answers.append(await client.post(ADMIN_LOGIN, json=ADA))

        for answer in answers:
            refused(answer, 401, LOGIN_REFUSED)
        assert len({answer.content for answer in answers}) == 1
        assert len({tuple(answer.headers) for answer in answers}) == 1
        assert len(hashes.verified) == len(answers)

    async def test_refuses_a_bad_body(self, world: World) -> None:
        """400, as at the tenants' login."""
        for broken in BROKEN_JSON:
            refused(await world.stranger().post(ADMIN_LOGIN, content=broken), 400)
        for body in BAD_LOGINS:
            refused(await world.stranger().post(ADMIN_LOGIN, content=encoded(body)), 400)

    async def test_bounds_guessing(self, world: World, faults: Faults) -> None:
        """Thirty at once reach the hasher five times; another address may still come in."""
        world = with_long_waits(world)
        hashes = count_hashes(faults)
        wrong = {**ADA, "password": "wrong"}

        answers = await asyncio.gather(
            *(world.stranger().post(ADMIN_LOGIN, json=wrong) for _ in range(30))
        )

        assert 1 <= len(hashes.verified) <= 5
        assert {answer.status_code for answer in answers} == {401, 429}
        refused(await world.stranger().post(ADMIN_LOGIN, json=ADA), 429)
        ok(await at(world, "198.51.100.7").post(ADMIN_LOGIN, json=ADA))

    @pytest.mark.slow
    async def test_is_not_locked_out_by_attackers(self, world: World) -> None:
        """Not at an address of an earlier login, and nowhere after a password reset."""
        home, fresh = at(world, "203.0.113.1"), at(world, "203.0.113.2")
        ok(await home.post(ADMIN_LOGIN, json=ADA))
        for number in range(20):
            stranger = at(world, f"198.51.{number}.1")
            guess = await stranger.post(ADMIN_LOGIN, json={**ADA, "password": "wrong"})
            refused(guess, 401, LOGIN_REFUSED)

        ok(await home.post(ADMIN_LOGIN, json=ADA))
        refused(await fresh.post(ADMIN_LOGIN, json=ADA), 429)
        admin = await world.admin()
        path = f"/api/admin/admins/{world.admin_account.id}"
        ok(await admin.patch(path, json={"password": NEW_PASSWORD}))
        ok(await fresh.post(ADMIN_LOGIN, json={**ADA, "password": NEW_PASSWORD}))


class TestAdminLevel:
    async def test_is_for_admins(self, world: World) -> None:
        """Key and McpToken are no bearer (401); a tenant's user has no authority (403).

        `tests/contracts/test_matrix.py` asks every endpoint.
        """
        admin = f"{TENANTS}/{world.acme.tenant.id}"
        for path in (TENANTS, HISTORY, admin, f"{admin}/users", f"{admin}/api-keys"):
            await must_be_for_admins(world, lambda client, path=path: client.get(path))

    async def test_ignores_keys(self, world: World) -> None:
        """An admin's bearer suffices, whatever the tenants' headers hold."""
        token = await world.admin_token()

        for headers in (
            {"x_api_key": "tnk_unknown"},
            {"x_api_key": world.acme.key.secret},
            {"x_mcp_token": "tnm_unknown"},
        ):
            client = world.client(authorization=f"Bearer {token}", **headers)
            ok(await client.get(TENANTS))

    async def test_opens_no_tenant(self, world: World) -> None:
        """An admin is no user: 401 without a key, 403 with one."""
        token = await world.admin_token()
        with_key = world.client(authorization=f"Bearer {token}", x_api_key=world.acme.key.secret)

        refused(await world.client(authorization=f"Bearer {token}").get(PROFILE), 401)
        refused(await with_key.get(PROFILE), 403)
