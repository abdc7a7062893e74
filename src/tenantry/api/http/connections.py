"""Limits on client connections: their number, and how long each may wait.

Every connection uses a file descriptor, and a process has 1,024 of them by default. So the number
of connections is limited, in total and for each address, and every wait has a deadline. One task
checks all connections once a second, so that deadlines cost nothing per request. At the limits in
total, the address that has the most loses to one that has less, so a few addresses cannot keep
out the others.
"""

import asyncio
import contextlib
import ipaddress
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from http import HTTPStatus
from typing import Protocol

import structlog

from tenantry.api.envelope import Headers
from tenantry.api.error_responses import HttpError
from tenantry.kit.clock import monotonic_seconds
from tenantry.kit.metrics import Metrics
from tenantry.settings import IpNetwork

CHECK_SECONDS = 1.0
# Refused connections that stay open for a moment, so that their clients can read the error.
REFUSED_MAX = 32
# Refusals are logged at most once in this time.
LOG_SECONDS = 10.0
# A client that has one IPv6 address usually has a whole network of this size (RFC 6177).
IPV6_NETWORK_BITS = 64
# The reason in the metric `tenantry_refused_connections_total`.
TOO_MUCH_UNREAD = "TooMuchUnread"
DISPLACED = "Displaced"
_RETRY_SOON: Headers = [(b"retry-after", b"5")]

_log = structlog.get_logger(__name__)


class TooManyConnections(HttpError):
    """There are too many connections from this address; close some, or reuse them."""

    status = HTTPStatus.TOO_MANY_REQUESTS
    headers = _RETRY_SOON


class NoFreeConnection(HttpError):
    """This process has reached its limit of connections; try again in a moment."""

    status = HTTPStatus.SERVICE_UNAVAILABLE
    headers = _RETRY_SOON


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectionLimits:
    """Limits on the connections of one process.

    Attributes:
        total: The most connections of this process.
        per_address: The most connections from one address, or one IPv6 network.
        exempt: Networks without the limit `per_address`: a proxy carries many clients.
        head_seconds: From the connection, or the first byte of a later request, to the end of
            the request's headers.
        idle_seconds: From a response to the first byte of the next request.
        drain_seconds: From a response that was sent before the request's body had arrived, to
            the end of that body.
        linger_seconds: How long a refused client has to read the error.
        stall_seconds: How long a client may read nothing of a response.
        read_seconds: How long it may read a response that was written at once.
        unread_bytes: The most bytes of responses that all clients have not read. Beyond it, the
            connections with the most are closed, of the address that has the most.
    """

    total: int = 1_000
    per_address: int = 200
    exempt: Sequence[IpNetwork] = ()
    head_seconds: float = 15.0
    idle_seconds: float = 5.0
    drain_seconds: float = 10.0
    linger_seconds: float = 2.0
    stall_seconds: float = 30.0
    read_seconds: float = 300.0
    unread_bytes: int = 128 * 2**20


class Connection(Protocol):
    """A connection that is checked once a second."""

    @property
    def unread_bytes(self) -> int:
        """The bytes that are written, and that the client has not read."""

    @property
    def is_waiting(self) -> bool:
        """Whether it waits for the client to send the rest of a request, or the next one."""

    def abort(self) -> None:
        """Close the connection at once."""

    def check(self, now: float) -> None:
        """Close the connection if a deadline has passed.

        Args:
            now: The monotonic clock, in seconds.
        """


