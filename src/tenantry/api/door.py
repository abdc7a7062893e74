"""The ASGI application: authenticates a request, calls its handler, and sends the response.

The order of checks is that of docs/api-conventions.md: the form of the headers (400), the
credentials (401), their rights (403), and then the body (400).
"""

import asyncio
import contextlib
import math
from collections.abc import Awaitable, Callable, Iterable, Mapping
from functools import partial
from http import HTTPStatus
from types import AsyncGeneratorType
from typing import Any, TypeVar

import structlog

from tenantry.access.identify import Credentials, Identity
from tenantry.access.principal import AdminContext
from tenantry.access.rate_limits import check
from tenantry.api import envelope
from tenantry.api.access_levels import TENANT_LOGIN, Caller
from tenantry.api.conditional import conditional_answer
from tenantry.api.endpoints import Endpoint, Router
from tenantry.api.envelope import CLOSE, Answer
from tenantry.api.exchange import Exchange, Scope
from tenantry.api.fair_share import FairShare
from tenantry.api.interruptions import Interruptions
from tenantry.api.protocol import sent_at_once
from tenantry.api.requests import (
    HeldBodies,
    HeldBody,
    decode_request,
    read_body,
    read_credentials,
    read_headers,
    read_parameters,
)
from tenantry.api.responses import long_answer, represent, streamed_answer
from tenantry.api.streaming import (
    ClientHungUp,
    Receive,
    ResponseAborted,
    Send,
    StreamedBody,
    send_body,
)
from tenantry.db.postgres import SILENCE_SECONDS
from tenantry.db.sessions import DatabaseUnavailable, retry_deadlock
from tenantry.kit.access_log import AccessLog
from tenantry.kit.clock import monotonic_seconds, utc_now
from tenantry.kit.context import OperationContext
from tenantry.kit.errors import TenantryError, Unavailable
from tenantry.services import Services

# A database connection cancels a statement 1 s after its deadline, and reports that the server
# does not answer. The deadline of a request is later, so that the more precise error comes first.
DEADLINE_LATER_SECONDS = SILENCE_SECONDS + 0.5
# After a slower body, the caller is authenticated again. Otherwise a client that holds back a body
# could act for as long as `requests.BODY_SECONDS_MAX` with a revoked credential.
SLOW_BODY_SECONDS = 0.5

Result = TypeVar("Result")

_log = structlog.get_logger(__name__)


class ServerEnding(Unavailable):
    """The server ends, and the request took too long: it may have been carried out, or not."""


