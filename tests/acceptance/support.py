"""Helpers of the acceptance tests: responses, clients, and direct access to the databases."""

import asyncio
import contextlib
import json
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import argon2
import httpx
import psycopg
import pytest

from tenantry.access.login_throttle import Throttle
from tenantry.app import app_over
from tenantry.catalog.pace import PACE, Pace
from tenantry.catalog.password_attempts import Limits
from tenantry.catalog.tenants import Tenant
from tenantry.db.urls import sqlite_path
from tenantry.fleet.lifecycle import Provisioned
from tenantry.kit.context import system_context
from tenantry.services import open_services
from tenantry.settings import Settings
from tenantry.tenant import users
from tenantry.tenant.users import NewUser
from testkit.faults import Faults
from testkit.raw_sql import Raw
from tests.conftest import PASSWORD, World, client_of

LOGIN = "/api/tenant/auth/login"
CHANGE_PASSWORD = "/api/tenant/auth/change-password"
PROFILE = "/api/tenant/auth/profile"
MODULES = "/api/tenant/modules"
OWN_TOKENS = "/api/tenant/mcp-tokens"
POSTS = "/api/public/blog/posts"
OWN_POSTS = "/api/tenant/blog/posts"
ADMIN_LOGIN = "/api/admin/auth/login"
TENANTS = "/api/admin/tenants"
MIGRATE_ALL = "/api/admin/tenants/migrate-all"
HISTORY = "/api/admin/tenants/migration-history"

# Fixed messages (docs/api-conventions.md).
UNAUTHENTICATED = "The token or key is missing or invalid."
FORBIDDEN = "You are not allowed to do this."
LOGIN_REFUSED = "The e-mail address or the password is wrong."
FIXED = {401: UNAUTHENTICATED, 403: FORBIDDEN}

# Of a busy machine.
NEVER_SECONDS = 60

NEW_PASSWORD = "a new password nobody has guessed"
UNKNOWN_ID = "01890a5d-ac96-774b-bcce-b302099a8057"

# What no endpoint with an e-mail and a password takes for a body.
BROKEN_JSON: tuple[bytes, ...] = (
    b"",
    b"{",
    b"null",
    b"[]",
    b'"text"',
    b"1",
    b"{}",
    b"\xff\xfe{\x00}\x00",
    b'{"a": "\xff"}',
    b'{"a":' * 5_000 + b"1" + b"}" * 5_000,
    b"[" * 30_000 + b"]" * 30_000,
)

Send = Callable[[httpx.AsyncClient], Awaitable[httpx.Response]]


def ok(response: httpx.Response, status: int = 200) -> Any:
    """Return the data of an answer, which must be a success with exactly the members it has."""
    assert response.status_code == status, response.text
    assert response.headers["content-type"] == "application/json"
    assert response.headers["x-request-id"]
    body = response.json()
    assert set(body) == {"success", "data"}
    assert body["success"] is True
    assert isinstance(body["data"], dict)
    return body["data"]


def done(response: httpx.Response) -> str:
    """Return the message of an answer, which must be a success without data."""
    assert response.status_code == 200, response.text
    body = response.json()
    assert set(body) == {"success", "message"}
    assert body["success"] is True
    assert isinstance(body["message"], str)
    assert body["message"]
    return str(body["message"])


def refused(response: httpx.Response, status: int, message: str | None = None) -> str:
    """Return the message of an answer, which must be an error of this *status*."""
    assert response.status_code == status, response.text
    assert response.headers["content-type"] == "application/json"
    assert response.headers["x-request-id"]
    body = response.json()
    assert set(body) == {"success", "data", "message"}
    assert body["success"] is False
    assert body["data"] is None
    assert isinstance(body["message"], str)
    assert body["message"] == (message or FIXED.get(status) or body["message"]) != ""
    if status == 401:
        assert response.headers["www-authenticate"].split(" ")[0] == "Bearer"
    if status in {429, 503}:
        assert int(response.headers["retry-after"]) >= 1
    return str(body["message"])


