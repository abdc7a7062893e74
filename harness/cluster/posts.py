"""Clients that write and read the same few posts at the same time, and what they have seen."""

import asyncio
import random
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import httpx

from harness.api import POSTS, client, signed_in
from harness.registers import CREATE, DELETE, READ, UPDATE, History, Operation, Result
from harness.traffic import ERROR_CODE, READ_ONLY
from harness.world import Tenant

POSTS_MAX, CLIENTS_OF_EACH = 4, 3
PAUSE_SECONDS_MAX = 1.0
OPERATIONS_MAX = 60
"""Of a post; then it is deleted, and still read `AFTER_DELETION` times, before the next one."""
AFTER_DELETION = 6
ANSWER_SECONDS_MAX = 30
END_SECONDS_MAX = 60
READ_AT_ONCE = 8
LAST_READS_MAX, LAST_READ_PAUSE_SECONDS = 30, 1.0
FAULTS_MAX = 20
WEIGHTS = {READ: 10, UPDATE: 9, DELETE: 0.1}
METHODS = {CREATE: "POST", UPDATE: "PUT", DELETE: "DELETE", READ: "GET"}
NOT_FOUND, UNAVAILABLE, CLIENT_ERRORS = 404, 503, range(400, 500)


@dataclass
class Post:
    """A post that several clients use.

    Attributes:
        id: None before its creation is confirmed.
        operations: How many were sent.
        deleted_at: After how many of them its deletion was sent; None before.
    """

    tenant: Tenant
    id: str | None = None
    operations: int = 0
    deleted_at: int | None = None
    creating: asyncio.Lock = field(default_factory=asyncio.Lock)

    @property
    def is_over(self) -> bool:
        """Whether the next one is used."""
        return self.deleted_at is not None and self.operations >= self.deleted_at + AFTER_DELETION


