"""Clients of the service that count what was acknowledged."""

import asyncio
import random
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import httpx

from harness.api import (
    LOGIN,
    MODULES,
    POSTS,
    PROFILE,
    PUBLIC_POSTS,
    TENANTS,
    bearer,
    client,
    key_of,
    signed_in,
)
from harness.registers import CREATE, History, Operation, Result
from harness.world import PASSWORD, Tenant

ANSWER_SECONDS_MAX = 30
END_SECONDS_MAX = 60
UNAVAILABLE = 503
ERROR_CODE, READ_ONLY = "x-error-code", "tenant_read_only"
# One of so many requests creates a tenant, and one is a login.
CREATION_EVERY = 40
LOGIN_EVERY = 20
FAULTS_MAX = 20
# Method, path, headers and body.
Request = tuple[str, str, dict[str, str], dict[str, Any] | None]


@dataclass
class Seen:
    """What the clients have received.

    Attributes:
        statuses: How many responses of each status.
        seconds: How long each response took.
        posts: The titles that were acknowledged, by tenant.
        api_keys: The API keys of the tenants that were created.
        last_unavailable_at: When the last 503 was received, in seconds since the epoch.
        unanswered: Requests to a process that was killed or ended.
        read_only: Writes that were rejected because the tenant is being moved.
        faults: Other responses that are neither 2xx nor 503 with `Retry-After`.
    """

    statuses: Counter[int] = field(default_factory=Counter)
    seconds: list[float] = field(default_factory=list)
    posts: dict[str, list[str]] = field(default_factory=dict)
    api_keys: list[str] = field(default_factory=list)
    last_unavailable_at: float = 0
    unanswered: int = 0
    read_only: int = 0
    faults: list[str] = field(default_factory=list)

    @property
    def text(self) -> str:
        """The counts, for the table."""
        successes = sum(count for status, count in self.statuses.items() if 200 <= status < 300)
        text = f"{successes:,} responses 2xx, {self.statuses[UNAVAILABLE]:,} 503"
        text += f", {self.read_only:,} of a tenant that is being moved" if self.read_only else ""
        return text + (f", {self.unanswered} without one" if self.unanswered else "")


