"""POST /api/admin/auth/renew."""

from datetime import timedelta
from typing import Any

import jwt
import pytest
import sqlalchemy as sa

from tenantry.access.principal import Person, Role
from tenantry.access.tokens import SESSION_MAX, Session, SessionNotRenewable
from tenantry.catalog.tables import signing_key
from tenantry.db.statements import Statement
from tenantry.kit.clock import utc_now
from tenantry.kit.context import system_context
from tenantry.kit.ids import new_id
from tests.acceptance.support import ADMIN_LOGIN, TENANTS, done, ok, refused
from tests.conftest import PASSWORD, World

RENEW = "/api/admin/auth/renew"
LOGOUT = "/api/admin/auth/logout"
_SIGNS_NOW = Statement[Any](
    sa.update(signing_key)
    .values(signs_from=sa.bindparam("at", type_=signing_key.c.signs_from.type))
    .where(signing_key.c.id == sa.bindparam("key"))
)


def claims(token: str) -> dict[str, object]:
    return jwt.decode(token, options={"verify_signature": False})


async def log_in(world: World) -> str:
    body = {"email": world.admin_account.email, "password": PASSWORD}
    return str(ok(await world.stranger().post(ADMIN_LOGIN, json=body))["token"])


async def renewed(world: World, token: str) -> str:
    async with world.client(authorization=f"Bearer {token}") as client:
        return str(ok(await client.post(RENEW))["token"])


class TestRenew:
    async def test_is_a_token_of_the_same_session(self, world: World):
        """With the time of the login, which bounds how often it can be renewed."""
        first = claims(await log_in(world))
        token = await renewed(world, await log_in(world))
        again = claims(await renewed(world, token))

        assert claims(token)["jti"] == again["jti"] != first["jti"]
        assert again["auth_time"] == claims(token)["auth_time"]
        async with world.client(authorization=f"Bearer {token}") as client:
            ok(await client.get(TENANTS))

    async def test_ends_with_the_session(self, world: World):
        """A logout with any token of a session ends all of them."""
        first = await log_in(world)
        second = await renewed(world, first)
        async with world.client(authorization=f"Bearer {first}") as client:
            done(await client.post(LOGOUT))

        for token in (first, second):
            async with world.client(authorization=f"Bearer {token}") as client:
                refused(await client.get(TENANTS), 401)
                refused(await client.post(RENEW), 401)

    async def test_needs_a_token(self, world: World):
        refused(await world.stranger().post(RENEW), 401)

    async def test_is_bounded(self, world: World):
        """No token expires later than `SESSION_MAX` after the login, unless it did before."""
        now = utc_now()
        admin = world.admin_account
        person = Person(admin.id, admin.email, Role.ADMIN, admin.generation)
        began_at, expires_at = now - SESSION_MAX + timedelta(minutes=5), now + timedelta(minutes=1)
        key_id = (await world.services.signing_keys.ring()).signer(now).id
        session = Session(str(new_id()), began_at, expires_at, key_id)

        issued = await world.services.tokens.issue(person, now=now, session=session)

        assert abs(issued.expires_at - began_at - SESSION_MAX) < timedelta(seconds=1)

    async def test_ends_with_the_signing_key(self, world: World):
        """Otherwise a session that was forged with a stolen key would outlive the key."""
        keys, tokens = world.services.signing_keys, world.services.tokens
        admin, now = world.admin_account, utc_now()
        person = Person(admin.id, admin.email, Role.ADMIN, admin.generation)
        old = (await keys.ring()).signer(now)
        session = Session(str(new_id()), now, now + timedelta(minutes=1), old.id)
        added = await keys.rotate(system_context("test"))

        assert (await tokens.issue(person, now=now, session=session)).token
        with pytest.raises(SessionNotRenewable):
            await tokens.issue(person, now=added.signs_from, session=session)

    async def test_rejects_a_token_without_its_key(self, world: World):
        """With the code of the error, over HTTP."""
        token = await log_in(world)
        keys = world.services.signing_keys
        added = await keys.rotate(system_context("test"))
        async with world.services.catalog.change(
            system_context("test"), "signing-key.add", added.id
        ) as session:
            await session.execute(_SIGNS_NOW, at=utc_now(), key=added.id)
        async with world.client(authorization=f"Bearer {token}") as client:
            answer = await client.post(RENEW)
            ok(await client.get(TENANTS))
        refused(answer, 409)
        assert answer.headers["x-error-code"] == "session_not_renewable"
