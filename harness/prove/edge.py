"""Connections and framing: P23, P24."""

import asyncio
import re
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from harness.api import LOGIN, PROFILE, key_of, signed_in
from harness.prove.calls import Line, percentile, raw, request
from harness.prove.promise import Figure, Promise, Stage
from harness.world import Tenant, World

HEAD_SECONDS_MAX, BODY_SECONDS_MAX = 17.0, 32.0

GOOD_P99_MS_MAX = 500


def p23(stage: Stage) -> Figure:
    """Keep many slow connections open, and measure those who behave."""
    slow, seconds = stage.size(1_000, 60), stage.size(300.0, 40.0)
    world = stage.world("postgresql", 2)
    with stage.serving(world) as process:
        found = _Slow(process.port, world, until=time.monotonic() + seconds)
        asyncio.run(found.run(slow))
    faults = found.faults
    p99 = percentile(found.good, 0.99) * 1000
    if p99 >= GOOD_P99_MS_MAX:
        faults.append(f"good clients: 99 % within {p99:.0f} ms")
    closed = {name: max(times, default=0.0) for name, times in found.closed.items()}
    return Figure(
        done=f"{slow} slow connections at a time for {seconds:g} s: slow heads, slow bodies, "
        "silence, bytes after an answer; heads of 17 KiB and bodies of 65 KiB",
        found="; ".join(f"{name} closed within {one:.1f} s" for name, one in closed.items())
        + f"; good clients 99 % within {p99:.0f} ms",
        faults=faults,
    )


@dataclass
class _Slow:
    port: int
    world: World
    until: float
    good: list[float] = field(default_factory=list)
    closed: dict[str, list[float]] = field(default_factory=dict)
    faults: list[str] = field(default_factory=list)

    async def run(self, connections: int) -> None:
        await self._check_sizes()
        tenant = self.world.tenants[0]
        head = request("POST", LOGIN, key_of(tenant))[:-4]
        kinds: Sequence[tuple[str, bytes, bytes, float]] = (
            ("slow heads", b"GET /livez HTTP/1.1\r\nhost: x\r\n", b"a: b\r\n", HEAD_SECONDS_MAX),
            ("silence", b"", b"", HEAD_SECONDS_MAX),
            ("slow bodies", head.replace(b"length: 0", b"length: 5000") + b"\r\n\r\n", b" ",
             BODY_SECONDS_MAX),
            ("bodies that never begin", head.replace(b"length: 0", b"length: 5000") + b"\r\n\r\n",
             b"", BODY_SECONDS_MAX),
            ("chunks that never begin",
             head.replace(b"content-length: 0", b"transfer-encoding: chunked") + b"\r\n\r\n", b"",
             BODY_SECONDS_MAX),
            ("a line end after an answer", request("GET", "/livez", {}) + b"\r\n", b"",
             BODY_SECONDS_MAX),
        )  # fmt: skip
        async with asyncio.TaskGroup() as group:
            for number in range(connections):
                name, first, more, bound = kinds[number % len(kinds)]
                group.create_task(self._slow(number, name, first, more, bound=bound))
            for tenant in self.world.tenants:
                group.create_task(self._behave(tenant))

    async def _slow(
        self, number: int, name: str, first: bytes, more: bytes, *, bound: float
    ) -> None:
        address = f"127.{4 + number // 20 // 250}.{number // 20 % 250}.7"
        await asyncio.sleep(number % 50 / 50)
        while time.monotonic() < self.until:
            try:
                took = await self._hold(address, first, more, bound)
            except OSError:
                await asyncio.sleep(1)
                continue
            if took is None:
                self.faults.append(f"{name}: still open after {bound:g} s")
                return
            self.closed.setdefault(name, []).append(took)

    async def _hold(self, address: str, first: bytes, more: bytes, bound: float) -> float | None:
        """Return after how long the server closed; None if it did not in time."""
        reader, writer = await asyncio.open_connection(
            "127.0.0.1", self.port, local_addr=(address, 0)
        )
        began = time.monotonic()
        try:
            writer.write(first)
            while (held := time.monotonic() - began) < bound:
                if held > bound / 2 and time.monotonic() > self.until:
                    return held  # the time is over; this one says nothing
                try:
                    async with asyncio.timeout(1.0):
                        if not await reader.read(4096):
                            return time.monotonic() - began
                except TimeoutError:
                    writer.write(more)
                except ConnectionError:
                    return time.monotonic() - began
            return None
        finally:
            writer.transport.abort()

    async def _behave(self, tenant: Tenant) -> None:
        async with Line(self.port) as line:
            while time.monotonic() < self.until:
                try:
                    answer = await line.get(PROFILE, headers=signed_in(tenant))
                except (OSError, TimeoutError) as error:
                    self.faults.append(f"a good client: {error!r}")
                    return
                self.good.append(answer.seconds)
                if not answer.ok:
                    self.faults.append(f"a good client: {answer}")
                await asyncio.sleep(0.02)

    async def _check_sizes(self) -> None:
        tenant = self.world.tenants[0]
        large_head = request("GET", "/livez", {f"x-{n}": "v" * 100 for n in range(170)})
        large_body = request("POST", LOGIN, key_of(tenant), b" " * 66_000)
        huge_head = request("GET", "/livez", {"x": "v" * 1_000_000})
        for name, wire, statuses_ in (
            ("a head of 17 KiB", large_head, {b"431"}),
            ("a head of 1 MB", huge_head, {b"431", b"400", b""}),
            ("a body of 65 KiB", large_body, {b"413"}),
        ):
            try:
                got = await raw(self.port, wire, seconds=2)
            except ConnectionError:
                got = b""
            if got[9:12] not in statuses_:
                self.faults.append(f"{name}: {got[:60]!r}")


