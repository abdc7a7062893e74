"""Connections that send too little, too late, or too much are closed."""

import asyncio
import contextlib
import dataclasses
import json
import re
import socket
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from tenantry.api.door import Api
from tenantry.api.http.connections import REFUSED_MAX, ConnectionLimits
from tenantry.api.http.framing import sent_at_once
from tenantry.api.http.protocol import BoundedProtocol
from tenantry.api.request_body import BodyLimits
from tenantry.api.table import ENDPOINTS
from tenantry.app import app_over
from tenantry.cli.serving.server import UNSENT_BYTES_MAX, listening
from tenantry.kit.request_log import AccessLog
from tenantry.services import Services
from testkit.faults import Faults
from tests.acceptance.sockets import READ_SECONDS_MAX, Line, Served, served
from tests.acceptance.support import until
from tests.own_time import own_seconds

pytestmark = pytest.mark.slow

LARGE_BYTES = 16 * 2**20
LOGIN = "/api/tenant/auth/login"
HEAD = b"POST %b HTTP/1.1\r\nhost: x\r\n%b\r\n"
LIVE = b"GET /livez HTTP/1.1\r\nhost: x\r\n\r\n"
UPGRADE = (
    "connection: upgrade, http2-settings",
    "upgrade: h2c",
    "http2-settings: AAMAAABkAAQAoAAAAAIAAAAA",
)
QUICK = ConnectionLimits(
    head_seconds=0.6, idle_seconds=0.4, drain_seconds=0.4, linger_seconds=0.4, stall_seconds=1
)
QUICK_BODIES = BodyLimits(seconds_max=0.8, silence_seconds_max=0.3)
# The longest of them, twice, and a moment.
ENDS_SECONDS_MAX = 5.0


def post(path: str, *headers: str, body: bytes = b"") -> bytes:
    lines = "".join(f"{one}\r\n" for one in headers).encode()
    return HEAD % (path.encode(), lines) + body


@asynccontextmanager
async def quick(services: Services, **limits: Any) -> AsyncIterator[Served]:
    chosen = {name: getattr(QUICK, name) for name in QUICK.__slots__} | limits
    async with served(app_over(services), limits=ConnectionLimits(**chosen)) as at:
        yield at


@asynccontextmanager
async def impatient(
    services: Services, limits: ConnectionLimits = QUICK, body_limits: BodyLimits = QUICK_BODIES
) -> AsyncIterator[Served]:
    """Serve with quick limits, also on the bodies of requests."""
    api = Api(ENDPOINTS, services, AccessLog(as_json=True), body_limits=body_limits)
    async with served(api, limits=limits) as at:
        yield at


async def all_of(line: Line) -> bytes:
    """Return everything until the server closes the connection."""
    raw = b""
    with own_seconds() as seconds:
        async with asyncio.timeout(READ_SECONDS_MAX):
            with contextlib.suppress(ConnectionResetError):
                raw = await line.reader.read()
        assert seconds() < ENDS_SECONDS_MAX
    return raw


async def connections_of(at: Served) -> int:
    return len(at.server.server_state.connections)


async def unread_bytes_of(at: Served) -> int:
    return sum(one.unread_bytes for one in at.server.server_state.connections)  # type: ignore[union-attr]


async def trickle(line: Line, piece: bytes, seconds: float = 0.05) -> None:
    with contextlib.suppress(ConnectionError):
        while not line.writer.is_closing():
            line.writer.write(piece)
            await line.writer.drain()
            await asyncio.sleep(seconds)


def codes_in(raw: bytes) -> list[str]:
    """Return the codes of all answers."""
    lines = raw.decode("latin-1").split("\r\n")
    return [line.partition(": ")[2] for line in lines if line.startswith("x-error-code: ")]


def statuses_in(raw: bytes) -> list[int]:
    return [int(one) for one in re.findall(r"HTTP/1\.1 (\d{3}) ", raw.decode("latin-1"))]


