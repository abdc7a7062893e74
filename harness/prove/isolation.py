"""One tenant and the others: P1, P2."""

import asyncio
import hashlib
import itertools
import random
import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from harness.api import (
    ADMINS,
    HISTORY,
    MIGRATE_ALL,
    MODULES,
    POSTS,
    PROFILE,
    PUBLIC_POSTS,
    TENANTS,
    as_admin,
    bearer,
    key_of,
    signed_in,
)
from harness.fleet.fleets import ENGINE_NAMES, ENGINES
from harness.processes import Process
from harness.prove.calls import Answer, Line, login
from harness.prove.promise import Figure, Promise, Stage
from harness.world import PASSWORD, Tenant, World
from tenantry.access.principal import ALL_SCOPES
from tenantry.api.endpoints import Endpoint
from tenantry.api.table import ENDPOINTS
from testkit.decision_table import level_of
from testkit.raw_sql import Raw
from testkit.request_samples import body_of, path_of, query_of

GARBAGE = "tnk_garbage"

CLIENTS = 200

CUT_SHARE = 0.2

CUT_SECONDS_MAX = 0.005

OF_TENANT = re.compile(rb"tenant(\d+)\.example|mark-(\d+)-")


@dataclass
class _Case:
    """A tenant of the matrix, with its secrets.

    Attributes:
        canary: In what only its own people may see.
        ids: Of what it owns, by the names of parameters in paths.
    """

    tenant: Tenant
    canary: str
    mcp_token: str = ""
    token: str = ""
    ids: dict[str, str] = field(default_factory=dict)


def p1(stage: Stage) -> Figure:
    """Ask every endpoint with what a user of one tenant has, about that tenant and another."""
    faults: list[str] = []
    answers: list[int] = []
    for engine in ENGINES:
        world = stage.world(engine, 3, users=2)
        with stage.serving(world) as process:
            answers += asyncio.run(_matrix(world, process.port, faults, short=stage.short))
    successes = sum(status < 300 for status in answers)
    if successes < len(ENDPOINTS):
        faults.append("too few requests succeeded to show anything")
    return Figure(
        done=f"{len(answers):,} requests: {len(ENDPOINTS)} endpoints x credentials of one tenant "
        "alone and mixed with the public key of another x ids of both; SQLite and PostgreSQL",
        found=f"{len(faults)} canaries or changed rows of another tenant; {successes:,} successes",
        faults=faults,
    )


async def _matrix(world: World, port: int, faults: list[str], *, short: bool) -> list[int]:
    cases = [_Case(tenant, f"canary{n}c") for n, tenant in enumerate(world.tenants)]
    async with Line(port) as line:
        for case in cases:
            await _furnish(line, world, case)
        mine, other, _ = cases
        before = {case.tenant.url: _digest(case.tenant.url) for case in cases[1:]}
        answers = []
        for endpoint in ENDPOINTS:
            if short and endpoint.method == "GET" and level_of(endpoint.path) == "Admin":
                continue
            if endpoint.method == "GET" and not endpoint.is_event_stream:
                # The other tenant uses the service, too: what it gets must not be kept for us.
                await _ask_cell(line, endpoint, other, signed_in(other.tenant))
            for case, headers in itertools.product((mine, other), _presented(mine, other)):
                answer = await _ask_cell(line, endpoint, case, headers)
                answers.append(answer.status)
                faults += [
                    f"{endpoint.method} {endpoint.path} returns {one.canary}"
                    for one in cases[1:]
                    if one.canary.encode() in answer.raw
                ]
            await _log_in_again(line, mine)
        changed = [url for url, digest in before.items() if _digest(url) != digest]
        faults += ["the database of another tenant has changed" for _ in changed]
        if (await line.get(POSTS, headers=signed_in(other.tenant))).status != 200:
            faults.append("the other tenant's own session no longer works")
    return answers


