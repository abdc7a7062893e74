"""Malformed requests: P20."""

import asyncio
import json
import random
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from harness.api import MIGRATE_ALL, TENANTS, as_admin, key_of, signed_in
from harness.fleet.fleets import ENGINES
from harness.prove.calls import Answer, Line
from harness.prove.promise import Figure, Promise, Stage
from harness.world import Tenant, World
from tenantry.api.endpoints import Endpoint
from tenantry.api.openapi import statuses, successes
from tenantry.api.table import ENDPOINTS
from testkit.decision_table import level_of
from testkit.request_samples import body_of, path_of, query_of
from testkit.response_form import faults as form_faults

LEVELS = ("Open", "Admin", "Tenant login", "Tenant", "Public", "MCP")

SEEDS = 3

ALWAYS_DECLARED = {405, 408, 429, 431, 500, 501, 503}

BROKEN: tuple[bytes, ...] = (
    b"", b"{", b"null", b"[]", b'"x"', b"1", b"\xff\xfe", b"[" * 30_000, b'{"a":' * 3_000,
    b"9" * 5_000, b'{"email":"\\ud800"}', b'{"email":"\\u0000"}', b'{"email":1e999}',
    b'{"x":NaN}', b"\x00", b'{"a":1,"a":2}', b'{"email":' + b"[" * 500 + b"]" * 500 + b"}",
)  # fmt: skip

VALUES: tuple[object, ...] = (
    None, True, 0, -1, 2**63, 2**64, 10**30, 1.5, 1e308, "", " ", "\x00", "\ud800", "x" * 3_000,
    "a\u0300" * 300, "\u202e", "' OR 1=1 --", "${7*7}", "../..", "%00", [], [[]], [None], {},
    {"a": 1}, ["x"] * 200, "1e3", "2026-01-01", "0001-01-01T00:00:00Z", "9999-12-31T23:59:59Z",
    "a@b", "é@exämple.org", "\uffff", "💥" * 50,
)  # fmt: skip

UNKNOWN_METHOD = "BREW"
QUERIES = (
    "page=0", "page=-1", "page=9999999999999999999", "pageSize=1e3", "pageSize=%00", "page=%ff",
    "search=%00", "search=" + "a" * 2_000, "tag=%ED%A0%80", "page=1&page=2", "x=%", "=", "&&&",
    "search=" + "%25" * 300, "sort=id;drop", "page[]=1", "search=%F0%9F%92%A5",
)  # fmt: skip