class Large:
    """An application with a response that no kernel takes at once."""

    def __init__(self) -> None:
        self.made = 0

    async def __call__(self, _scope: Any, _receive: Any, send: Any) -> None:
        self.made += 1
        headers = [(b"content-length", b"%d" % LARGE_BYTES)]
        if not sent_at_once(send, 200, headers, bytes(LARGE_BYTES)):
            await send({"type": "http.response.start", "status": 200, "headers": headers})
            await send({"type": "http.response.body", "body": bytes(LARGE_BYTES)})


@pytest.fixture(name="large")
def _large() -> Large:
    return Large()


# What is sent, and what is sent again and again after it.
HELD: dict[str, tuple[bytes, bytes]] = {
    "nothing": (b"", b""),
    "half a head": (b"GET / HTTP/1.1\r\n", b""),
    "a head that trickles": (b"GET / HTTP/1.1\r\n", b"a"),
    "empty lines": (b"", b"\r\n"),
    "no body": (post(LOGIN, "content-length: 9"), b""),
    "no chunk": (post(LOGIN, "transfer-encoding: chunked"), b""),
    "no body that was expected": (
        post(LOGIN, "content-length: 9", "expect: 100-continue"),
        b"",
    ),
    "a body that trickles": (post(LOGIN, "content-length: 9999"), b"a"),
    "a body that nobody reads": (
        b"GET /livez HTTP/1.1\r\nhost: x\r\ncontent-length: 9\r\n\r\n",
        b"",
    ),
    "a body that nobody reads, and trickles": (
        b"GET /livez HTTP/1.1\r\nhost: x\r\ncontent-length: 9999\r\n\r\n",
        b"a",
    ),
    "an answered request": (LIVE, b""),
    "an empty line after an answered request": (LIVE + b"\r\n", b""),
    "empty lines after an answered request": (LIVE, b"\r\n"),
    "a byte after an answered request": (LIVE + b"G", b""),
    "trailers without end": (
        post(LOGIN, "transfer-encoding: chunked", body=b"2\r\n{}\r\n0\r\n"),
        b"a: b\r\n",
    ),
}


@pytest.mark.parametrize("engine", ["sqlite"], indirect=True)
class TestDeadlines:
    @pytest.mark.parametrize("what", HELD)
    async def test_close_a_connection_that_is_held(self, services: Services, what: str) -> None:
        """Whatever it sends, and however it goes on."""
        begin, piece = HELD[what]
        async with impatient(services) as at, at.line() as line:
            line.writer.write(begin)
            going_on = asyncio.create_task(trickle(line, piece)) if piece else None

            raw = await all_of(line)

            assert statuses_in(raw) in ([], [200], [400], [408], [100, 408], [401]), raw
            if going_on is not None:
                line.hang_up()
                await going_on

    async def test_give_the_reason_where_a_response_can_be_read(self, services: Services) -> None:
        """408, in the envelope, and the connection is closed."""
        async with impatient(services) as at, at.line() as line:
            line.writer.write(post(LOGIN, "content-length: 9", "x-api-key: tnk_none"))

            raw = await all_of(line)

            assert statuses_in(raw) == [401]

        async with impatient(services) as at, at.line() as line:
            line.writer.write(post("/api/admin/auth/login", "content-length: 9"))

            raw = await all_of(line)

            assert codes_in(raw) == ["body_too_slow"]
            assert b"connection: close\r\n" in raw

    async def test_leave_a_slow_client_its_time(self, services: Services) -> None:
        """A request that comes in pieces is answered, and so is the next one.

        Its head, its body, and the time until the next one take three seconds each, of five that
        each may take. Any two of them take one more, in which every connection is checked.
        """
        body = json.dumps({"email": "a@example.com", "password": "x"}).encode()
        limits = dataclasses.replace(QUICK, head_seconds=5, idle_seconds=5)
        body_limits = BodyLimits(seconds_max=5, silence_seconds_max=2.4)
        async with impatient(services, limits, body_limits) as at, at.line() as line:
            for seconds in (0, 2.4):
                await asyncio.sleep(seconds)
                due = time.monotonic()
                for piece in (
                    b"POST /api/admin/auth/lo",
                    b"gin HTTP/1.1\r\nhost: x",
                    b"\r\ncontent-le",
                    b"ngth: %d\r\n" % len(body),
                    b"\r",
                    b"\n" + body[:9],
                    *(body[one : one + 1] for one in range(9, 13)),
                    body[13:],
                ):
                    line.writer.write(piece)
                    due += 0.6
                    await asyncio.sleep(due - time.monotonic())
                head = await line.head()
                assert head.status == 401
                await line.reader.readexactly(int(head.said["content-length"]))

    async def test_read_a_body_after_its_early_response(self, services: Services) -> None:
        """A client that sends all of it before it reads gets the response, and may go on."""
        async with quick(services, drain_seconds=60, stall_seconds=60) as at, at.line() as line:
            line.writer.write(b"PUT /livez HTTP/1.1\r\nhost: x\r\ncontent-length: 300000\r\n\r\n")
            for _ in range(10):
                line.writer.write(b"\r\n\r\n" + b"x" * 29_996)
                await line.writer.drain()
            line.writer.write(LIVE)
            raw = await all_of(line)

            assert statuses_in(raw) == [405, 200]