def p24(stage: Stage) -> Figure:
    """Send requests that contradict themselves, with another one hidden inside."""
    faults: list[str] = []
    tricks = 0
    world = stage.world("sqlite", 1)
    with stage.serving(world) as process:
        tricks = asyncio.run(_smuggle(process.port, faults))
    return Figure(
        done=f"{tricks} requests with contradicting lengths, chunk tricks and bare line ends, "
        "each with a second request inside",
        found=f"{len(faults)} second requests executed",
        faults=faults,
    )


HIDDEN = b"GET /hidden HTTP/1.1\r\nhost: x\r\n\r\n"


def _tricks() -> Iterator[tuple[str, bytes]]:
    size = str(len(HIDDEN)).encode()

    def post(*lines: bytes, body: bytes) -> bytes:
        return b"\r\n".join([b"POST /livez HTTP/1.1", b"host: x", *lines, b"", body])

    te, cl, zero = b"transfer-encoding: chunked", b"content-length: ", b"0\r\n\r\n" + HIDDEN
    yield "CL and TE", post(cl + str(len(zero)).encode(), te, body=zero)
    yield "TE and CL", post(te, cl + str(len(zero)).encode(), body=zero)
    yield "CL 0 and TE", post(cl + b"0", te, body=zero)
    yield "two CLs", post(cl + b"0", cl + size, body=HIDDEN)
    yield "two CLs, turned", post(cl + size, cl + b"0", body=HIDDEN)
    yield "CL list", post(cl + size + b", 0", body=HIDDEN)
    yield "CL equal list", post(cl + size + b", " + size, body=HIDDEN)
    for value in (b"+" + size, b"-1", b"0x10", b" " + size + b" x", b"1e1", size + b"\x0b", b""):
        yield f"CL {value!r}", post(cl + value, body=HIDDEN)
    for value in (
        b"xchunked", b"chunked, identity", b"identity, chunked", b"chunked,chunked", b"\x0bchunked",
        b"chunked\x00", b"chunKed;x", b'"chunked"', b"gzip, chunked",
    ):  # fmt: skip
        yield f"TE {value!r}", post(b"transfer-encoding: " + value, cl + size, body=zero)
    yield "TE with a space", post(b"transfer-encoding : chunked", cl + b"5", body=zero)
    yield "TE folded", post(b"transfer-encoding:\r\n chunked", cl + b"5", body=zero)
    yield "TE twice", post(te, b"transfer-encoding: identity", body=zero)
    yield "bare LF", b"POST /livez HTTP/1.1\nhost: x\ncontent-length: 0\n\n" + HIDDEN
    yield "bare CR", b"POST /livez HTTP/1.1\r\nhost: x\rcontent-length: 0\r\n\r\n" + HIDDEN
    for size_line in (
        b"0x0",
        b"-0",
        b"00000000000000000000000000000000f",
        b"0 0",
        b"f" * 20,
        b"\n0",
    ):
        chunk = size_line + b"\r\n\r\n" + HIDDEN
        yield f"chunk size {size_line!r}", post(te, body=chunk)
    yield "LF in a chunk extension", post(te, body=b"0;a\nb\r\n\r\n" + HIDDEN)
    yield "chunk without its end", post(te, body=b"1\r\nA0\r\n\r\n" + HIDDEN)
    yield "NUL in a name", post(b"a\x00b: c", cl + b"0", body=HIDDEN)
    yield "no colon", post(b"abc", cl + b"0", body=HIDDEN)
    yield "two hosts", post(b"host: y", cl + b"0", body=HIDDEN)
    yield "a request line of two", b"GET /livez HTTP/1.1 HTTP/1.1\r\nhost: x\r\n\r\n" + HIDDEN


# These say where they end, so what follows is an honest second request.
HONEST = {"CL equal list", "TE twice", "gzip, chunked"}


async def _smuggle(port: int, faults: list[str]) -> int:
    if (await raw(port, HIDDEN, seconds=2)).count(b"HTTP/1.1 404") != 1:
        faults.append("the hidden request would not be seen, so nothing was shown")
    tricks = list(_tricks())
    for name, wire in tricks:
        got = await raw(port, wire, seconds=1)
        statuses_ = re.findall(rb"HTTP/1\.1 (\d+)", got)
        is_refused = statuses_[:1] == [b"400"] and len(statuses_) == 1
        if not is_refused and b"404" in statuses_ and name not in HONEST:
            faults.append(f"{name}: {statuses_}")
    return len(tricks)


PROMISES = (
    Promise(
        23,
        "The size and the slowness of requests are bounded.",
        p23,
        "the server's own protocol, without deadlines",
        seconds_max=600,
    ),
    Promise(24, "Requests cannot be smuggled.", p24, "another parser, which is more lenient"),
)
