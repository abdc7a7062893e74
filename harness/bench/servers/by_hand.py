"""The ceiling: the same endpoint with nothing but uvicorn, asyncpg and what checks values.

No framework, no router, no request id, no log, no budget of connections, no audit: one
function that does what the profile endpoint promises, on the shortest way.
"""

import hashlib
import sys
import time
import unicodedata
from collections import deque
from datetime import datetime
from typing import Any
from uuid import UUID

import asyncpg
import jwt
import msgspec
from email_validator import EmailNotValidError, validate_email

from harness.bench.servers.facts import Facts, read_facts
from harness.bench.servers.run import run

# The user's row is read by the statement that changes it; an answer without a row asks why.
UPDATE = """
    UPDATE tenantry_user SET email = $1, canonical_email = $2, full_name = $3
    WHERE id = $4 AND is_active AND generation = $5
    RETURNING id, email, full_name, is_active, created_at
"""
FIND = "SELECT is_active, generation FROM tenantry_user WHERE id = $1"
JSON = (b"content-type", b"application/json")


class _Profile(msgspec.Struct, rename="camel"):
    id: UUID
    email: str
    full_name: str
    is_active: bool
    created_at: datetime


class _Update(msgspec.Struct, rename="camel"):
    full_name: str
    email: str


class _Refused(Exception):
    def __init__(self, status: int) -> None:
        super().__init__(status)
        self.status = status


_decode = msgspec.json.Decoder(_Update).decode
_encode = msgspec.json.Encoder().encode


class Application:
    """``PUT /api/tenant/auth/profile``, and nothing else."""

    def __init__(self, facts: Facts) -> None:
        self._facts = facts
        self._verified: dict[bytes, dict[str, Any]] = {}
        self._idle: dict[str, deque[Any]] = {t["id"]: deque() for t in facts.tenants.values()}

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Answer one request (ASGI)."""
        body = b""
        while True:
            message = await receive()
            body += message.get("body", b"")
            if not message.get("more_body"):
                break
        try:
            profile = await self._update(dict(scope["headers"]), body)
            status, answer = 200, b'{"success":true,"data":' + _encode(profile) + b"}"
        except _Refused as refused:
            status, answer = refused.status, b'{"success":false}'
        headers = [JSON, (b"content-length", b"%d" % len(answer))]
        await send({"type": "http.response.start", "status": status, "headers": headers})
        await send({"type": "http.response.body", "body": answer})

    async def _update(self, headers: dict[bytes, bytes], body: bytes) -> _Profile:
        key = hashlib.sha256(headers.get(b"x-api-key", b"")).hexdigest()
        tenant = self._facts.tenants.get(key)
        if tenant is None:
            raise _Refused(401)
        claims = self._verify(headers.get(b"authorization", b""))
        if claims["TenantId"] != tenant["id"]:
            raise _Refused(403)
        update = _checked(body)
        user = UUID(claims["nameid"])
        idle = self._idle[tenant["id"]]
        connection = idle.pop() if idle else await asyncpg.connect(tenant["url"])
        try:
            if update is None:
                row = None
            else:
                canonical = unicodedata.normalize("NFC", update.email).lower()
                row = await connection.fetchrow(
                    UPDATE, update.email, canonical, update.full_name, user, claims["generation"]
                )
            if row is None:
                found = await connection.fetchrow(FIND, user)
                raise _Refused(400 if found and found["is_active"] and update is None else 401)
        except asyncpg.UniqueViolationError:
            raise _Refused(409) from None
        finally:
            idle.append(connection)
        return _Profile(*row)

    def _verify(self, authorization: bytes) -> dict[str, Any]:
        digest = hashlib.sha256(authorization).digest()
        claims = self._verified.get(digest)
        if claims is None:
            claims = self._verified[digest] = _decode_token(self._facts, authorization)
        if claims["exp"] <= time.time():
            raise _Refused(401)
        return claims


def _decode_token(facts: Facts, authorization: bytes) -> dict[str, Any]:
    token = authorization.removeprefix(b"Bearer ")
    try:
        claims: dict[str, Any] = jwt.decode(
            token,
            facts.keys[jwt.get_unverified_header(token)["kid"]],
            algorithms=[facts.algorithm],
            issuer=facts.issuer,
            audience=facts.audience,
        )
    except (jwt.PyJWTError, KeyError):
        raise _Refused(401) from None
    return claims


def _checked(body: bytes) -> _Update | None:
    try:
        update = _decode(body)
        validate_email(update.email, check_deliverability=False)
    except (msgspec.MsgspecError, EmailNotValidError):
        return None
    return update if update.full_name.strip() and len(update.full_name) <= 200 else None


if __name__ == "__main__":
    run(Application(read_facts(sys.argv[2])), int(sys.argv[1]))
