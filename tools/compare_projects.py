"""Compare plain Alembic with Tenantry on the revisions of public projects.

``python -m tools.compare_projects TABLE FOLDER`` reads a table of projects (TOML), which are in
FOLDER. For each, it runs ``alembic upgrade head`` in an empty database, creates a tenant with the
same revisions, and migrates a tenant that was created without them. It compares the schemas, by
``pg_dump --schema-only`` or by the schema and the number of rows of a SQLite file, and prints a
table in Markdown. docs/projects.md says how to write the table of projects.

Exit status: 0 every project is equal, or plain Alembic fails, too; 1 otherwise.
"""

import argparse
import contextlib
import difflib
import json
import os
import re
import secrets
import shutil
import sqlite3
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from testkit.postgres import create_database, drop_database, find_binaries, postgres

SECONDS_MAX = 900  # for a command
DIFFERENCES_MAX = 20  # lines that are printed for a project
REASON_CHARS_MAX = 400
OURS = "tenantry_"
NAMED = "refused with file and line"
_CONSTRAINTS = ("CHECK", "CONSTRAINT", "FOREIGN KEY", "PRIMARY KEY", "UNIQUE")
OWNER = ("--owner-email", "owner@example.com", "--owner-name", "Owner")
PASSWORD = "Correct-Horse-7-Battery-Staple"  # noqa: S105 - of an admin of a temporary catalog
# It runs with the project's Python, in the folder of its alembic.ini.
PLAIN = """
import sys
from alembic import command
from alembic.config import Config
from alembic.script import ScriptDirectory
for url in sys.argv[2:]:
    config = Config(sys.argv[1])
    for name in ("sqlalchemy.url", "url"):
        config.set_main_option(name, url.replace("%", "%%"))
    revisions = list(ScriptDirectory.from_config(config).walk_revisions())
    sys.stderr.write(f"revisions: {len(revisions)}\\n")
    command.upgrade(config, "head")
"""


@dataclass(frozen=True)
class Project:
    """A row of the table of projects.

    Attributes:
        name: Of the project.
        folder: Of its alembic.ini, in the folder of all projects; Alembic runs there.
        revisions: The Alembic directory, relative to *folder*.
        engine: ``sqlite`` or ``postgresql``.
        python: The interpreter with the packages of the project, and Tenantry.
        start: A file of SQL, relative to *folder*, that runs first in each database.
        driver: The driver in the URL of plain Alembic on PostgreSQL.
        config: The name of its alembic.ini.
        commit: What is compared.
        environment: Variables; ``{url}``, ``{host}``, ``{port}``, ``{user}``, ``{password}``,
            ``{database}`` and ``{folder}`` are replaced.
    """

    name: str
    folder: str
    revisions: str
    engine: str
    python: str = sys.executable
    start: str = ""
    driver: str = "psycopg"
    config: str = "alembic.ini"
    commit: str = ""
    environment: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Result:
    """The result for a project: a word, the reason, and lines that differ."""

    project: Project
    count: str
    word: str
    reason: str = ""
    difference: Sequence[str] = ()

    @property
    def is_good(self) -> bool:
        """Whether Tenantry does what plain Alembic does, or says what it refuses."""
        return self.word in {"equal", "plain fails, too", NAMED}


Compare = Callable[[Project, Path, str | None], Result]


def main(arguments: Sequence[str] | None = None) -> int:
    """Compare the projects, and print the table."""
    return compare_all(argparse.ArgumentParser(prog="python -m tools.compare_projects"), arguments)


def compare_all(
    parser: argparse.ArgumentParser,
    arguments: Sequence[str] | None,
    with_options: Callable[[argparse.Namespace], Compare] = lambda _: compare,
) -> int:
    """Compare the projects that the arguments name, and print the table; return the status."""
    parser.add_argument("table", type=Path, help="a TOML file with [[project]] tables")
    parser.add_argument("folder", type=Path, help="the folder of the projects")
    parser.add_argument("--only", help="the names of projects, with commas")
    parser.add_argument("--server", help="the URL of a PostgreSQL server, in place of its own")
    options = parser.parse_args(arguments)
    one_by_one = with_options(options)
    rows = tomllib.loads(options.table.read_text(encoding="utf-8"))["project"]
    chosen = set(options.only.split(",")) if options.only else None
    projects = [Project(**row) for row in rows if chosen is None or row["name"] in chosen]
    with contextlib.ExitStack() as stack:
        server = options.server
        if server is None and any(one.engine == "postgresql" for one in projects):
            server = stack.enter_context(postgres())
        results = []
        for project in projects:
            results.append(one_by_one(project, options.folder.absolute(), server))
            _show_details(results[-1])
    _show(results)
    return 0 if all(one.is_good for one in results) else 1