@pytest.mark.parametrize("engine", ["sqlite"], indirect=True)
class TestCounts:
    async def test_refuse_one_address_too_many(self, services: Services) -> None:
        """429 in the envelope, with a time to wait; one more is accepted when one is closed."""
        async with quick(services, per_address=3, idle_seconds=60, head_seconds=60) as at:
            async with contextlib.AsyncExitStack() as stack:
                lines = [await stack.enter_async_context(at.line()) for _ in range(3)]
                for line in lines:
                    assert (await line.ask("GET", "/livez")).status == 200
                async with at.line() as fourth:
                    fourth.writer.write(LIVE)
                    raw = await all_of(fourth)

                assert statuses_in(raw) == [429]
                assert codes_in(raw) == ["too_many_connections"]
                assert b"retry-after: 5\r\n" in raw
                assert b"connection: close\r\n" in raw
                assert b"cache-control: no-store\r\n" in raw
            async with at.line() as line:
                assert (await line.ask("GET", "/livez")).status == 200
            counted = b'tenantry_refused_connections_total{reason="TooManyConnections"} 1.0'
            assert counted in at.metrics.render()

    async def test_refuse_one_too_many_in_all(self, services: Services) -> None:
        """503, whatever the address."""
        async with (
            quick(services, total=1, exempt=QUICK.exempt, idle_seconds=60, head_seconds=60) as at,
            at.line() as first,
            at.line() as second,
        ):
            assert (await first.ask("GET", "/livez")).status == 200
            raw = await all_of(second)

            assert (statuses_in(raw), codes_in(raw)) == ([503], ["no_free_connection"])

    async def test_of_a_few_addresses_do_not_keep_out_the_others(self, services: Services) -> None:
        """At the limit of all, the address with the most of them loses one that waits."""
        async with (
            quick(services, total=4, idle_seconds=60, head_seconds=60) as at,
            contextlib.AsyncExitStack() as stack,
        ):
            held = [await stack.enter_async_context(at.line("127.0.0.2")) for _ in range(4)]
            for line in held:
                line.writer.write(LIVE[:9])
            await until(lambda: connections_of(at), lambda count: count == len(held))

            others = [await stack.enter_async_context(at.line("127.0.0.3")) for _ in range(3)]
            for line in others[:2]:
                assert (await line.ask("GET", "/livez")).status == 200
            assert statuses_in(await all_of(others[2])) == [503]
            assert await all_of(held[0]) == await all_of(held[1]) == b""
            for line in held[2:]:
                line.writer.write(LIVE[9:])
                assert (await line.head()).status == 200

    async def test_do_not_take_a_proxy_for_one_client(self, services: Services) -> None:
        """A trusted proxy forwards the requests of many clients."""
        exempt = services.settings.model_copy(update={"trusted_proxies": "127.0.0.0/8"})
        async with (
            quick(services, per_address=1, exempt=tuple(exempt.proxy_networks)) as at,
            contextlib.AsyncExitStack() as stack,
        ):
            lines = [await stack.enter_async_context(at.line()) for _ in range(5)]
            for line in lines:
                assert (await line.ask("GET", "/livez")).status == 200

    async def test_do_not_wait_for_clients_that_are_refused(self, services: Services) -> None:
        """Of many clients that never read, few stay connected for a moment, and then none."""
        async with (
            quick(services, per_address=1) as at,
            contextlib.AsyncExitStack() as stack,
        ):
            for _ in range(100):
                await stack.enter_async_context(at.line())
            await asyncio.sleep(0.1)
            at_first = await connections_of(at)
            with own_seconds() as seconds:
                await until(lambda: connections_of(at), lambda count: count <= 1)
                took = seconds()

            assert at_first <= 1 + REFUSED_MAX
            assert took < 2


