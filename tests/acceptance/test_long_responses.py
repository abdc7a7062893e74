"""Responses in chunks, over a real socket: complete, or visibly cut."""

import asyncio
import contextlib
import io
import json
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any

import pytest

from tenantry.api.access_levels import ADMIN, OPEN
from tenantry.api.door import Api
from tenantry.api.endpoints import Endpoint
from tenantry.api.envelope import Reply
from tenantry.api.http.connections import ConnectionLimits
from tenantry.api.streaming import LARGE_BYTES
from tenantry.db.sessions import DatabaseUnavailable
from tenantry.kit.request_log import AccessLog
from tenantry.schemas.base import Health, Nothing
from tenantry.services import Services
from tests.acceptance.sockets import Served, readable, served, unzipped
from tests.acceptance.support import done, ok, refused
from tests.conftest import World

# More than the kernel holds for both ends.
SLOWLY_READ_BYTES = 16 * 2**20
PATH = "/long"
ADMIN_LOGOUT = "/api/admin/auth/logout"
SECONDS = 0.1
# Longer than any pause of a busy machine: no space is sent.
NEVER_SECONDS = 600.0
# More than are sent until access is checked for the first time, on any machine.
READMITTED_CHUNKS = 70
# No database has a part in this: one engine is enough.
pytestmark = pytest.mark.parametrize("engine", ["sqlite"])

Handler = Callable[..., Any]


@dataclass
class Making:
    """A source of chunks for a response, with the time of its end."""

    chunks: list[bytes]
    error: Exception | None = None
    is_endless: bool = False
    pause_seconds: float = 0.0
    ended: asyncio.Event = field(default_factory=asyncio.Event)
    go_on: asyncio.Event = field(default_factory=asyncio.Event)

    async def make(self) -> AsyncGenerator[bytes, None]:
        try:
            for chunk in self.chunks:
                yield chunk
            if self.error is not None:
                raise self.error
            while self.is_endless:
                await asyncio.sleep(self.pause_seconds)
                yield self.chunks[-1]
            await self.go_on.wait()
        finally:
            self.ended.set()

    async def handle(self, *_: object) -> AsyncGenerator[bytes, None]:
        return self.make()


@dataclass
class Work:
    """Work that a response waits for; work that is *held* ends after `go_on`."""

    result: Any = field(default_factory=Health)
    is_held: bool = False
    began: asyncio.Event = field(default_factory=asyncio.Event)
    go_on: asyncio.Event = field(default_factory=asyncio.Event)
    was_cancelled: asyncio.Event = field(default_factory=asyncio.Event)

    async def handle(self, *_: object) -> Any:
        self.began.set()
        try:
            if self.is_held:
                await self.go_on.wait()
        except asyncio.CancelledError:
            self.was_cancelled.set()
            raise
        if isinstance(self.result, Exception):
            raise self.result
        return self.result


@dataclass
class Door:
    """An application with one endpoint, and its log."""

    at: Served
    log: io.StringIO
    services: Services

    async def logged(self) -> Any:
        """Return the line of the access log, as soon as there is one."""
        async with asyncio.timeout(30):
            while not (text := self.log.getvalue()):  # noqa: ASYNC110 - a file has no event
                await asyncio.sleep(0.01)
        [line] = text.splitlines()
        return json.loads(line)

    def counted(self, status: int) -> bool:
        line = f'tenantry_requests_total{{method="GET",route="{PATH}",status="{status}"}} 1.0'
        return line in self.services.metrics.render().decode()


@asynccontextmanager
async def door(
    services: Services, handler: Handler, limits: ConnectionLimits | None = None, **facts: Any
) -> AsyncIterator[Door]:
    endpoint = Endpoint(
        **{
            "method": "GET",
            "path": PATH,
            "level": OPEN,
            "handler": handler,
            "request": Nothing,
            "response": Health,
            "summary": "Take long",
            **facts,
        }
    )
    log = io.StringIO()
    app = Api([endpoint], services, AccessLog(log, as_json=True))
    async with served(app, limits=limits) as at:
        yield Door(at, log, services)


def large() -> Making:
    """Return chunks of JSON that are together larger than what is sent whole."""
    return Making([b'{"text":"', b"a" * LARGE_BYTES, b"b" * LARGE_BYTES, b'"}'])


