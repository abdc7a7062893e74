"""Servers that hang or go away: P29, P30."""

import asyncio
import itertools
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from urllib.parse import urlsplit

from harness import postgres
from harness.api import LOGIN, MIGRATE_ALL, MODULES, PROFILE, TENANTS, as_admin, key_of, signed_in
from harness.processes import Process
from harness.prove.calls import Line
from harness.prove.isolation import busy_connections
from harness.prove.promise import Figure, Promise, Stage
from harness.world import PASSWORD, World
from testkit.postgres import Server, own_server
from testkit.toxics import TOXICS, Proxy

ANSWER_SECONDS_MAX = 5.0

RECOVERY_SECONDS_MAX = 5.0

# What two busy cores add.
SLACK_SECONDS = 1.0

HANG_SECONDS_MAX = 40.0

PER_SECOND = 50

AWAY_SECONDS_MAX = 2.0


def p29(stage: Stage) -> Figure:
    """Put a proxy before the catalog and the tenants that hangs, delays, cuts and slices."""
    toxics = stage.size(list(TOXICS), ["hang", "reset"])
    faults: list[str] = []
    cells = list(itertools.product(toxics, ("catalog", "tenant")))
    world = stage.world("postgresql", 4, users=2)
    slowest, recovery = asyncio.run(_poison(stage, world, cells, faults))
    return Figure(
        done=f"{len(cells) * 3} cells: {', '.join(toxics)} x catalog and tenants x login, profile, "
        "migrate (PostgreSQL, through a proxy)",
        found=f"every answer within {slowest:.1f} s, usable again within {recovery:.1f} s; "
        f"{len(faults)} faults",
        faults=faults,
    )


async def _poison(
    stage: Stage, world: World, cells: Sequence[tuple[str, str]], faults: list[str]
) -> tuple[float, float]:
    port = urlsplit(world.environment["TENANTRY_TENANT_SERVER_URL"]).port
    assert port is not None
    slowest = recovery = 0.0
    async with Proxy(port) as catalog, Proxy(port) as tenants:
        environment = dict(world.environment)
        for name, proxy in (("CATALOG", catalog), ("TENANT_SERVER", tenants)):
            url = environment[f"TENANTRY_{name}_URL"]
            environment[f"TENANTRY_{name}_URL"] = url.replace(f":{port}/", f":{proxy.port}/")
        poisoned = replace(world, environment=environment)
        # A run waits for a silent server: a deadline, probes, and the patience. The sum counts.
        settings = {"tenant_deadline_s": "1", "connect_timeout_s": "1", "lock_timeout_ms": "500"}
        settings |= {"statement_timeout_s": "3", "server_patience_s": "1"}
        serving = stage.serving(poisoned, **settings)
        process = await asyncio.to_thread(serving.__enter__)
        try:
            for toxic, target in cells:
                proxy = catalog if target == "catalog" else tenants
                where = f"{toxic} before {target}"
                async with proxy.poisoned(toxic):
                    slowest = max(slowest, await _use_poisoned(world, process, where, faults))
                recovery = max(recovery, await _recover(world, process, where, faults))
        finally:
            await asyncio.to_thread(serving.__exit__, None, None, None)
    return slowest, recovery


async def _use_poisoned(world: World, process: Process, where: str, faults: list[str]) -> float:
    tenant = world.tenants[0]
    body = {"email": tenant.users[0].email, "password": PASSWORD}
    calls: Sequence[tuple[str, str, dict[str, str], object]] = (
        ("POST", LOGIN, key_of(tenant), body),
        ("GET", PROFILE, signed_in(tenant), None),
        ("POST", MIGRATE_ALL, as_admin(world), None),
    )

    async def call(method: str, path: str, headers: dict[str, str], body: object) -> float:
        async with Line(process.port) as line:
            began = time.monotonic()
            try:
                answer = await line.ask(
                    method, path, body, headers=headers, seconds=HANG_SECONDS_MAX
                )
            except (OSError, TimeoutError) as error:
                faults.append(f"{where}, {path}: no answer: {error!r}")
                return time.monotonic() - began
        took = time.monotonic() - began
        if took > ANSWER_SECONDS_MAX + SLACK_SECONDS:
            faults.append(f"{where}, {path}: {answer.status} after {took:.1f} s")
        if answer.status not in {200, 503}:
            faults.append(f"{where}, {path}: {answer}")
        if answer.status == 503 and "retry-after" not in answer.said:
            faults.append(f"{where}, {path}: no Retry-After")
        return took

    return max(await asyncio.gather(*(call(*one) for one in calls)))


