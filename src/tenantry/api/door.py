"""The ASGI application: authenticates a request, calls its handler, and sends the response.

The order of checks is that of docs/api-conventions.md: the form of the headers (400), the
credentials (401), their rights (403), and then the body (400).
"""

import asyncio
import contextlib
import math
from collections.abc import Awaitable, Callable, Iterable
from functools import partial
from itertools import count
from types import AsyncGeneratorType
from typing import Any

import structlog

from tenantry.access.addresses import network_of
from tenantry.access.identify import Identity
from tenantry.access.principal import AdminContext
from tenantry.access.request_limits import LONG_WAIT_SECONDS, FairShare, check
from tenantry.api import error_responses
from tenantry.api.access_levels import OPEN, TENANT_LOGIN
from tenantry.api.endpoints import Endpoint, Router
from tenantry.api.envelope import Response
from tenantry.api.origins import check_same_site
from tenantry.api.request_body import (
    BODY_LIMITS,
    STRANGER_BYTES_MAX,
    STRANGERS_BYTES_MAX,
    BodyLimits,
    BodyMemory,
    BodyReservation,
    decode_body,
    decode_query,
    read_body,
)
from tenantry.api.requests import (
    Deadline,
    Deadlines,
    RequestState,
    Scope,
    address_of,
    keep_alive_of,
    read_credentials,
    read_headers,
    read_parameters,
)
from tenantry.api.responses import (
    PRECONDITIONS,
    conditional_response,
    expected_of,
    long_response,
    represent,
    require_if_match,
    send_response,
    streamed_response,
    unchanged_response,
)
from tenantry.api.streaming import (
    Receive,
    Send,
    while_admitted,
)
from tenantry.db.postgres.connections import SILENCE_SECONDS
from tenantry.db.sessions import DatabaseUnavailable, StorageFull, retry_deadlock, wait_to_retry
from tenantry.kit.clock import monotonic_seconds, utc_now
from tenantry.kit.context import OperationContext
from tenantry.kit.errors import TenantryError, Unavailable
from tenantry.kit.negotiation import known_tags
from tenantry.kit.request_log import SERVER_ERROR, AccessLog
from tenantry.services import Services
from tenantry.tenant.entry import TenantContext, UnconfirmedContext, admit, confirm_user

# A database connection cancels a statement 1 s after its deadline, and reports that the server
# does not answer. The deadline of a request is later, so that the more precise error comes first.
DEADLINE_LATER_SECONDS = SILENCE_SECONDS + 0.5

API_PREFIX = b"/api/"
NO_TAGS: frozenset[bytes] = frozenset()
Pages = Callable[[Scope, Send], Awaitable[bool]]

_log = structlog.get_logger(__name__)


class ServerEnding(Unavailable):
    """The process is stopping, and the request took too long: it may have had an effect, or not."""


