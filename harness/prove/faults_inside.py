"""Faults that are put into libraries which the product uses, and instruments likewise."""

import asyncio
import contextlib
import functools
import os
import sys
import time
from collections.abc import Callable
from typing import Any

HASHED = "argon2 verify"
COUNT_HASHES = "count-hashes"


def count_hashes() -> None:
    """Write a line for each password that is verified."""
    import argon2

    verify = argon2.PasswordHasher.verify

    @functools.wraps(verify)
    def counted(self: Any, *args: Any) -> Any:
        print(f'{{"event": "{HASHED}"}}', file=sys.stderr, flush=True)
        return verify(self, *args)

    argon2.PasswordHasher.verify = counted  # type: ignore[method-assign]


def weak_hashes() -> None:
    """Passwords are hashed with little memory."""
    import argon2

    init = argon2.PasswordHasher.__init__

    @functools.wraps(init)
    def weak(self: Any, *_args: Any, **_kwargs: Any) -> None:
        init(self, time_cost=1, memory_cost=64, parallelism=1)

    argon2.PasswordHasher.__init__ = weak  # type: ignore[method-assign]


def any_stored_cost() -> None:
    """What a stored hash costs is not checked."""
    import argon2

    extract = argon2.extract_parameters
    modest = extract("$argon2id$v=19$m=64,t=1,p=1$c29tZXNhbHQ$" + "A" * 43)

    def checked(stored: str) -> Any:
        extract(stored)
        return modest

    argon2.extract_parameters = checked


def passwords_cut_off() -> None:
    """Passwords are cut off after 72 characters, as bcrypt does it."""
    import argon2

    hash_, verify = argon2.PasswordHasher.hash, argon2.PasswordHasher.verify

    def short_hash(self: Any, password: Any, **kwargs: Any) -> str:
        return hash_(self, password[:72], **kwargs)

    def short_verify(self: Any, stored: Any, password: Any) -> Any:
        return verify(self, stored, password[:72])

    argon2.PasswordHasher.hash = short_hash  # type: ignore[method-assign]
    argon2.PasswordHasher.verify = short_verify  # type: ignore[method-assign]


def any_signature() -> None:
    """Signatures are not verified."""
    _decode(lambda payload: payload)


def any_expiry() -> None:
    """Every token is valid for another hour."""

    def longer(payload: dict[str, Any]) -> dict[str, Any]:
        now = int(time.time())
        return {**payload, "exp": now + 7200, "iat": now + 3600, "nbf": now}

    _decode(longer)


def any_audience() -> None:
    """A token is for whatever its role says."""

    def fitting(payload: dict[str, Any]) -> dict[str, Any]:
        audiences = {"Admin": "tenantry/admin", "TenantUser": "tenantry/tenant"}
        return {**payload, "aud": audiences.get(payload.get("role", ""), payload.get("aud"))}

    _decode(fitting)


def _decode(change: Callable[[dict[str, Any]], dict[str, Any]]) -> None:
    import jwt

    def decode(token: str, *_args: Any, **_kwargs: Any) -> dict[str, Any]:
        checks = ("signature", "exp", "nbf", "iat", "aud", "iss")
        options = {f"verify_{one}": False for one in checks}
        with_header = jwt.api_jwt.PyJWT().decode_complete(token, options=options)  # type: ignore[arg-type]
        return change(with_header["payload"])

    jwt.decode = decode  # type: ignore[assignment]
    original = jwt.get_unverified_header

    def header(token: str) -> dict[str, Any]:
        with contextlib.suppress(Exception):
            return original(token)
        return {}

    jwt.get_unverified_header = header  # type: ignore[assignment]


def the_servers_own_protocol() -> None:
    """Connections have no deadlines and no limits of ours."""
    import uvicorn

    init = uvicorn.Config.__init__

    @functools.wraps(init)
    def unbounded(self: Any, *args: Any, **kwargs: Any) -> None:
        kwargs["http"] = "httptools"
        kwargs["timeout_keep_alive"] = 600
        init(self, *args, **kwargs)

    uvicorn.Config.__init__ = unbounded  # type: ignore[method-assign]


def lenient_protocol() -> None:
    """Requests that contradict themselves are parsed by the other parser."""
    import uvicorn

    init = uvicorn.Config.__init__

    @functools.wraps(init)
    def lenient(self: Any, *args: Any, **kwargs: Any) -> None:
        kwargs["http"] = "h11"
        init(self, *args, **kwargs)

    uvicorn.Config.__init__ = lenient  # type: ignore[method-assign]


def commits_in_the_middle() -> None:
    """A migration on SQLite commits after it has created a table, and again at its end."""
    import sqlite3

    connect = sqlite3.connect

    @functools.cache
    def committing(base: type[sqlite3.Connection]) -> type[sqlite3.Connection]:
        class Committing(base):  # type: ignore[misc, valid-type]
            def set_authorizer(self, _check: Any) -> None:
                """Let nothing refuse a COMMIT."""

            def execute(self, sql: str, *args: Any) -> Any:
                done = super().execute(sql, *args)
                if "CREATE TABLE bookmark" in sql and self.in_transaction:
                    super().execute("COMMIT")
                    time.sleep(0.02)  # so that a kill meets it
                    super().execute("BEGIN IMMEDIATE")
                return done

        return Committing

    def opened(*args: Any, **kwargs: Any) -> sqlite3.Connection:
        base = kwargs.get("factory", sqlite3.Connection)
        if isinstance(base, type):  # a connection for requests has a factory that is none
            kwargs["factory"] = committing(base)
        return connect(*args, **kwargs)

    sqlite3.connect = opened  # type: ignore[assignment]


def no_deadlines() -> None:
    """Nothing that waits has a deadline."""
    timeout, wait_for = asyncio.timeout, asyncio.wait_for

    def endless(_delay: float | None) -> Any:
        return timeout(None)

    def waits(awaitable: Any, _timeout: float | None = None, **_more: Any) -> Any:
        return wait_for(awaitable, None)

    asyncio.timeout = endless  # type: ignore[assignment]
    asyncio.wait_for = waits  # type: ignore[assignment]
    for name in ("asyncpg.compat", "asyncpg.connect_utils", "asyncpg.connection"):
        module = __import__(name, fromlist=["x"])
        for one, value in (("timeout", endless), ("wait_for", waits)):
            if hasattr(module, one) and callable(getattr(module, one)):
                setattr(module, one, value)


def many_connections() -> None:
    """The limit of connections is another one than was set."""
    os.environ["TENANTRY_TENANT_CONNECTIONS"] = "400"


def ends_at_once() -> None:
    """SIGTERM ends the process without draining."""
    import uvicorn

    async def shutdown(_self: Any, _sockets: Any = None) -> None:
        os._exit(0)

    uvicorn.Server.shutdown = shutdown  # type: ignore[assignment, method-assign]


BY_NAME: dict[str, Callable[[], None]] = {
    COUNT_HASHES: count_hashes,
    "P5": weak_hashes,
    "P6": any_stored_cost,
    "P7": passwords_cut_off,
    "P10": any_signature,
    "P11": any_expiry,
    "P12": any_audience,
    "P23": the_servers_own_protocol,
    "P24": lenient_protocol,
    "P26": commits_in_the_middle,
    "P29": no_deadlines,
    "P31": many_connections,
    "P33": ends_at_once,
    "P35": any_expiry,
}
