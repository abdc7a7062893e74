"""The state of one request while it is handled, and what is logged of it."""

from collections.abc import Mapping, MutableMapping
from typing import Any

import structlog

from tenantry.access.identify import Credentials, Identity
from tenantry.access.rate_limits import Quota
from tenantry.api import error_responses
from tenantry.api.access_levels import AUTHORIZATION, MCP_TOKEN, Caller
from tenantry.api.deadlines import Deadline
from tenantry.api.endpoints import Endpoint
from tenantry.api.envelope import Answer
from tenantry.api.http.body_memory import BodyReservation
from tenantry.api.requests import is_token
from tenantry.kit.access_log import SERVER_ERROR, AccessEntry
from tenantry.kit.clock import monotonic_seconds, utc_now
from tenantry.kit.context import OperationContext
from tenantry.kit.errors import TenantryError, Unavailable
from tenantry.kit.ids import new_request_id
from tenantry.migration.errors import explain

Scope = MutableMapping[str, Any]

TOKENS = frozenset({AUTHORIZATION, MCP_TOKEN})
UNKNOWN_PATH = "-"

_log = structlog.get_logger(__name__)


class RequestState:
    """The state of one request while it is handled.

    Attributes:
        deadline: How long the request may still use databases.
        reserved: The memory of its body; None until the credentials are verified.
        values: The parameters in its path, not decoded.
        credentials: Those that its endpoint reads.
        known: The generation of the cache when the request arrived.
        anonymous: The context without the caller; set when the credentials are verified.
        caller: The caller; None until the credentials are verified.
        turn: What the requests of the caller's tenant are counted by; None before a login. A UUID
            is counted as an integer, because UUID.__hash__ is slow Python code.
        quota: The caller's rate limit; None until the caller is known.
        ctx: The context of an admitted caller.
        has_begun: Whether the handler was called.
    """

    def __init__(self, scope: Scope, deadline: Deadline) -> None:
        self.began = monotonic_seconds()
        self.scope = scope
        self.deadline = deadline
        self.reserved: BodyReservation | None = None
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
        self.turn: int | None = None
        self.ctx: OperationContext | None = None
        self.has_begun = False
        self.error: str | None = None
        self.quota: Quota | None = None

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

    def entry(self, status: int) -> AccessEntry:
        """Return the line of the access log: `error` is a bug, `warning` an unavailable service."""
        level = "info"
        if status >= SERVER_ERROR:
            level = "error" if status == SERVER_ERROR else "warning"
        return AccessEntry(
            at=utc_now(),
            level=level,
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