class Connections:
    """All connections of one server."""

    def __init__(self, limits: ConnectionLimits, metrics: Metrics) -> None:
        self.limits = limits
        self._metrics = metrics
        self._admitted: dict[Connection, str] = {}
        self._refused: set[Connection] = set()
        self._unread: set[Connection] = set()
        self._by_client: Counter[str] = Counter()
        self._logged_at: float | None = None
        metrics.watch_connections(lambda: len(self._admitted))

    def admit(self, connection: Connection, address: str) -> HttpError | None:
        """Count a connection, or return the error if a limit is reached.

        At the limit in total, a connection that waits for its client is closed in its favour, if
        that client has more than one more of them.

        Args:
            connection: An admitted connection is checked until `leave` is called.
            address: The client's address; empty if it is unknown.
        """
        client = self._client(address)
        if len(self._admitted) >= self.limits.total and not self._displace(client):
            return self._logged(NoFreeConnection(), client)
        if client and self._by_client[client] >= self.limits.per_address:
            return self._logged(TooManyConnections(), client)
        self._admitted[connection] = client
        self._by_client[client] += 1
        return None

    def may_linger(self, connection: Connection) -> bool:
        """Return whether a refused connection may stay open; if so, it is checked."""
        if connection in self._admitted:
            return True
        if len(self._refused) >= REFUSED_MAX:
            return False
        self._refused.add(connection)
        return True

    def leave(self, connection: Connection) -> None:
        """Remove a closed connection, whether it was admitted or refused."""
        self._refused.discard(connection)
        self._unread.discard(connection)
        client = self._admitted.pop(connection, None)
        if client is not None:
            self._by_client[client] -= 1
            if not self._by_client[client]:
                del self._by_client[client]

    def limit_unread(self, connection: Connection) -> None:
        """Note a client that does not read, and abort connections beyond `unread_bytes`."""
        self._unread.add(connection)
        total = sum(one.unread_bytes for one in self._unread)
        while total > self.limits.unread_bytes:
            held: Counter[object] = Counter()
            for one in self._unread:
                held[self._sender(one)] += one.unread_bytes
            most = max(self._unread, key=lambda one: (held[self._sender(one)], one.unread_bytes))
            total -= most.unread_bytes
            self._unread.discard(most)
            self._metrics.count_refused_connection(TOO_MUCH_UNREAD)
            most.abort()

    def forget_unread(self, connection: Connection) -> None:
        """Note that a client reads again."""
        self._unread.discard(connection)

    def count_refusal(self, reason: type[HttpError]) -> None:
        """Count a connection that is refused, or is closed because of an invalid request."""
        self._metrics.count_refused_connection(reason.__name__)

    @asynccontextmanager
    async def checked(self) -> AsyncIterator[None]:
        """Check all connections while the block runs."""
        checking = asyncio.create_task(self._check_all())
        try:
            yield
        finally:
            checking.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await checking

    async def _check_all(self) -> None:
        while True:
            await asyncio.sleep(min(CHECK_SECONDS, self.limits.idle_seconds))
            now = monotonic_seconds()
            for connection in [*self._admitted, *self._refused]:
                connection.check(now)

    def _displace(self, client: str) -> bool:
        """Close a waiting connection of the client with the most, in favour of *client*."""
        own = self._by_client[client] if client else 0
        waiting = {one: owner for one, owner in self._admitted.items() if owner and one.is_waiting}
        found = max(waiting, key=lambda one: self._by_client[waiting[one]], default=None)
        if found is None or self._by_client[waiting[found]] <= own + 1:
            return False
        self.leave(found)
        self._metrics.count_refused_connection(DISPLACED)
        found.abort()
        return True

    def _sender(self, connection: Connection) -> object:
        """Return the client of a connection, or else itself: a proxy carries many clients."""
        return self._admitted.get(connection) or connection

    def _logged(self, refusal: HttpError, client: str) -> HttpError:
        """Log *refusal*, and return it."""
        now = monotonic_seconds()
        if self._logged_at is None or now - self._logged_at >= LOG_SECONDS:
            self._logged_at = now
            _log.warning(
                "connections refused",
                reason=type(refusal).__name__,
                address=client,
                connections=len(self._admitted),
            )
        return refusal

    def _client(self, address: str) -> str:
        """Return the key that `per_address` counts; empty if that limit does not apply."""
        try:
            ip = ipaddress.ip_address(address)
        except ValueError:
            return ""
        if any(ip in network for network in self.limits.exempt):
            return ""
        if isinstance(ip, ipaddress.IPv6Address):
            return str(ipaddress.ip_network((ip, IPV6_NETWORK_BITS), strict=False))
        return str(ip)