def compare(project: Project, folder: Path, server: str | None) -> Result:
    """Run the revisions of *project* with plain Alembic and with Tenantry."""
    with (
        tempfile.TemporaryDirectory() as name,
        contextlib.closing(Databases(server, Path(name))) as databases,
    ):
        work = Work(project, folder / project.folder, databases)
        url = databases.new(project.engine)
        plain = work.run_plain(url)
        found = re.search(r"^revisions: (\d+)$", plain.stderr, re.MULTILINE)
        count = found[1] if found else "?"
        created = work.create()
        migrated = created if isinstance(created, Refused) else work.migrate()
        refused = next((one for one in (created, migrated) if isinstance(one, Refused)), None)
        if plain.returncode:
            last = last_line(plain.stderr)
            if refused is None:
                return Result(project, count, "plain fails", last)
            return Result(project, count, "plain fails, too", f"{last} Tenantry: {refused.reason}")
        if refused is not None:
            return Result(project, count, "refused", refused.reason)
        expected = dump(url)
        for kind, found_url in (("created", created), ("migrated", migrated)):
            assert isinstance(found_url, str)
            lines = list(
                difflib.unified_diff(expected, dump(found_url), "plain", kind, "", "", 0, "")
            )
            if lines:
                return Result(project, count, "differs", f"the tenant that was {kind}", lines)
        return Result(project, count, "equal")


@dataclass(frozen=True)
class Refused:
    """Tenantry has not applied the revisions."""

    reason: str


class Databases:
    """New databases on *server*, for a block, and below *folder*."""

    def __init__(self, server: str | None, folder: Path) -> None:
        self.server = server
        self.folder = folder
        self._names: list[str] = []

    def close(self) -> None:
        """Drop the databases on the server."""
        for name in self._names:
            drop_database(str(self.server), name)

    def new(self, engine: str) -> str:
        """Return the URL of a new, empty database."""
        name = f"plain_{secrets.token_hex(6)}"
        if engine == "sqlite":
            (self.folder / name).touch()
            return f"sqlite:///{self.folder / name}"
        url = create_database(str(self.server), name)
        self._names.append(name)
        return url

    def of_tenant(self, name: str, data: Path) -> str:
        """Return the URL of the database *name* of a tenant: a file below *data*, if there is."""
        for path in data.rglob(f"{name}*.db"):
            return f"sqlite:///{path}"
        self._names.append(name)
        return f"{str(self.server).rpartition('/')[0]}/{name}"


