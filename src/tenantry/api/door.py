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

from tenantry.access.addresses import network_of
from tenantry.access.identify import Identity
from tenantry.access.principal import AdminContext
from tenantry.access.rate_limits import check
from tenantry.api import envelope, error_responses
from tenantry.api.access_levels import TENANT_LOGIN
from tenantry.api.conditional import conditional_answer
from tenantry.api.endpoints import Endpoint, Router
from tenantry.api.envelope import CLOSE, Answer
from tenantry.api.exchange import Exchange, Scope
from tenantry.api.fair_share import FairShare
from tenantry.api.held_bodies import HeldBodies, HeldBody
from tenantry.api.interruptions import Interruptions
from tenantry.api.protocol import sent_at_once
from tenantry.api.requests import (
    BODY_LIMITS,
    BodyLimits,
    decode_body,
    decode_query,
    keep_alive_of,
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
    while_admitted,
)
from tenantry.db.postgres import SILENCE_SECONDS
from tenantry.db.sessions import DatabaseUnavailable, retry_deadlock
from tenantry.kit.access_log import AccessLog
from tenantry.kit.clock import monotonic_seconds
from tenantry.kit.errors import Forbidden, TenantryError, Unauthenticated, Unavailable
from tenantry.services import Services

# A database connection cancels a statement 1 s after its deadline, and reports that the server
# does not answer. The deadline of a request is later, so that the more precise error comes first.
DEADLINE_LATER_SECONDS = SILENCE_SECONDS + 0.5

Result = TypeVar("Result")
Prepared = tuple[Any, Callable[[], Awaitable[Any]]]
"""The context of an admitted caller, and the handler with its arguments."""

_log = structlog.get_logger(__name__)


class ServerEnding(Unavailable):
    """The process is stopping, and the request took too long: it may have had an effect, or not."""


