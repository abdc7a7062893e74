"""Callers of migrate-all who hang up at a random moment."""

import json
import random
import socket
import time

from harness import wire
from harness.api import MIGRATE_ALL
from harness.driver import say
from harness.finding import Finding
from harness.fleet.fleets import ENGINE_NAMES, Fleet, Run, make_fleet
from harness.fleet.ours import call_migrate_all
from harness.processes import Process, serving
from harness.torture.trial import Trial
from harness.waiting import comes_true

END_SECONDS_MAX = 30
TOGETHER = 4


def check(trial: Trial) -> list[Finding]:
    """Call and hang up, on both engines."""
    return trial.on_both(_check)


def _check(trial: Trial, engine: str) -> Finding:
    scale, chance = trial.scale, trial.chance
    fleet = make_fleet(trial.folder / engine, scale.crowd_tenants, server_url=trial.url_on(engine))
    faults: list[str] = []
    runs: list[Run] = []
    sent = early = 0
    with serving(trial.folder, fleet.environment) as server, fleet.catalog() as catalog:
        length = _whole_call(server, fleet)
        known = len(catalog.runs())
        while len(runs) < scale.hangups and early < scale.hangups:
            fleet.undo()
            callers = min(TOGETHER, scale.hangups - len(runs))
            _hang_up(server, fleet, callers, chance, length)
            sent += callers
            # A client that disconnected before its request was read has no run.
            early = _logged_statuses(server, 1 + sent).count(400)
            if not comes_true(lambda: all(r.is_finished for r in catalog.runs()), END_SECONDS_MAX):
                faults.append(f"a run has not ended after {END_SECONDS_MAX} s")
            runs = catalog.runs()[: len(catalog.runs()) - known]
            say(f"hang-ups, {engine}: {len(runs)} of {scale.hangups}, {len(faults)} faults")
    finished = sum(run.is_finished for run in runs)
    if len(runs) != sent - early or finished != len(runs):
        faults.append(f"{len(runs)} runs of {sent - early} calls, {finished} of them have ended")
    faults += [f"{run}" for run in runs if (run.success, run.failed) != (run.total, 0)]
    return Finding(
        name=f"hang-ups, {ENGINE_NAMES[engine]}",
        check=f"{ENGINE_NAMES[engine]}: {len(runs)} callers who hang up at a random moment",
        must="as many runs, all with finishedAt, without failures",
        found=f"{finished} runs have ended, {len(faults)} faults",
        notes=[f"{early} more were gone before their request was read: no runs of theirs"],
        faults=faults,
    )


def _logged_statuses(server: Process, requests: int) -> list[int]:
    """Return the statuses of all *requests*, when the server has dealt with each of them."""

    def statuses() -> list[int]:
        lines = [json.loads(line) for line in server.said.splitlines() if line.startswith("{")]
        return [one["status"] for one in lines if one.get("path") == MIGRATE_ALL]

    comes_true(lambda: len(statuses()) >= requests, END_SECONDS_MAX)
    return statuses()


def _whole_call(server: Process, fleet: Fleet) -> float:
    """Return how long a caller waits who does not hang up."""
    fleet.undo()
    began = time.monotonic()
    call_migrate_all(server.port, fleet.ours)
    return time.monotonic() - began


def _hang_up(
    server: Process, fleet: Fleet, callers: int, chance: random.Random, length: float
) -> None:
    moments = sorted(chance.uniform(0, length) for _ in range(callers))
    began = time.monotonic()
    connections = [socket.create_connection(("127.0.0.1", server.port)) for _ in moments]
    for connection in connections:
        connection.sendall(_request(fleet))
    for connection, moment in zip(connections, moments, strict=True):
        time.sleep(max(0, began + moment - time.monotonic()))
        connection.close()


def _request(fleet: Fleet) -> bytes:
    headers = {"authorization": f"Bearer {fleet.ours.world.admin_token}"}
    return wire.request("POST", MIGRATE_ALL, headers=headers)