async def _recover(world: World, process: Process, where: str, faults: list[str]) -> float:
    began = time.monotonic()
    async with Line(process.port) as line:
        for tenant in world.tenants:
            while True:
                try:
                    answer = await line.get(PROFILE, headers=signed_in(tenant), seconds=5)
                    if answer.ok:
                        break
                except (OSError, TimeoutError):
                    pass
                if time.monotonic() - began > HANG_SECONDS_MAX:
                    faults.append(f"{where}: not usable after {HANG_SECONDS_MAX:g} s")
                    return time.monotonic() - began
                await asyncio.sleep(0.1)
        took = time.monotonic() - began
        if took > RECOVERY_SECONDS_MAX + SLACK_SECONDS:
            faults.append(f"{where}: usable again after {took:.1f} s")
        busy: list[str] = []
        for _ in range(100):
            text = (await line.get("/metrics", headers=as_admin(world))).body.decode()
            if not (busy := busy_connections(text)):
                break
            await asyncio.sleep(0.1)
        faults += [f"{where}: {one}" for one in busy]
    return took


def p30(stage: Stage) -> Figure:
    """Restart the server of the catalog under load."""
    restarts = stage.size(20, 2)
    with own_server() as catalog:
        url = postgres.new_catalog(catalog.url)
        world = stage.world("postgresql", 4, users=2, catalog_url=url)
        with stage.serving(world) as process:
            load = _Load(world, process)
            asyncio.run(load.run(catalog, restarts, stage))
            if not Path(f"/proc/{process.pid}").exists() or is_zombie(process.pid):
                load.faults.append("the process has ended")
    counts = ", ".join(f"{number:,} x {status}" for status, number in load.statuses.items())
    return Figure(
        done=f"the catalog's PostgreSQL restarted {restarts} times, away for up to "
        f"{AWAY_SECONDS_MAX:g} s, under {PER_SECOND} requests a second",
        found=f"{counts}; the last failure {load.latest:.1f} s after a restart",
        faults=load.faults,
    )


@dataclass
class _Load:
    """Requests at a fixed rate, judged by when the catalog was away."""

    world: World
    process: Process
    statuses: Counter[int] = field(default_factory=Counter)
    faults: list[str] = field(default_factory=list)
    latest: float = 0.0
    stopped: float = -1.0
    started: float = -100.0

    async def run(self, catalog: Server, restarts: int, stage: Stage) -> None:
        asking = asyncio.create_task(self._ask_at_a_rate())
        await asyncio.sleep(1)
        for number in range(restarts):
            self.stopped, self.started = time.monotonic(), 1e12
            await asyncio.to_thread(catalog.stop, "fast" if number % 2 else "immediate")
            await asyncio.sleep(stage.chance.uniform(0, AWAY_SECONDS_MAX))
            await asyncio.to_thread(catalog.start)
            self.started = time.monotonic()
            await asyncio.sleep(RECOVERY_SECONDS_MAX + 1)
        asking.cancel()
        await asyncio.gather(asking, return_exceptions=True)

    async def _ask_at_a_rate(self) -> None:
        began = time.monotonic()
        async with asyncio.TaskGroup() as group:
            for number in itertools.count():
                await asyncio.sleep(max(0, began + number / PER_SECOND - time.monotonic()))
                group.create_task(self._ask(number))

    async def _ask(self, number: int) -> None:
        tenant = self.world.tenants[number % len(self.world.tenants)]
        calls: Sequence[tuple[str, dict[str, str]]] = (
            (PROFILE, signed_in(tenant)),
            (TENANTS, as_admin(self.world)),
            (MODULES, signed_in(tenant)),
        )
        path, headers = calls[number % len(calls)]
        sent = time.monotonic()
        try:
            async with Line(self.process.port) as line:
                answer = await line.get(path, headers=headers, seconds=30)
        except (OSError, TimeoutError) as error:
            self.faults.append(f"{path}: {error!r}")
            return
        self.statuses[answer.status] += 1
        if answer.ok:
            return
        if answer.status != 503:
            self.faults.append(f"{path}: {answer}")
        if sent > self.started:
            after = sent - self.started
            self.latest = max(self.latest, after)
            if after > RECOVERY_SECONDS_MAX:
                self.faults.append(f"{path}: {answer.status} {after:.1f} s after the restart")
        elif self.stopped < 0:
            self.faults.append(f"{path}: {answer.status} before the first restart")


def is_zombie(pid: int) -> bool:
    """Return whether a process has ended, and its parent has not noticed."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except FileNotFoundError:
        return True
    return stat.rpartition(")")[2].split()[0] == "Z"


PROMISES = (
    Promise(29, "Servers that hang are survived in bounded time.", p29, "no deadlines at all"),
    Promise(30, "A restart of the catalog's server is survived.", p30, "a database away is a 500"),
)