class Api:
    """Handles HTTP requests, and returns responses in the envelope."""

    def __init__(
        self, endpoints: Iterable[Endpoint], services: Services, access_log: AccessLog
    ) -> None:
        self._router = Router(endpoints)
        self._services = services
        self._access_log = access_log
        self._fair_share = FairShare()
        self._interruptions = Interruptions()
        self._held_bodies = HeldBodies()
        self._seconds_max = services.settings.statement_timeout_s + DEADLINE_LATER_SECONDS

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one request (ASGI)."""
        held = HeldBody(self._held_bodies)
        exchange = Exchange(scope, self._interruptions, self._seconds_max, held)
        try:
            try:
                answer = await self._answer(exchange, scope, receive)
            except DatabaseUnavailable:
                await self._recheck_access(exchange)
                raise
        except TenantryError as error:
            answer = exchange.refuse(error)
            if isinstance(error, Unavailable):
                self._services.metrics.count_unavailable(type(error))
        except Exception as error:  # noqa: BLE001 - logged, and returned as 500 in the envelope
            _log.exception("request failed", request_id=exchange.request_id)
            exchange.error = type(error).__name__
            answer = envelope.internal_error()
        except asyncio.CancelledError:
            # The server ends, and this request took longer than its grace period.
            await self._finish(send, receive, exchange.refuse(ServerEnding()), exchange)
            raise
        await self._finish(send, receive, answer, exchange)

    async def _finish(
        self, send: Send, receive: Receive, answer: Answer, exchange: Exchange
    ) -> None:
        """Send the response, and log and count the request."""
        answer.headers.extend(exchange.warnings())
        if exchange.quota is not None:
            answer.headers.extend(envelope.rate_limit(exchange.quota))
        try:
            await _send(send, receive, answer, exchange)
        finally:
            exchange.held.release()
            entry = exchange.entry(answer.status)
            self._access_log.write(entry)
            self._services.recent_errors.note(entry)
            self._services.metrics.count_request(entry.method, entry.path, entry.status, entry.ms)

    async def _answer(self, exchange: Exchange, scope: Scope, receive: Receive) -> Answer:
        headers = scope["headers"]
        endpoint, values = self._router.find(exchange.method, scope["raw_path"].decode("latin-1"))
        exchange.endpoint = endpoint
        credentials = read_credentials(headers, endpoint.level.headers)

        # It must not refer to the exchange: the garbage collector would have to free each request.
        enter = partial(self._enter_again, endpoint, exchange.request_id, scope, credentials)
        exchange.enter, exchange.known = enter, self._services.catalog.cache.generation
        ctx = _context(exchange.request_id, scope)
        entering = self._enter(endpoint, ctx, credentials, exchange)
        exchange.ctx = ctx = await exchange.in_time(entering)
        body_from = monotonic_seconds()
        try:
            body = await read_body(endpoint, headers, receive, exchange.held)
        except TenantryError:
            await exchange.in_time(endpoint.level.confirm(ctx))
            raise
        if monotonic_seconds() - body_from > SLOW_BODY_SECONDS:
            entering = self._in_turn(endpoint, exchange.caller, enter, enter)
            exchange.ctx = ctx = await exchange.in_time(entering)
        preparing = partial(self._handler, endpoint, ctx, scope, values, body=body, enter=enter)
        if endpoint.keep_alive_seconds is not None:
            handle = await exchange.in_time(preparing())
            return await long_answer(endpoint, handle(), endpoint.keep_alive_seconds)
        answering = partial(_work, endpoint, ctx, scope, preparing)
        work = self._in_turn(endpoint, exchange.caller, answering, enter)
        more = endpoint.seconds_more
        exchange.seconds_left += math.inf if more is None else more
        return await exchange.in_time(work, receive if exchange.method == "GET" else None)

    async def _handler(
        self,
        endpoint: Endpoint,
        ctx: Any,
        scope: Scope,
        values: Mapping[str, str],
        *,
        body: bytes,
        enter: Callable[[], Awaitable[Any]],
    ) -> Callable[[], Awaitable[Any]]:
        """Return the handler with its arguments.

        It is called in the turn of the request: a decoded body takes up to 25 times its size.
        """
        try:
            request = decode_request(endpoint, scope, body)
        except TenantryError:
            await endpoint.level.confirm(ctx)
            raise
        parameters: dict[str, Any] = read_parameters(values) if values else {}
        if endpoint.headers:
            parameters |= read_headers(scope["headers"], endpoint.headers)
        if endpoint.is_event_stream:
            parameters["readmit"] = enter
        return partial(endpoint.handler, ctx, self._services, request, **parameters)

    async def _enter_again(
        self, endpoint: Endpoint, request_id: str, scope: Scope, credentials: Credentials
    ) -> Any:
        """Authenticate the caller of an admitted request again."""
        return await self._enter(endpoint, _context(request_id, scope), credentials)

    async def _enter(
        self,
        endpoint: Endpoint,
        ctx: OperationContext,
        credentials: Credentials,
        exchange: Exchange | None = None,
    ) -> Any:
        """Authenticate the caller, and return the context for the handler.

        Args:
            endpoint: Its level of access determines the checks.
            ctx: The context of the request, without a caller.
            credentials: The credentials in the request.
            exchange: A new request: it is counted for the rate limit, and waits for its turn before
                it uses the tenant's database. None to authenticate an admitted request again.

        Raises:
            Unauthenticated, Forbidden: The credentials are invalid, or do not suffice.
            TooManyRequests: The rate limit or the fair share is used up.
        """
        level = endpoint.level
        identifying = partial(level.identify, self._services, ctx, credentials)
        if exchange is None:
            return await level.enter(self._services, ctx, await identifying(), endpoint.demand)
        exchange.caller = caller = await retry_deadlock(identifying, is_read=True)
        self._count(exchange)
        entering = partial(level.enter, self._services, ctx, caller, endpoint.demand)
        work = partial(retry_deadlock, entering, is_read=True)
        assert exchange.enter is not None, "it is known since the endpoint is"
        return await self._in_turn(endpoint, caller, work, exchange.enter)

    async def _in_turn(
        self,
        endpoint: Endpoint,
        caller: Caller,
        work: Callable[[], Awaitable[Result]],
        recheck: Callable[[], Awaitable[object]],
    ) -> Result:
        """Run *work* within the fair share of the caller's tenant, and return its result."""
        # Logins have a fair queue of their own, for password hashing.
        if isinstance(caller, Identity) and endpoint.level is not TENANT_LOGIN:
            return await self._fair_share.run(caller.tenant.id, work, recheck)
        return await work()

    def _count(self, exchange: Exchange) -> None:
        """Count the request for the rate limit of its credential.

        Raises:
            TooManyRequests: The limit is reached.
        """
        caller, limits = exchange.caller, self._services.rate_limits
        if isinstance(caller, Identity):
            credential = caller.credential_id
            if exchange.endpoint is not None and exchange.endpoint.level is TENANT_LOGIN:
                # Logins have their own quota: a website that uses up the key's does not block them.
                exchange.quota = limits.take(f"login {credential}")
            else:
                exchange.quota = limits.take(credential, caller.tenant.requests_per_minute)
        elif isinstance(caller, AdminContext):
            exchange.quota = limits.take(caller.email)
        else:
            return
        check(exchange.quota)

    async def _recheck_access(self, exchange: Exchange) -> None:
        """Authenticate again if a tenant database is missing and the epoch has moved.

        The tenant may have been deleted after the caller was admitted.

        Raises:
            Unauthenticated, Forbidden: The caller is no longer admitted.
        """
        cache = self._services.catalog.cache
        # After its deadline, a request does not wait for the catalog again.
        if exchange.enter is None or not cache.is_fresh or exchange.seconds_left <= 0:
            return
        with contextlib.suppress(Unavailable):
            await exchange.in_time(cache.check_epoch())
            if cache.generation != exchange.known:
                await exchange.in_time(exchange.enter())