class TestChunks:
    async def test_are_one_answer_in_the_envelope(self, services: Services) -> None:
        """Its length is not known ahead, and the connection can be used again."""
        making = large()
        making.go_on.set()
        async with door(services, making.handle) as on, on.at.line() as line:
            head = await line.ask("GET", PATH)
            body = await line.rest()
            again = await line.ask("GET", "/unknown")

        assert head.status == 200
        assert "content-length" not in head.said
        assert head.said["transfer-encoding"] == "chunked"
        assert head.said["content-type"] == "application/json"
        assert head.said["vary"] == "accept-encoding"
        assert head.said["x-request-id"]
        data = json.loads(body)
        assert data == {
            "success": True,
            "data": {"text": "a" * LARGE_BYTES + "b" * LARGE_BYTES},
        }
        assert again.status == 404

    async def test_are_sent_as_they_come(self, services: Services) -> None:
        """The beginning is there before the end is made, compressed or not."""
        for headers in ({}, {"accept_encoding": "gzip"}):
            making = large()
            async with door(services, making.handle) as on, on.at.line() as line:
                await line.ask("GET", PATH, **headers)
                chunk = await line.chunk()
                assert not making.ended.is_set()
                making.go_on.set()
                await line.rest()

            begun = readable(chunk) if headers else chunk
            assert begun.startswith(b'{"success":true,"data":{"text":"aaa')
            assert len(begun) >= LARGE_BYTES

    @pytest.mark.slow
    async def test_are_compressed_where_gzip_is_accepted(self, services: Services) -> None:
        """By the weights of RFC 9110; `Vary` names the header."""
        for accepted, coded in (
            ("gzip", True),
            ("br;q=1.0, GZIP;q=0.5", True),
            ("*", True),
            ("gzip;q=0", False),
            ("gzip;q=0.0000", False),
            ("gzip;q=0.000, *", False),
            ("*;q=0", False),
            ("br, identity", False),
            ("", False),
        ):
            making = large()
            making.go_on.set()
            async with door(services, making.handle) as on, on.at.line() as line:
                head = await line.ask("GET", PATH, accept_encoding=accepted)
                body = await line.rest()

            assert head.said.get("content-encoding") == ("gzip" if coded else None), accepted
            assert head.said["vary"] == "accept-encoding"
            if coded:
                assert len(body) < LARGE_BYTES / 10
            text = unzipped(body) if coded else body
            assert len(json.loads(text)["data"]["text"]) == 2 * LARGE_BYTES

    async def test_that_are_few_are_sent_whole(self, services: Services) -> None:
        """A small answer has a length, and is not compressed."""
        making = Making([b'{"status"', b':"ok"}'])
        making.go_on.set()
        async with (
            door(services, making.handle) as on,
            on.at.client(accept_encoding="gzip") as client,
        ):
            answer = await client.get(PATH)

        assert ok(answer) == {"status": "ok"}
        assert answer.headers["content-length"] == str(len(answer.content))
        assert "content-encoding" not in answer.headers

    async def test_are_not_made_for_a_head(self, services: Services) -> None:
        """The headers are those of a GET; the source of the body is closed."""
        making = large()
        async with door(services, making.handle) as on, on.at.line() as line:
            head = await line.ask("HEAD", PATH)
            again = await line.ask("GET", "/unknown")

        assert (head.status, again.status) == (200, 404)
        assert head.said["content-type"] == "application/json"
        assert making.ended.is_set()

    async def test_end_when_the_client_hangs_up(self, services: Services) -> None:
        """The source is closed, and the log has the reason."""
        making = large()
        async with door(services, making.handle) as on:
            async with on.at.line() as line:
                await line.ask("GET", PATH)
                await line.chunk()
                line.hang_up()
            async with asyncio.timeout(30):
                await making.ended.wait()
            logged = await on.logged()

            assert (logged["status"], logged["error"]) == (200, "ClientHungUp")
            assert on.counted(200)

    @pytest.mark.slow
    async def test_end_when_the_client_does_not_read(self, services: Services) -> None:
        """The connection of a client that does not read is cut, whatever is left to send."""
        making = Making([b'"' + b"a" * LARGE_BYTES], is_endless=True)
        limits = ConnectionLimits(stall_seconds=0.2)
        async with door(services, making.handle, limits) as on, on.at.line() as line:
            await line.ask("GET", PATH)
            async with asyncio.timeout(30):
                await making.ended.wait()

            assert (await on.logged())["error"] == "ClientHungUp"

    @pytest.mark.slow
    async def test_are_sent_whole_to_a_client_that_reads_slowly(self, services: Services) -> None:
        """It reads on, for longer than a silent connection lives."""
        text = "a" * SLOWLY_READ_BYTES

        async def handle(*_: object) -> Health:
            return Health(text)

        limits = ConnectionLimits(idle_seconds=0.2, stall_seconds=4)
        async with door(services, handle, limits) as on, on.at.line() as line:
            line.writer.write(f"GET {PATH} HTTP/1.1\r\nhost: x\r\n\r\n".encode())
            read = 0
            while read < SLOWLY_READ_BYTES:
                part = await line.reader.read(SLOWLY_READ_BYTES // 100)
                assert part, f"cut after {read} bytes"
                read += len(part)
                await asyncio.sleep(0.05)

    @pytest.mark.slow
    async def test_end_when_the_caller_loses_access(self, world: World) -> None:
        """An admin logs out: the response is visibly incomplete, and the log has the reason."""
        making = Making([b'"' + b"a" * LARGE_BYTES, b"b"], is_endless=True, pause_seconds=0.02)
        headers = {"authorization": f"Bearer {await world.admin_token()}"}
        async with (
            door(world.services, making.handle, level=ADMIN) as on,
            on.at.line() as line,
            world.client(**headers) as admin,
        ):
            head = await line.ask("GET", PATH, **headers)
            while_admitted = [await line.chunk() for _ in range(READMITTED_CHUNKS)]
            done(await admin.post(ADMIN_LOGOUT))
            with pytest.raises(asyncio.IncompleteReadError):
                await line.rest()
            logged = await on.logged()

            assert making.ended.is_set()
            assert (head.status, all(while_admitted)) == (200, True)
            assert (logged["status"], logged["error"]) == (200, "AdminSessionEnded")

    async def test_that_cannot_begin_are_an_error(self, services: Services) -> None:
        """Before the first byte is sent, an error has its own status."""
        for made, status in (
            (Making([b"["], error=DatabaseUnavailable()), 503),
            (Making([b"["], error=ValueError("canary")), 500),
        ):
            async with door(services, made.handle) as on, on.at.client() as client:
                refused(await client.get(PATH), status)
                assert (await on.logged())["status"] == status

    async def test_that_cannot_end_are_cut(self, services: Services) -> None:
        """The body is visibly incomplete, compressed or not, and the log has the reason."""
        for error in (DatabaseUnavailable(), ValueError("canary")):
            for headers in ({}, {"accept_encoding": "gzip"}):
                making = large()
                making.error = error
                async with door(services, making.handle) as on, on.at.line() as line:
                    head = await line.ask("GET", PATH, **headers)
                    with pytest.raises(asyncio.IncompleteReadError):
                        await line.rest()
                    logged = await on.logged()

                assert head.status == 200
                assert logged["error"] == type(error).__name__

    async def test_that_cannot_end_are_reset_for_a_client_without_chunks(
        self, services: Services
    ) -> None:
        """To HTTP/1.0, and to a proxy that speaks it, the end of the connection is a whole body."""
        for error, ends in (
            (None, contextlib.nullcontext()),
            (ValueError("canary"), pytest.raises(ConnectionResetError)),
        ):
            making = large()
            making.error = error
            making.go_on.set()
            async with door(services, making.handle) as on, on.at.line() as line:
                line.writer.write(f"GET {PATH} HTTP/1.0\r\nhost: x\r\n\r\n".encode())
                head = await line.head()
                with ends:
                    await line.reader.read()

                assert (head.status, head.said["connection"]) == (200, "close")

    async def test_that_are_read_too_slowly_are_reset_for_a_client_without_chunks(
        self, services: Services
    ) -> None:
        making = Making([b'"' + b"a" * SLOWLY_READ_BYTES])
        making.go_on.set()
        limits = ConnectionLimits(stall_seconds=0.5)
        async with door(services, making.handle, limits) as on, on.at.line() as line:
            line.writer.write(f"GET {PATH} HTTP/1.0\r\nhost: x\r\n\r\n".encode())
            await on.logged()
            with pytest.raises(ConnectionResetError):
                await line.reader.read()


class TestLongCall:
    async def test_that_is_quick_is_an_answer_like_any(self, services: Services) -> None:
        """No space, and a length."""
        async with (
            door(services, Work().handle, keep_alive_seconds=NEVER_SECONDS) as on,
            on.at.client() as client,
        ):
            answer = await client.get(PATH)

        assert answer.content == b'{"success":true,"data":{"status":"ok"}}'
        assert answer.headers["content-length"] == str(len(answer.content))

    async def test_is_kept_alive_by_spaces(self, services: Services) -> None:
        """One after the other, and then the body, which JSON takes as it is."""
        work = Work(is_held=True)
        async with (
            door(services, work.handle, keep_alive_seconds=SECONDS) as on,
            on.at.line() as line,
        ):
            head = await line.ask("GET", PATH)
            chunks = [await line.chunk(), await line.chunk(), await line.chunk()]
            work.go_on.set()
            body = await line.rest()

        assert head.status == 200
        assert head.said["x-accel-buffering"] == "no"
        assert "content-length" not in head.said
        assert chunks == [b" "] * 3
        assert json.loads(body) == {"success": True, "data": {"status": "ok"}}

    async def test_is_continued_by_chunks(self, services: Services) -> None:
        """A large result is sent in chunks, early or late, and is never compressed."""
        for is_late in (False, True):
            making = large()
            making.go_on.set()
            work = Work(making.make(), is_held=is_late)
            seconds = SECONDS if is_late else NEVER_SECONDS
            async with (
                door(services, work.handle, keep_alive_seconds=seconds) as on,
                on.at.line() as line,
            ):
                head = await line.ask("GET", PATH, accept_encoding="gzip")
                first = await line.chunk()
                work.go_on.set()
                body = first + await line.rest()

            assert "content-encoding" not in head.said
            assert "content-length" not in head.said
            assert (first == b" ") == is_late
            expected = b'{"success":true,"data":' + b"".join(making.chunks) + b"}"
            assert (body.lstrip(b" ") if is_late else body) == expected

    async def test_closes_its_source_when_the_client_disconnects(self, services: Services) -> None:
        """Early or late: in the chunks, after the work."""
        for is_late in (False, True):
            making = large()
            work = Work(making.make(), is_held=is_late)
            seconds = SECONDS if is_late else NEVER_SECONDS
            async with door(services, work.handle, keep_alive_seconds=seconds) as on:
                async with on.at.line() as line:
                    await line.ask("GET", PATH)
                    while await line.chunk() == b" ":
                        work.go_on.set()
                    line.hang_up()
                async with asyncio.timeout(30):
                    await making.ended.wait()

    async def test_that_fails_early_has_its_own_status(self, services: Services) -> None:
        """Before the first space, no status is sent."""
        for error, status in ((DatabaseUnavailable(), 503), (ValueError(), 500)):
            work = Work(error)
            async with (
                door(services, work.handle, keep_alive_seconds=NEVER_SECONDS) as on,
                on.at.client() as client,
            ):
                refused(await client.get(PATH), status)

    async def test_that_fails_late_is_cut(self, services: Services) -> None:
        """The status 200 is already sent, so the body is visibly incomplete."""
        late = Reply(Health(), HTTPStatus.ACCEPTED, [])
        for result in (DatabaseUnavailable(), ValueError(), late):
            work = Work(result, is_held=True)
            async with (
                door(services, work.handle, keep_alive_seconds=SECONDS) as on,
                on.at.line() as line,
            ):
                head = await line.ask("GET", PATH)
                assert await line.chunk() == b" "
                work.go_on.set()
                with pytest.raises(asyncio.IncompleteReadError):
                    await line.rest()

            assert head.status == 200

    async def test_does_not_wait_for_a_client_that_disconnected(self, services: Services) -> None:
        """The work goes on after the client disconnects."""
        work = Work(is_held=True)
        async with door(services, work.handle, keep_alive_seconds=SECONDS) as on:
            async with on.at.line() as line:
                await line.ask("GET", PATH)
                line.hang_up()
            async with asyncio.timeout(30):
                await work.was_cancelled.wait()

            assert (await on.logged())["error"] == "ClientHungUp"


@pytest.mark.slow
class TestEndOfTheServer:
    async def test_ends_a_request_that_takes_too_long(self, services: Services) -> None:
        """The client can repeat it; the server that takes over may answer."""
        work = Work(is_held=True)
        async with door(services, work.handle) as on, on.at.client() as client:
            asking = asyncio.create_task(client.get(PATH))
            await work.began.wait()
            on.at.server.should_exit = True
            answer = await asking

            assert (await on.logged())["error"] == "ServerEnding"
        refused(answer, 503)
        assert answer.headers["retry-after"]
        assert answer.headers["x-error-code"] == "server_ending"
        assert work.was_cancelled.is_set()


class TestReply:
    async def test_says_its_own_status_and_headers(self, services: Services) -> None:
        """What a handler returns when there is more to say than data."""
        reply = Reply(Health(), HTTPStatus.ACCEPTED, [(b"location", b"/elsewhere")])
        async with door(services, Work(reply).handle) as on, on.at.client() as client:
            answer = await client.get(PATH)

        assert ok(answer, 202) == {"status": "ok"}
        assert answer.headers["location"] == "/elsewhere"


class TestHeaders:
    async def test_are_passed_to_a_handler_that_declares_them(self, services: Services) -> None:
        """By name: empty when absent, joined when sent twice."""
        seen: list[dict[str, str]] = []

        async def handle(*_: object, **headers: str) -> Health:
            seen.append(headers)
            return Health()

        async with (
            door(services, handle, headers=("Prefer", "Last-Event-ID")) as on,
            on.at.client() as client,
        ):
            await client.get(PATH)
            await client.get(PATH, headers=[("Prefer", "a"), ("prefer", "b"), ("x", "y")])

        assert seen == [
            {"prefer": "", "last_event_id": ""},
            {"prefer": "a, b", "last_event_id": ""},
        ]
