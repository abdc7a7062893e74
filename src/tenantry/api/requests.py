"""A request: its state while it is handled, its deadline, its headers, and what is logged of it."""

import asyncio
import re
from collections.abc import Iterable, Mapping, MutableMapping
from itertools import chain
from types import MappingProxyType, TracebackType
from typing import Any
from uuid import UUID

import msgspec
import structlog

from tenantry.access.identify import Credentials, Identity
from tenantry.access.request_limits import Quota
from tenantry.api import error_responses
from tenantry.api.access_levels import API_KEY, AUTHORIZATION, MCP_TOKEN, Caller
from tenantry.api.endpoints import Endpoint, NoSuchPath, slug_of
from tenantry.api.envelope import Response
from tenantry.api.error_responses import HeadersTooLarge, HttpError
from tenantry.api.http.framing import by_name
from tenantry.api.request_body import BodyReservation
from tenantry.api.streaming import Receive
from tenantry.db.sessions import DatabaseUnavailable
from tenantry.kit.clock import monotonic_seconds, utc_now
from tenantry.kit.context import OperationContext
from tenantry.kit.errors import Invalid, TenantryError, Unavailable
from tenantry.kit.ids import new_request_id, parse_id
from tenantry.kit.negotiation import RawHeaders
from tenantry.kit.request_log import SERVER_ERROR, AccessEntry
from tenantry.kit.tracing import OpenSpan, active
from tenantry.migration.errors import explain
from tenantry.schemas.mcp import McpAnswer

Scope = MutableMapping[str, Any]

HEADERS_BYTES_MAX = 16_384
# An IPv6 address with a zone, and more.
ADDRESS_CHARS_MAX = 100
TOKENS = frozenset({AUTHORIZATION, MCP_TOKEN})
UNKNOWN_PATH = "-"
NO_VALUES: Mapping[str, str] = MappingProxyType({})
CHECK_SECONDS = 0.1

# A longer header is ignored, as a server may do (RFC 7240, section 2).
PREFER_CHARS_MAX = 1_024
# Source: RFC 7240, section 4.1
RESPOND_ASYNC = "respond-async"
# An unterminated quoted string extends to the end, which keeps matching linear.
_QUOTED = re.compile(r'"(?:[^"\\]|\\.)*+(?:"|\\?$)', re.DOTALL)
# Of a version: it fits into 32 bits.
_NUMBER_FORM = re.compile(r"[1-9][0-9]{0,8}")

_log = structlog.get_logger(__name__)


class RepeatedCredential(HttpError):
    """A credential header was sent twice."""


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
        anonymous: The context without the caller; set when they are first looked up.
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
        if isinstance(error, Invalid) and self.endpoint and self.endpoint.response is McpAnswer:
            return error_responses.message_refused(error)
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


def address_of(scope: Scope) -> str:
    """Return the address of the client, short and printable; empty if there is none."""
    client = scope.get("client")
    address: str = client[0][:ADDRESS_CHARS_MAX] if client else ""
    if address.isprintable():
        return address
    # A proxy may forward any text as an address.
    return "".join(one if one.isprintable() else "?" for one in address)


def read_credentials(headers: RawHeaders, counted: frozenset[bytes]) -> Credentials:
    """Return the credentials in the headers of a request that are *counted*.

    Raises:
        RepeatedCredential: A credential header was sent twice.
        HeadersTooLarge: The headers together are larger than `HEADERS_BYTES_MAX`.
    """
    found: dict[bytes, str] = {}
    if sum(map(len, chain.from_iterable(headers))) > HEADERS_BYTES_MAX:
        raise HeadersTooLarge
    for name, value in headers:
        if name in counted:
            if name in found:
                raise RepeatedCredential
            # Other blanks are not those of HTTP (RFC 9110, section 5.6.3), and make it invalid.
            found[name] = value.strip(b" \t").decode("latin-1")
    return Credentials(
        found.get(AUTHORIZATION) or None, found.get(API_KEY) or None, found.get(MCP_TOKEN) or None
    )


def is_token(name: bytes, value: bytes) -> bool:
    """Return whether the value of a credential header has the form of a token."""
    if name != AUTHORIZATION:
        return bool(value.strip())
    scheme, _, token = value.strip().partition(b" ")
    return scheme.lower() == b"bearer" and bool(token.strip())


def read_headers(headers: RawHeaders, names: Iterable[str]) -> dict[str, str]:
    """Return the values of the headers *names*, as keyword arguments for a handler."""
    found: dict[str, list[str]] = {name.lower(): [] for name in names}
    for name, value in headers:
        known = name.decode("latin-1")
        if known in found:
            found[known].append(value.decode("latin-1").strip())
    # Source: RFC 9110, section 5.3
    return {name.replace("-", "_"): ", ".join(values) for name, values in found.items()}


def prefers(header: str, preference: str) -> bool:
    """Return whether a ``Prefer`` header contains *preference*, without a value (RFC 7240)."""
    if len(header) > PREFER_CHARS_MAX:
        return False
    # A quoted value may contain commas and the names of other preferences.
    plain = _QUOTED.sub(lambda quoted: "x" if len(quoted[0]) > len('""') else "", header.lower())
    for one in plain.split(","):
        name, _, value = one.partition(";")[0].partition("=")
        if name.strip() == preference and not value.strip():
            return True
    return False


def keep_alive_of(endpoint: Endpoint, headers: RawHeaders) -> float | None:
    """Return the interval in which spaces are sent before a slow response; None for none.

    They send the status of the endpoint, so none are sent before a 202.
    """
    prefer = read_headers(headers, endpoint.headers).get("prefer", "")
    return None if prefers(prefer, RESPOND_ASYNC) else endpoint.keep_alive_seconds


def read_parameters(values: Mapping[str, str]) -> dict[str, UUID | str | int]:
    """Return the parameters of a path: ids, except ``slug`` and ``number``.

    Raises:
        NoSuchPath: A value is not a valid id, slug or number.
    """
    parameters: dict[str, UUID | str | int] = {}
    for name, value in values.items():
        if name == "slug":
            parameters[name] = slug_of(value)
            continue
        if name == "number":
            if not _NUMBER_FORM.fullmatch(value):
                raise NoSuchPath
            parameters[name] = int(value)
            continue
        parsed = parse_id(value)
        if parsed is None:
            raise NoSuchPath
        parameters[name] = parsed
    return parameters