class PostTraffic:
    """The clients. Each sends one request at a time, to any process of the API.

    Args:
        tenants: The tenants with their users.
        urls: Returns the URLs of the processes that run.
        history: Records what is seen.

    Attributes:
        faults: Responses other than 2xx, 404 and 503, and last reads without an answer; at most
            `FAULTS_MAX`.
        in_use: The posts that clients use now.
        may_be_read_only: Whether tenants are moved, so that 403 is no fault either.
    """

    def __init__(
        self,
        tenants: Sequence[Tenant],
        urls: Callable[[], list[str]],
        history: History,
        *,
        chance: random.Random,
    ) -> None:
        self._tenants, self._urls, self._history = tenants, urls, history
        self._chance = chance
        self._numbers = 0
        self.faults: list[str] = []
        self.in_use: list[Post] = []
        self.may_be_read_only = False

    @contextmanager
    def running(self) -> Iterator[None]:
        """Send requests while the block lasts; an error of a client is raised at its end."""
        is_over = threading.Event()
        with ThreadPoolExecutor(1) as pool:
            sent = pool.submit(lambda: asyncio.run(self._send(is_over)))
            try:
                yield
            finally:
                is_over.set()
            sent.result(END_SECONDS_MAX)

    def read_all(self) -> None:
        """Read each post of the history since its last check, when no other request is sent.

        A read without an answer proves nothing, and is repeated; in the end that is a fault.
        """
        by_id = {one.id: one for one in self._tenants}
        posts = [Post(by_id[tenant], post) for tenant, post in self._history.changed]

        async def read_all() -> None:
            gate = asyncio.Semaphore(READ_AT_ONCE)
            async with client(max_keepalive_connections=0) as sender, asyncio.TaskGroup() as group:
                for one in posts:
                    group.create_task(read(sender, one, gate))

        async def read(sender: httpx.AsyncClient, post: Post, gate: asyncio.Semaphore) -> None:
            for _ in range(LAST_READS_MAX):
                if await self._request(sender, post, READ, gate) is not Result.UNKNOWN:
                    return
                await asyncio.sleep(LAST_READ_PAUSE_SECONDS)
            self._fault(f"the last read of post {post.id} has no answer")

        asyncio.run(read_all())

    async def _send(self, is_over: threading.Event) -> None:
        async with client(max_keepalive_connections=0) as sender, asyncio.TaskGroup() as group:
            for _ in range(POSTS_MAX):
                group.create_task(self._use_posts(sender, is_over))

    async def _use_posts(self, sender: httpx.AsyncClient, is_over: threading.Event) -> None:
        while not is_over.is_set():
            post = Post(self._chance.choice(self._tenants))
            self.in_use.append(post)
            async with asyncio.TaskGroup() as group:
                for _ in range(CLIENTS_OF_EACH):
                    group.create_task(self._use(sender, post, is_over))
            self.in_use.remove(post)

    async def _use(self, sender: httpx.AsyncClient, post: Post, is_over: threading.Event) -> None:
        gate = asyncio.Semaphore(1)
        while not is_over.is_set() and not post.is_over:
            await asyncio.sleep(self._chance.random() * PAUSE_SECONDS_MAX)
            async with post.creating:
                if post.id is None:
                    await self._request(sender, post, CREATE, gate)
                    continue
            kind = self._chance.choices(list(WEIGHTS), list(WEIGHTS.values()))[0]
            if post.operations >= OPERATIONS_MAX and post.deleted_at is None:
                kind = DELETE
            post.operations += 1
            if kind == DELETE and post.deleted_at is None:
                post.deleted_at = post.operations
            await self._request(sender, post, kind, gate)

    async def _request(
        self, sender: httpx.AsyncClient, post: Post, kind: str, gate: asyncio.Semaphore
    ) -> Result:
        """Send a request, record it, and return what is known of it.

        The creation without a confirmation belongs to no post.
        """
        async with gate:
            urls = self._urls()
            if not urls:
                return Result.UNKNOWN
            self._numbers += 1
            value = f"text {self._numbers}" if kind in (CREATE, UPDATE) else None
            body = value and {"title": f"Post of registers {self._numbers}", "content": value}
            url = self._chance.choice(urls)
            path = POSTS if kind == CREATE else f"{POSTS}/{post.id}"
            began = time.monotonic()
            try:
                answer = await sender.request(
                    METHODS[kind],
                    url + path,
                    headers=signed_in(post.tenant),
                    json=body,
                    timeout=ANSWER_SECONDS_MAX,
                )
            except httpx.TransportError as error:
                result, about = Result.UNKNOWN, type(error).__name__
            else:
                result, about = result_of(answer.status_code), str(answer.status_code)
                self._check(answer)
                if result is Result.OK and kind in (CREATE, READ):
                    data: dict[str, Any] = answer.json()["data"]
                    post.id, value = data["id"], data["content"]
            ended = time.monotonic()
            if post.id is not None:
                about = f"({about}, {url.rpartition(':')[2]})"
                one = Operation(kind, value, began, ended, result, about)
                self._history.add(post.tenant.id, post.id, one)
            return result

    def _check(self, answer: httpx.Response) -> None:
        is_fine = answer.is_success or answer.status_code in (NOT_FOUND, UNAVAILABLE)
        is_fine |= self.may_be_read_only and answer.headers.get(ERROR_CODE) == READ_ONLY
        if not is_fine:
            request = answer.request
            text = f"{answer.status_code} {answer.text[:300]}"
            self._fault(f"{request.method} {request.url.path}: {text}")

    def _fault(self, text: str) -> None:
        if len(self.faults) < FAULTS_MAX:
            self.faults.append(text)


def result_of(status: int) -> Result:
    """Return what a client knows after a response.

    After a 503, a write may have had its effect: the answer of its COMMIT may be lost.
    """
    if status == NOT_FOUND:
        return Result.ABSENT
    if status in CLIENT_ERRORS:
        return Result.FAILED
    return Result.OK if httpx.codes.is_success(status) else Result.UNKNOWN
