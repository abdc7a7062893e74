"""Compare ``alembic upgrade head``, one by one, with ``tenantry fleet migrate`` of many databases.

``python -m tools.compare_fleets TABLE FOLDER`` reads the table of `tools.compare_projects`. For
each project it migrates `DATABASES` new databases with Alembic, and as many with one command of
Tenantry; the first of these was migrated by hand before. Each must have the same schema and the
same rows. Then Alembic has nothing to do in them, and neither has a second run. If a run is
refused, every database must be as before, and the message must name a file and a line.

Rows that Alembic itself makes different in two databases, such as a time, are counted only.

Exit status: as for ``tools.compare_projects``, and 0 also for what is refused with file and line.
"""

import argparse
import contextlib
import difflib
import json
import re
import sqlite3
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path

import psycopg
from psycopg.sql import SQL, Identifier

from tools.compare_projects import (
    NAMED,
    OURS,
    Databases,
    Project,
    Result,
    Work,
    compare_all,
    dump,
    last_line,
    path_of,
)

DATABASES = 20
_PLACE = re.compile(r"[\w.-]+\.(py|sql)[`'\"]?, line \d+")
_OF_DATABASE = re.compile(r"\{(url|host|port|user|password|database)\}")
_TABLES = """
SELECT schemaname, tablename FROM pg_tables
WHERE schemaname NOT IN ('pg_catalog', 'information_schema') ORDER BY 1, 2
"""
Rows = Mapping[str, Sequence[str]]


def main(arguments: Sequence[str] | None = None) -> int:
    """Compare the projects, and print the table."""
    parser = argparse.ArgumentParser(prog="python -m tools.compare_fleets")
    parser.add_argument("--databases", type=int, default=DATABASES, help="of each kind")
    return compare_all(
        parser, arguments, lambda options: partial(compare, number=options.databases)
    )


def compare(project: Project, folder: Path, server: str | None, *, number: int) -> Result:
    """Migrate *number* databases of *project* with Alembic, and *number* with Tenantry."""
    with (
        tempfile.TemporaryDirectory() as name,
        contextlib.closing(Databases(server, Path(name))) as databases,
    ):
        fleet = Fleet(project, folder / project.folder, databases, number)
        error = fleet.migrate_plain()
        before = [dump(url) for url in fleet.ours[1:]]
        refused = fleet.migrate()
        if refused is not None and before != [dump(url) for url in fleet.ours[1:]]:
            return fleet.result("half migrated", refused)
        word = NAMED if refused and _PLACE.search(refused) else "refused"
        if error is not None:
            said = f"{error} Tenantry: {refused or 'succeeds.'}"
            return fleet.result("plain fails, too" if refused else "plain fails", said)
        if refused is not None:
            return fleet.result(word, refused)
        lines = fleet.differences()
        if lines:
            return fleet.result("differs", lines[0], lines)
        left = fleet.find_left()
        return fleet.result("differs", left) if left else fleet.result("equal")


