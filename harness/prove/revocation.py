"""What ends a credential: P13, P14, P15, P38."""

import asyncio
import itertools
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from datetime import timedelta

from harness.api import (
    ADMINS,
    CHANGE_PASSWORD,
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
from harness.fleet.fleets import ENGINES
from harness.processes import Process
from harness.prove.calls import Answer, Line, each, login, percentile
from harness.prove.promise import Figure, Promise, Stage
from harness.prove.tokens import REFUSED
from harness.world import PASSWORD, Tenant, World
from tenantry.kit.clock import utc_now

NEW_PASSWORD = "another quite long passphrase"

SECONDS_TO_TAKE_EFFECT = 1.0

SHORT_LIVED_SECONDS = 9
NEAR_END_SECONDS = 2

GIVE_UP_SECONDS = 8.0

Ask = Callable[[Line], Awaitable[Answer]]


def p13(stage: Stage) -> Figure:
    """Change passwords, with two more sessions and an McpToken of each user."""
    cycles = stage.size(1_000, 12)
    faults: list[str] = []
    delays: list[float] = []
    for engine, share in (("postgresql", 0.8), ("sqlite", 0.2)):
        mine = max(2, round(cycles * share))
        per_tenant = 20
        world = stage.world(engine, -(-mine // per_tenant), users=per_tenant)
        with ExitStack() as stack:
            replicas = _replicas(stage, stack, world, engine)
            ports = [one.port for one in replicas]
            users = [(t, n) for t in world.tenants for n in range(per_tenant)][:mine]
            asyncio.run(_change_passwords(world, ports, users, faults, delays))
    return Figure(
        done=f"{cycles:,} changed passwords, each with two sessions and an McpToken, on two "
        "processes (PostgreSQL) and one (SQLite)",
        found=f"{len(faults)} old sessions answered after the change; McpTokens dead within "
        f"{max(delays):.2f} s",
        faults=faults,
    )


def _replicas(stage: Stage, stack: ExitStack, world: World, engine: str) -> list[Process]:
    count = 2 if engine == "postgresql" else 1
    return [stack.enter_context(stage.serving(world)) for _ in range(count)]


async def _change_passwords(
    world: World,
    ports: Sequence[int],
    users: Sequence[tuple[Tenant, int]],
    faults: list[str],
    delays: list[float],
) -> None:
    async def cycle(numbered: tuple[int, tuple[Tenant, int]]) -> None:
        number, (tenant, at) = numbered
        user = tenant.users[at]
        lines = [Line(port, key_of(tenant)) for port in ports]
        first = lines[number % len(lines)]
        entered = await login(first, tenant, user.email, PASSWORD)
        second = entered.data["token"]
        issued = await first.post(
            f"{TENANTS}/{tenant.id}/mcp-tokens",
            {"name": "assistant", "userId": user.id},
            headers=as_admin(world),
        )
        assistant = {"x-mcp-token": issued.data["token"]}
        for line in lines:
            assert (await line.get(PROFILE, headers=bearer(second))).ok
            assert (await line.get(PROFILE, headers=bearer(user.token))).ok
            assert (await line.get(PROFILE, headers=assistant)).ok
        body = {"currentPassword": PASSWORD, "newPassword": NEW_PASSWORD}
        changed = await first.ask("PUT", CHANGE_PASSWORD, body, headers=bearer(second))
        if not changed.ok:
            faults.append(f"the change: {changed}")
            return
        for line in lines:
            answer = await line.get(PROFILE, headers=bearer(user.token))
            if answer.status != 401:
                faults.append(f"an old session: {answer}")
        delays.append(await _until_refused(lines, PROFILE, assistant, faults, "an McpToken"))
        for line in lines:
            line.close()

    await each(enumerate(users), cycle, at_once=4)


async def _until_refused(
    lines: Sequence[Line], path: str, headers: Mapping[str, str], faults: list[str], what: str
) -> float:
    """Return after how many seconds all *lines* refuse; it is a fault if that is too long."""
    began = time.monotonic()
    for line in lines:
        while (answer := await line.get(path, headers=headers)).status not in REFUSED:
            if time.monotonic() - began > GIVE_UP_SECONDS:
                faults.append(f"{what} still answers after {GIVE_UP_SECONDS:g} s: {answer}")
                return time.monotonic() - began
            await asyncio.sleep(0.02)
    took = time.monotonic() - began
    if took > SECONDS_TO_TAKE_EFFECT:
        faults.append(f"{what} was refused after {took:.2f} s")
    return took


@dataclass
class _Switches:
    """Things that are switched off on one replica, and must end on all."""

    world: World
    lines: list[Line]
    faults: list[str]
    delays: list[float] = field(default_factory=list)

    async def off(self, what: str, change: Ask, path: str, headers: Mapping[str, str]) -> None:
        for line in self.lines:
            answer = await line.get(path, headers=headers)
            if not answer.ok:
                self.faults.append(f"{what} does not work before: {answer}")
        done = await change(self.lines[0])
        if not done.ok:
            self.faults.append(f"{what} could not be switched off: {done}")
        self.delays.append(await _until_refused(self.lines[::-1], path, headers, self.faults, what))

    async def are_off(self, path: str, headers: Mapping[str, str]) -> None:
        for line in self.lines:
            answer = await line.get(path, headers=headers)
            if answer.status not in REFUSED:
                self.faults.append(f"{path} by what is off, or was: {answer}")


def p14(stage: Stage) -> Figure:
    """Switch users and tenants off and on again, and use every credential of theirs."""
    users = stage.size(40, 4)
    faults: list[str] = []
    delays: list[float] = []
    for engine in ENGINES:
        world = stage.world(engine, 2 + users, users=1)
        with ExitStack() as stack:
            ports = [one.port for one in _replicas(stage, stack, world, engine)]
            delays += asyncio.run(_switch_off_and_on(world, ports, users, faults))
    return Figure(
        done=f"{users} users and {users} tenants on each engine switched off and on again; bearer "
        "and McpToken at every tenant endpoint read",
        found=f"{len(faults)} accepted; refused within {max(delays):.2f} s in every process",
        faults=faults,
    )


async def _switch_off_and_on(
    world: World, ports: Sequence[int], count: int, faults: list[str]
) -> list[float]:
    admin = as_admin(world)
    lines = [Line(port) for port in ports]
    switches = _Switches(world, lines, faults)
    reading = [MODULES, POSTS, PROFILE]
    for number, tenant in enumerate(world.tenants[2:][:count]):
        user = tenant.users[0]
        own = signed_in(tenant)
        mcp = await _issue_mcp(lines[0], world, tenant, user.id)
        of_user = f"{TENANTS}/{tenant.id}/users/{user.id}"
        path = reading[number % len(reading)]
        spare = {"email": "spare@example.com", "fullName": "Spare", "password": PASSWORD}
        made = await lines[0].ask("POST", f"{TENANTS}/{tenant.id}/users", spare, headers=admin)
        assert made.ok, made  # the last owner cannot be switched off

        def patch(url: str, *, on: bool) -> Ask:
            return lambda one: one.ask("PATCH", url, {"isActive": on}, headers=admin)

        await switches.off("a session", patch(of_user, on=False), path, own)
        for each_path, headers in itertools.product(reading, (own, mcp)):
            await switches.are_off(each_path, headers)
        assert (await patch(of_user, on=True)(lines[0])).ok
        await switches.are_off(path, own)
        entered = await login(lines[0], tenant, user.email, PASSWORD)
        own = key_of(tenant) | bearer(entered.data["token"])
        of_tenant = f"{TENANTS}/{tenant.id}"
        await switches.off("a tenant's session", patch(of_tenant, on=False), path, own)
        await switches.are_off(PUBLIC_POSTS, key_of(tenant))
        await switches.are_off(MODULES, mcp)
    for line in lines:
        line.close()
    return switches.delays


async def _issue_mcp(
    line: Line, world: World, tenant: Tenant, user_id: str | None, **more: object
) -> dict[str, str]:
    body = {"name": "assistant", **({"userId": user_id} if user_id else {}), **more}
    path = f"{TENANTS}/{tenant.id}/mcp-tokens"
    issued = await line.post(path, body, headers=as_admin(world))
    assert issued.ok, issued
    return {"x-mcp-token": issued.data["token"], "x-token-id": issued.data["id"]}


def p15(stage: Stage) -> Figure:
    """Use McpTokens up to the second of their end, and after they were revoked."""
    tokens = stage.size(50, 4)
    faults: list[str] = []
    delays: list[float] = []
    for engine in ENGINES:
        world = stage.world(engine, 2)
        with ExitStack() as stack:
            ports = [one.port for one in _replicas(stage, stack, world, engine)]
            delays += asyncio.run(_expire_and_revoke(world, ports, tokens, faults))
    return Figure(
        done=f"{tokens} McpTokens on each engine used {NEAR_END_SECONDS} s before and 1 s after "
        f"their end, and {tokens} revoked (the real clock; P35 moves it)",
        found=f"{len(faults)} wrong answers; revoked ones refused within {max(delays):.2f} s "
        "in every process",
        faults=faults,
    )


async def _expire_and_revoke(
    world: World, ports: Sequence[int], count: int, faults: list[str]
) -> list[float]:
    tenant = world.tenants[0]
    admin = as_admin(world)
    lines = [Line(port) for port in ports]
    ends = utc_now() + timedelta(seconds=SHORT_LIVED_SECONDS)
    short = [
        await _issue_mcp(lines[0], world, tenant, tenant.users[0].id, expiresAt=ends.isoformat())
        for _ in range(count)
    ]
    await asyncio.sleep(max(0.0, (ends - utc_now()).total_seconds() - NEAR_END_SECONDS))
    faults += await _all_are(lines, short, {200}, "before its end")
    await asyncio.sleep(max(0.0, (ends - utc_now()).total_seconds() + 1))
    faults += await _all_are(lines, short, {401}, "after its end")
    switches = _Switches(world, lines, faults)
    for _ in range(count):
        mcp = await _issue_mcp(lines[0], world, tenant, None)
        url = f"{TENANTS}/{tenant.id}/mcp-tokens/{mcp['x-token-id']}"
        await switches.off(
            "a revoked McpToken",
            lambda line, url=url: line.ask("DELETE", url, headers=admin),  # type: ignore[misc]
            MODULES,
            mcp,
        )
    for line in lines:
        line.close()
    return switches.delays


async def _all_are(
    lines: Sequence[Line], tokens: Sequence[Mapping[str, str]], statuses: set[int], when: str
) -> list[str]:
    async def ask(pair: tuple[Line, Mapping[str, str]]) -> Answer:
        return await pair[0].get(MODULES, headers=pair[1])

    answers = [await ask(pair) for pair in itertools.product(lines, tokens)]
    return [f"{when}: {one}" for one in answers if one.status not in statuses]


def p38(stage: Stage) -> Figure:
    """Change something in one process, and ask another until it knows."""
    rounds = stage.size(50, 3)
    faults: list[str] = []
    world = stage.world("postgresql", 1 + rounds, users=2)
    with ExitStack() as stack:
        ports = [stack.enter_context(stage.serving(world)).port for _ in range(2)]
        delays = asyncio.run(_change_everything(world, ports, rounds, faults))
    return Figure(
        done=f"{rounds} times each on PostgreSQL: an API key revoked, an McpToken revoked, a user "
        "off, an admin off, a tenant suspended in one process, and used in another",
        found=f"refused within {max(delays):.2f} s, half within "
        f"{percentile(delays, 0.5) * 1000:.0f} ms; {len(faults)} faults",
        faults=faults,
    )


async def _change_everything(
    world: World, ports: Sequence[int], rounds: int, faults: list[str]
) -> list[float]:
    admin = as_admin(world)
    lines = [Line(port) for port in ports]
    switches = _Switches(world, lines, faults)

    def call(method: str, url: str, body: object = None) -> Ask:
        return lambda line: line.ask(method, url, body, headers=admin)

    for number, tenant in enumerate(world.tenants[1:][:rounds]):
        base = f"{TENANTS}/{tenant.id}"
        key = await lines[0].post(f"{base}/api-keys", {}, headers=admin)
        revoke = call("DELETE", f"{base}/api-keys/{key.data['id']}")
        own = {"x-api-key": key.data["key"]}
        await switches.off("a revoked key", revoke, PUBLIC_POSTS, own)
        mcp = await _issue_mcp(lines[0], world, tenant, None)
        revoke = call("DELETE", f"{base}/mcp-tokens/{mcp['x-token-id']}")
        await switches.off("a revoked McpToken", revoke, MODULES, mcp)
        off = {"isActive": False}
        of_user = f"{base}/users/{tenant.users[1].id}"
        await switches.off("a user", call("PATCH", of_user, off), PROFILE, signed_in(tenant, 1))
        account = {"email": f"a{number}@example.com", "password": PASSWORD}
        made = await lines[0].post(ADMINS, account, headers=admin)
        entered = await lines[0].post("/api/admin/auth/login", account)
        theirs = bearer(entered.data["token"])
        url = f"{ADMINS}/{made.data['id']}"
        await switches.off("an admin", call("PATCH", url, off), TENANTS, theirs)
        await switches.off("a tenant", call("PATCH", base, off), MODULES, signed_in(tenant))
    for line in lines:
        line.close()
    return switches.delays


PROMISES = (
    Promise(
        13,
        "Sessions and McpTokens end when their user's password changes.",
        p13,
        "credentials that were good are remembered",
        seconds_max=900,
    ),
    Promise(
        14,
        "They end when the user or the tenant is switched off.",
        p14,
        "credentials that were good are remembered",
    ),
    Promise(
        15,
        "Expiry and revocation of McpTokens are exact.",
        p15,
        "credentials that were good are remembered",
    ),
    Promise(
        38,
        "A change takes effect in every process within a second.",
        p38,
        "credentials that were good are remembered",
    ),
)