@pytest.mark.parametrize("engine", ["sqlite"], indirect=True)
class TestPipelining:
    async def test_answers_in_order(self, services: Services) -> None:
        """However the requests are cut, with bodies of every kind between them."""
        body = b"a\r\n\r\nb"
        parts = [
            LIVE,
            post("/nothing", f"content-length: {len(body)}", body=body),
            post("/livez", "transfer-encoding: chunked", body=b"7\r\na\r\n\r\nbc\r\n0\r\n\r\n"),
            post(
                "/livez",
                "transfer-encoding: chunked",
                body=b"3;x=y\r\nabc\r\n0\r\nx-api-key: a\r\n\r\n",
            ),
            LIVE.replace(b"/livez", b"/%6civez"),
        ]
        asked = b"".join(parts)
        for size in (1, 2, 3, 5, 7, 50, len(asked)):
            async with quick(services) as at, at.line() as line:
                for start in range(0, len(asked), size):
                    line.writer.write(asked[start : start + size])
                    if size < 50:
                        await asyncio.sleep(0)
                raw = await all_of(line)

                assert statuses_in(raw) == [200, 404, 405, 405, 404], size

    async def test_reads_no_more_than_one_request(self, services: Services, faults: Faults) -> None:
        """What comes after it stays in the socket: no request is made of it yet."""
        running = asyncio.Event()
        made: list[Any] = []
        read: list[int] = []

        def count(_protocol: BoundedProtocol, data: bytes) -> None:
            read.append(len(data))

        async def app(scope: Any, _receive: Any, send: Any) -> None:
            made.append(scope)
            await running.wait()
            await send({"type": "http.response.start", "status": 204, "headers": []})
            await send({"type": "http.response.body", "body": b""})

        del services
        faults.before(BoundedProtocol, "data_received", count)
        limits = ConnectionLimits()
        async with served(app, limits=limits) as at, at.line() as line:
            writing = asyncio.create_task(_flood(line, LIVE * 1_000_000))
            await until(lambda: asyncio.sleep(0, len(made)), bool)
            await asyncio.sleep(0.5)
            [connection] = at.server.server_state.connections

            assert len(made) == len(at.server.server_state.tasks) == 1
            assert 0 < sum(read) <= 2 * 262_144
            assert not connection.pipeline  # type: ignore[union-attr]
            assert not writing.done()
            writing.cancel()
            running.set()
            line.hang_up()

    async def test_is_as_quick_as_one_after_another(self, services: Services) -> None:
        """Two thousand in one write are answered; the buffer is not copied for each."""
        async with quick(services) as at, at.line() as line:
            writing = asyncio.create_task(_flood(line, LIVE * 2_000))
            began = time.process_time()
            for _ in range(2_000):
                head = await line.head()
                assert head.status == 200
                await line.reader.readexactly(int(head.said["content-length"]))
            assert time.process_time() - began < 20
            await writing


