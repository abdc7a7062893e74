"""Names of customers: P25."""

import asyncio
import itertools
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import psycopg

from harness.api import TENANTS, as_admin
from harness.fleet.fleets import ENGINES
from harness.prove.calls import Answer, Line
from harness.prove.promise import Figure, Promise, Stage
from harness.world import PASSWORD, World

# What clients send in place of a name; the service may refuse one, but must not act on it.
HOSTILE = (
    "../../etc/passwd{n}", "..\\..\\{n}", "/etc/evil{n}", "a'; DROP DATABASE postgres; --{n}",
    '"; CREATE ROLE evil{n}; --', "$(touch evil{n})", "`touch evil{n}`", "evil{n}.db", "%00evil{n}",
    "evil{n}%2f..", "?mode=memory&{n}", "file:evil{n}", "template1 {n}", "postgres{n}",
    "sqlite_master{n}", "{n} OR 1=1", "é\u202e{n}", "x" * 60 + "{n}", "select {n}", "CON{n}",
    "-rf {n}", "~{n}", "*{n}", "evil{n};", "evil{n}\\", "{{{{{n}}}}}", "%s%s{n}", ":name{n}",
    "$1 {n}", "--{n}",
)  # fmt: skip


def p25(stage: Stage) -> Figure:
    """Create tenants with hostile names, and read what the server was asked to do."""
    names = [
        one.format(n=n) for n, one in zip(range(stage.size(200, 30)), itertools.cycle(HOSTILE))
    ]
    faults: list[str] = []
    made = 0
    for engine in ENGINES:
        world = stage.world(engine, 1)
        if engine == "postgresql":
            with psycopg.connect(stage.postgres.url, autocommit=True) as connection:
                connection.execute("ALTER SYSTEM SET log_statement = 'ddl'")
                connection.execute("SELECT pg_reload_conf()")
        before = _outside(stage.folder)
        with stage.serving(world) as process:
            made += asyncio.run(_create_all(world, process.port, names, faults))
        faults += [f"new outside the data folder: {one}" for one in _outside(stage.folder) - before]
        faults += _odd_files(stage.folder, engine)
    faults += _odd_statements(stage.postgres.log)
    return Figure(
        done=f"{len(names)} hostile customer names on each engine, {made} accepted",
        found=f"{len(faults)} statements or files other than the generated ones",
        faults=faults,
    )


async def _create_all(world: World, port: int, names: Sequence[str], faults: list[str]) -> int:
    async with Line(port, as_admin(world)) as line:

        async def create(numbered: tuple[int, str]) -> Answer:
            number, name = numbered
            owner = {"email": f"o{number}@example.com", "fullName": name, "password": PASSWORD}
            body: dict[str, Any] = {"name": name, "owner": owner}
            return await line.post(TENANTS, body)

        answers = [await create(one) for one in enumerate(names)]
    faults += [
        f"{name}: {one}" for name, one in zip(names, answers, strict=True) if one.status >= 500
    ]
    return sum(answer.ok for answer in answers)


def _outside(folder: Path) -> set[str]:
    return {
        str(path.relative_to(folder))
        for path in folder.rglob("*")
        if "data" not in path.parts[len(folder.parts) :] and path.suffix != ".log"
    }


def _odd_files(folder: Path, engine: str) -> list[str]:
    known = re.compile(
        r"(catalog\.db|secret-key|serve\.lock|[a-z_-]*[0-9a-f_-]{12,}\.db)(-wal|-shm|-journal)?"
    )
    files = [one for one in (folder / f"{engine}-world" / "data").rglob("*") if one.is_file()]
    return [f"a file {one.name}" for one in files if not known.fullmatch(one.name)]


def _odd_statements(log: Path) -> list[str]:
    text = log.read_text(errors="replace")
    found = re.findall(r"(?:CREATE|DROP|ALTER) (?:DATABASE|ROLE|USER)[^\n]*", text)
    known = re.compile(r'\w+ DATABASE (IF EXISTS )?"?[a-z_]+[0-9a-f_]{12,}"?( |;|$).*')
    return [f"the server was asked: {one}" for one in found if not known.fullmatch(one)]


PROMISES = (
    Promise(
        25,
        "Names of customers do not reach statements or paths.",
        p25,
        "a customer's name becomes a file name",
    ),
)
