"""Rounds of writers, an assistant, schedules and readers on the posts of one tenant.

A seed chooses what happens. The last post of a round is an author's own.
"""

import asyncio
import os
import random
import signal
import time
from collections import Counter
from collections.abc import Mapping
from contextlib import AsyncExitStack, ExitStack
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import httpx

from harness import api
from harness.driver import say
from harness.processes import Process, serving
from harness.world import PASSWORD, World
from harness.writers.history import ABSENT, Change, Post, Sight, counted, faults_of, told

POSTS_IN_ROUND = 3
CHANGES_MAX = 5
"""Of a writer in a round; so no post has more texts than versions are kept."""
PAUSE_SECONDS_MAX = 0.01
CLOCK_SECONDS = 0.001
"""Between two readings of the clocks of a moment."""
JOB_SECONDS_MAX = 60.0
KILL_EACH, MOVE_EACH, RESTORE_EACH = 25, 60, 60
"""A process is killed, a tenant moved or restored, in one of so many rounds."""
SCHEDULED_SECONDS_MAX = 0.1
SAY_EACH = 50
"""The rounds after which a line is printed, so that a run that is cut off says how far it was."""
WRITERS = ("editor", "other editor", "author", "assistant")
AUTHOR = "author"
FAR, NEAR = "far", "default"


@dataclass
class Found:
    """What the rounds have found.

    Attributes:
        changes: How many changes of each kind and status there were.
        events: How many kills, moves and restores.
        sights: What readers have seen.
        faults: With the round, and the history of the post.
    """

    changes: Counter[str] = field(default_factory=Counter)
    events: Counter[str] = field(default_factory=Counter)
    sights: int = 0
    faults: list[str] = field(default_factory=list)


