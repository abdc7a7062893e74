"""Runs over the whole fleet: P26, P27, P28, P34, P37."""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from harness.api import AUDIT, HISTORY, MIGRATE_ALL, TENANTS, as_admin
from harness.finding import Finding
from harness.fleet.fleets import ENGINES
from harness.prove.calls import Line
from harness.prove.promise import Figure, Promise, Stage
from harness.torture import broken, crowd, hangups, kills
from harness.torture.scale import SHORT, WHOLE, Scale
from harness.torture.trial import Trial
from harness.world import World
from testkit.raw_sql import Raw

# Each is done on both engines, which share the number.
KILLS, CROWDS = 1_000, 200
PAGE = 100
Check = Callable[[Trial], list[Finding]]


def _tortured(stage: Stage, check: Check, whole: Scale) -> Figure:
    """Return what a check of the torture finds, as one figure."""
    scale = stage.size(whole, SHORT)
    found = check(Trial(stage.folder, stage.postgres.url, scale, stage.chance))
    return Figure(
        done="; ".join(one.check for one in found),
        found="; ".join(f"{one.name}: {one.found}" for one in found),
        faults=[f"{one.name}: {fault}" for one in found for fault in one.faults],
    )


def p26(stage: Stage) -> Figure:
    """Kill processes at random moments of a run."""
    return _tortured(stage, kills.check, replace(WHOLE, kills=KILLS // len(ENGINES)))


def p27(stage: Stage) -> Figure:
    """Let five callers at once migrate the fleet, on two processes."""
    return _tortured(stage, crowd.check, replace(WHOLE, crowds=CROWDS // len(ENGINES)))


def p28(stage: Stage) -> Figure:
    """Migrate a fleet in which tenants are broken in every way known."""
    return _tortured(stage, broken.check, WHOLE)


def p34(stage: Stage) -> Figure:
    """Hang up on migrate-all at a random moment."""
    return _tortured(stage, hangups.check, replace(WHOLE, hangups=50))


def p37(stage: Stage) -> Figure:
    """Read the history of many runs and changes, and try to alter it."""
    runs = stage.size(50, 4)
    faults: list[str] = []
    for engine in ENGINES:
        world = stage.world(engine, 3)
        with stage.serving(world) as process:
            asyncio.run(_keep_history(world, process.port, runs, faults))
    return Figure(
        done=f"{runs} runs and {runs} changes on each engine; PUT, PATCH, DELETE and POST at every "
        "path of the history and of the audit log",
        found=f"{len(faults)} runs or changes missing, altered or begun before their row",
        faults=faults,
    )


async def _keep_history(world: World, port: int, runs: int, faults: list[str]) -> None:
    catalog = Raw(world.catalog_url)
    async with Line(port, as_admin(world)) as line:
        changed = f"{TENANTS}/{world.tenants[0].id}"
        for number in range(runs):
            assert (await line.post(MIGRATE_ALL)).ok
            assert (await line.ask("PATCH", changed, {"name": f"Renamed {number}"})).ok
        listed = await _all_items(line, HISTORY)
        entries = await _all_items(line, AUDIT)
        faults += _gaps(listed, entries, runs, len(world.tenants))
        rows = catalog.run(
            "SELECT count(*) FROM tenant_migration t JOIN migration_run r ON r.id = t.run_id "
            "WHERE t.started_at < r.started_at"
        )
        if rows != [(0,)]:
            faults.append(f"{rows[0][0]} tenants began before the row of their run")
        before = _history(catalog)
        for path in (HISTORY, f"{HISTORY}/{listed[0]['id']}", AUDIT):
            for method in ("PUT", "PATCH", "DELETE", "POST"):
                answer = await line.ask(method, path, {"success": 0})
                if answer.status not in {404, 405}:
                    faults.append(f"{method} {path}: {answer}")
        if _history(catalog) != before:
            faults.append("the history was altered")


def _gaps(
    listed: Sequence[dict[str, Any]], entries: Sequence[dict[str, Any]], runs: int, tenants: int
) -> list[str]:
    faults = []
    if len(listed) != runs:
        faults.append(f"the history lists {len(listed)} of {runs} runs")
    renamed = [one for one in entries if one["action"] == "tenant.update"]
    if len(renamed) < runs:
        faults.append(f"the audit log has {len(renamed)} of {runs} changes")
    for run in listed:
        ends = (run["startedAt"], run["finishedAt"])
        if None in ends or ends[0] > ends[1] or run["totalCount"] != tenants:
            faults.append(f"a run from {ends}, of {run['totalCount']} tenants")
    return faults


def _history(catalog: Raw) -> list[tuple[Any, ...]]:
    return [
        row
        for table in ("migration_run", "tenant_migration", "audit_entry")
        for row in catalog.run(f"SELECT * FROM {table} ORDER BY 1, 2")
    ]


async def _all_items(line: Line, path: str) -> Sequence[dict[str, Any]]:
    items: list[dict[str, Any]] = []
    for page in range(1, 1_000):
        data = (await line.get(f"{path}?page={page}&pageSize={PAGE}")).data
        items += data["items"]
        if len(data["items"]) < PAGE:
            break
    return items


PROMISES = (
    Promise(
        26,
        "A migration survives SIGKILL: all of it or nothing, and the run goes on.",
        p26,
        "a migration on SQLite commits in its middle",
        seconds_max=3_000,
    ),
    Promise(
        27,
        "One migrator for each tenant: every revision is applied once.",
        p27,
        "a second call of migrate-all is refused while one is under way",
        seconds_max=1_200,
    ),
    Promise(
        28,
        "A broken tenant does not stop the others.",
        p28,
        "migrate-all is an error when a tenant has failed",
    ),
    Promise(
        34,
        "A caller who hangs up does not end the run.",
        p34,
        "the process ends when its caller hangs up",
        seconds_max=600,
    ),
    Promise(
        37,
        "The history is complete and cannot be altered.",
        p37,
        "the history leaves out a run",
    ),
)
