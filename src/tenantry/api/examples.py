"""Examples for the OpenAPI description, by the names and types of members."""

from collections.abc import Mapping
from typing import Any

import msgspec
import msgspec.inspect as ms

ID = "01a1fe04-0cba-7691-a504-1fe21be2f694"
INSTANT = "2026-11-21T12:10:40Z"

# By the name of the member on the wire, or of the parameter.
_BY_NAME: Mapping[str, Any] = {
    "runsAs": "recorded",
    "action": "tenant.create",
    "actor": "ada@example.com",
    "apiKey": "tnk_…",
    "appliedMigrations": "0003_add_posts,0004_add_tags",
    "authorName": "Grace Hopper",
    "behind": 0,
    "cause": '0003_add_posts: relation "…" already exists (SQLSTATE 42P07).',
    "client": "Cursor",
    "content": "The text of the post.",
    "currentPassword": "correct horse battery staple",
    "customerName": "Acme",
    "databaseName": "tenantry_01a1fe040cba7691a5041fe21be2f694",
    "description": "Publish posts on a website.",
    "email": "grace@acme.example.com",
    "error": None,
    "errorMessage": None,
    "excerpt": "The beginning of the text.",
    "expiresAt": "2026-12-21T12:10:40Z",
    "failed": 0,
    "failedCount": 0,
    "fullName": "Grace Hopper",
    "format": "jsonl",
    "fromServer": "default",
    "gracePeriodSeconds": 86_400,
    "head": "0001",
    "heldBecause": "No process has the files of its plan.",
    "host": "127.0.0.1:8000",
    "isAttached": False,
    "keepDays": 30,
    "keepLast": 3,
    "key": "blog",
    "Last-Event-ID": "57",
    "keys": [
        {"kty": "OKP", "crv": "Ed25519", "alg": "EdDSA", "use": "sig", "kid": ID, "x": "11q…"}
    ],
    "labels": {"plan": "free"},
    "mcp-method": "tools/call",
    "mcp-name": "list_posts",
    "mcp-protocol-version": "2026-07-28",
    "modules": ["blog", "mcp"],
    "name": "Acme",
    "newPassword": "another quite long passphrase",
    "note": None,
    "origin": "http://127.0.0.1:8000",
    "page": 1,
    "pageSize": 20,
    "password": "correct horse battery staple",
    "Prefer": "respond-async",
    "place": "~/.cursor/mcp.json",
    "prefix": "tnk_JtbZxuWU",
    "release": "0.1.0",
    "requestId": ID,
    "role": "author",
    "revision": "0001",
    "schemaRevision": "0001",
    "scopes": ["content:read"],
    "search": "acme",
    "since": INSTANT,
    "secret": "tni_…",
    "server": "eu",
    "slug": "hello-world",
    "status": "success",
    "tag": "news",
    "tags": ["news"],
    "target": ID,
    "text": '{"mcpServers": {"tenantry": {"url": "https://cms.example.com/mcp", …',
    "title": "Hello, world",
    "toServer": "eu",
    "token": "tnm_…",
    "triggeredBy": "ada@example.com",
    "unknown": 0,
    "until": "2026-12-21T12:10:40Z",
    "url": "https://cms.example.com/link#tni_…",
}
# Members that have another meaning in one type.
_BY_TYPE: Mapping[tuple[str, str], Any] = {
    ("CreateAdminRequest", "email"): "ada@example.com",
    ("AdminResponse", "email"): "ada@example.com",
    ("AttachDatabaseRequest", "url"): "postgresql://ada:secret@db.example.com/acme",
    ("ReplaceUrlRequest", "url"): "postgresql://ada:secret@db.example.com/acme",
    ("Health", "status"): "ok",
    ("Readiness", "status"): "ok",
    ("IssueMcpTokenRequest", "name"): "assistant",
    ("IssueOwnMcpTokenRequest", "name"): "assistant",
    ("IssuedApiKeyResponse", "key"): "tnk_…",
    ("IssuedMcpTokenResponse", "name"): "assistant",
    ("IssuedMcpTokenResponse", "prefix"): "tnm_8sYq0LdK",
    ("LoginResult", "token"): "eyJhbGciOiJFZERTQSIs…",
    ("McpTokenResponse", "name"): "assistant",
    ("McpTokenResponse", "prefix"): "tnm_8sYq0LdK",
    ("MigrationRunDetailResponse", "status"): "Success",
    ("MapTenantResponse", "place"): "head",
    ("Module", "name"): "Blog",
    ("PostDifferenceResponse", "changes"): [{"field": "title", "old": "Hello", "new": "Bye"}],
    ("PostVersionResponse", "note"): "",
    ("PostVersionSummaryResponse", "note"): "",
    ("RevisionCountResponse", "place"): "head",
    ("RunResponse", "state"): "running",
    ("RunTenantResponse", "status"): "Success",
    ("WritePostRequest", "note"): "Shorter.",
}
# Parameters that have another meaning in a query.
_BY_PARAMETER: Mapping[str, Any] = {"details": "failed", "status": "draft"}
_WHOLE: Mapping[str, Any] = {
    "McpAnswer": {
        "jsonrpc": "2.0",
        "id": 1,
        "result": {"content": [{"type": "text", "text": "…"}], "structuredContent": {}},
    },
    "McpMessage": {
        "jsonrpc": "2.0",
        "id": 1,
        "method": "tools/call",
        "params": {"name": "list_posts", "arguments": {"tag": "news"}},
    },
    # All members are optional, and some exclude each other.
    "MigrateAllRequest": {},
    "EventStream": (
        "id: 57\nevent: tenant\n"
        f'data: {{"customerId":"{ID}","customerName":"Acme","databaseName":"tenantry_{ID}",'
        '"status":"Success","appliedMigrations":null,"errorMessage":null,'
        f'"startedAt":"{INSTANT}","finishedAt":"{INSTANT}"}}\n\n'
    ),
    "JsonLines": f'{{"id":"{ID}","at":"{INSTANT}","action":"tenant.create"}}\n',
    "ZipFile": "PK…",
    "MetricsText": 'tenantry_requests_total{method="GET",route="/livez",status="200"} 1.0\n',
}
_BY_KIND: Mapping[type[ms.Type], Any] = {
    ms.BoolType: True,
    ms.DateTimeType: INSTANT,
    ms.IntType: 1,
    ms.UUIDType: ID,
}
# Members that are left out of requests: any example of a future time would expire.
_OMITTED = {"expiresAt", "publishAt", "unpublishAt"}


