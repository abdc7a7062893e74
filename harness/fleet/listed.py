"""Databases of a project of Alembic's, for `tenantry fleet`, and for the tools beside it."""

import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from harness.bench.fleet.peers.alembic_project import Project
from harness.bench.fleet.peers.programs import run
from harness.fleet.history import BEHIND, HISTORY, write_alembic
from harness.fleet.tenants import NotMigrated, Tenants, make_templates
from tenantry.fleet_api import migrate
from testkit.postgres import create_database, database_url


@dataclass(frozen=True)
class Listed:
    """A project, and its databases.

    Attributes:
        project: With everything in it.
        folder: For the list, and for the state of the fleet.
        tenants: The databases, as Alembic leaves them.
        migrated_before: The same ones, after an earlier run of ours: each has its log.
    """

    project: Project
    folder: Path
    tenants: Tenants
    migrated_before: Tenants

    def by_library(self, urls: Sequence[str]) -> float:
        """Return the seconds of a call of `tenantry.fleet_api.migrate`."""
        began = time.perf_counter()
        result = migrate(urls, self.project.scripts, state=self.folder / "library.db")
        took = time.perf_counter() - began
        if (result.total, result.succeeded) != (len(urls), len(urls)):
            raise NotMigrated(f"{result.succeeded} of {result.total} succeeded, not {len(urls)}")
        return took

    def by_command(self, urls: Sequence[str]) -> float:
        """Return the seconds of `tenantry fleet migrate`, from the start of the program."""
        (self.folder / "databases.txt").write_text("".join(f"{url}\n" for url in urls))
        began = time.perf_counter()
        run([*self._command, "--urls", "databases.txt"], folder=self.folder)
        return time.perf_counter() - began

    def start_seconds(self) -> tuple[float, float]:
        """Return the seconds from the start of the program to the first revision of a new file.

        The second number is the time on the cores, which other programs disturb less.
        """
        self._new_file.unlink(missing_ok=True)
        self._new_file.touch()
        began = time.monotonic()
        run([*self._command[:-1], str(self._seen.parent), "--glob", "new.db"], folder=self.folder)
        ended, on_cores = map(float, self._seen.read_text().split())
        return ended - began, on_cores

    @property
    def _command(self) -> list[str]:
        program = [sys.executable, "-m", "tenantry", "fleet", "migrate", "--state", "state.db"]
        return [*program, "--migrations", str(self.project.scripts)]

    @property
    def _new_file(self) -> Path:
        return self.folder / "new.db"

    @cached_property
    def _seen(self) -> Path:
        """The file where the one revision of a small project writes when it runs."""
        seen = self.folder / "small" / "seen"
        (seen.parent / "versions").mkdir(parents=True)
        (seen.parent / "versions" / "first.py").write_text(
            "import pathlib, time\nfrom alembic import op\nrevision, down_revision = 'a', None\n\n"
            f"def upgrade():\n    pathlib.Path({str(seen)!r}).write_text("
            "f'{time.monotonic()} {time.process_time()}')\n"
            "    op.execute('CREATE TABLE it (id INTEGER)')\n"
        )
        return seen


def make_listed(project: Project, folder: Path, count: int, server_url: str) -> Listed:
    """Return *count* databases that *project* has made, all but the pending revisions."""
    urls = [database_url(server_url, f"listed_{number}") for number in range(count)]
    first = create_database(server_url, "listed_first")
    project.upgrade(first, BEHIND)
    second = create_database(server_url, "listed_second")
    project.upgrade(second, HISTORY[-2].id)
    migrate([second], write_alembic(folder / "earlier", HISTORY), state=folder / "earlier.db")
    as_alembic, as_ours = (make_templates(url, server_url, folder)(urls) for url in (first, second))
    return Listed(project, folder, as_alembic, as_ours)
