"""``make cluster``: outages of a whole installation; the exit status is 1 if a check fails."""

import argparse
import faulthandler
import shlex
import shutil
import signal
import sys
import time
import traceback
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from harness.cluster import programs, stack
from harness.cluster.runs import Runs
from harness.cluster.scale import SHORT, WHOLE, Scale
from harness.cluster.scenarios import CONCURRENCY, SCENARIOS, Installation, check
from harness.cluster.service import Service
from harness.cluster.stack import ProgramMissing, Stack
from harness.cluster.traffic import Traffic
from harness.finding import Finding
from harness.machine import describe
from harness.processes import ROOT
from harness.report import put_into, table
from harness.world import Size, make_world
from tenantry.kit.clock import utc_now
from testkit import postgres as launcher

DOCUMENT = ROOT / "docs" / "reliability.md"
COLUMNS = ["what is done in the middle of a run", "what must hold", "what was found", ""]
PACKAGES = ("asyncpg", "psycopg", "sqlalchemy", "uvicorn")
MISSING = 3
SCENARIO_SECONDS_MAX = 3_000
SECONDS_MAX = 10_800
SHORT_SECONDS_MAX = 420


def main(arguments: Sequence[str]) -> int:
    """Run the scenarios that *arguments* choose; return the exit status."""
    options = _parser().parse_args(arguments)
    chosen = _chosen(options)
    if not chosen:
        print(f"No scenario begins so; there are {', '.join(SCENARIOS)}.", file=sys.stderr)
        return 2
    scale = _scale(options)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    signal.signal(signal.SIGALRM, _give_up)
    is_short = options.short and not options.times
    faulthandler.dump_traceback_later(SHORT_SECONDS_MAX if is_short else SECONDS_MAX, exit=True)
    began = time.monotonic()
    try:
        with programs.scratch(options.scratch or launcher.memory()) as folder:
            machine = describe(folder, PACKAGES)
            with _installed(folder, scale, options.pgbouncer) as place:
                found = [_run(one, place, folder, options.logs) for one in chosen]
    except ProgramMissing as error:
        print(f"NOT RUN: {error}", file=sys.stderr)
        return MISSING
    took = f"{(time.monotonic() - began) / 60:.1f} minutes"
    about = [
        f"{utc_now():%Y-%m-%d %H:%M} UTC, `{_command(options)}`, {took}",
        scale.text,
        *machine,
        stack.versions(options.pgbouncer),
    ]
    text = _text(about, found)
    print(text)
    if options.record:
        put_into(DOCUMENT, "cluster", text)
    return 1 if any(one.faults for one in found) else 0


def progress(text: str) -> None:
    """Print the progress."""
    print(text, file=sys.stderr, flush=True)


@contextmanager
def _installed(folder: Path, scale: Scale, pgbouncer: Path) -> Iterator[Installation]:
    below = Stack(folder, scale.plain_servers, pgbouncer)
    below.start()
    progress("etcd, Patroni, HAProxy, PgBouncer and the plain servers run")
    world = make_world(
        folder / "world",
        Size(scale.tenants),
        catalog_url=below.catalog_url,
        servers=below.tenant_servers,
    )
    progress(f"{scale.tenants} tenants are there")
    service: Service
    runs = Runs(folder / "revisions", lambda: service.urls, world.admin_token, below.catalog_url)
    environment = {
        **world.environment,
        "TENANTRY_TENANT_MIGRATIONS": str(runs.revisions),
        "TENANTRY_MIGRATE_CONCURRENCY": str(CONCURRENCY),
    }
    service = Service(folder / "service", environment, scale.api_processes, scale.workers)
    service.start()
    progress("the processes of the service run")
    traffic = Traffic(
        world.tenants, world.admin_token, lambda: service.urls, scale.requests_per_second
    )
    yield Installation(below, service, runs, traffic, world, scale)


def _run(name: str, place: Installation, folder: Path, logs: Path | None) -> Finding:
    signal.alarm(SCENARIO_SECONDS_MAX)
    began = time.monotonic()
    try:
        found = check(name, place, progress)
    except Exception:  # noqa: BLE001 - a scenario that fails must not prevent the others
        lines = traceback.format_exc().splitlines()
        found = Finding(name=name, check=name, must="", found="not done", faults=lines[-8:])
    finally:
        signal.alarm(0)
    if found.faults:
        _keep_logs(folder, logs)
    progress(f"{name} ({time.monotonic() - began:.0f} s): {found.found}: {found.mark}")
    for fault in found.lines:
        progress(f"  {fault}")
    return found


def _keep_logs(folder: Path, kept: Path | None) -> None:
    """Copy the logs of all processes to *kept*."""
    if kept is not None:
        for log in folder.rglob("log"):
            target = kept / log.relative_to(folder)
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(log, target)


def _give_up(*_: object) -> None:
    raise TimeoutError(f"not done within {SCENARIO_SECONDS_MAX} s")


def _chosen(options: argparse.Namespace) -> list[str]:
    prefixes = options.scenarios.split(",")
    named = [one for one in SCENARIOS if any(one.startswith(prefix) for prefix in prefixes)]
    is_whole = options.scenarios or not options.short
    return [one for one in named if is_whole or SCENARIOS[one].is_in_short]


def _scale(options: argparse.Namespace) -> Scale:
    scale = SHORT if options.short else WHOLE
    given = {name: getattr(options, name) for name in ("tenants", "times")}
    return replace(scale, **{name: value for name, value in given.items() if value})


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="harness.cluster", description=__doc__)
    parser.add_argument(
        "--scenarios", default="", help=f"prefixes, with commas: {', '.join(SCENARIOS)}"
    )
    parser.add_argument("--pgbouncer", type=Path, required=True, help="the program, 1.21 or newer")
    parser.add_argument("--short", action="store_true", help="few tenants, each outage once")
    parser.add_argument("--tenants", type=int, help=f"how many; {WHOLE.tenants} if not given")
    parser.add_argument(
        "--times", type=int, help=f"kills and switchovers of each; {WHOLE.times} if not given"
    )
    parser.add_argument("--scratch", type=Path, help="the parent of the temporary folder")
    parser.add_argument("--logs", type=Path, help="where to keep the logs if a check fails")
    parser.add_argument("--record", action="store_true", help="write the table into the document")
    return parser


def _command(options: argparse.Namespace) -> str:
    words = ["make", "cluster"]
    words += [f"SCENARIO={options.scenarios}"] if options.scenarios else []
    words += ["SHORT=1"] if options.short else []
    words += [f"TENANTS={options.tenants}"] if options.tenants else []
    words += [f"COUNT={options.times}"] if options.times else []
    return shlex.join([*words, *(["CLUSTER=--record"] if options.record else [])])


def _text(about: Sequence[str], findings: Sequence[Finding]) -> str:
    lines = [f"- {line}" for one in findings for line in one.lines]
    return "\n".join(
        [
            *(f"- {line}" for line in about),
            "",
            *table(COLUMNS, [one.cells for one in findings]),
            *(["", *lines] if lines else []),
        ]
    )


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