def p20(stage: Stage) -> Figure:
    """Send thousands of malformed requests to every level, with good credentials."""
    cases = stage.size(10_000, 240)
    faults: list[str] = []
    statuses_seen: Counter[int] = Counter()
    for number, engine in enumerate(ENGINES):
        world = stage.world(engine, 2, users=2)
        with stage.serving(world) as process:
            for seed in range(SEEDS):
                chance = random.Random(f"{stage.chance.random()} {seed}")  # noqa: S311
                for level in LEVELS:
                    # Half of the cases on each engine.
                    fuzz = _Fuzz(world, chance, statuses_seen, faults)
                    asyncio.run(fuzz.run(process.port, level, cases // SEEDS // 2 + number))
    total = sum(statuses_seen.values())
    server_errors = sum(n for status, n in statuses_seen.items() if status >= 500)
    return Figure(
        done=f"{total:,} malformed requests, {cases:,} for each of {len(LEVELS)} levels, {SEEDS} "
        "seeds, both engines",
        found=f"{server_errors} x 5xx; {len(faults)} undeclared statuses or wrong forms",
        faults=faults,
    )


@dataclass
class _Fuzz:
    world: World
    chance: random.Random
    seen: Counter[int]
    faults: list[str]

    async def run(self, port: int, level: str, count: int) -> None:
        endpoints = [
            one for one in ENDPOINTS if level_of(one.path) == level and not one.is_event_stream
        ]
        # A run of the whole fleet, and a new tenant, each time would take the whole time.
        slow = {MIGRATE_ALL, TENANTS}
        async with Line(port) as line:
            for number in range(count):
                endpoint = endpoints[number % len(endpoints)]
                if endpoint.method == "POST" and endpoint.path in slow and number % 16:
                    continue
                await self._ask(line, endpoint)

    async def _ask(self, line: Line, endpoint: Endpoint) -> None:
        tenant = self.world.tenants[0]
        headers = dict(self._credentials(endpoint, tenant))
        path = path_of(endpoint, self._ids(tenant))
        body: object = None
        if endpoint.reads_body:
            body = self._body(endpoint, tenant)
        elif self.chance.random() < 0.7:
            path += "?" + "&".join(self.chance.sample(QUERIES, self.chance.randint(1, 3)))
        else:
            path += "?" + query_of(endpoint, name="Tenant 0").decode()
        if self.chance.random() < 0.1:
            headers |= self.chance.choice(
                [{"accept": "\xff"}, {"if-none-match": '"x' * 50}, {"prefer": '"\\"' * 200},
                 {"content-encoding": "gzip"}, {"last-event-id": "x"}, {"range": "bytes=9-1"}]
            )  # fmt: skip
        method = endpoint.method if self.chance.random() < 0.95 else UNKNOWN_METHOD
        answer = await line.ask(method, path, body, headers=headers)
        self.seen[answer.status] += 1
        self._check(endpoint, answer, method)

    def _check(self, endpoint: Endpoint, answer: Answer, method: str) -> None:
        where = f"{method} {endpoint.path}"
        declared = {int(one) for one in (*successes(endpoint), *statuses(endpoint))}
        if answer.status >= 500 and answer.status != 503:
            self.faults.append(f"{where}: {answer}")
        elif answer.status not in declared | ALWAYS_DECLARED - {500}:
            self.faults.append(f"{where}: {answer.status} is not declared")
        elif answer.status < 400 or answer.said.get("content-type") == "application/json":
            # The parser refuses an unknown method before anything reads the path.
            path = "" if method == UNKNOWN_METHOD else endpoint.path
            self.faults += [f"{where}: {one}" for one in form_faults(_as_asgi(answer), path)]

    def _ids(self, tenant: Tenant) -> dict[str, str]:
        good = {"tenantId": tenant.id, "userId": tenant.users[1].id}
        bad = self.chance.choice(["x", "%00", "..%2f", "0" * 36, "%ff", "x" * 300, "null"])
        return good if self.chance.random() < 0.6 else {"userId": bad, "tenantId": bad, "slug": bad}

    def _credentials(self, endpoint: Endpoint, tenant: Tenant) -> dict[str, str]:
        if self.chance.random() < 0.05:
            return {"x-api-key": "\xff", "authorization": "Bearer ..", "x-mcp-token": "tnm_x"}
        return {
            "Open": {},
            "Admin": as_admin(self.world),
            "Tenant login": key_of(tenant),
            "Tenant": signed_in(tenant),
            "Public": key_of(tenant),
            "MCP": {},
        }[level_of(endpoint.path)]

    def _body(self, endpoint: Endpoint, tenant: Tenant) -> object:
        if self.chance.random() < 0.2:
            return self.chance.choice(BROKEN)
        if endpoint.path.endswith("/login"):
            # Never both members whole: each would cost a hash, and that is another promise.
            return {"email": self._value(), "password": self.chance.choice([1, None, [], {}])}
        body = body_of(endpoint, login=tenant.users[0].email, user_id=tenant.users[1].id)
        for name in list(body):
            if self.chance.random() < 0.4:
                body[name] = self._value()
        if {"currentPassword", "isActive", "password"} & body.keys():
            # The caller goes on to exist, and nothing is hashed.
            body |= {one: 7 for one in ("currentPassword", "isActive", "password") if one in body}
        return body

    def _value(self) -> object:
        return self.chance.choice(VALUES)


def _as_asgi(answer: Answer) -> Any:
    @dataclass
    class _Answer:
        status: int
        headers: list[tuple[str, str]]
        body: bytes
        said: dict[str, str] = field(default_factory=dict)

        def json(self) -> Any:
            return json.loads(self.body)

    return _Answer(answer.status, answer.headers, answer.body, answer.said)


PROMISES = (
    Promise(20, "No input of a client is a 5xx.", p20, "a NUL in a body is a 500", seconds_max=900),
)
