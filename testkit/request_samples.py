"""Paths and bodies for any endpoint of the table, including future ones."""

import secrets
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import urlencode
from uuid import uuid4

import msgspec
import pytest
from msgspec import inspect

from tenantry.api.endpoints import Endpoint

PASSWORD = "correct horse battery staple"
NEW_PASSWORD = "another quite long passphrase"
# Everything is optional there, and all of it together contradicts itself.
EMPTY = {
    "/api/admin/tenants/migrate-all",
    "/api/admin/tenants/migration-history/{runId}/undo",
}
# A mistyped member would select every tenant.
STRICT = EMPTY | {
    "/api/admin/drift/check",
    "/api/admin/tenants/move-all",
}
# The tenant server to which tenants are moved.
FAR = "far"


def params(endpoints: Iterable[Endpoint]) -> list[object]:
    """Return *endpoints* as parameters of a test, each by its name."""
    return [pytest.param(one, id=f"{one.method} {one.path}") for one in endpoints]


def body_of(endpoint: Endpoint, *, login: str, user_id: str) -> dict[str, Any]:
    """Return a body that the endpoint accepts, and that would change something.

    Args:
        endpoint: Of the table.
        login: The e-mail address for a login.
        user_id: Of a user of the tenant.
    """
    if endpoint.path in EMPTY:
        return {}
    if endpoint.path.endswith("/auth/login"):
        return {"email": login, "password": PASSWORD}
    if endpoint.path.endswith("/move"):
        return {"server": FAR}
    body = _struct(inspect.type_info(endpoint.request), user_id)
    return body | {"password": PASSWORD} if endpoint.path == "/api/tenant/mcp-tokens" else body


def path_of(endpoint: Endpoint, ids: dict[str, str]) -> str:
    """Return the endpoint's path, with *ids* by the names of parameters, or else random ones."""
    parts = [
        ids.get(part[1:-1], str(uuid4())) if part.startswith("{") else part
        for part in endpoint.path.split("/")
    ]
    return "/".join(parts)


def query_of(endpoint: Endpoint, *, name: str) -> bytes:
    """Return the required parameters of the endpoint; *name* is that of the tenant."""
    required = [member for member, field in members_of(endpoint).items() if field.required]
    return urlencode({member: name if member == "name" else "1" for member in required}).encode()


def members_of(endpoint: Endpoint) -> dict[str, inspect.Field]:
    """Return the members of the endpoint's request, by their names on the wire."""
    info = inspect.type_info(endpoint.request)
    assert isinstance(info, inspect.StructType)
    return {field.encode_name: field for field in info.fields}


def kinds_of(type_: inspect.Type) -> set[type[inspect.Type]]:
    """Return the types of a member."""
    if isinstance(type_, inspect.UnionType):
        return {kind for one in type_.types for kind in kinds_of(one)}
    if isinstance(type_, inspect.Metadata):
        return kinds_of(type_.type)
    if isinstance(type_, inspect.RawType):  # of JSON that is decoded later: an object, or null
        return {inspect.DictType, inspect.NoneType}
    return {type(type_)}


def items_of(type_: inspect.Type) -> set[type[inspect.Type]]:
    """Return the types of the items of a member, if it may be a list."""
    types = type_.types if isinstance(type_, inspect.UnionType) else (type_,)
    lists = [one for one in types if isinstance(one, inspect.ListType)]
    return {kind for one in lists for kind in kinds_of(one.item_type)}


def tomorrow() -> str:
    return (datetime.now(UTC) + timedelta(days=1)).isoformat()  # noqa: TID251 - of a test


def _struct(info: inspect.Type, user_id: str) -> dict[str, Any]:
    assert isinstance(info, inspect.StructType)
    return {field.encode_name: _value(field, user_id) for field in info.fields}


def _value(field: inspect.Field, user_id: str) -> Any:
    unique = secrets.token_hex(6)
    known: dict[str, Any] = {
        "email": f"{unique}@changed.example.com",
        "password": NEW_PASSWORD,
        "currentPassword": PASSWORD,
        "newPassword": NEW_PASSWORD,
        "fullName": f"Changed {unique}",
        "name": f"changed-{unique}",
        "title": f"Changed {unique}",
        "slug": f"changed-{unique}",
        "server": "default",
        "fromServer": "default",
        "toServer": FAR,
        "url": f"postgresql://changed:password@127.0.0.1:1/{unique}",
        "isActive": False,
        "modules": ["blog", "mcp"],
        "publish": False,
        "role": "author",
        "scopes": ["content:read", "profile:read"],
        "userId": user_id,
        "expiresAt": tomorrow(),
        # The post of the samples is published, and has no draft.
        "publishAt": None,
        "gracePeriodSeconds": 60,
        "sizeBytesMax": 10**9,
        "tags": ["changed"],
        "labels": {"plan": "changed"},
        "where": "plan!=changed",
        "jsonrpc": "2.0",
        "method": "ping",
        "params": {},
    }
    return known[field.encode_name] if field.encode_name in known else _any(field.type, user_id)


def _any(type_: inspect.Type, user_id: str) -> Any:
    if isinstance(type_, inspect.UnionType):
        type_ = next(one for one in type_.types if not _is_nothing(one))
    if isinstance(type_, inspect.StructType):
        return _struct(type_, user_id)
    samples: dict[type[inspect.Type], Any] = {
        inspect.StrType: "changed",
        inspect.IntType: 1,
        inspect.FloatType: 1.0,
        inspect.BoolType: True,
        inspect.UUIDType: str(uuid4()),
        inspect.DateTimeType: tomorrow(),
        inspect.ListType: [],
    }
    return samples[type(type_)]


def _is_nothing(type_: inspect.Type) -> bool:
    return isinstance(type_, inspect.NoneType) or (
        isinstance(type_, inspect.CustomType) and type_.cls is msgspec.UnsetType
    )