class Api:
    """Handles HTTP requests, and returns responses in the envelope.

    Args:
        endpoints: Each method on each path.
        services: What the handlers use.
        access_log: Gets a line for each request.
        fair_share: Limits the concurrent requests of each tenant.
        body_limits: How slowly a body may arrive.
        pages: Is called first for a path that does not begin with `API_PREFIX`; it returns
            whether it has sent a response.
    """

    def __init__(
        self,
        endpoints: Iterable[Endpoint],
        services: Services,
        access_log: AccessLog,
        *,
        fair_share: FairShare | None = None,
        body_limits: BodyLimits = BODY_LIMITS,
        pages: Pages | None = None,
    ) -> None:
        self._router = Router(endpoints)
        self._services = services
        self._access_log = access_log
        self._fair_share = fair_share or FairShare()
        self._body_limits = body_limits
        self._pages = pages
        self._deadlines = Deadlines()
        self._body_memory = BodyMemory()
        self._strangers_memory = BodyMemory(STRANGERS_BYTES_MAX, STRANGER_BYTES_MAX)
        self._seconds_max = services.settings.statement_timeout_s + DEADLINE_LATER_SECONDS

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one request (ASGI): send its response, and log and count it."""
        pages = None if scope["raw_path"].startswith(API_PREFIX) else self._pages
        if pages is not None and await pages(scope, send):
            return
        request = RequestState(scope, Deadline(self._deadlines, self._seconds_max))
        ended: asyncio.CancelledError | None = None
        try:
            try:
                answer = await self._handle(request, receive)
            except StorageFull:
                raise  # no database is missing
            except DatabaseUnavailable:
                await self._recheck_access(request)
                raise
        except TenantryError as error:
            answer = request.refuse(error)
            if isinstance(error, Unavailable):
                self._services.metrics.count_unavailable(type(error))
        except Exception as error:  # noqa: BLE001 - logged, and returned as 500 in the envelope
            _log.exception("request failed", request_id=request.request_id)
            request.error = type(error).__name__
            answer = error_responses.internal_error()
        except asyncio.CancelledError as error:
            # The server ends, and this request took longer than its grace period.
            answer, ended = request.refuse(ServerEnding()), error
        try:
            await send_response(send, receive, answer, request)
        finally:
            entry = request.end(answer.status)
            self._access_log.write(entry)
            if entry.status >= SERVER_ERROR:
                self._services.recent_errors.note(entry)
            self._services.metrics.requests.count(
                entry.method, entry.path, entry.status, entry.ms, entry.tenant
            )
        if ended is not None:
            raise ended

    async def _handle(self, request: RequestState, receive: Receive) -> Response:
        """Return the response: the way of a request through the door, in order.

        Each use of a database is in a block of the deadline; the wait for the body is in none.
        """
        endpoint, request.values = self._router.find(request.method, request.path)
        request.endpoint = endpoint
        if endpoint.level is OPEN and endpoint.reads_body:
            check_same_site(request.headers)
        request.credentials = read_credentials(request.headers, endpoint.level.headers)
        request.known = self._services.catalog.cache.generation
        if not self._recall(endpoint, request):
            with request.deadline:
                await self._verify(endpoint, request)
        self._count(endpoint, request)
        body: bytes | TenantryError = b""
        body_from = monotonic_seconds()
        if endpoint.reads_body:
            body = await self._read_body(endpoint, request, receive)
        if endpoint.keep_alive_seconds is None:
            more = endpoint.seconds_more
            request.deadline.seconds_left += math.inf if more is None else more
            request.deadline.receive = receive if request.method == "GET" else None
        turn, waited = request.turn, 0.0
        with request.deadline:
            if monotonic_seconds() - body_from > self._body_limits.slow_seconds:
                await self._identify(endpoint, request)
            if turn is not None:
                waited = await self._fair_share.enter(turn)
            try:
                if waited > LONG_WAIT_SECONDS:
                    await self._identify(endpoint, request)
                answer = await self._operate(endpoint, request, body)
            finally:
                if turn is not None:
                    self._fair_share.leave(turn)
        if isinstance(answer, Response):
            return answer
        seconds = keep_alive_of(endpoint, request.headers)
        readmit = partial(self._admit_again, endpoint, request)
        return await long_response(endpoint, answer, readmit, seconds)

    def _recall(self, endpoint: Endpoint, request: RequestState) -> bool:
        """Return whether the caller is known at once: none is needed, or it is remembered."""
        request.anonymous = ctx = OperationContext(
            request_id=request.request_id,
            now=utc_now(),
            actor="anonymous",
            address=address_of(request.scope),
        )
        identify = endpoint.level.identify
        if identify is None:
            return True
        identifier = self._services.identifier
        found = identifier.recall(identify.__name__, request.credentials, ctx.now)
        request.caller = found or request.caller
        return found is not None

    async def _identify(self, endpoint: Endpoint, request: RequestState) -> None:
        """Verify the credentials, without the tenant's database.

        Raises:
            Unauthenticated, Forbidden: They are invalid, or do not suffice.
        """
        if not self._recall(endpoint, request):
            await self._verify(endpoint, request)

    async def _verify(self, endpoint: Endpoint, request: RequestState) -> None:
        """Verify credentials that are not remembered; see `_identify`."""
        identify = endpoint.level.identify
        assert identify is not None
        verified = partial(
            identify, self._services.identifier, request.anonymous, request.credentials
        )
        request.caller = await retry_deadlock(verified, is_read=True)

    def _count(self, endpoint: Endpoint, request: RequestState) -> None:
        """Count the request for the rate limit of its caller or tenant, and choose its turn.

        Raises:
            TooManyRequests: The limit is reached.
        """
        caller, limits = request.caller, self._services.rate_limits
        if isinstance(caller, Identity) and endpoint.level is TENANT_LOGIN:
            # Logins have their own quota: a website that uses up the key's does not block them.
            # They have no turn, because the hashing of passwords has a fair queue.
            request.quota = limits.take(f"login {caller.caller_id}")
        elif isinstance(caller, Identity):
            tenant = caller.tenant
            request.turn = tenant.id.int
            if tenant.requests_per_minute:
                # Two quotas: the visitors of a website do not use up that of the users.
                kind = "keys" if caller.is_by_key else "users"
                most = tenant.requests_per_minute
                request.quota = limits.take(kind, tenant_id=tenant.id, per_minute=most)
            else:
                request.quota = limits.take(caller.caller_id, tenant_id=tenant.id)
        elif isinstance(caller, AdminContext):
            request.quota = limits.take(caller.email)
        if request.quota is not None and request.quota.remaining < 0:
            check(request.quota)

    async def _read_body(
        self, endpoint: Endpoint, request: RequestState, receive: Receive
    ) -> bytes | TenantryError:
        """Return the body, or the error for it: only a caller who has access learns that.

        Before a login, its memory is in the pool of strangers.
        """
        pool = self._body_memory
        sender: object = request.turn
        if isinstance(request.caller, AdminContext):
            sender = request.caller.admin_id
        elif sender is None:
            pool, sender = self._strangers_memory, network_of(request.anonymous.address)
        request.reserved = reserved = BodyReservation(pool, sender)
        try:
            return await read_body(endpoint, request.sent, receive, reserved, self._body_limits)
        except TenantryError as error:
            return error

    async def _operate(
        self, endpoint: Endpoint, request: RequestState, body: bytes | TenantryError
    ) -> Response | Awaitable[Any]:
        """Admit, decode and operate; return the response, or the handler's work if it may be slow.

        This is tried again after a deadlock; until the handler was called, also after a lost
        connection, because nothing was changed.
        """
        # The versions that the client has.
        is_conditional = endpoint.answers_unchanged and b"if-none-match" in request.sent
        known = known_tags(request.headers) if is_conditional else NO_TAGS
        for tries in count(1):
            try:
                ctx = request.ctx = await self._admit(endpoint, request)
                wanted = await self._decode(endpoint, request, body)
                parameters = self._parameters(endpoint, request) if endpoint.has_more else {}
                if endpoint.keep_alive_seconds is not None:
                    return endpoint.handler(ctx, self._services, wanted, **parameters)
                if known:
                    unchanged = await unchanged_response(endpoint, ctx, request.scope, known)
                    if unchanged is not None:
                        return unchanged
                request.has_begun = True
                data = await endpoint.handler(ctx, self._services, wanted, **parameters)
            except DatabaseUnavailable as error:
                is_read = endpoint.method == "GET" or not request.has_begun
                await wait_to_retry(error, tries, is_read=is_read)
            else:
                break
        if endpoint.version is not None or endpoint.edits is not None:
            return conditional_response(endpoint, ctx, request.scope, known, data)
        if isinstance(data, AsyncGeneratorType):
            # An event stream checks the access itself, because it ends without an error.
            if not endpoint.is_event_stream:
                data = while_admitted(data, partial(self._admit_again, endpoint, request))
            return await streamed_response(endpoint, data, request.headers, is_head=request.is_head)
        return represent(endpoint, data)

    async def _admit(self, endpoint: Endpoint, request: RequestState) -> Any:
        """Return the context for the handler.

        Raises:
            Unauthenticated, Forbidden: The credentials do not suffice.
        """
        caller = request.caller
        if not isinstance(caller, Identity):
            return caller or request.anonymous
        return await admit(
            request.anonymous,
            self._services.databases,
            caller,
            endpoint.requirements,
            endpoint.level.context,
        )

    async def _decode(
        self, endpoint: Endpoint, request: RequestState, body: bytes | TenantryError
    ) -> Any:
        """Return the request of the endpoint.

        A decoded body takes up to 25 times its size, so this is done in the turn of the request.
        """
        ctx = request.ctx
        try:
            if isinstance(body, TenantryError):
                raise body
            if endpoint.adds and isinstance(ctx, TenantContext):
                await self._services.storage.take(ctx.tenant, ctx.database)
            if endpoint.reads_body:
                wanted = decode_body(endpoint, body)
            else:
                wanted = decode_query(endpoint, request.scope["query_string"])
            if endpoint.has_precondition and self._services.settings.require_if_match:
                require_if_match(request.headers)
        except TenantryError:
            if isinstance(ctx, UnconfirmedContext):
                await confirm_user(ctx)
            raise
        return wanted

    def _parameters(self, endpoint: Endpoint, request: RequestState) -> dict[str, Any]:
        """Return the arguments of a handler besides the context, the services and the request."""
        parameters: dict[str, Any] = read_parameters(request.values) if request.values else {}
        if endpoint.headers:
            parameters |= read_headers(request.headers, endpoint.headers)
        if endpoint.has_precondition:
            is_free = PRECONDITIONS.isdisjoint(request.sent)
            parameters["expected"] = None if is_free else expected_of(endpoint, request.sent)
        if endpoint.is_event_stream:
            parameters["readmit"] = partial(self._admit_again, endpoint, request)
        return parameters

    async def _admit_again(self, endpoint: Endpoint, request: RequestState) -> None:
        """Authenticate and admit the caller of an admitted request again.

        Raises:
            Unauthenticated, Forbidden: The caller is no longer admitted.
        """
        await self._identify(endpoint, request)
        request.ctx = await self._admit(endpoint, request)

    async def _recheck_access(self, request: RequestState) -> None:
        """Authenticate again if a tenant database is missing and the epoch has moved.

        The tenant may have been deleted after the caller was admitted.

        Raises:
            Unauthenticated, Forbidden: The caller is no longer admitted.
        """
        cache, endpoint = self._services.catalog.cache, request.endpoint
        # After its deadline, a request does not wait for the catalog again.
        if endpoint is None or not cache.is_fresh or request.deadline.seconds_left <= 0:
            return
        with contextlib.suppress(Unavailable), request.deadline:
            await cache.check_epoch()
            if cache.generation != request.known:
                await self._admit_again(endpoint, request)