def _presented(mine: _Case, other: _Case) -> Iterator[dict[str, str]]:
    keys = ("", mine.tenant.api_key, other.tenant.api_key, GARBAGE)
    for key, has_bearer, mcp in itertools.product(keys, (True, False), ("", mine.mcp_token)):
        headers = {"x-api-key": key} if key else {}
        headers |= bearer(mine.token) if has_bearer else {}
        yield headers | ({"x-mcp-token": mcp} if mcp else {})


async def _furnish(line: Line, world: World, case: _Case) -> None:
    """Write what a tenant keeps to itself, and find the ids of what it owns."""
    admin, tenant = as_admin(world), case.tenant
    case.token = tenant.users[0].token
    own = signed_in(tenant)
    name = {"fullName": f"Owner {case.canary}", "email": tenant.users[0].email}
    assert (await line.ask("PUT", PROFILE, name, headers=own)).ok
    draft = {"title": f"Draft {case.canary}", "content": case.canary, "tags": [case.canary]}
    post = await line.post(POSTS, draft, headers=own)
    base = f"{TENANTS}/{tenant.id}"
    issued = await line.post(
        f"{base}/mcp-tokens",
        {
            "name": f"assistant {case.canary}",
            "userId": tenant.users[0].id,
            "scopes": sorted(ALL_SCOPES),
        },
        headers=admin,
    )
    key = await line.post(f"{base}/api-keys", {}, headers=admin)
    run = await line.post(MIGRATE_ALL, headers=admin)
    assert run.ok, run
    runs = await line.get(HISTORY, headers=admin)
    admins = await line.get(ADMINS, headers=admin)
    case.mcp_token = issued.data["token"]
    case.ids = {
        "tenantId": tenant.id,
        "userId": tenant.users[1].id,
        "keyId": key.data["id"],
        "tokenId": issued.data["id"],
        "runId": runs.data["items"][0]["id"],
        "slug": post.data["slug"],
        "postId": post.data["id"],
        "adminId": admins.data["items"][0]["id"],
    }


async def _ask_cell(line: Line, endpoint: Endpoint, case: _Case, headers: dict[str, str]) -> Answer:
    path = path_of(endpoint, case.ids)
    if endpoint.is_event_stream:
        return await line.get(path, headers=headers)  # no caller here may watch
    if not endpoint.reads_body:
        query = query_of(endpoint, name="Tenant 1").decode()
        return await line.ask(
            endpoint.method, f"{path}?{query}" if query else path, headers=headers
        )
    body = body_of(endpoint, login=case.tenant.users[0].email, user_id=case.tenant.users[1].id)
    if endpoint.path.endswith("/login"):
        body = {"email": "guest@example.com", "password": "no"}  # a hash each would cost minutes
        headers = {"x-api-key": GARBAGE} | headers
    return await line.ask(endpoint.method, path, body, headers=headers)


async def _log_in_again(line: Line, case: _Case) -> None:
    """Keep the caller's session alive: some endpoints end it, or change the password."""
    headers = key_of(case.tenant) | bearer(case.token)
    if (await line.get(MODULES, headers=headers)).ok:
        return
    profile = case.tenant.users[0].email
    for password in (PASSWORD, "another quite long passphrase"):
        answer = await login(line, case.tenant, profile, password)
        if answer.ok:
            case.token = answer.data["token"]
            return


def _digest(url: str) -> str:
    return hashlib.sha256(Raw(url).dump().encode()).hexdigest()


def p2(stage: Stage) -> Figure:
    """Let many clients ask about many tenants at the same moment, and some hang up."""
    faults: list[str] = []
    notes = []
    requests = stage.size(100_000, 3_000)
    tenants = stage.size(50, 10)
    for engine in ENGINES:
        world = stage.world(engine, tenants, users=2)
        with stage.serving(world) as process:
            mixed = _Mixed(world, process, stage.chance, faults)
            asyncio.run(mixed.run(requests))
            notes.append(f"{ENGINE_NAMES[engine]}: {mixed.answered:,} answers, {mixed.cut:,} cut")
    return Figure(
        done=f"{requests:,} interleaved requests on each engine by {CLIENTS} clients of {tenants} "
        f"tenants, {CUT_SHARE:.0%} of them cut off at a random moment",
        found=f"{'; '.join(notes)}; {len(faults)} answers for another tenant, failures or "
        "connections still in use",
        faults=faults,
    )


