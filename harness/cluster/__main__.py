"""``make cluster``: outages of a whole installation; the exit status is 1 if a check fails."""

import argparse
import random
import shutil
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path

from harness.cluster import programs, stack
from harness.cluster.installation import CONCURRENCY, Installation
from harness.cluster.posts import PostTraffic
from harness.cluster.runs import Runs
from harness.cluster.scale import SHORT, WHOLE, Scale
from harness.cluster.scenarios import SCENARIOS, check
from harness.cluster.service import Service
from harness.cluster.stack import ProgramMissing, Stack
from harness.driver import WRONG_USE, Target, begin, find, say
from harness.finding import Finding
from harness.machine import describe
from harness.processes import ROOT
from harness.registers import History
from harness.traffic import Traffic
from harness.world import Size, make_world
from testkit import postgres as launcher

COLUMNS = ["what is done in the middle of a run", "what must hold", "what was found", ""]
PACKAGES = ("asyncpg", "psycopg", "sqlalchemy", "uvicorn")
MISSING = 3
SCENARIO_SECONDS_MAX = 3_000
SECONDS_MAX = 10_800
SHORT_SECONDS_MAX = 420
VARIABLES = {"only": "SCENARIO", "short": "SHORT", "tenants": "TENANTS", "times": "COUNT"}
DOCUMENT = ROOT / "docs" / "reliability.md"
HISTORIES = ROOT / ".cluster" / "histories"
"""Where what clients have seen is kept if a check fails and no folder for logs is given."""
TARGET = Target("cluster", DOCUMENT, VARIABLES, "CLUSTER", records_parts=True)


def main(arguments: Sequence[str]) -> int:
    """Run the scenarios that *arguments* choose; return the exit status."""
    options = _parser().parse_args(arguments)
    chosen = [
        one
        for one in TARGET.choose(options, list(SCENARIOS))
        if options.only or not options.short or SCENARIOS[one].is_in_short
    ]
    if not chosen:
        return WRONG_USE
    scale = _scale(options)
    begin(SHORT_SECONDS_MAX if options.short and not options.times else SECONDS_MAX)
    began = time.monotonic()
    try:
        with programs.scratch(options.scratch or launcher.memory()) as folder:
            machine = describe(folder, PACKAGES)
            with _installed(folder, scale, options) as place:
                found = [_run(one, place, folder, options.logs) for one in chosen]
    except ProgramMissing as error:
        say(f"NOT RUN: {error}")
        return MISSING
    took = f"{(time.monotonic() - began) / 60:.1f} minutes"
    options.pgbouncer, versions = None, stack.versions(options.pgbouncer)  # `make` names it itself
    about = [TARGET.about(options, took), scale.text, *machine, versions]
    return TARGET.conclude(options, about, COLUMNS, [one for many in found for one in many])


@contextmanager
def _installed(folder: Path, scale: Scale, options: argparse.Namespace) -> Iterator[Installation]:
    below = Stack(folder, scale.plain_servers, options.pgbouncer)
    below.start()
    say("etcd, Patroni, HAProxy, PgBouncer and the plain servers run")
    world = make_world(
        folder / "world",
        Size(scale.tenants),
        catalog_url=below.catalog_url,
        servers=below.tenant_servers,
    )
    say(f"{scale.tenants} tenants are there")
    service: Service
    runs = Runs(folder / "revisions", lambda: service.urls, world.admin_token, below.catalog_url)
    environment = {
        **world.environment,
        "TENANTRY_TENANT_MIGRATIONS": str(runs.revisions),
        "TENANTRY_MIGRATE_CONCURRENCY": str(CONCURRENCY),
        "TENANTRY_PG_TOOLS": str(below.tools),
    }
    service = Service(folder / "service", environment, scale.api_processes, scale.workers)
    service.start()
    say("the processes of the service run")
    history, chance = History(), random.Random(1)  # noqa: S311 - it chooses tenants
    traffic = Traffic(
        world.tenants,
        world.admin_token,
        lambda: service.urls,
        scale.requests_per_second,
        chance=chance,
        history=history,
    )
    posts = PostTraffic(world.tenants, lambda: service.urls, history, chance=chance)
    yield Installation(
        below, service, runs, traffic, posts, history, world, scale, is_planted=options.plant
    )


def _run(name: str, place: Installation, folder: Path, logs: Path | None) -> list[Finding]:
    found = find(name, partial(_check, name, place), SCENARIO_SECONDS_MAX)
    if any(one.faults for one in found):
        _keep_logs(folder, logs)
        file = (logs or HISTORIES) / f"{name}.jsonl"
        place.history.save(file)
        say(f"What clients have seen is in {file}: python -m harness.registers {file}")
    return found


def _check(name: str, place: Installation) -> list[Finding]:
    return [check(name, place, say)]


def _keep_logs(folder: Path, kept: Path | None) -> None:
    """Copy the logs of all processes to *kept*."""
    if kept is not None:
        for log in folder.rglob("log"):
            target = kept / log.relative_to(folder)
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(log, target)


def _scale(options: argparse.Namespace) -> Scale:
    scale = SHORT if options.short else WHOLE
    given = {name: getattr(options, name) for name in ("tenants", "times")}
    return replace(scale, **{name: value for name, value in given.items() if value})


def _parser() -> argparse.ArgumentParser:
    parser = TARGET.parser(__doc__, SCENARIOS)
    parser.add_argument("--pgbouncer", type=Path, required=True, help="the program, 1.21 or newer")
    parser.add_argument("--tenants", type=int, help=f"how many; {WHOLE.tenants} if not given")
    parser.add_argument(
        "--times", type=int, help=f"kills and switchovers of each; {WHOLE.times} if not given"
    )
    parser.add_argument(
        "--plant", action="store_true", help="lose an acknowledged write in each round"
    )
    parser.add_argument("--scratch", type=Path, help="the parent of the temporary folder")
    parser.add_argument("--logs", type=Path, help="where to keep the logs if a check fails")
    return parser


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