class TestUnread:
    """Responses that clients do not read."""

    async def test_holds_back_the_next_request(self, large: Large) -> None:
        async with served(large) as at, at.line() as line:
            line.writer.write(LIVE * 2)
            await until(lambda: asyncio.sleep(0, large.made), bool)
            await asyncio.sleep(0.5)
            made_before = large.made
            for _ in range(2):
                await line.head()
                await line.reader.readexactly(LARGE_BYTES)

        assert (made_before, large.made) == (1, 2)

    async def test_is_limited_in_all(self, large: Large) -> None:
        """The connections with the most of it are closed."""
        limits = ConnectionLimits(unread_bytes=2 * LARGE_BYTES)
        async with served(large, limits=limits) as at, contextlib.AsyncExitStack() as stack:
            for _ in range(8):
                line = await stack.enter_async_context(at.line())
                line.writer.write(LIVE)
            await until(lambda: asyncio.sleep(0, large.made), lambda made: made == 8)
            await until(
                lambda: unread_bytes_of(at), lambda unread: 0 < unread <= limits.unread_bytes
            )

    def test_is_not_held_by_the_kernel_either(self) -> None:
        """By default it takes more than 2 MB for a client that reads nothing."""
        with (
            listening("127.0.0.1", 0) as [[bound]],
            socket.socket() as client,
        ):
            bound.listen()
            client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)
            client.connect(bound.getsockname())
            connection, _ = bound.accept()
            with connection:
                connection.settimeout(0)
                taken = 0
                with contextlib.suppress(BlockingIOError):
                    while True:
                        taken += connection.send(bytes(16_384))

        assert taken < 3 * UNSENT_BYTES_MAX


async def _flood(line: Line, data: bytes) -> None:
    with contextlib.suppress(ConnectionError):
        line.writer.write(data)
        await line.writer.drain()