def example_of(type_: type[msgspec.Struct], *, is_request: bool = False) -> Any:
    """Return an example of *type_*, as JSON."""
    return _struct(ms.type_info(type_), is_request=is_request)


def example_of_parameter(name: str, schema: Mapping[str, Any]) -> Any:
    """Return an example of a path or query parameter."""
    if name in _BY_PARAMETER:
        return _BY_PARAMETER[name]
    if name in _BY_NAME:
        return _BY_NAME[name]
    kinds = [one.get("type") for one in (schema, *schema.get("anyOf", ()))]
    return True if "boolean" in kinds else 1 if "integer" in kinds else ID


def _struct(info: ms.Type, *, is_request: bool) -> Any:
    assert isinstance(info, ms.StructType)
    name = info.cls.__name__
    if name in _WHOLE:
        return _WHOLE[name]
    return {
        field.encode_name: _member(name, field, is_request=is_request)
        for field in info.fields
        if not (is_request and field.encode_name in _OMITTED)
    }


def _member(type_name: str, field: ms.Field, *, is_request: bool) -> Any:
    name = field.encode_name
    if (type_name, name) in _BY_TYPE:
        return _BY_TYPE[type_name, name]
    if name in _BY_NAME:
        return _BY_NAME[name]
    return _value(name, field.type, is_request=is_request)


def _value(name: str, info: ms.Type, *, is_request: bool) -> Any:
    if isinstance(info, ms.Metadata):
        return _value(name, info.type, is_request=is_request)
    if isinstance(info, ms.UnionType):
        types = [one for one in info.types if not isinstance(one, ms.NoneType)]
        return _value(name, types[0], is_request=is_request)
    if isinstance(info, ms.ListType):
        return [_value(name, info.item_type, is_request=is_request)]
    if isinstance(info, ms.StructType):
        return _struct(info, is_request=is_request)
    return _BY_KIND.get(type(info), name)
