"""SIGKILL at random moments of `catalog move`, from each engine to each."""

import random
import secrets
import sqlite3
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import psycopg

from harness import postgres
from harness.driver import say
from harness.finding import Finding
from harness.fleet.fleets import ENGINE_NAMES
from harness.torture.commands import next_length, run_command
from harness.torture.trial import Trial
from tenantry.db.urls import sqlite_path
from testkit.raw_sql import columns, connected, run, tables

SHOP = "Shop"
# So that the rows are copied for some tenths of a second.
ENTRIES = 10_000
REFUSED = 2
# Of kills that come after the end of the command.
TRIES_MAX = 10
# A command adds its entry to the audit log, and heartbeats are not kept.
CHANGING = {"audit_entry", "worker"}
# Kept by triggers, in another form on each engine.
DERIVED = ("tenant_count", "tenant_name_trigrams")


@dataclass
class _Stage:
    """An installation whose catalog moves.

    Attributes:
        engine: Of the first catalog.
        catalog: The URL of the catalog now.
        length: Of a move that is not killed, in seconds.
        kills: That hit a command before its end.
        refused: Commands that refused to continue, and were repeated after `--cancel`.
        faults: What did not hold.
    """

    engine: str
    folder: Path
    server_url: str
    environment: dict[str, str]
    catalog: str
    chance: random.Random
    length: float = 0.0
    kills: int = 0
    tries: int = 0
    refused: int = 0
    states: dict[str, int] = field(default_factory=dict)
    faults: list[str] = field(default_factory=list)

    def command(self, *arguments: str, kill_after: float | None = None) -> int | None:
        environment = {**self.environment, "TENANTRY_CATALOG_URL": self.catalog}
        return run_command(environment, self.folder, arguments, kill_after=kill_after)

    def must(self, *arguments: str) -> None:
        """Run a command that must succeed."""
        status = self.command(*arguments)
        if status != 0:
            self.fault(f"`tenantry {' '.join(arguments[:2])}` ended with {status}")

    def fault(self, text: str) -> None:
        self.faults.append(f"kill {self.kills}: {text}")

    def new_url(self) -> str:
        """Return the URL of a new database of either engine, empty or missing."""
        name = f"catalog_{secrets.token_hex(6)}"
        if self.chance.random() < 0.5:
            return f"sqlite:///{self.folder}/{name}.db"
        return postgres.new_catalog(self.server_url)


def check(trial: Trial) -> list[Finding]:
    """Move the catalog again and again, kill it, and find out which one accepts writes."""
    return trial.on_both(_check)


def _check(trial: Trial, engine: str) -> Finding:
    wanted = trial.scale.catalog_moves
    stage = _make_stage(engine, trial.folder / engine, trial.server_url, trial.chance)
    # After a fault, it is unknown which of the two is the catalog.
    while stage.kills < wanted and stage.tries < TRIES_MAX * wanted and not stage.faults:
        _move_once(stage)
        say(f"catalog moves, {engine}: {stage.kills} of {wanted}, {len(stage.faults)} faults")
    return _finding(stage)


def _make_stage(engine: str, folder: Path, server_url: str, chance: random.Random) -> _Stage:
    folder.mkdir(parents=True)
    environment = {
        "TENANTRY_DATA_DIR": str(folder / "data"),
        "TENANTRY_SECRET_KEY": "a secret key that only this check uses",
    }
    catalog = f"sqlite:///{folder}/first.db"
    if engine == "postgresql":
        catalog = postgres.new_catalog(server_url)
    stage = _Stage(engine, folder, server_url, environment, catalog, chance)
    stage.must("tenant", "create", SHOP, "--owner-email", "a@example.com")
    names = [name for name in columns(catalog, "audit_entry") if name != "id"]
    number = "gen_random_uuid()" if engine == "postgresql" else "lower(hex(randomblob(16)))"
    shown = ", ".join(names)
    run(
        catalog,
        f"INSERT INTO audit_entry (id, {shown}) WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL "
        f"SELECT i + 1 FROM n WHERE i < {ENTRIES}) SELECT {number}, {shown} FROM n, "
        "(SELECT * FROM audit_entry LIMIT 1) AS entry",
    )
    began, target = time.monotonic(), stage.new_url()
    stage.must("catalog", "move", "--to", target)
    stage.length = time.monotonic() - began
    stage.catalog = target
    return stage