REFUSED: dict[str, tuple[bytes, int, str]] = {
    "no host": (b"GET /livez HTTP/1.1\r\n\r\n", 400, "bad_host"),
    "two hosts": (b"GET /livez HTTP/1.1\r\nhost: x\r\nHost: y\r\n\r\n", 400, "bad_host"),
    "two hosts of HTTP/1.0": (
        b"GET /livez HTTP/1.0\r\nhost: x\r\nHost: x\r\n\r\n",
        400,
        "bad_host",
    ),
    "a host of words": (b"GET /livez HTTP/1.1\r\nhost: x y\r\n\r\n", 400, "bad_host"),
    "a host with a path": (b"GET /livez HTTP/1.1\r\nhost: x/y\r\n\r\n", 400, "bad_host"),
    "HTTP/2": (b"GET /livez HTTP/2.0\r\nhost: x\r\n\r\n", 505, "version_not_supported"),
    "HTTP/0.9": (b"GET /livez HTTP/0.9\r\nhost: x\r\n\r\n", 505, "version_not_supported"),
    "chunks of HTTP/1.0": (
        b"POST /livez HTTP/1.0\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n",
        400,
        "bad_framing",
    ),
    "no HTTP": (b"\x16\x03\x01\x02\x00\x01\x00\r\n\r\n", 400, "bad_framing"),
    "two lengths": (
        b"POST /livez HTTP/1.1\r\nhost: x\r\ncontent-length: 1\r\ncontent-length: 2\r\n\r\n",
        400,
        "bad_framing",
    ),
    "a length and chunks": (
        post("/livez", "content-length: 1", "transfer-encoding: chunked"),
        400,
        "bad_framing",
    ),
    "a coding before chunks": (
        post("/livez", "transfer-encoding: gzip, chunked", body=b"0\r\n\r\n"),
        501,
        "coding_not_supported",
    ),
    "two codings in two headers": (
        post("/livez", "transfer-encoding: gzip", "transfer-encoding: chunked", body=b"0\r\n\r\n"),
        501,
        "coding_not_supported",
    ),
    "chunks in chunks": (
        post("/livez", "transfer-encoding: chunked, chunked", body=b"0\r\n\r\n"),
        400,
        "bad_framing",
    ),
    "an upgrade with a length and chunks": (
        post("/livez", *UPGRADE, "content-length: 5", "transfer-encoding: chunked"),
        400,
        "bad_framing",
    ),
    "an upgrade with another coding": (
        post("/livez", *UPGRADE, "transfer-encoding: gzip, chunked", body=b"0\r\n\r\n"),
        501,
        "coding_not_supported",
    ),
    "an upgrade with an invalid chunk": (
        post("/api/admin/auth/login", *UPGRADE, "transfer-encoding: chunked", body=b"2\r\n{}0\r\n"),
        400,
        "bad_framing",
    ),
    "a tunnel in chunks": (
        b"CONNECT a:80 HTTP/1.1\r\nhost: a:80\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n",
        400,
        "bad_framing",
    ),
    "a large head": (
        b"GET /livez HTTP/1.1\r\nhost: x\r\nx-junk: " + b"x" * 40_000 + b"\r\n\r\n",
        431,
        "headers_too_large",
    ),
    "a large head without an end": (
        b"GET /livez HTTP/1.1\r\nhost: x\r\nx-junk: " + b"x" * 40_000,
        431,
        "headers_too_large",
    ),
    "large trailers": (
        post("/api/admin/auth/login", "transfer-encoding: chunked", body=b"2\r\n{}\r\n")
        + b"0\r\nx-junk: "
        + b"x" * 400_000,
        431,
        "headers_too_large",
    ),
    "many headers": (
        b"GET /livez HTTP/1.1\r\nhost: x\r\n" + b"a:\r\n" * 200 + b"\r\n",
        431,
        "headers_too_large",
    ),
    "a long target": (
        b"GET /livez?" + b"%41" * 2_800 + b" HTTP/1.1\r\nhost: x\r\n\r\n",
        414,
        "target_too_long",
    ),
    "a large extension of a chunk": (
        post("/api/admin/auth/login", "transfer-encoding: chunked") + b"2;" + b"x" * 400_000,
        431,
        "headers_too_large",
    ),
    "extensions of many chunks": (
        post("/api/admin/auth/login", "transfer-encoding: chunked")
        + (b"1;" + b"x" * 1_000 + b"\r\n \r\n") * 400,
        431,
        "headers_too_large",
    ),
    "many chunks of one byte": (
        post("/api/admin/auth/login", "transfer-encoding: chunked") + b"1\r\n \r\n" * 100_000,
        431,
        "headers_too_large",
    ),
}


