"""No secret is stored or logged, in any database or log."""

import io
import logging
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stderr
from typing import Literal

import httpx
import pytest

from tenantry.app import app_over
from tenantry.kit import log
from tests.acceptance.support import (
    ADMIN_LOGIN,
    CHANGE_PASSWORD,
    LOGIN,
    MIGRATE_ALL,
    MODULES,
    NEW_PASSWORD,
    OWN_TOKENS,
    POSTS,
    PROFILE,
    TENANTS,
    catalog_of,
    database_of,
    done,
    ok,
)
from tests.conftest import PASSWORD, World, client_of
from tests.logs import logs_kept

OTHER_PASSWORD = "another password of somebody"
WRONG_PASSWORD = "a wrong password is a secret too"


@contextmanager
def everything_logged(log_format: Literal["json", "text"]) -> Iterator[io.StringIO]:
    """Yield what is logged at the level ``debug``, by us and by the libraries."""
    # The client of the tests is in this process, and logs the URLs it asks for.
    logging.getLogger("httpx").disabled = True
    written = io.StringIO()
    with logs_kept(), redirect_stderr(written):
        log.configure(log_format=log_format, level="debug")
        try:
            yield written
        finally:
            logging.getLogger("httpx").disabled = False


@pytest.mark.slow
class TestSecrets:
    @pytest.mark.parametrize("log_format", ["json", "text"])
    async def test_are_nowhere_to_be_found(
        self, world: World, log_format: Literal["json", "text"]
    ) -> None:
        """Passwords, keys, tokens and JWTs, right or wrong, in whatever place they came."""
        with everything_logged(log_format) as logs:
            secrets = await use_everything(world)

        written = logs.getvalue()
        assert written.count("\n") > 20
        assert "/api/tenant/auth/login" in written
        dumps = "\n".join(
            raw.dump()
            for raw in (
                catalog_of(world),
                database_of(world, world.acme.tenant),
                database_of(world, world.globex.tenant),
            )
        )
        assert world.acme.owner.email in dumps
        for name, secret in secrets.items():
            assert len(secret) > 20
            assert secret not in written, name
            assert secret not in dumps, name
        secret_key = world.services.settings.secret_key.get_secret_value()
        assert not secret_key or secret_key not in written + dumps
        files = [path for path in world.services.settings.data_dir.rglob("*") if path.is_file()]
        for path in files:
            content = path.read_bytes()
            for name, secret in secrets.items():
                assert secret.encode() not in content, (name, path)
            if path.name == "secret-key":
                assert path.read_text() not in written + dumps
                assert path.stat().st_mode & 0o777 == 0o600