@dataclass
class _Mixed:
    world: World
    process: Process
    chance: random.Random
    faults: list[str]
    answered: int = 0
    cut: int = 0
    left: int = 0

    async def run(self, requests: int) -> None:
        async with Line(self.process.port) as line:
            for number, tenant in enumerate(self.world.tenants):
                post = {"title": f"mark-{number}-post", "content": "Text.", "tags": []}
                made = await line.post(POSTS, post, headers=signed_in(tenant))
                path = f"{POSTS}/{made.data['id']}/publish"
                assert (await line.post(path, headers=signed_in(tenant))).ok
        self.left = requests
        async with asyncio.TaskGroup() as group:
            for number in range(CLIENTS):
                group.create_task(self._client(number))
        await self._check_idle()

    async def _client(self, number: int) -> None:
        line = Line(self.process.port, address=f"127.0.1.{1 + number}")
        while self.left > 0:
            self.left -= 1
            at = self.chance.randrange(len(self.world.tenants))
            if self.chance.random() < CUT_SHARE:
                await self._cut(line, at)
            else:
                await self._ask(line, at)
        line.close()

    def _request(self, at: int) -> tuple[str, str, dict[str, str], object]:
        tenant = self.world.tenants[at]
        own = signed_in(tenant, self.chance.randrange(2))
        name = {"fullName": f"mark-{at}-name", "email": tenant.users[0].email}
        return self.chance.choice(
            [
                ("GET", PROFILE, own, None),
                ("GET", POSTS, own, None),
                ("GET", PUBLIC_POSTS, key_of(tenant), None),
                ("PUT", PROFILE, signed_in(tenant, 0), name),
            ]
        )

    async def _ask(self, line: Line, at: int) -> None:
        method, path, headers, body = self._request(at)
        answer = await line.ask(method, path, body, headers=headers)
        self.answered += 1
        seen = {int(a or b) for a, b in OF_TENANT.findall(answer.raw)}
        if answer.status != 200 or seen != {at}:
            self.faults.append(f"{method} {path} of tenant {at}: {seen} {answer}")

    async def _cut(self, line: Line, at: int) -> None:
        method, path, headers, body = self._request(at)
        await line.send(method, path, body, headers=headers)
        await asyncio.sleep(self.chance.uniform(0, CUT_SECONDS_MAX))
        line.close()
        self.cut += 1

    async def _check_idle(self) -> None:
        busy: list[str] = []
        for _ in range(50):  # what was cut may still be under way for a moment
            async with Line(self.process.port) as line:
                text = (await line.get("/metrics", headers=as_admin(self.world))).body.decode()
            busy = busy_connections(text)
            if not busy:
                return
            await asyncio.sleep(0.1)
        self.faults += busy


def busy_connections(metrics: str) -> list[str]:
    """Return the connections to tenants that are in use, by what /metrics counts."""
    found = re.findall(
        r'tenantry_pool_connections\{server="(tenants/[^"]+)",state="(\w+)"\} ([\d.]+)', metrics
    )
    counts = {(server, state): float(value) for server, state, value in found}
    if not counts:
        return ["the metrics do not count connections"]
    return [
        f"{value - counts[server, 'idle']:g} connections of {server} are in use"
        for (server, state), value in counts.items()
        if state == "open" and value != counts[server, "idle"]
    ]


PROMISES = (
    Promise(
        1,
        "One tenant never reads or changes another.",
        p1,
        "answers are cached by path alone",
    ),
    Promise(
        2,
        "The same under concurrency and cancellation.",
        p2,
        "answers are cached by path alone",
        seconds_max=3_000,
    ),
)
