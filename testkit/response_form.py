"""The form that every response must have."""

import re
from collections.abc import Iterator
from typing import Any
from uuid import UUID

from tenantry.api.table import ENDPOINTS
from testkit.asgi import Answer
from testkit.decision_table import LOOKED_AT, level_of

UNAUTHENTICATED = "The token or key is missing or invalid."
FORBIDDEN = "You are not allowed to do this."
# Their form is that of a standard, and not the envelope.
BARE_PATHS = {
    "/openapi.json",
    "/.well-known/jwks.json",
    "/metrics",
    "/mcp",
    "/api/admin/audit-log/export",
    "/api/admin/tenants/{tenantId}/audit-log/export",
    "/api/admin/tenants/{tenantId}/export",
    "/api/admin/tenants/migration-history/{runId}/events",
}
SECRETS = {"token", "key", "apiKey"}

PATHS = {one.path for one in ENDPOINTS}
CODES = {401: {"unauthenticated", "login_refused"}, 403: {"forbidden"}, 405: {"method_not_allowed"}}

_CODE = re.compile("[a-z0-9]+(_[a-z0-9]+)*")
_INSTANT = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z")
_ALMOST_INSTANT = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d")
_ALMOST_GUID = re.compile(r"[0-9a-fA-F]{8}-?(?:[0-9a-fA-F]{4}-?){3}[0-9a-fA-F]{12}")


def faults(answer: Answer, path: str, *, has_body: bool = True) -> Iterator[str]:
    """Return the faults in the form of a response."""
    request_ids = [value for name, value in answer.headers if name == "x-request-id"]
    if len(request_ids) != 1 or not _is_guid(request_ids[0]):
        yield f"x-request-id is {request_ids}"
    yield from _error_code_faults(answer)
    yield from _cache_faults(answer, path)
    challenged = "www-authenticate" in answer.said
    if challenged != (answer.status == 401):
        yield f"a {answer.status} with {answer.said}"
    if answer.status in {429, 503} and not answer.said.get("retry-after", "").isdigit():
        yield f"a {answer.status} without Retry-After"
    is_bare = answer.status < 400 and (path in BARE_PATHS or _is_stream(answer))
    is_bare |= is_of_message(answer) and path == "/mcp"
    if has_body and not is_bare:
        yield from _envelope_faults(answer)


def is_of_message(answer: Answer) -> bool:
    """Whether a 400 is the JSON-RPC error of a body that is no message."""
    return answer.status == 400 and b'"error":{"code":-32' in answer.body


def message_of(answer: Answer) -> str:
    """Return the message of an error."""
    said = answer.json()
    return str((said["error"] if is_of_message(answer) else said)["message"])


def _error_code_faults(answer: Answer) -> Iterator[str]:
    """Every error has a code, which reveals no more than the message."""
    code = answer.said.get("x-error-code")
    if (code is not None) != (answer.status >= 400):
        yield f"a {answer.status} with the code {code}"
    elif code is not None and not _CODE.fullmatch(code):
        yield f"no code: {code!r}"
    if code not in CODES.get(answer.status, {code}):
        yield f"a {answer.status} with the code {code}"


def _cache_faults(answer: Answer, path: str) -> Iterator[str]:
    """The headers keep every cache from serving the response to another caller."""
    said = answer.said.get("cache-control")
    # A preview is of a draft: no browser stores it.
    is_page = path.startswith("/api/public/blog/posts") and answer.status in {200, 304}
    if said != ("private, no-cache" if is_page else "no-store"):
        yield f"a {answer.status} with cache-control {said}"
    if answer.said.get("x-content-type-options") != "nosniff":
        yield "a type that may be guessed"
    varies = [value.lower() for name, value in answer.headers if name == "vary"]
    named = {name.strip() for value in varies for name in value.split(",")}
    looked_at = LOOKED_AT[level_of(path)] if path in PATHS else frozenset()
    if len(varies) > 1 or not looked_at <= named:
        yield f"a {answer.status} that varies with {varies}"


def _is_stream(answer: Answer) -> bool:
    return answer.said.get("content-type", "").startswith("text/event-stream")


def _envelope_faults(answer: Answer) -> Iterator[str]:
    if answer.said.get("content-type") != "application/json":
        yield f"content-type is {answer.said.get('content-type')}"
    try:
        body = answer.json()
    except ValueError:
        yield f"no JSON: {answer.body[:80]!r}"
        return
    if answer.status >= 400:
        yield from _error_faults(answer.status, body)
    elif body.get("success") is not True or set(body) not in (
        {"success", "data"},
        {"success", "message"},
    ):
        yield f"no envelope of a success: {body}"
    elif "data" in body:
        yield from _data_faults(answer, body["data"])


def _error_faults(status: int, body: Any) -> Iterator[str]:
    message = body.get("message")
    if body != {"success": False, "data": None, "message": message} or not message:
        yield f"no envelope of an error: {body}"
    elif not isinstance(message, str):
        yield f"no message: {message}"
    elif status == 403 and message != FORBIDDEN:
        yield f"a 403 that says {message!r}"


def _data_faults(answer: Answer, data: Any) -> Iterator[str]:
    if not isinstance(data, dict):
        yield f"data is no object: {data}"
        return
    if SECRETS & set(data) and answer.said.get("cache-control") != "no-store":
        yield "a secret that may be stored"
    if "page" in data and set(data) != {"items", "page", "pageSize", "totalCount", "totalPages"}:
        yield f"no page: {sorted(data)}"
    for text in _texts(data):
        if _ALMOST_INSTANT.match(text) and not _INSTANT.fullmatch(text):
            yield f"no timestamp: {text}"
        if _ALMOST_GUID.fullmatch(text) and not _is_guid(text):
            yield f"no GUID: {text}"


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for inner in value.values():
            yield from _texts(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from _texts(inner)


def _is_guid(text: str) -> bool:
    try:
        return str(UUID(text)) == text
    except ValueError:
        return False