async def use_everything(world: World) -> dict[str, str]:
    """Use every kind of secret, well and badly; return them all."""
    app = app_over(world.services)
    stranger = client_of(app)
    key = world.acme.key.secret
    with_key = client_of(app, x_api_key=key)
    email = world.acme.owner.email
    ada = {"email": "ada@example.com", "password": PASSWORD}
    admin_token = ok(await stranger.post(ADMIN_LOGIN, json=ada))["token"]
    admin = client_of(app, authorization=f"Bearer {admin_token}")
    token = ok(await with_key.post(LOGIN, json={"email": email, "password": PASSWORD}))["token"]
    user = client_of(app, authorization=f"Bearer {token}", x_api_key=key)
    owner = {"email": "ann@initech.example.com", "fullName": "Ann", "password": OTHER_PASSWORD}
    made = ok(await admin.post(TENANTS, json={"name": "Initech", "owner": owner}), 201)
    tenant = f"{TENANTS}/{world.acme.tenant.id}"
    issued_key = ok(await admin.post(f"{tenant}/api-keys", json={}), 201)["key"]
    mcp_token = ok(await admin.post(f"{tenant}/mcp-tokens", json={"name": "a"}), 201)["token"]
    own_token = ok(await user.post(OWN_TOKENS, json={"name": "b", "password": PASSWORD}), 201)[
        "token"
    ]
    user_password = {"email": "bob@acme.example.com", "fullName": "B", "password": OTHER_PASSWORD}
    ok(await admin.post(f"{tenant}/users", json=user_password), 201)
    change = {"currentPassword": PASSWORD, "newPassword": NEW_PASSWORD}
    done(await user.put(CHANGE_PASSWORD, json=change))
    ok(await admin.post(MIGRATE_ALL))

    secrets = {
        "password": PASSWORD,
        "new password": NEW_PASSWORD,
        "other password": OTHER_PASSWORD,
        "wrong password": WRONG_PASSWORD,
        "admin's token": admin_token,
        "signature of it": admin_token.rpartition(".")[2],
        "user's token": token,
        "key": key,
        "key of Initech": made["apiKey"],
        "key of globex": world.globex.key.secret,
        "second key": issued_key,
        "McpToken": mcp_token,
        "own McpToken": own_token,
        **await use_links(admin, stranger, tenant, str(world.acme.owner.id)),
    }
    # Badly: in the wrong header, in the query, in the path, in a body that is refused.
    for secret in secrets.values():
        wrong = client_of(
            app, authorization=secret, x_api_key=secret, x_mcp_token=secret, cookie=f"s={secret}"
        )
        for client in (wrong, stranger):
            await client.get(PROFILE, params={"token": secret})
            await client.get(f"{POSTS}/{secret}", params={"page": secret})
            await client.get(f"/nothing/{secret}")
            await client.post(MIGRATE_ALL, content=secret.encode())
        assistant = client_of(app, x_mcp_token=mcp_token, host="localhost")
        called = {"name": "get_post", "arguments": {"slug": secret}, "_meta": {secret: secret}}
        for method in ("tools/call", secret):
            asked = {"jsonrpc": "2.0", "id": secret, "method": method, "params": called}
            await assistant.post("/mcp", json=asked, headers={"mcp-protocol-version": "2025-11-25"})
        await stranger.post("/api/links/show", json={"secret": secret})
        await stranger.get(f"/link/{secret}")
        await with_key.get(POSTS, params={"page": secret})
        await admin.post(MIGRATE_ALL, json={secret: secret})
        await admin.get(f"{TENANTS}/{secret}")
        await with_key.post(LOGIN, json={"email": secret, "password": secret})
        await with_key.post(LOGIN, content=f'{{"email": "{secret}'.encode())
        await admin.post(TENANTS, json={"name": "x", "owner": {"email": secret, "password": 1}})
    await with_key.post(LOGIN, json={"email": email, "password": WRONG_PASSWORD})
    await client_of(app, x_mcp_token=mcp_token).get(MODULES)
    # And when something breaks.
    await world.services.databases.forget(world.globex.tenant.id)
    database_of(world, world.globex.tenant).run("ALTER TABLE tenantry_user RENAME TO gone")
    globex = client_of(app, x_api_key=world.globex.key.secret)
    body = {"email": world.globex.owner.email, "password": PASSWORD}
    assert (await globex.post(LOGIN, json=body)).status_code >= 500
    return secrets


async def use_links(
    admin: httpx.AsyncClient, stranger: httpx.AsyncClient, tenant: str, user_id: str
) -> dict[str, str]:
    """Use an invitation, and open the reset of a password; return their secrets."""
    person = {"email": "carol@acme.example.com"}
    issued = {
        "invitation": await admin.post(f"{tenant}/invitations", json=person),
        "reset link": await admin.post(f"{tenant}/users/{user_id}/reset-link"),
    }
    secrets = {name: str(ok(one, 201)["url"].partition("#")[2]) for name, one in issued.items()}
    chosen = {"secret": secrets["invitation"], "password": OTHER_PASSWORD, "fullName": "C"}
    ok(await stranger.post("/api/links/use", json=chosen))
    ok(await stranger.post("/api/links/show", json={"secret": secrets["reset link"]}))
    return secrets
