"""The state of one request while it is handled, and what is logged of it."""

from collections.abc import Mapping, MutableMapping
from email.utils import format_datetime
from http import HTTPStatus
from typing import Any

import structlog

from tenantry.access.identify import Credentials, Identity
from tenantry.access.rate_limits import Quota
from tenantry.api import error_responses
from tenantry.api.access_levels import AUTHORIZATION, MCP_TOKEN, Caller
from tenantry.api.caching import cache_headers
from tenantry.api.deadlines import Deadline
from tenantry.api.endpoints import Endpoint
from tenantry.api.envelope import Answer, Headers
from tenantry.api.held_bodies import HeldBody
from tenantry.api.requests import is_token
from tenantry.kit.access_log import AccessEntry
from tenantry.kit.clock import monotonic_seconds, utc_now
from tenantry.kit.context import OperationContext
from tenantry.kit.errors import TenantryError, Unavailable
from tenantry.kit.ids import new_request_id
from tenantry.migration.errors import explain
from tenantry.tenant.entry import TenantContext

Scope = MutableMapping[str, Any]

TOKENS = frozenset({AUTHORIZATION, MCP_TOKEN})
UNKNOWN_PATH = "-"

_log = structlog.get_logger(__name__)


class RequestState:
    """The state of one request while it is handled.

    Attributes:
        deadline: How long the request may still use databases.
        held: The memory of its body; None until the credentials are verified.
        values: The parameters in its path, not decoded.
        credentials: Those that its endpoint reads.
        known: The generation of the cache when the request arrived.
        anonymous: The context without the caller; set when the credentials are verified.
        caller: The caller; None until the credentials are verified.
        quota: The caller's rate limit; None until the caller is known.
        ctx: The context of an admitted caller.
        has_begun: Whether the handler was called.
    """

    def __init__(self, scope: Scope, deadline: Deadline) -> None:
        self.began = monotonic_seconds()
        self.scope = scope
        self.deadline = deadline
        self.held: HeldBody | None = None
        self.request_id = new_request_id()
        self.is_head = scope["method"] == "HEAD"
        # Every GET endpoint also accepts HEAD (RFC 9110, section 9.1).
        self.method: str = "GET" if self.is_head else scope["method"]
        self.headers: list[tuple[bytes, bytes]] = scope["headers"]
        self.path: str = scope["raw_path"].decode("latin-1")
        self.endpoint: Endpoint | None = None
        self.values: Mapping[str, str] = {}
        self.credentials = Credentials()
        self.known = 0
        self.anonymous: OperationContext
        self.caller: Caller = None
        self.ctx: OperationContext | None = None
        self.has_begun = False
        self.error: str | None = None
        self.quota: Quota | None = None

    def new_context(self) -> OperationContext:
        """Return the context of the request without a caller, at this time."""
        client = self.scope.get("client")
        return OperationContext(
            request_id=self.request_id,
            now=utc_now(),
            actor="anonymous",
            address=client[0] if client else "",
        )

    def refuse(self, error: TenantryError) -> Answer:
        """Return the response for *error*, and note it for the log."""
        self.error = type(error).__name__
        if isinstance(error, Unavailable):
            self.log_cause(error)
        tokens = self.endpoint.level.headers & TOKENS if self.endpoint else frozenset()
        token_sent = any(name in tokens and is_token(name, value) for name, value in self.headers)
        return error_responses.failure(error, token_sent=token_sent)

    def log_cause(self, error: Unavailable) -> None:
        """Log why a database or another service could not be used."""
        if error.__cause__ is not None:
            cause = explain(error.__cause__) if isinstance(error.__cause__, Exception) else ""
            _log.warning("unavailable", request_id=self.request_id, cause=cause)

    def warnings(self) -> Headers:
        """Return the deprecation headers, if the API key was rotated (RFC 9745, RFC 8594)."""
        key = self.ctx.identity.api_key if isinstance(self.ctx, TenantContext) else None
        if key is None or key.replaced_at is None or key.expires_at is None:
            return []
        since = f"@{int(key.replaced_at.timestamp())}"
        until = format_datetime(key.expires_at, usegmt=True)
        return [(b"deprecation", since.encode()), (b"sunset", until.encode())]

    def cache_headers(self, answer: Answer) -> Headers:
        """Return the cache headers of the response."""
        return cache_headers(
            self.endpoint.level.headers if self.endpoint else frozenset(),
            is_page=answer.is_page,
            is_negotiated=answer.is_negotiated,
        )

    def entry(self, status: int) -> AccessEntry:
        """Return the line of the access log."""
        now = utc_now()
        return AccessEntry(
            at=now,
            level=_level(status),
            event="request",
            request_id=self.request_id,
            method=self.method,
            path=self.endpoint.path if self.endpoint else UNKNOWN_PATH,
            status=status,
            ms=round((monotonic_seconds() - self.began) * 1000, 2),
            tenant=self.caller.tenant.id if isinstance(self.caller, Identity) else None,
            actor=self.ctx.actor if self.ctx else self.caller.actor if self.caller else None,
            error=self.error,
        )


def _level(status: int) -> str:
    """Return the level of a log entry: `error` is a bug, `warning` an unavailable service."""
    if status < HTTPStatus.INTERNAL_SERVER_ERROR:
        return "info"
    return "error" if status == HTTPStatus.INTERNAL_SERVER_ERROR else "warning"