def _move_once(stage: _Stage) -> None:
    """Move the catalog, killed at a random moment; then repeat the command until it is moved."""
    source, target = stage.catalog, stage.new_url()
    before = _counts(source)
    words = ("catalog", "move", "--to", target)
    began = time.monotonic()
    killed = stage.command(*words, kill_after=stage.chance.uniform(0, stage.length)) is None
    stage.length = next_length(stage.length, None if killed else time.monotonic() - began)
    stage.tries += 1
    stage.kills += killed
    is_old = _accepts_writes(source)
    is_new = _is_whole(target, before) and _accepts_writes(target)
    state = "old" if is_old else "new" if is_new else "neither"
    stage.states[state] = stage.states.get(state, 0) + 1
    if is_old and is_new:
        stage.fault("both catalogs have all rows and accept writes")
    if killed:
        _repeat(stage, words, is_old=is_old)
    if not _is_whole(target, before):
        stage.fault(f"rows are lost: {before} before, {_counts(target)} now")
    if _accepts_writes(source) or not _accepts_writes(target):
        stage.fault("the new catalog does not accept writes, or the old one does")
    stage.catalog = target
    stage.must("tenant", "suspend", SHOP)
    stage.must("tenant", "activate", SHOP)


def _repeat(stage: _Stage, words: tuple[str, ...], *, is_old: bool) -> None:
    status = stage.command(*words)
    if status == REFUSED and not is_old:
        stage.refused += 1
        if _accepts_writes(stage.catalog):
            stage.fault("a command that refused let the old catalog accept writes")
        stage.must("catalog", "move", "--cancel")
        status = stage.command(*words)
    if status != 0:
        stage.fault(f"the repeated command ended with {status}")


def _counts(url: str) -> Mapping[str, int]:
    """Return the number of rows of each table; of a database that does not exist, nothing."""
    path = sqlite_path(url)
    if path is not None and not path.exists():
        return {}
    with connected(url) as query:
        return {
            table: query(f'SELECT count(*) FROM "{table}"')[0][0]
            for table in sorted(tables(url))
            if not table.startswith(DERIVED)
        }


def _is_whole(url: str, expected: Mapping[str, int]) -> bool:
    found = _counts(url)
    return found.get("audit_entry", 0) >= expected["audit_entry"] and all(
        found.get(table) == count for table, count in expected.items() if table not in CHANGING
    )


def _accepts_writes(url: str) -> bool:
    """Return whether the catalog at *url* lists the tenant, and the row can be changed."""
    try:
        with connected(url) as query:
            return bool(query(f"UPDATE tenant SET name = name WHERE name = '{SHOP}' RETURNING id"))
    except (sqlite3.Error, psycopg.Error):
        return False


def _finding(stage: _Stage) -> Finding:
    states = ", ".join(f"{name}: {count}" for name, count in sorted(stage.states.items()))
    return Finding(
        name=f"catalog moves, {ENGINE_NAMES[stage.engine]}",
        check=f"first on {ENGINE_NAMES[stage.engine]}: {stage.kills} SIGKILLs of `catalog move`, "
        "to databases of both engines",
        must="never two catalogs that accept writes; the repeated command ends the move, or "
        "refuses; no row lost",
        found=f"{len(stage.faults)} faults; after the command, this one accepted writes: {states}; "
        f"{stage.refused} refused until `--cancel`",
        faults=stage.faults,
    )