@pytest.mark.parametrize("engine", ["sqlite"], indirect=True)
class TestFraming:
    async def test_may_have_two_hundred_headers(self, services: Services) -> None:
        head = b"GET /livez HTTP/1.1\r\nhost: x\r\n" + b"a:\r\n" * 199 + b"\r\n"
        async with served(app_over(services)) as at, at.line() as line:
            line.writer.write(head)

            assert (await line.head()).status == 200

    async def test_ends_the_connection_instead_of_ignoring_a_large_body(
        self, services: Services
    ) -> None:
        """After an early response, the rest of the body is read and ignored, up to 2 MiB."""
        async with served(app_over(services)) as at, at.line() as line:
            line.writer.write(post("/api/admin/tenants", "content-length: 9000000"))

            assert b" 401 " in (await all_of(line))[:20]

    @pytest.mark.parametrize("what", REFUSED)
    async def test_is_refused_in_the_envelope(self, services: Services, what: str) -> None:
        """Once, with a code, and what comes after it is not read."""
        sent, status, code = REFUSED[what]
        async with quick(services) as at, at.line() as line:
            line.writer.write(sent + (LIVE if sent.endswith(b"\r\n\r\n") else b""))
            raw = await all_of(line)

            assert (statuses_in(raw), codes_in(raw)) == ([status], [code])
            head, _, body = raw.partition(b"\r\n\r\n")
            assert json.loads(body)["success"] is False
            assert b"x-request-id: " in head
            assert b"connection: close" in head

    @pytest.mark.parametrize(
        ("headers", "status"),
        [
            (("content-length: 65537",), 413),
            (("content-length: 9999999999",), 413),
            (("content-length: 65537", "expect: 100-continue"), 413),
            (("content-length: 65537 ", "expect: 100-continue"), 413),
            (("content-length: 9", "content-type: text/xml", "expect: 100-continue"), 415),
        ],
    )
    async def test_of_a_body_that_is_refused_is_answered_before_the_body(
        self, services: Services, headers: tuple[str, ...], status: int
    ) -> None:
        """At once, and without `100 Continue`: the head says that it is too large, or no JSON."""
        async with quick(services) as at, at.line() as line:
            line.writer.write(post("/api/admin/auth/login", *headers))
            async with asyncio.timeout(30):
                assert (await line.head()).status == status

    @pytest.mark.parametrize(
        "headers",
        [
            ("content-type: application/json", "Content-Type: text/plain"),
            ("content-type: text/plain", "content-type: application/json"),
            ("expect: 100-continue", "Expect: 100-continue"),
            ("origin: http://a.example", "origin: http://a.example"),
        ],
    )
    async def test_with_two_values_of_a_header_that_has_one_is_refused(
        self, services: Services, headers: tuple[str, ...]
    ) -> None:
        """At once, before its body; a header that is a list may come twice."""
        async with quick(services) as at, at.line() as line:
            line.writer.write(post("/api/admin/auth/login", *headers, "content-length: 9"))
            raw = await all_of(line)
        assert (statuses_in(raw), codes_in(raw)) == ([400], ["repeated_header"])

        async with quick(services) as at, at.line() as line:
            twice = ("accept-encoding: gzip", "accept-encoding: br", "x-other: a", "x-other: b")
            line.writer.write(post(LOGIN, *twice, "content-length: 2", body=b"{}") + LIVE)
            assert statuses_in(await all_of(line)) == [401, 200]

    async def test_of_content_that_looks_like_the_end_of_a_body_is_not_parsed_in_pieces(
        self, services: Services, faults: Faults
    ) -> None:
        """Each piece costs a call of the parser, and a client could send one every four bytes."""
        parts: list[int] = []

        def count(_protocol: BoundedProtocol, part: bytes) -> None:
            parts.append(len(part))

        faults.before(BoundedProtocol, "on_body", count)
        content = b'{"email": "a@example.com", "password": "b"}' + b"\r\n\r\n" * 10_000
        body = b"%x\r\n%b\r\n0\r\n\r\n" % (len(content), content)
        async with quick(services) as at, at.line() as line:
            line.writer.write(post(LOGIN, "transfer-encoding: chunked", body=body) + LIVE)

            assert statuses_in(await all_of(line)) == [401, 200]
        assert len(parts) < 20

    async def test_of_http_1_0_needs_no_host(self, services: Services) -> None:
        async with quick(services) as at, at.line() as line:
            line.writer.write(b"GET /livez HTTP/1.0\r\n\r\n")

            assert statuses_in(await all_of(line)) == [200]

    async def test_of_a_later_minor_version_is_read_as_1_1(self, services: Services) -> None:
        """A client of HTTP/1.2 can speak to a server of 1.1 (RFC 9110, section 2.5)."""
        async with quick(services) as at, at.line() as line:
            line.writer.write(LIVE.replace(b"/1.1", b"/1.2") + LIVE)

            assert statuses_in(await all_of(line)) == [200, 200]

    async def test_of_http_1_0_gets_a_stream_without_chunks(self, services: Services) -> None:
        """It cannot read chunks: the end of the connection is the end (RFC 9112, section 7.1)."""

        async def app(_scope: Any, _receive: Any, send: Any) -> None:
            await send({"type": "http.response.start", "status": 200, "headers": []})
            await send({"type": "http.response.body", "body": b"first, ", "more_body": True})
            await send({"type": "http.response.body", "body": b"last", "more_body": False})

        del services
        async with served(app, limits=QUICK) as at, at.line() as line:
            line.writer.write(LIVE.replace(b"/1.1", b"/1.0"))
            head = await line.head()

            assert head.said["connection"] == "close"
            assert "transfer-encoding" not in head.said
            assert await all_of(line) == b"first, last"

    @pytest.mark.parametrize("follows", ["the body", "the next request"])
    async def test_that_is_answered_before_100_ends_the_connection(
        self, services: Services, follows: str
    ) -> None:
        """What the client sends next is its body or another request: nothing says which."""
        headers = ("content-length: 9", "content-type: text/xml", "expect: 100-continue")
        async with quick(services) as at, at.line() as line:
            line.writer.write(post("/api/admin/auth/login", *headers))
            head = await line.head()
            line.writer.write(b"<a></a>\r\n" if follows == "the body" else LIVE)

            assert (head.status, head.said["connection"]) == (415, "close")
            assert statuses_in(await all_of(line)) == []

    async def test_of_http_1_0_expects_nothing(self, services: Services) -> None:
        """Its client may take `100 Continue` for the response (RFC 9110, section 10.1.1)."""
        headers = ("expect: 100-continue", "content-length: 9")
        request = post("/api/admin/auth/login", *headers).replace(b"/1.1", b"/1.0")
        async with impatient(services) as at, at.line() as line:
            line.writer.write(request)

            assert (await line.head()).status == 408

    @pytest.mark.parametrize("form", ["a length", "chunks"])
    async def test_of_an_upgrade_that_is_not_taken_is_that_of_a_request(
        self, services: Services, form: str
    ) -> None:
        """The body is the body, and no request begins in it (RFC 9110, section 7.8).

        Java's HttpClient offers the upgrade, and sends a body of unknown length in chunks.
        """
        body = b'{"email": "a@example.com", "password": "' + LIVE.replace(b"\r\n", b"  ") + b'"}'
        header = f"content-length: {len(body)}"
        if form == "chunks":
            header = "transfer-encoding: chunked"
            body = b"%x\r\n%b\r\n%x;a=b\r\n%b\r\n" % (9, body[:9], len(body) - 9, body[9:])
            body += b"0\r\nx-trailer: 1\r\n\r\n"
        for cut in (0, 1, 5, len(body) - 1, len(body)):
            async with quick(services) as at, at.line() as line:
                line.writer.write(post("/api/admin/auth/login", *UPGRADE, header) + body[:cut])
                await asyncio.sleep(0.05)
                line.writer.write(body[cut:] + LIVE)
                raw = await all_of(line)

                assert statuses_in(raw) == [401, 200]
                assert codes_in(raw) == ["login_refused"]

    async def test_takes_no_trailer_for_a_header(self, services: Services) -> None:
        """Neither of this request nor of the next one on the connection."""
        seen: list[list[tuple[bytes, bytes]]] = []

        async def app(scope: Any, receive: Any, send: Any) -> None:
            while (await receive()).get("more_body"):
                pass
            seen.append(list(scope["headers"]))
            await send({"type": "http.response.start", "status": 204, "headers": []})
            await send({"type": "http.response.body", "body": b""})

        del services
        async with served(app, limits=QUICK) as at, at.line() as line:
            line.writer.write(
                post("/", "transfer-encoding: chunked", body=b"2\r\n{}\r\n")
                + b"0\r\nx-api-key: stolen\r\nX-Forwarded-For: 203.0.113.1\r\n\r\n"
                + LIVE
            )
            assert statuses_in(await all_of(line)) == [204, 204]

        assert seen == [
            [(b"host", b"x"), (b"transfer-encoding", b"chunked")],
            [(b"host", b"x")],
        ]