def _context(request_id: str, scope: Scope) -> OperationContext:
    client = scope.get("client")
    return OperationContext(
        request_id=request_id,
        now=utc_now(),
        actor="anonymous",
        address=client[0] if client else "",
    )


async def _work(
    endpoint: Endpoint,
    ctx: Any,
    scope: Scope,
    preparing: Callable[[], Awaitable[Callable[[], Awaitable[Any]]]],
) -> Answer:
    handle = await preparing()
    work = partial(retry_deadlock, handle, is_read=endpoint.method == "GET")
    if endpoint.version is not None:
        return await conditional_answer(endpoint, ctx, scope, work)
    data = await work()
    if isinstance(data, AsyncGeneratorType):
        return await streamed_answer(endpoint, data, scope["headers"])
    return represent(endpoint, data)


async def _send(send: Send, receive: Receive, answer: Answer, exchange: Exchange) -> None:
    body = answer.body
    headers = [
        *answer.headers,
        *exchange.cache_headers(answer),
        (b"x-request-id", exchange.request_id.encode()),
    ]
    # A 304 has no Content-Length: it would be that of the body that is not sent (RFC 9110, 8.6).
    if isinstance(body, bytes) and answer.status != HTTPStatus.NOT_MODIFIED:
        headers.append((b"content-length", str(len(body)).encode()))
        is_simple = not exchange.is_head and CLOSE not in headers
        if is_simple and sent_at_once(send, answer.status, headers, body):
            return
    await send({"type": "http.response.start", "status": answer.status, "headers": headers})
    if isinstance(body, StreamedBody):
        if not exchange.is_head:
            await _send_stream(send, receive, body, exchange)
            return
        await body.close()
    await send({"type": "http.response.body", "body": b"" if exchange.is_head else body})


async def _send_stream(
    send: Send, receive: Receive, body: StreamedBody, exchange: Exchange
) -> None:
    try:
        await send_body(body, receive, send)
    except ClientHungUp as error:
        exchange.error = type(error).__name__
    except Exception as error:  # noqa: BLE001 - logged; the client gets an incomplete response
        exchange.error = type(error).__name__
        if isinstance(error, Unavailable):
            exchange.log_cause(error)
        else:
            _log.exception("response aborted", request_id=exchange.request_id)
        raise ResponseAborted from None