async def until(look: Callable[[], Awaitable[Any]], is_so: Callable[[Any], object]) -> Any:
    """Poll until the condition holds; return the value."""
    ends = time.monotonic() + NEVER_SECONDS
    while not is_so(seen := await look()):
        if time.monotonic() > ends:
            pytest.fail(f"it never is: {seen}")
        await asyncio.sleep(0.02)
    return seen


def encoded(body: object) -> bytes:
    """Return *body* as ASCII JSON, which can hold unpaired surrogates."""
    return json.dumps(body).encode()


def at(world: World, address: str, **headers: str) -> httpx.AsyncClient:
    """Return a client with the address *address*."""
    return httpx.AsyncClient(
        transport=httpx.ASGITransport(app=world.app, client=(address, 4711)),
        base_url="http://tenantry.test",
        headers={name.replace("_", "-"): value for name, value in headers.items()},
    )


async def log_in(
    world: World,
    of: Provisioned,
    password: str = PASSWORD,
    *,
    email: str | None = None,
    address: str = "127.0.0.1",
) -> httpx.Response:
    """Return the answer to a login with the tenant's key; the owner's unless *email* is given."""
    client = at(world, address, x_api_key=of.key.secret)
    return await client.post(LOGIN, json={"email": email or of.owner.email, "password": password})


async def session(world: World, of: Provisioned, password: str = PASSWORD) -> httpx.AsyncClient:
    """Return a client with a session of the tenant's owner, by a login."""
    token = ok(await log_in(world, of, password))["token"]
    return world.client(authorization=f"Bearer {token}", x_api_key=of.key.secret)


async def patch_tenant(world: World, of: Provisioned, **changes: object) -> Any:
    admin = await world.admin()
    return ok(await admin.patch(f"{TENANTS}/{of.tenant.id}", json=changes))


async def patch_user(world: World, of: Provisioned, user: object, **changes: object) -> Any:
    admin = await world.admin()
    return ok(await admin.patch(f"{TENANTS}/{of.tenant.id}/users/{user}", json=changes))


async def add_user(world: World, of: Provisioned, email: str, **user: str) -> Any:
    admin = await world.admin()
    body = {"email": email, "fullName": "Somebody", "password": PASSWORD, **user}
    return ok(await admin.post(f"{TENANTS}/{of.tenant.id}/users", json=body), 201)


async def add_owner(world: World, of: Provisioned) -> None:
    """Add an owner who cannot log in, so that the first one may leave."""
    another = NewUser(email=f"another@{of.tenant.name}.example.com", full_name="A", password="")
    database = await world.services.databases.open(of.tenant, writes=True)
    async with database.begin() as session:
        await users.add(system_context("test"), session, another, password_hash="")


async def must_be_for_tenants(world: World, send: Send) -> None:
    """Check who is refused at an endpoint of the tenant level, and how."""
    key = world.acme.key.secret
    token = await world.token(world.acme)
    admins = await world.admin_token()
    header, payload, signature = token.split(".")
    other = (await world.token(world.globex)).split(".")

    for client in (
        world.stranger(),
        world.client(x_api_key=key),
        world.client(authorization=f"Bearer {token}"),
        world.client(authorization=f"Bearer {token}", x_api_key=""),
        world.client(authorization=f"Bearer {token}", x_api_key="tnk_unknown"),
        world.client(authorization="Bearer ", x_api_key=key),
        world.client(authorization=f"Basic {token}", x_api_key=key),
        world.client(authorization=token, x_api_key=key),
        world.client(authorization=f"Bearer {header}.{payload}.{signature[::-1]}", x_api_key=key),
        world.client(authorization=f"Bearer {header}.{other[1]}.{signature}", x_api_key=key),
        world.client(authorization="Bearer not.a.token", x_api_key=key),
        world.client(authorization=f"Bearer {admins}"),
        world.client(authorization=f"Bearer {token}", x_api_key=key, x_mcp_token="tnm_unknown"),
    ):
        refused(await send(client), 401)
    for client in (
        await world.owner(world.acme, key=world.globex.key.secret),
        await world.owner(world.globex, key=key),
        world.client(authorization=f"Bearer {admins}", x_api_key=key),
    ):
        refused(await send(client), 403)
    for name, value in (("authorization", f"Bearer {token}"), ("x-api-key", key)):
        twice = httpx.Headers([(name, value), (name, value)])
        client = await world.owner(world.acme)
        client.headers = twice
        refused(await send(client), 400)


