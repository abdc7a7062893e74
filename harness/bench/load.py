"""The load: keep-alive connections in one loop over epoll, with nothing in between.

A client that is dearer than the server measures itself: this one takes some 10 µs for an
answer, the parsing and the checking included.
"""

import itertools
import select
import socket
import time
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Self

from harness.wire import ANSWER_SECONDS_MAX, CHUNK_BYTES, Request, WrongAnswer
from harness.wire import length_of as _length_of

CONNECTIONS = 16
LOOPBACK = "127.0.0.1"


@dataclass(slots=True)
class _Connection:
    raw: socket.socket
    request: Request | None = None
    begun: bytes = b""
    sent_at: float = 0.0

    def send(self, request: Request) -> None:
        self.request = request
        if self.raw.send(request.wire) != len(request.wire):
            raise WrongAnswer("the server does not take a whole request")

    def receive(self) -> bool:
        """Return whether the answer is complete; then it is checked, and another may be sent."""
        chunk = self.raw.recv(CHUNK_BYTES)
        if not chunk:
            raise WrongAnswer("the server has closed the connection")
        answer = self.begun + chunk if self.begun else chunk
        if _length_of(answer) != len(answer):
            self.begun = answer
            return False
        self.begun = b""
        if self.request is None or not self.request.fits(answer):
            asked = b"" if self.request is None else self.request.wire
            head, _, body = answer.partition(b"\r\n\r\n")
            # Without the headers of the request, which have its credentials.
            lines = (asked.partition(b"\r\n")[0], head.partition(b"\r\n")[0], body[:200])
            raise WrongAnswer(" / ".join(one.decode(errors="replace") for one in lines))
        return True


class Load:
    """Asks without a pause: each connection sends the next request when it has its answer.

    Args:
        port: Of the server.
        requests: Sent one after the other, and again.
        connections: At once.
        addresses: From which they come, in turn.
    """

    def __init__(
        self,
        port: int,
        requests: Iterable[Request],
        *,
        connections: int = CONNECTIONS,
        addresses: Sequence[str] = (LOOPBACK,),
    ) -> None:
        self._next = itertools.cycle(requests).__next__
        self._poll = select.epoll()
        self._connections = _connect(port, connections, self._poll, addresses)
        self._begun = False

    def __enter__(self) -> Self:
        """Return itself."""
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        """Wait for the answers that are under way, and close the connections."""
        self._end(waits=kind is None)

    def run(self, seconds: float) -> int:
        """Ask for *seconds*, and return how many answers came. What is under way goes on.

        Raises:
            WrongAnswer: One was not as it should be.
        """
        connections, following = self._connections, self._next
        if not self._begun:
            self._begun = True
            for connection in connections.values():
                connection.send(following())
        answered = 0
        until = time.perf_counter() + seconds
        while time.perf_counter() < until:
            for handle, _ in self._wait():
                connection = connections[handle]
                if connection.receive():
                    answered += 1
                    connection.send(following())
        return answered

    def _end(self, *, waits: bool) -> None:
        waiting = set(self._connections) if self._begun and waits else set()
        try:
            while waiting:
                for handle, _ in self._wait():
                    if self._connections[handle].receive():
                        waiting.discard(handle)
        finally:
            _close(self._connections, self._poll)

    def _wait(self) -> list[tuple[int, int]]:
        ready = self._poll.poll(ANSWER_SECONDS_MAX)
        if not ready:
            raise WrongAnswer(f"no answer within {ANSWER_SECONDS_MAX} s")
        return ready


@dataclass
class Paced:
    """Asks at fixed times, whether or not answers have come, and measures how long each took.

    Attributes:
        port: Of the server.
        requests: Sent one after the other, and again.
        per_second: How often.
        connections: If none is free, the request waits, and the wait counts.
    """

    port: int
    requests: Sequence[Request]
    per_second: float
    connections: int = 64
    _milliseconds: list[float] = field(default_factory=list)

    def run(self, seconds: float) -> list[float]:
        """Return the milliseconds that each answer took.

        Raises:
            WrongAnswer: One was not as it should be.
        """
        following = itertools.cycle(self.requests).__next__
        with _connected(self.port, self.connections) as (connections, poll):
            free = deque(connections.values())
            due: deque[float] = deque()
            began = time.perf_counter()
            scheduled, planned = 0, round(seconds * self.per_second)
            self._milliseconds = []
            while len(self._milliseconds) < planned:
                now = time.perf_counter()
                while scheduled < planned and began + scheduled / self.per_second <= now:
                    due.append(now)
                    scheduled += 1
                while due and free:
                    connection = free.popleft()
                    connection.sent_at = due.popleft()
                    connection.send(following())
                if now - began > seconds + ANSWER_SECONDS_MAX:
                    raise WrongAnswer(f"no answer within {ANSWER_SECONDS_MAX} s")
                pause = began + scheduled / self.per_second - now if scheduled < planned else 1
                for handle, _ in poll.poll(max(pause, 0)):
                    connection = connections[handle]
                    if connection.receive():
                        took = time.perf_counter() - connection.sent_at
                        self._milliseconds.append(took * 1000)
                        free.append(connection)
        return self._milliseconds


@contextmanager
def _connected(port: int, count: int) -> Iterator[tuple[dict[int, _Connection], select.epoll]]:
    poll = select.epoll()
    connections = _connect(port, count, poll)
    try:
        yield connections, poll
    finally:
        _close(connections, poll)


def _connect(
    port: int, count: int, poll: select.epoll, addresses: Sequence[str] = (LOOPBACK,)
) -> dict[int, _Connection]:
    connections: dict[int, _Connection] = {}
    for _, address in zip(range(count), itertools.cycle(addresses), strict=False):
        raw = socket.create_connection(
            (LOOPBACK, port), timeout=ANSWER_SECONDS_MAX, source_address=(address, 0)
        )
        raw.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        raw.setblocking(False)
        poll.register(raw.fileno(), select.EPOLLIN)
        connections[raw.fileno()] = _Connection(raw)
    return connections


def _close(connections: dict[int, _Connection], poll: select.epoll) -> None:
    for connection in connections.values():
        connection.raw.close()
    poll.close()