class Fleet:
    """Databases of one project: *number* for Alembic, and *number* for Tenantry."""

    def __init__(self, project: Project, folder: Path, databases: Databases, number: int) -> None:
        self._project = project
        self._folder = folder
        self._work = Work(project, folder, databases)
        self._temporary = databases.folder
        self._count = "?"
        self.plain = [databases.new(project.engine) for _ in range(number)]
        self.ours = [databases.new(project.engine) for _ in range(number)]

    def result(self, word: str, reason: str = "", difference: Sequence[str] = ()) -> Result:
        """Return a result for the project."""
        return Result(self._project, self._count, word, reason, difference)

    def migrate_plain(self) -> str | None:
        """Run Alembic in its databases, and in the first one of ours; return the first error."""
        urls = [*self.plain, self.ours[0]]
        # If the environment names the database, each one needs a process.
        alone = _OF_DATABASE.search("".join(self._project.environment.values())) is not None
        for group in [[url] for url in urls] if alone else [urls]:
            ended = self._work.run_plain(*group)
            found = re.search(r"^revisions: (\d+)$", ended.stderr, re.MULTILINE)
            self._count = found[1] if found else "?"
            if ended.returncode:
                return last_line(ended.stderr)
        return None

    def migrate(self) -> str | None:
        """Run ``tenantry fleet migrate`` on ours; return why it was refused."""
        for url in self.ours[1:]:
            self._work.begin(url)
        (self._temporary / "urls").write_text("\n".join(self.ours), encoding="utf-8")
        ended = self._tenantry("migrate", "--urls", str(self._temporary / "urls"))
        if ended.returncode == 0:
            return None
        with contextlib.suppress(ValueError, KeyError):
            errors = {one["error"] for one in json.loads(ended.stdout)["details"] if one["error"]}
            return " | ".join(sorted(errors))
        return last_line(ended.stderr)

    def differences(self) -> list[str]:
        """Return the lines in which our databases differ from those of Alembic."""
        schema, rows = dump(self.plain[0]), [rows_of(url) for url in self.plain]
        fixed = {name for name in rows[0] if all(one[name] == rows[0][name] for one in rows)}
        expected = [*schema, *_lines(rows[0], fixed)]
        for url in (*self.plain[1:], *self.ours):
            found = [*dump(url), *_lines(rows_of(url), fixed)]
            lines = list(difflib.unified_diff(expected, found, "plain", url[-20:], "", "", 0, ""))
            if lines:
                return lines
        return []

    def find_left(self) -> str | None:
        """Run Alembic in ours, and then Tenantry; return which one has found something to do."""
        before = [(dump(url), rows_of(url)) for url in self.ours]
        ended = self._work.upgrade(self.ours[-1])
        if ended.returncode:
            return f"Alembic fails afterwards: {last_line(ended.stderr)}"
        refused = self.migrate_again()
        if refused is not None:
            return f"the second run: {refused}"
        if before != [(dump(url), rows_of(url)) for url in self.ours]:
            return "Alembic or the second run has changed a database"
        return None

    def migrate_again(self) -> str | None:
        """Run ``tenantry fleet migrate`` on ours again; return what it has done, if anything."""
        ended = self._tenantry("migrate", "--urls", str(self._temporary / "urls"))
        if ended.returncode:
            return last_line(ended.stderr)
        shown = json.loads(self._tenantry("show").stdout)["details"]
        applied = [one for one in shown if one["appliedMigrations"]]
        if applied or len(shown) != len(self.ours):
            return f"{len(applied)} of {len(shown)} databases were migrated again"
        return None

    def _tenantry(self, *arguments: str) -> "subprocess.CompletedProcess[str]":
        environment = self._work.variables(f"sqlite:///{self._temporary / 'unused'}") | {
            "TENANTRY_TENANT_DEADLINE_S": "900",
            "TENANTRY_MIGRATION_DRIVER": (
                "psycopg2" if self._project.driver == "psycopg2" else "psycopg"
            ),
        }
        place = ("--state", str(self._temporary / "state.db"))
        folder = ("--migrations", str(self._folder / self._project.revisions))
        command = ["-m", "tenantry", "fleet", *arguments, *place, *folder, "--json"]
        return self._work.run(command, environment)


def rows_of(url: str) -> dict[str, list[str]]:
    """Return the rows of each table as text, sorted, without Tenantry's own tables."""
    if not url.startswith("sqlite:"):
        with psycopg.connect(url) as connection:
            names = [Identifier(*one) for one in connection.execute(_TABLES) if OURS not in one[1]]
            query = SQL("SELECT t::text FROM {} AS t")
            return {
                name.as_string(): sorted(row for (row,) in connection.execute(query.format(name)))
                for name in names
            }
    with contextlib.closing(sqlite3.connect(path_of(url))) as file:
        tables = file.execute("SELECT name FROM sqlite_master WHERE type = 'table' ORDER BY 1")
        found = [name for (name,) in tables if not name.startswith((OURS, "sqlite_stat"))]
        quoted = {name: '"' + name.replace('"', '""') + '"' for name in found}
        return {
            name: sorted(map(repr, file.execute(f"SELECT * FROM {quoted[name]}")))  # noqa: S608
            for name in found
        }


def _lines(rows: Rows, fixed: set[str]) -> list[str]:
    """Return the rows of the tables whose rows are *fixed*, and the number of those of others."""
    return [
        line
        for name in sorted(rows)
        for line in (
            [f"{name}: {row}" for row in rows[name]]
            if name in fixed
            else [f"{name}: {len(rows[name])} rows"]
        )
    ]


if __name__ == "__main__":
    sys.exit(main())