class Rounds:
    """A service, and the writers of its first tenant.

    Args:
        world: With one tenant of three users; its servers are `NEAR` and `FAR`.
        folder: Of the process.
        seed: Of every choice.
    """

    def __init__(self, world: World, folder: Path, seed: str) -> None:
        self.found = Found()
        self._world, self._folder, self._seed = world, folder, seed
        self._stack = ExitStack()
        self._process: Process | None = None
        self._texts = 0

    async def play(self, count: int) -> Found:
        """Play so many rounds; return what they have found, at the first fault at once."""
        async with AsyncExitStack() as stack:
            stack.callback(self._stack.close)
            self._start()
            token = await self._made_token()
            tenant = self._world.tenants[0]
            path = f"{api.TENANTS}/{tenant.id}/users/{tenant.users[2].id}"
            await self._admin("PATCH", path, {"role": AUTHOR}, status=200)
            self._headers: Mapping[str, Mapping[str, str]] = {
                "editor": api.signed_in(tenant, 0),
                "other editor": api.signed_in(tenant, 1),
                AUTHOR: api.signed_in(tenant, 2),
                "assistant": {"x-mcp-token": token},
            }
            for number in range(count):
                await self._round(number)
                if self.found.faults:
                    break
                if (number + 1) % SAY_EACH == 0:
                    changes = self.found.changes.total()
                    say(f"  {number + 1:,} rounds, {changes:,} changes, no fault")
        return self.found

    def _start(self) -> None:
        self._stack.close()
        self._process = self._stack.enter_context(
            serving(self._folder, self._world.environment, name="writers")
        )

    @property
    def _url(self) -> str:
        assert self._process is not None
        return self._process.url

    async def _made_token(self) -> str:
        body = {"name": "assistant", "scopes": ["content:read", "content:draft"]}
        path = f"{api.TENANTS}/{self._world.tenants[0].id}/mcp-tokens"
        return str((await self._admin("POST", path, body, status=201))["token"])

    async def _admin(self, method: str, path: str, body: object, *, status: int) -> Any:
        async with api.client(self._url, api.as_admin(self._world)) as admin:
            answer = await admin.request(method, path, json=body)
            assert answer.status_code == status, answer.text
            return answer.json().get("data")

    async def _round(self, number: int) -> None:
        chance = random.Random(f"{self._seed} {number}")  # noqa: S311 - it chooses what happens
        async with api.client(self._url) as client:
            posts = [await self._created(client, number, one) for one in range(POSTS_IN_ROUND)]
            readers = [asyncio.create_task(self._reads(client, post)) for post in posts]
            work = [
                self._writes(client, random.Random(f"{self._seed} {number} {who}"), who, posts)  # noqa: S311
                for who in WRITERS
            ]
            await asyncio.gather(*work, self._happens(chance))
            for one in readers:
                one.cancel()
            await asyncio.gather(*readers, return_exceptions=True)
        async with api.client(self._url) as client:
            for post in posts:
                await self._check(client, number, post)
        if chance.randrange(RESTORE_EACH) == 0:
            await self._restore(posts)
        self.found.changes.update(counted(posts))
        self.found.sights += sum(len(post.sights) for post in posts)

    async def _happens(self, chance: random.Random) -> None:
        """Kill the process, or move the tenant, in some rounds and at some moment."""
        is_kill, is_move = chance.randrange(KILL_EACH) == 0, chance.randrange(MOVE_EACH) == 0
        await asyncio.sleep(chance.uniform(0, 4 * PAUSE_SECONDS_MAX))
        if is_kill:
            assert self._process is not None
            os.kill(self._process.pid, signal.SIGKILL)
            self.found.events["kills"] += 1
            await asyncio.to_thread(self._start)
        elif is_move:
            tenant = f"{api.TENANTS}/{self._world.tenants[0].id}"
            now = (await self._admin("GET", tenant, None, status=200))["serverName"]
            await self._job(f"{tenant}/move", {"server": NEAR if now == FAR else FAR})
            self.found.events["moves"] += 1

    async def _job(self, path: str, body: object) -> Any:
        queued = await self._admin("POST", path, body, status=202)
        ends = time.monotonic() + JOB_SECONDS_MAX
        while time.monotonic() < ends:
            job = await self._admin("GET", f"/api/admin/jobs/{queued['id']}", None, status=200)
            if job["finishedAt"] is not None:
                assert job["error"] is None, job
                return job
            await asyncio.sleep(0.05)
        raise AssertionError(f"the job does not end: {job}")

    async def _created(self, client: httpx.AsyncClient, number: int, one: int) -> Post:
        slug = f"{self._seed}-{number}-{one}"
        body = {"title": slug, "slug": slug, "content": f"first {slug}"}
        began = time.monotonic()
        owner = AUTHOR if one == POSTS_IN_ROUND - 1 else "editor"
        answer = await client.post(api.POSTS, json=body, headers=self._headers[owner])
        assert answer.status_code == 201, answer.text
        post = Post(answer.json()["data"]["id"], slug, began, owner=owner)
        post.sights.append(await self._seen(client, post))
        return post

    async def _reads(self, client: httpx.AsyncClient, post: Post) -> None:
        while True:
            try:
                post.sights.append(await self._seen(client, post))
            except (httpx.TransportError, _Unclear):
                client = api.client(self._url)
            await asyncio.sleep(PAUSE_SECONDS_MAX)

    async def _seen(self, client: httpx.AsyncClient, post: Post) -> Sight:
        began = time.monotonic()
        key = api.key_of(self._world.tenants[0])
        answer = await client.get(f"{api.PUBLIC_POSTS}/{post.slug}", headers=key)
        if answer.status_code not in {200, 404}:
            raise _Unclear
        text = ABSENT if answer.status_code == 404 else answer.json()["data"]["content"]
        return Sight(began, time.monotonic(), text)

    async def _writes(
        self, client: httpx.AsyncClient, chance: random.Random, who: str, posts: list[Post]
    ) -> None:
        for _ in range(chance.randint(1, CHANGES_MAX)):
            await asyncio.sleep(chance.uniform(0, PAUSE_SECONDS_MAX))
            post = chance.choice(posts)
            try:
                await self._changes(client, chance, who, post)
            except httpx.TransportError:
                client = api.client(self._url)

    async def _changes(
        self, client: httpx.AsyncClient, chance: random.Random, who: str, post: Post
    ) -> None:
        path, headers = f"{api.POSTS}/{post.id}", dict(self._headers[who])
        change = Change(who=who, what=chance.choice(WHAT[who]), began=0)
        if chance.random() < 0.5:
            read = await client.get(path, headers=headers)
            if read.status_code != 200:
                return
            change.based_on = headers["if-match"] = read.headers["etag"]
        method, due = "POST", change
        body: dict[str, object] | None = None
        if change.what in PUBLISHES:
            self._texts += 1
            change.text = f"{self._texts} of {post.slug}"
            method, body = "PUT", {"title": post.slug, "content": change.text}
            if (publish := PUBLISHES[change.what]) is not None:
                body["publish"] = publish
        elif change.what == "schedule":
            delay = chance.uniform(0, SCHEDULED_SECONDS_MAX)
            moment = datetime.now(UTC) + timedelta(seconds=delay)
            method, path, body = "PUT", f"{path}/schedule", {"publishAt": moment.isoformat()}
            due = Change(who=who, what="due", began=time.monotonic() + delay - CLOCK_SECONDS)
            post.changes.append(due)
        else:
            path = f"{path}/{change.what}"
        change.live = _possible(change, post)
        post.changes.append(change)
        change.began = time.monotonic()
        answer = await client.request(method, path, json=body, headers=headers)
        change.ended, change.status = time.monotonic(), answer.status_code
        if change.is_refused and change.what == "schedule":
            post.changes.remove(due)
        if change.is_acknowledged:
            change.live = _made_live(change, answer.json()["data"])
        is_readers = change.what not in {"save", "save draft"}
        forbidden = (who == "assistant" and is_readers) or (who == AUTHOR != post.owner)
        assert not (forbidden and change.is_acknowledged), answer.text

    async def _check(self, client: httpx.AsyncClient, number: int, post: Post) -> None:
        post.sights.append(await self._seen(client, post))
        versions = await self._versions(client, post)
        for one in post.changes:
            # Also texts that were saved after it began.
            is_unclear = not (one.is_acknowledged or one.is_refused)
            if one.what in {"publish", "due"} and is_unclear:
                one.live = _possible(one, post)
        faults = faults_of(post, versions)
        if faults:
            lines = "\n  ".join([*faults, *told(post), f"versions: {versions}"])
            self.found.faults.append(f"round {number}, {post.slug}:\n  {lines}")

    async def _versions(self, client: httpx.AsyncClient, post: Post) -> list[str]:
        path, headers = f"{api.POSTS}/{post.id}/versions", self._headers["editor"]
        listed = await client.get(path, headers=headers, params={"pageSize": 100})
        assert listed.status_code == 200, listed.text
        numbers = [one["number"] for one in listed.json()["data"]["items"]]
        found = [await client.get(f"{path}/{one}", headers=headers) for one in numbers]
        return [one.json()["data"]["content"] for one in found]

    async def _restore(self, posts: list[Post]) -> None:
        """Back the tenant up, change a post, and restore: it is as it was, with its versions."""
        tenant = f"{api.TENANTS}/{self._world.tenants[0].id}"
        async with api.client(self._url) as client:
            before = await self._versions(client, posts[0])
            job = await self._job(f"{tenant}/backup", {})
            body = {"title": posts[0].slug, "content": "after the backup"}
            path = f"{api.POSTS}/{posts[0].id}"
            saved = await client.put(path, json=body, headers=self._headers["editor"])
            assert saved.status_code == 200, saved.text
        name = (await self._admin("GET", tenant, None, status=200))["name"]
        archive = job["archive"].rpartition("/")[2]
        await self._job(f"{tenant}/restore", {"archive": archive, "name": name})
        await self._admin("POST", f"{tenant}/confirm-restore", {}, status=200)
        self.found.events["restores"] += 1
        await self._log_in()
        async with api.client(self._url) as client:
            after = await self._versions(client, posts[0])
        if after != before:
            self.found.faults.append(f"restored: {after}, not {before}")

    async def _log_in(self) -> None:
        """Begin new sessions: a restore in place ends all."""
        tenant = self._world.tenants[0]
        headers = dict(self._headers)
        async with api.client(self._url, api.key_of(tenant)) as client:
            for who, user in zip(WRITERS, tenant.users, strict=False):
                body = {"email": user.email, "password": PASSWORD}
                answer = await client.post(api.LOGIN, json=body)
                assert answer.status_code == 200, answer.text
                headers[who] = api.key_of(tenant) | api.bearer(answer.json()["data"]["token"])
        self._headers = headers


class _Unclear(Exception):
    """The response to a reader says nothing of the post."""


PUBLISHES: Mapping[str, bool | None] = {"save": None, "save live": True, "save draft": False}
"""The member ``publish`` of each kind of save."""
_ANY = ("save", "save", "save live", "save draft", "save draft", "publish", "unpublish", "schedule")
WHAT = dict.fromkeys(WRITERS, _ANY)


def _possible(change: Change, post: Post) -> frozenset[str]:
    """Return what readers may see if the response is lost."""
    if change.what == "unpublish":
        return frozenset({ABSENT})
    if change.what in {"publish", "due"}:
        saved = {one.text for one in post.changes if one.text is not None}
        return frozenset({*saved, f"first {post.slug}"})
    is_live = change.text is not None and change.what != "save draft"
    return frozenset({change.text or ""}) if is_live else frozenset()


def _made_live(change: Change, post: Mapping[str, Any]) -> frozenset[str]:
    """Return what readers see, by the response."""
    if change.what == "schedule":
        return frozenset()
    if change.what == "unpublish":
        return frozenset({ABSENT})
    is_live = post["publishedAt"] is not None and not post["hasDraft"]
    return frozenset({post["content"]}) if is_live else frozenset()
