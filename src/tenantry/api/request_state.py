"""The state of one request while it is handled, its deadline, and what is logged of it."""

import asyncio
from collections.abc import Mapping, MutableMapping
from types import MappingProxyType, TracebackType
from typing import Any

import msgspec
import structlog

from tenantry.access.identify import Credentials, Identity
from tenantry.access.rate_limits import Quota
from tenantry.api import error_responses
from tenantry.api.access_levels import AUTHORIZATION, MCP_TOKEN, Caller
from tenantry.api.endpoints import Endpoint
from tenantry.api.envelope import Response
from tenantry.api.http.body_memory import BodyReservation
from tenantry.api.http.framing import by_name
from tenantry.api.requests import is_token
from tenantry.api.streaming import Receive
from tenantry.db.sessions import DatabaseUnavailable
from tenantry.kit.access_log import SERVER_ERROR, AccessEntry
from tenantry.kit.clock import monotonic_seconds, utc_now
from tenantry.kit.context import OperationContext
from tenantry.kit.errors import TenantryError, Unavailable
from tenantry.kit.ids import new_request_id
from tenantry.kit.tracing import OpenSpan, active
from tenantry.migration.errors import explain

Scope = MutableMapping[str, Any]

TOKENS = frozenset({AUTHORIZATION, MCP_TOKEN})
UNKNOWN_PATH = "-"
NO_VALUES: Mapping[str, str] = MappingProxyType({})
CHECK_SECONDS = 0.1

_log = structlog.get_logger(__name__)


class Deadline(msgspec.Struct, eq=False):
    """How long one request may still use databases. Its time runs inside ``with`` blocks.

    Only requests that read are cancelled when their client disconnects. A write runs to its end,
    within the deadlines of its statements.

    A block raises `DatabaseUnavailable` when the time is over, and `ClientDisconnected` when the
    client has disconnected and `receive` is set; what it awaits is cancelled first.

    Attributes:
        deadlines: Those of all requests, which check this one.
        seconds_left: Less after each block.
        receive: The ASGI `receive` of a request that may be cancelled, which a block must not use.
            It is awaited when the block has taken longer than `CHECK_SECONDS`.
    """

    deadlines: "Deadlines"
    seconds_left: float
    receive: Receive | None = None
    _task: Any = None
    _cancelled_before: int = 0
    _due: float = 0.0
    _is_new: bool = True
    _interrupted: TenantryError | None = None
    _watching: Any = None

    def __enter__(self) -> None:
        """Let the time run."""
        self._task = task = asyncio.current_task()
        assert task is not None
        self._cancelled_before = task.cancelling()
        self._due = monotonic_seconds() + self.seconds_left
        self._is_new = True
        self.deadlines.running.add(self)
        if self.deadlines.timer is None:
            self.deadlines.set_timer()

    def __exit__(
        self,
        _kind: type[BaseException] | None,
        error: BaseException | None,
        _traceback: TracebackType | None,
    ) -> None:
        """Stop the time, and raise the reason of an interruption."""
        self.deadlines.running.discard(self)
        self.seconds_left = self._due - monotonic_seconds()
        if self._watching is not None:
            self._watching.cancel()
            self._watching = None
        interrupted, self._interrupted = self._interrupted, None
        if interrupted is None or not isinstance(error, asyncio.CancelledError):
            return
        if self._task.uncancel() <= self._cancelled_before:
            raise interrupted from error

    def check(self, now: float) -> None:
        """Interrupt the block at its deadline; at the second check, start to watch the client."""
        if now >= self._due:
            self._interrupt(DatabaseUnavailable())
        elif not self._is_new and self.receive is not None and self._watching is None:
            self._watching = asyncio.create_task(self._watch(self.receive))
        self._is_new = False

    async def _watch(self, receive: Receive) -> None:
        while (await receive())["type"] != "http.disconnect":
            pass  # the body of the request is ignored
        self._interrupt(error_responses.ClientDisconnected())

    def _interrupt(self, error: TenantryError) -> None:
        if self._interrupted is None:
            self._interrupted = error
            self._task.cancel()


class Deadlines:
    """Checks the blocks of all requests.

    One timer checks them, because a timer for each would cost as much as a short request. So a
    deadline is exact to `CHECK_SECONDS`.

    Attributes:
        running: The deadlines whose time runs.
        timer: Set while there is one.
    """

    def __init__(self) -> None:
        self.running: set[Deadline] = set()
        self.timer: asyncio.TimerHandle | None = None

    def set_timer(self) -> None:
        """Check the deadlines after `CHECK_SECONDS`, until none is running."""
        self.timer = asyncio.get_running_loop().call_later(CHECK_SECONDS, self._check)

    def _check(self) -> None:
        self.timer = None
        now = monotonic_seconds()
        for one in self.running:
            one.check(now)
        if self.running:
            self.set_timer()


class RequestState:
    """The state of one request while it is handled.

    Attributes:
        deadline: How long the request may still use databases.
        headers: Its headers, as they were sent.
        sent: Its headers by name.
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
        span: Its span; None while traces are off.
    """

    reserved: BodyReservation | None = None
    endpoint: Endpoint | None = None
    values: Mapping[str, str] = NO_VALUES
    credentials: Credentials
    known: int
    anonymous: OperationContext
    caller: Caller = None
    turn: int | None = None
    quota: Quota | None = None
    ctx: OperationContext | None = None
    has_begun = False
    error: str | None = None
    span: OpenSpan | None = None

    def __init__(self, scope: Scope, deadline: Deadline) -> None:
        self.began = monotonic_seconds()
        self.scope = scope
        self.deadline = deadline
        self.request_id = new_request_id()
        self.is_head = scope["method"] == "HEAD"
        # Every GET endpoint also accepts HEAD (RFC 9110, section 9.1).
        self.method: str = "GET" if self.is_head else scope["method"]
        self.headers: list[tuple[bytes, bytes]] = scope["headers"]
        self.sent = by_name(self.headers)
        self.path: str = scope["raw_path"].decode("latin-1")
        if active.tracer is not None:
            self.span = active.tracer.open_request(self.method, self.headers)

    def refuse(self, error: TenantryError) -> Response:
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

    def end(self, status: int) -> AccessEntry:
        """Release the memory of the body, end the span, and return the line of the access log.

        Its level `error` means a bug, and `warning` an unavailable service.
        """
        if self.reserved is not None and self.reserved.taken:
            self.reserved.release()
        level = "info"
        if status >= SERVER_ERROR:
            level = "error" if status == SERVER_ERROR else "warning"
        entry = AccessEntry(
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
            trace=self.span.trace if self.span else None,
        )
        if self.span is not None:
            self.span.end_request(entry)
        return entry
