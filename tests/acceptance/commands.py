"""``tenantry`` as a command: run in this process, or at a terminal."""

import asyncio
import json
import os
import pty
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import typer
from typer.testing import CliRunner

from tenantry.cli.commands import DeferredCommand
from tenantry.cli.main import cli
from tenantry.db.factory import open_tenant_server
from tenantry.settings import SERVER_DEFAULT, Settings
from testkit.programs import START_SECONDS_MAX, environment_of
from testkit.raw_sql import connected
from tests.catalogs import EmptyCatalog
from tests.conftest import PASSWORD

ADA = "ada@example.com"
OTHER_KEY = "another secret key, of forty characters."
UNREACHABLE = "postgresql://someone:hunter2@127.0.0.1:1/nowhere"
TENANT = {
    "id",
    "name",
    "databaseName",
    "isActive",
    "isReadOnly",
    "createdAt",
    "schemaRevision",
    "modules",
    "requestsPerMinute",
    "sizeBytesMax",
    "serverName",
    "failingRunId",
    "driftedAt",
    "labels",
    "isAttached",
}
RUN = {
    "id",
    "startedAt",
    "finishedAt",
    "totalCount",
    "successCount",
    "failedCount",
    "triggeredBy",
    "details",
}
RUN_DETAIL = {
    "customerId",
    "customerName",
    "databaseName",
    "status",
    "appliedMigrations",
    "errorMessage",
    "startedAt",
    "finishedAt",
}
PAGE = {"items", "page", "pageSize", "totalCount", "totalPages"}
CREATE_WIDGETS = """
import sqlalchemy as sa

revision = "w1"
down_revision = None

def upgrade(op):
    op.create_table("widgets", sa.Column("id", sa.Integer, primary_key=True))
"""
SLOWLY = """
import time

revision = "w1"
down_revision = None
online = True

def upgrade(op):
    op.execute("CREATE TABLE widgets (id INTEGER PRIMARY KEY)")
    time.sleep(0.4)
"""


@dataclass(frozen=True)
class Ended:
    """How a command ended."""

    status: int
    stdout: str
    stderr: str

    @property
    def data(self) -> Any:
        assert self.status in {0, 1, 3, 4}, self.stderr
        return json.loads(self.stdout)


@dataclass(frozen=True)
class Commands:
    """Runs commands with the settings of a test.

    Attributes:
        catalog: What the first admin or tenant finds; None if that command creates a catalog.
    """

    settings: Settings
    folder: Path
    environment: dict[str, str]
    catalog: EmptyCatalog | None = None

    def __call__(
        self, *arguments: str, password: str | None = None, stdin: str = "", **environment: str
    ) -> Ended:
        if password is not None:
            arguments = (*arguments, "--password-stdin")
        clean = {name: None for name in environment_of() if name.startswith("TENANTRY_")}
        result = CliRunner().invoke(
            cli,
            list(arguments),
            input=stdin if password is None else f"{password}\n",
            env={**clean, **self.environment, **environment},
        )
        assert result.exception is None or isinstance(result.exception, SystemExit)
        return Ended(result.exit_code, result.stdout, result.stderr)

    def create_admin(self, email: str = ADA) -> Any:
        self._copy_catalog()
        return self("admin", "create", email, "--json", password=PASSWORD).data

    def create_tenant(self, name: str, email: str = "owner@example.com") -> Any:
        self._copy_catalog()
        owner = ("--owner-email", email, "--owner-name", "The Owner")
        return self("tenant", "create", name, *owner, "--json", password=PASSWORD).data

    def _copy_catalog(self) -> None:
        if self.catalog is not None:
            self.catalog.copy_to(self.settings)

    def migrations(self, source: str) -> str:
        """Return a new folder of migrations with the one revision *source*."""
        versions = self.folder / "migrations" / "versions"
        versions.mkdir(parents=True, exist_ok=True)
        (versions / "0001_create_widgets.py").write_text(source)
        return str(versions.parent)

    def drop_database(self, tenant: Any) -> None:
        """Remove the database of a tenant, as a lost disk would."""
        server = open_tenant_server(self.settings, self.settings.servers[SERVER_DEFAULT])
        asyncio.run(server.drop(tenant["databaseName"]))

    def break_tenant(self, tenant: Any) -> None:
        """Make the next revision fail: its table exists already."""
        server = open_tenant_server(self.settings, self.settings.servers[SERVER_DEFAULT])
        with connected(server.url(tenant["databaseName"])) as query:
            query("CREATE TABLE widgets (id INTEGER)")


def every_command(
    command: Any = None, path: tuple[str, ...] = ()
) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Yield the words and the command of everything that can be run."""
    command = typer.main.get_command(cli) if command is None else command
    command = command.load() if isinstance(command, DeferredCommand) else command
    if not hasattr(command, "commands"):
        yield path, command
        return
    for name, one in command.commands.items():
        yield from every_command(one, (*path, name))


def ended_count(tenantry: Commands) -> int:
    with connected(tenantry.settings.catalog) as query:
        return sum(row[0] for row in query("SELECT success_count FROM migration_run"))


def wait_until(holds: Callable[[], bool], seconds_max: float = START_SECONDS_MAX) -> None:
    ends = time.monotonic() + seconds_max
    while not holds():
        assert time.monotonic() < ends
        time.sleep(0.05)


def at_a_terminal(folder: Path, arguments: list[str], answers: dict[str, str]) -> tuple[str, int]:
    """Return what a command showed at a terminal, and its exit status."""
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-m", "tenantry", *arguments],
        cwd=folder,
        env=environment_of(),
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        start_new_session=True,
    )
    os.close(theirs)
    shown = ""
    pending = dict(answers)
    while chunk := _read(ours):
        shown += chunk
        for question in [one for one in pending if shown.endswith(one)]:
            os.write(ours, f"{pending.pop(question)}\n".encode())
    os.close(ours)
    return shown, process.wait()


def _read(terminal: int) -> str:
    try:
        return os.read(terminal, 4096).decode()
    except OSError:  # what Linux says when the other side is gone
        return ""