class Work:
    """The commands for one project, in temporary databases."""

    def __init__(self, project: Project, folder: Path, databases: Databases) -> None:
        self._project = project
        self._folder = folder
        self._temporary = databases.folder
        self._databases = databases

    def run_plain(self, *urls: str) -> "subprocess.CompletedProcess[str]":
        """Run ``alembic upgrade head`` on new databases as its authors do, in one process."""
        for url in urls:
            self.begin(url)
        return self.upgrade(*urls)

    def upgrade(self, *urls: str) -> "subprocess.CompletedProcess[str]":
        """Run ``alembic upgrade head``; the environment is that of the last database."""
        driver = self._project.driver
        named = [
            url.replace("postgresql://", f"postgresql+{driver}://") if driver else url
            for url in urls
        ]
        return self.run(["-c", PLAIN, self._project.config, *named], self.variables(named[-1]))

    def create(self) -> str | Refused:
        """Return the URL of a tenant that was created with the revisions."""
        if self._project.start:
            return self._start_and_migrate(self._installation("created"))
        return self._new_tenant(self._installation("created"))

    def migrate(self) -> str | Refused:
        """Return the URL of a tenant that was created without the revisions, and migrated."""
        return self._start_and_migrate(self._installation("migrated"))

    def _start_and_migrate(self, environment: dict[str, str]) -> str | Refused:
        without = {k: v for k, v in environment.items() if k != "TENANTRY_TENANT_MIGRATIONS"}
        url = self._new_tenant(without)
        if isinstance(url, Refused):
            return url
        self.begin(url)
        ended = self._tenantry(self._with_url(environment, url), "migrate", "all", "--json")
        if ended.returncode == 0:
            return url
        try:
            return Refused(str(json.loads(ended.stdout)["details"][0]["error"]))
        except (ValueError, KeyError, IndexError):
            return Refused(last_line(ended.stderr))

    def _new_tenant(self, environment: dict[str, str]) -> str | Refused:
        ended = self._tenantry(
            environment, "tenant", "create", "acme", *OWNER, "--password-stdin", "--json"
        )
        if ended.returncode:
            return Refused(last_line(ended.stderr))
        name = json.loads(ended.stdout)["databaseName"]
        return self._databases.of_tenant(name, Path(environment["TENANTRY_DATA_DIR"]))

    def _installation(self, name: str) -> dict[str, str]:
        """Return the environment of a new installation, with one admin."""
        folder = self._temporary / name
        environment = self.variables(f"sqlite:///{self._temporary / 'unused'}")
        environment |= {
            "TENANTRY_DATA_DIR": str(folder),
            "TENANTRY_SECRET_KEY": secrets.token_hex(32),
            "TENANTRY_TENANT_DEADLINE_S": str(SECONDS_MAX),
        }
        if self._project.engine == "postgresql":
            environment["TENANTRY_TENANT_SERVER_URL"] = str(self._databases.server)
            environment["TENANTRY_MIGRATION_DRIVER"] = (
                "psycopg2" if self._project.driver == "psycopg2" else "psycopg"
            )
        environment["TENANTRY_TENANT_MIGRATIONS"] = str(self._folder / self._project.revisions)
        ended = self._tenantry(
            environment, "admin", "create", "ada@example.com", "--password-stdin", "--json"
        )
        if ended.returncode:
            raise SystemExit(f"{self._project.name}: Tenantry does not start: {ended.stderr}")
        return environment

    def _tenantry(
        self, environment: Mapping[str, str], *arguments: str
    ) -> "subprocess.CompletedProcess[str]":
        return self.run(["-m", "tenantry", *arguments], environment, f"{PASSWORD}\n")

    def run(
        self, arguments: Sequence[str], environment: Mapping[str, str], stdin: str = ""
    ) -> "subprocess.CompletedProcess[str]":
        """Run the project's Python in its folder."""
        return subprocess.run(  # noqa: S603 - the projects were chosen by the caller
            # A project can have a folder with the name of a module: `-P` ignores it.
            [self._project.python, "-P", *arguments],
            cwd=self._folder,
            env=environment,
            input=stdin,
            capture_output=True,
            text=True,
            timeout=SECONDS_MAX,
            check=False,
        )

    def variables(self, url: str) -> dict[str, str]:
        """Return the environment of a command for the database at *url*."""
        environment = {
            name: value
            for name, value in os.environ.items()  # noqa: TID251 - for another program
            if not name.startswith("TENANTRY_")
        }
        return self._with_url(environment, url)

    def _with_url(self, environment: Mapping[str, str], url: str) -> dict[str, str]:
        """Return *environment* with the project's variables for the database at *url*."""
        user, _, password = re.sub(r"^\w+(\+\w+)?://", "", url).partition("@")[0].partition(":")
        host, _, database = url.rpartition("@")[2].partition("/")
        values = {
            "url": url,
            "user": user,
            "password": password,
            "host": host.partition(":")[0],
            "port": host.partition(":")[2],
            "database": database,
            "folder": str(self._temporary),
        }
        wanted = self._project.environment
        replaced = {
            name: re.sub(r"\{(\w+)\}", lambda found: values[found[1]], value)
            for name, value in wanted.items()
        }
        return {**environment, **replaced}

    def begin(self, url: str) -> None:
        """Run the project's file of SQL."""
        if not self._project.start:
            return
        text = (self._folder / self._project.start).read_text(encoding="utf-8")
        if url.startswith("sqlite:"):
            with contextlib.closing(sqlite3.connect(path_of(url))) as file:
                file.executescript(text)
            return
        _run_program("psql", url, "--quiet", "--set", "ON_ERROR_STOP=1", stdin=text)