async def must_be_for_admins(world: World, send: Send) -> None:
    """Check who is refused at an endpoint of the admin level, and how."""
    key = world.acme.key.secret
    token = await world.mcp_token(world.acme)

    for client in (
        world.stranger(),
        world.client(x_api_key=key),
        world.client(x_mcp_token=token),
        world.client(authorization="Bearer not.a.token"),
        world.client(authorization=f"Bearer {token}"),
        world.client(authorization=f"Bearer {key}"),
    ):
        refused(await send(client), 401)
    refused(await send(await world.owner(world.acme)), 403)
    refused(await send(world.client(authorization=f"Bearer {await world.token(world.acme)}")), 403)


def catalog_of(world: World) -> Raw:
    return Raw(world.services.settings.catalog)


def database_of(world: World, tenant: Tenant) -> Raw:
    return Raw(world.services.databases.server(tenant.server_name).url(tenant.database_name))


@contextlib.contextmanager
def lost(raw: Raw) -> Iterator[None]:
    """Make a database unavailable for the block: refuse connections, or take its file away."""
    path = sqlite_path(raw.url)
    if path is not None:
        away = path.rename(path.with_suffix(".away"))
        try:
            yield
        finally:
            away.rename(path)
        return
    server, _, name = raw.url.rpartition("/")
    with psycopg.connect(f"{server}/postgres", autocommit=True) as connection:
        connection.execute(f'ALTER DATABASE "{name}" ALLOW_CONNECTIONS false')
        try:
            connection.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = %s", [name]
            )
            yield
        finally:
            connection.execute(f'ALTER DATABASE "{name}" ALLOW_CONNECTIONS true')


@asynccontextmanager
async def restarted(
    settings: Settings, pace: Pace = PACE
) -> AsyncIterator[Callable[..., httpx.AsyncClient]]:
    """Yield a function that makes clients of another process on the same settings."""
    async with open_services(settings, pace=pace) as services:
        app = app_over(services)
        yield lambda **headers: client_of(app, **headers)


def make_hashing_cheap(raw: Raw) -> None:
    """Make hashes of the stored passwords cheap, for tests of short waits."""
    hasher = argon2.PasswordHasher(time_cost=1, memory_cost=64, parallelism=1)
    raw.run("UPDATE tenantry_user SET password_hash = ?", hasher.hash(PASSWORD))


@dataclass
class Hashes:
    """What Argon2 has computed.

    Attributes:
        verified: The stored hashes that a password was compared with.
        made: How many new ones.
    """

    verified: list[str] = field(default_factory=list)
    made: int = 0

    def note_verified(self, _hasher: argon2.PasswordHasher, stored: str, _password: str) -> None:
        self.verified.append(stored)

    def note_made(self, _hasher: argon2.PasswordHasher, _password: str) -> None:
        self.made += 1


def count_hashes(faults: Faults) -> Hashes:
    """Count from now on what is hashed."""
    found = Hashes()
    faults.before(argon2.PasswordHasher, "verify", found.note_verified)
    faults.before(argon2.PasswordHasher, "hash", found.note_made)
    return found


def with_long_waits(world: World) -> World:
    """Make the first wait after failed logins one minute, whatever the speed of the machine."""
    services, settings = world.services, world.services.settings
    limits = Limits(
        tries=settings.login_tries,
        account_hourly=settings.login_account_hourly,
        address_minutely=settings.login_address_minutely,
        first_ms=60_000,
    )
    throttle = Throttle(services.catalog, limits, services.metrics)
    return world.with_services(throttle=throttle)


async def let_waits_pass(world: World, seconds: int) -> None:
    """Let the waits after failed logins be over so many seconds earlier."""
    await catalog_of(world).write("UPDATE login_attempt SET next_ms = next_ms - ?", seconds * 1000)