class Api:
    """Handles HTTP requests, and returns responses in the envelope."""

    def __init__(
        self,
        endpoints: Iterable[Endpoint],
        services: Services,
        access_log: AccessLog,
        *,
        fair_share: FairShare | None = None,
        body_limits: BodyLimits = BODY_LIMITS,
    ) -> None:
        self._router = Router(endpoints)
        self._services = services
        self._access_log = access_log
        self._fair_share = fair_share or FairShare()
        self._body_limits = body_limits
        self._interruptions = Interruptions()
        self._held_bodies = HeldBodies()
        self._seconds_max = services.settings.statement_timeout_s + DEADLINE_LATER_SECONDS

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one request (ASGI)."""
        held = HeldBody(self._held_bodies)
        exchange = Exchange(scope, self._interruptions, self._seconds_max, held)
        try:
            try:
                answer = await self._answer(exchange, receive)
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
            answer = error_responses.internal_error()
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

    async def _answer(self, exchange: Exchange, receive: Receive) -> Answer:
        headers = exchange.headers
        path = exchange.scope["raw_path"].decode("latin-1")
        endpoint, values = self._router.find(exchange.method, path)
        exchange.endpoint = endpoint
        exchange.credentials = read_credentials(headers, endpoint.level.headers)
        exchange.known = self._services.catalog.cache.generation
        await exchange.in_time(self._identify(endpoint, exchange))
        self._count(exchange)
        body_from = monotonic_seconds()
        if endpoint.reads_body:
            address = exchange.anonymous.address
            exchange.held.sender = _fair_key(endpoint, exchange) or network_of(address)
        try:
            body = await read_body(endpoint, headers, receive, exchange.held, self._body_limits)
        except TenantryError:
            # Only a caller who has access learns what is wrong with the body.
            checking = self._in_turn(endpoint, exchange, partial(self._confirm, endpoint, exchange))
            await exchange.in_time(checking)
            raise
        if monotonic_seconds() - body_from > self._body_limits.slow_seconds:
            await exchange.in_time(self._identify(endpoint, exchange))
        preparing = partial(self._prepare, endpoint, exchange, values, body)
        readmit = partial(self._admit_again, endpoint, exchange)
        if endpoint.keep_alive_seconds is not None:
            _, handle = await exchange.in_time(self._in_turn(endpoint, exchange, preparing))
            return await long_answer(endpoint, handle(), readmit, keep_alive_of(endpoint, headers))
        answering = partial(_work, endpoint, exchange.scope, preparing, readmit)
        work = self._in_turn(endpoint, exchange, answering)
        more = endpoint.seconds_more
        exchange.time_left.seconds += math.inf if more is None else more
        return await exchange.in_time(work, receive if exchange.method == "GET" else None)

    async def _identify(self, endpoint: Endpoint, exchange: Exchange) -> None:
        """Verify the credentials, without the tenant's database.

        Raises:
            Unauthenticated, Forbidden: They are invalid, or do not suffice.
        """
        exchange.anonymous = ctx = exchange.new_context()
        identifying = partial(endpoint.level.identify, self._services, ctx, exchange.credentials)
        exchange.caller = await retry_deadlock(identifying, is_read=True)

    def _admit(self, endpoint: Endpoint, exchange: Exchange) -> Awaitable[Any]:
        """Admit the caller, and return the context for the handler.

        Raises:
            Unauthenticated, Forbidden: The credentials do not suffice.
        """
        ctx, caller, demand = exchange.anonymous, exchange.caller, endpoint.demand
        entering = partial(endpoint.level.enter, self._services, ctx, caller, demand)
        return retry_deadlock(entering, is_read=True)

    async def _confirm(self, endpoint: Endpoint, exchange: Exchange) -> None:
        exchange.ctx = ctx = await self._admit(endpoint, exchange)
        await endpoint.level.confirm(ctx)

    async def _prepare(
        self, endpoint: Endpoint, exchange: Exchange, values: Mapping[str, str], body: bytes
    ) -> Prepared:
        """Admit the caller, and return the context and the handler with its arguments.

        It is called in the turn of the request: a decoded body takes up to 25 times its size.
        """
        headers = exchange.headers
        exchange.ctx = ctx = await self._admit(endpoint, exchange)
        try:
            if endpoint.reads_body:
                request = decode_body(endpoint, body)
            else:
                request = decode_query(endpoint, exchange.scope["query_string"])
        except TenantryError:
            await endpoint.level.confirm(ctx)
            raise
        parameters: dict[str, Any] = read_parameters(values) if values else {}
        if endpoint.headers:
            parameters |= read_headers(headers, endpoint.headers)
        if endpoint.is_event_stream:
            parameters["readmit"] = partial(self._admit_again, endpoint, exchange)
        return ctx, partial(endpoint.handler, ctx, self._services, request, **parameters)

    async def _admit_again(self, endpoint: Endpoint, exchange: Exchange) -> Any:
        """Authenticate and admit the caller of an admitted request again."""
        ctx, services = exchange.new_context(), self._services
        caller = await endpoint.level.identify(services, ctx, exchange.credentials)
        return await endpoint.level.enter(services, ctx, caller, endpoint.demand)

    def _in_turn(
        self, endpoint: Endpoint, exchange: Exchange, work: Callable[[], Awaitable[Result]]
    ) -> Awaitable[Result]:
        """Run *work* within the fair share of the caller's tenant, and return its result."""
        key = _fair_key(endpoint, exchange)
        if key is None:
            return work()
        recheck = partial(self._identify, endpoint, exchange)
        return self._fair_share.run(key, work, recheck)

    def _count(self, exchange: Exchange) -> None:
        """Count the request for the rate limit of its caller, or of its tenant.

        Raises:
            TooManyRequests: The limit is reached.
        """
        caller, limits = exchange.caller, self._services.rate_limits
        if isinstance(caller, Identity):
            tenant = caller.tenant
            if exchange.endpoint is not None and exchange.endpoint.level is TENANT_LOGIN:
                # Logins have their own quota: a website that uses up the key's does not block them.
                exchange.quota = limits.take(f"login {caller.caller_id}")
            elif tenant.requests_per_minute:
                # Two quotas: the visitors of a website do not use up that of the users.
                kind = "keys" if caller.is_by_key else "users"
                exchange.quota = limits.take_shared(tenant.id, kind, tenant.requests_per_minute)
            else:
                exchange.quota = limits.take(caller.caller_id)
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
        cache, endpoint = self._services.catalog.cache, exchange.endpoint
        # After its deadline, a request does not wait for the catalog again.
        if endpoint is None or not cache.is_fresh or exchange.time_left.seconds <= 0:
            return
        with contextlib.suppress(Unavailable):
            await exchange.in_time(cache.check_epoch())
            if cache.generation != exchange.known:
                await exchange.in_time(self._admit_again(endpoint, exchange))


def _fair_key(endpoint: Endpoint, exchange: Exchange) -> int | None:
    """Return what the tenant of the caller is counted by; None before a login.

    A UUID is counted as an integer, because UUID.__hash__ is slow Python code. Logins have a fair
    queue of their own, for password hashing.
    """
    caller = exchange.caller
    if isinstance(caller, Identity) and endpoint.level is not TENANT_LOGIN:
        return caller.tenant.id.int
    return None


async def _work(
    endpoint: Endpoint,
    scope: Scope,
    preparing: Callable[[], Awaitable[Prepared]],
    readmit: Callable[[], Awaitable[object]],
) -> Answer:
    ctx, handle = await preparing()
    work = partial(retry_deadlock, handle, is_read=endpoint.method == "GET")
    if endpoint.version is not None:
        return await conditional_answer(endpoint, ctx, scope, work)
    data = await work()
    if isinstance(data, AsyncGeneratorType):
        # An event stream checks the access itself, because it ends without an error.
        chunks = data if endpoint.is_event_stream else while_admitted(data, readmit)
        return await streamed_answer(endpoint, chunks, scope["headers"])
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
        elif not isinstance(error, Unauthenticated | Forbidden):
            _log.exception("response aborted", request_id=exchange.request_id)
        raise ResponseAborted from None