class Traffic:
    """Requests at fixed times, to the API processes in turn.

    Args:
        tenants: The tenants with their users.
        admin_token: The token of an admin.
        urls: Returns the URLs of the processes that run.
        per_second: How many requests.
        chance: Chooses the tenants.
        signs_up: Whether some requests create tenants, and some are logins.
        keeps_alive: Whether connections are used again: a process that ends closes idle ones.
        history: Records each post that was created.

    Attributes:
        may_be_read_only: Whether tenants are moved, so that a write may be rejected.
    """

    def __init__(
        self,
        tenants: Sequence[Tenant],
        admin_token: str,
        urls: Callable[[], list[str]],
        per_second: int,
        *,
        chance: random.Random,
        signs_up: bool = True,
        keeps_alive: bool = False,
        history: History | None = None,
    ) -> None:
        self._tenants = tenants
        self._admin_token = admin_token
        self._urls = urls
        self._per_second = per_second
        self._number = 0
        self._chance = chance
        self._signs_up = signs_up
        self._history = history
        self.may_be_read_only = False
        self._keep_alives_max = None if keeps_alive else 0

    @contextmanager
    def running(self) -> Iterator[Seen]:
        """Send requests while the block lasts."""
        seen, is_over = Seen(), threading.Event()
        thread = threading.Thread(target=lambda: asyncio.run(self._send(seen, is_over)))
        thread.start()
        try:
            yield seen
        finally:
            is_over.set()
            thread.join(END_SECONDS_MAX)

    async def _send(self, seen: Seen, is_over: threading.Event) -> None:
        sender = client(max_keepalive_connections=self._keep_alives_max)
        async with sender, asyncio.TaskGroup() as group:
            next_at = time.monotonic()
            while not is_over.is_set():
                urls = self._urls()
                if urls:
                    self._number += 1
                    url = urls[self._number % len(urls)]
                    tenant = self._chance.choice(self._tenants)
                    group.create_task(self._send_one(sender, url, tenant, self._number, seen))
                next_at += 1 / self._per_second
                await asyncio.sleep(max(0, next_at - time.monotonic()))

    async def _send_one(
        self, sender: httpx.AsyncClient, url: str, tenant: Tenant, number: int, seen: Seen
    ) -> None:
        method, path, headers, body = self._request(tenant, number)
        began = time.monotonic()
        try:
            answer = await sender.request(method, url + path, headers=headers, json=body)
        except httpx.TransportError as error:
            self._note_unanswered(url, f"{method} {path}: {error!r}", seen)
            return
        seen.seconds.append(time.monotonic() - began)
        seen.statuses[answer.status_code] += 1
        if answer.is_success and path == POSTS and body:
            seen.posts.setdefault(tenant.id, []).append(str(body["title"]))
            self._note_created(tenant, began, answer)
        elif answer.is_success and path == TENANTS:
            seen.api_keys.append(answer.json()["data"]["apiKey"])
        elif answer.status_code == UNAVAILABLE:
            seen.last_unavailable_at = time.time()
        self._check(answer, seen)

    def _request(self, tenant: Tenant, number: int) -> Request:
        """Return the method, path, headers and body of a request."""
        at = number % len(tenant.users)
        user, key, headers = tenant.users[at], key_of(tenant), signed_in(tenant, at)
        if self._signs_up and number % CREATION_EVERY == 0:
            owner = {"email": "ada@example.com", "fullName": "Ada", "password": PASSWORD}
            body = {"name": f"New {number}", "owner": owner}
            return "POST", TENANTS, bearer(self._admin_token), body
        if self._signs_up and number % LOGIN_EVERY == 1:
            return "POST", LOGIN, key, {"email": user.email, "password": PASSWORD}
        post = {"title": f"Post {number}", "content": "It rained.", "tags": ["news"]}
        profile = {"fullName": f"Name {number}", "email": user.email}
        kinds: list[Request] = [
            ("POST", POSTS, headers, post),
            ("PUT", PROFILE, headers, profile),
            ("GET", POSTS, headers, None),
            ("GET", PUBLIC_POSTS, key, None),
            ("GET", MODULES, headers, None),
        ]
        return kinds[number % len(kinds)]

    def _note_created(self, tenant: Tenant, began: float, answer: httpx.Response) -> None:
        if self._history is not None:
            data = answer.json()["data"]
            one = Operation(CREATE, data["content"], began, time.monotonic(), Result.OK)
            self._history.add(tenant.id, data["id"], one)

    def _check(self, answer: httpx.Response, seen: Seen) -> None:
        has_hint = answer.status_code == UNAVAILABLE and "retry-after" in answer.headers
        if self.may_be_read_only and answer.headers.get(ERROR_CODE) == READ_ONLY:
            seen.read_only += 1
        elif not answer.is_success and not has_hint and len(seen.faults) < FAULTS_MAX:
            request = answer.request
            seen.faults.append(
                f"{request.method} {request.url.path}: {answer.status_code} {answer.text[:300]}"
            )

    def missing(self, api_keys: Sequence[str]) -> list[str]:
        """Return the tenants that were created and are not served."""
        found = []
        for key in api_keys:
            answer = httpx.get(
                f"{self._urls()[0]}{PUBLIC_POSTS}",
                headers={"x-api-key": key},
                timeout=ANSWER_SECONDS_MAX,
                verify=False,  # noqa: S501 - no TLS here
            )
            if not answer.is_success:
                found.append(f"a tenant that was created is not served: {answer.status_code}")
        return found

    def _note_unanswered(self, url: str, text: str, seen: Seen) -> None:
        if url in self._urls():
            if len(seen.faults) < FAULTS_MAX:
                seen.faults.append(f"no response of a process that runs: {text}")
        else:
            seen.unanswered += 1