def dump(url: str) -> list[str]:
    """Return the schema of a database in lines, without Tenantry's own objects."""
    if not url.startswith("sqlite:"):
        # What belongs to an object follows a comment with its name and its type.
        text = _run_program("pg_dump", url, "--schema-only", "--no-owner")
        text = re.sub(r"^\\(un)?restrict .*$", "", text, flags=re.MULTILINE)
        parts = re.split(r"^--\n-- Name: .*\n--\n", text, flags=re.MULTILINE)
        kept = [part for part in parts[1:] if OURS not in part]
        return [
            line
            for part in kept
            for line in part.splitlines()
            if line and not line.startswith("--")
        ]
    with contextlib.closing(sqlite3.connect(path_of(url))) as file:
        rows = file.execute("SELECT type, name, tbl_name, sql FROM sqlite_master ORDER BY 1, 2")
        found = [row for row in rows if not row[2].startswith(OURS)]
        lines = [line for row in found for line in _lines(f"{row[0]} {row[1]}: {row[3]}")]
        for kind, name, *_ in found:
            if kind == "table" and not name.startswith("sqlite_"):
                quoted = '"' + name.replace('"', '""') + '"'
                [[count]] = file.execute(f"SELECT count(*) FROM {quoted}")  # noqa: S608
                lines.append(f"rows of {name}: {count}")
    return lines


def _lines(sql: str) -> list[str]:
    """Return the lines of a statement, with the constraints of a table in one order.

    In batch mode, Alembic writes constraints without a name in any order: that of a set.
    """
    lines = [line.strip(" \t,") for line in sql.splitlines() if line.strip()]
    fixed = [line for line in lines if not line.startswith(_CONSTRAINTS)]
    return [*fixed, *sorted(line for line in lines if line.startswith(_CONSTRAINTS))]


def _run_program(program: str, url: str, *arguments: str, stdin: str = "") -> str:
    # Those of the server that the tests start are as new as that server.
    own = find_binaries() / program
    path = own if own.exists() else shutil.which(program)
    if path is None:
        raise SystemExit(f"Needs {program}: apt-get install postgresql-client")
    ended = subprocess.run(  # noqa: S603 - of PostgreSQL
        [path, "--dbname", url, *arguments],
        input=stdin,
        capture_output=True,
        text=True,
        timeout=SECONDS_MAX,
        check=False,
    )
    if ended.returncode:
        raise SystemExit(ended.stderr)
    return ended.stdout


def path_of(url: str) -> str:
    """Return the path of a SQLite database."""
    return url.removeprefix("sqlite:///")


def last_line(text: str) -> str:
    """Return the line of *text* with the error, or the last one."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    # SQLAlchemy ends with a link.
    lines = [line for line in lines if not line.startswith("(Background on this error")]
    said = [line for line in lines if re.match(r"[\w.]+(Error|Exception)?: ", line)]
    return ((said or lines or ["no message"])[-1])[:REASON_CHARS_MAX]


def _show_details(result: Result) -> None:
    sys.stderr.write(f"{result.project.name}: {result.word}. {result.reason}\n")
    for line in result.difference[:DIFFERENCES_MAX]:
        sys.stderr.write(f"    {line}\n")


def _show(results: Sequence[Result]) -> None:
    lines = ["| project | commit | revisions | engine | result |", "|---|---|---|---|---|"]
    for one in results:
        reason = " ".join(one.reason.replace("|", "\\|").split())
        project = one.project
        word = f"{one.word}: {reason}" if reason else one.word
        lines.append(
            f"| {project.name} | {project.commit} | {one.count} | {project.engine} | {word} |"
        )
    sys.stdout.write("\n".join(lines) + "\n")


if __name__ == "__main__":
    sys.exit(main())
