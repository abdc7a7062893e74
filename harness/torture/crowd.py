"""Five people call migrate-all at the same moment, and two processes work on it."""

import asyncio
import random
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, ExitStack, contextmanager
from pathlib import Path
from typing import Any
from uuid import UUID

import httpx

from harness.api import MIGRATE_ALL, admin_client, newest_runs
from harness.driver import say
from harness.finding import Finding
from harness.fleet.fleets import ENGINE_NAMES, NAMES, Fleet, make_fleet
from harness.fleet.runners import Runner
from harness.fleet.states import State
from harness.processes import serving
from harness.torture.trial import Trial

CALLERS = 5
PROGRESS_EVERY = 20


def check(trial: Trial) -> list[Finding]:
    """Let them call, round after round, on both engines."""
    return trial.on_both(_check)


def _check(trial: Trial, engine: str) -> Finding:
    scale = trial.scale
    fleet = make_fleet(trial.folder / engine, scale.crowd_tenants, server_url=trial.url_on(engine))
    faults: list[str] = []
    with _two_processes(trial.folder, fleet, engine) as clients:
        asyncio.run(_rounds(fleet, clients, scale.crowds, chance=trial.chance, faults=faults))
    return Finding(
        name=f"crowd, {ENGINE_NAMES[engine]}",
        check=f"{ENGINE_NAMES[engine]}: {scale.crowds} rounds of {CALLERS} simultaneous "
        f"migrate-alls of {scale.crowd_tenants} tenants, two processes",
        must="five 200s, total = success + failed, no failure, each revision applied once "
        "in each tenant and reported by one run",
        found=f"{len(faults)} faults in {scale.crowds * CALLERS} calls",
        faults=faults,
    )


@contextmanager
def _two_processes(
    folder: Path, fleet: Fleet, engine: str
) -> Iterator[Sequence[httpx.AsyncClient]]:
    """Yield clients of the servers: on SQLite there is one, and the other process is a worker."""
    world = fleet.ours.world
    with ExitStack() as stack:
        first = stack.enter_context(serving(folder, fleet.environment))
        if engine == "postgresql":
            second = stack.enter_context(serving(folder, fleet.environment))
            yield [admin_client(first, world), admin_client(second, world)]
            return
        worker = Runner(fleet.environment)
        stack.callback(worker.kill)
        worker.wait_ready()
        yield [admin_client(first, world)]


async def _rounds(
    fleet: Fleet,
    clients: Sequence[httpx.AsyncClient],
    rounds: int,
    *,
    chance: random.Random,
    faults: list[str],
) -> None:
    async with AsyncExitStack() as stack:
        for client in clients:
            await stack.enter_async_context(client)
        for number in range(rounds):
            await asyncio.to_thread(fleet.undo)
            logged = await asyncio.to_thread(fleet.read_states)

            async def call(caller: int) -> httpx.Response:
                await asyncio.sleep(chance.uniform(0, 0.02))
                return await clients[caller % len(clients)].post(MIGRATE_ALL)

            answers = await asyncio.gather(*(call(caller) for caller in range(CALLERS)))
            states = await asyncio.to_thread(fleet.read_states)
            runs = await newest_runs(clients[0], CALLERS)
            found = [*_wrong(answers, len(fleet.urls)), *_not_once(fleet, states, logged, runs)]
            faults += [f"round {number + 1}: {one}" for one in found]
            if (number + 1) % PROGRESS_EVERY == 0:
                say(f"crowd: {number + 1} of {rounds} rounds, {len(faults)} faults")


def _wrong(answers: Sequence[httpx.Response], tenants: int) -> list[str]:
    faults = []
    for answer in answers:
        data = answer.json().get("data") if answer.status_code == 200 else None
        if data is None:
            faults.append(f"{answer.status_code}: {answer.text[:200]}")
        elif (data["total"], data["success"], data["failed"]) != (tenants, tenants, 0):
            errors = {one["error"] for one in data["details"]}
            faults.append(f"{data['success']} + {data['failed']} of {data['total']}: {errors}")
    return faults


def _not_once(
    fleet: Fleet,
    states: Mapping[UUID, State],
    logged: Mapping[UUID, State],
    runs: Sequence[Mapping[str, Any]],
) -> list[str]:
    faults = []
    for tenant_id, state in states.items():
        names = [name for _, name in state.log[len(logged[tenant_id].log) :]]
        if names != NAMES or state.content != fleet.after:
            faults.append(f"the log of {tenant_id} says {names}")
    by_runs = Counter(
        (detail["customerId"], name)
        for run in runs
        for detail in run["details"]
        for name in (detail["appliedMigrations"] or "").split(",")
        if name
    )
    expected = {(str(tenant_id), name): 1 for tenant_id in states for name in NAMES}
    if by_runs != expected:
        faults.append(f"the history has {by_runs.total()} revisions, not {len(expected)}")
    return faults
