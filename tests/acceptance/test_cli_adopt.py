"""``tenantry tenant adopt``: what it asks for, what it says, and how it ends."""

import json
import re
import secrets
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tenantry.db.urls import sqlite_path
from tenantry.settings import Settings
from testkit import raw_sql
from testkit.forked import run
from testkit.programs import only_line, variables
from tests.acceptance.commands import TENANT
from tests.conftest import PASSWORD
from tests.integration.engines import on_sqlite

pytestmark = pytest.mark.slow

OWNER = ("--owner-email", "owner@example.com", "--owner-name", "The Owner")
ASKED = ("--password-stdin", *OWNER)
CREATED = TENANT | {"apiKey", "owner"}


@dataclass(frozen=True)
class Adopting:
    """Runs ``tenantry`` on a database that a team has made."""

    settings: Settings
    folder: Path
    url: str

    @property
    def name(self) -> str:
        """The name by which it is adopted."""
        path = sqlite_path(self.url)
        return self.url.rpartition("/")[2] if path is None else str(path)

    def __call__(self, *arguments: str, **environment: str) -> "subprocess.CompletedProcess[str]":
        given = {**variables(self.settings), **environment}
        return run(self.folder, *arguments, stdin=f"{PASSWORD}\n", **given)

    def adopt(
        self, *arguments: str, name: str = "Shop", **environment: str
    ) -> "subprocess.CompletedProcess[str]":
        asked = ("tenant", "adopt", name, *ASKED, "--database", self.name, *arguments)
        return self(*asked, **environment)


@pytest.fixture(name="tenantry")
def _tenantry(settings: Settings, tmp_path: Path, new_database: Callable[[], str]) -> Adopting:
    url = new_database()
    raw_sql.run(
        url,
        "CREATE TABLE thing (id INTEGER PRIMARY KEY)",
        "INSERT INTO thing VALUES (1)",
        "CREATE TABLE alembic_version (version_num VARCHAR(32) NOT NULL PRIMARY KEY)",
        "INSERT INTO alembic_version VALUES ('t1')",
    )
    return Adopting(settings, tmp_path, url)


@pytest.fixture(name="migrations")
def _migrations(tmp_path: Path) -> str:
    """The team's directory: what the database has, and one revision that it has not."""
    versions = tmp_path / "team" / "versions"
    versions.mkdir(parents=True)
    steps = {"t1": "CREATE TABLE thing (id INTEGER)", "t2": "CREATE TABLE more (id INTEGER)"}
    for name, sql in steps.items():
        down = "None" if name == "t1" else "'t1'"
        (versions / f"{name}_step.py").write_text(
            f"from alembic import op\nrevision = {name!r}\ndown_revision = {down}\n"
            f"def upgrade():\n    op.execute({sql!r})\n"
        )
    return str(versions.parent)


class TestTenantAdopt:
    def test_makes_a_tenant_and_shows_its_key(self, tenantry: Adopting, migrations: str):
        ended = tenantry.adopt(TENANTRY_TENANT_MIGRATIONS=migrations)

        assert ended.returncode == 0, ended.stderr
        assert re.search(r"^API key +tnk_\S+$", ended.stdout, re.MULTILINE)
        assert re.search(r"^revision +\d+/t1$", ended.stdout, re.MULTILINE)
        assert "not shown again" in ended.stderr
        assert "tenantry migrate all" in ended.stderr
        assert PASSWORD not in ended.stdout + ended.stderr

    def test_leads_to_migrate_all(self, tenantry: Adopting, migrations: str):
        team = {"TENANTRY_TENANT_MIGRATIONS": migrations}
        made = _data(tenantry.adopt("--json", **team))
        admin = ("admin", "create", "ada@example.com", "--password-stdin")
        assert tenantry(*admin).returncode == 0

        ended = tenantry("migrate", "all", "--json", **team)

        (part,) = _data(ended)["details"]
        assert (part["customerName"], part["status"]) == ("Shop", "success")
        assert made["schemaRevision"].endswith("/t1")
        shown = _data(tenantry("tenant", "show", "Shop", "--json"))
        assert shown["schemaRevision"].endswith("/t2")

    def test_prints_json_as_creating_one_does(self, tenantry: Adopting):
        data = _data(tenantry.adopt("--json"))

        assert set(data) == CREATED
        assert data["name"] == "Shop"

    def test_says_to_name_the_directory(self, tenantry: Adopting):
        ended = tenantry.adopt()

        assert "TENANTRY_TENANT_MIGRATIONS" in ended.stderr

    def test_warns_of_what_the_env_py_does_in_vain(self, tenantry: Adopting, migrations: str):
        (Path(migrations) / "env.py").write_text("c.execute('SET ROLE owner')\n")

        ended = tenantry.adopt(TENANTRY_TENANT_MIGRATIONS=migrations)

        assert ended.returncode == 0
        assert "Your env.py is not run. Line 1: SET ROLE." in ended.stderr

    @on_sqlite
    def test_refuses_a_damaged_file(self, tenantry: Adopting, migrations: str):
        """Its tenant could neither be backed up nor be moved."""
        rows = "WITH RECURSIVE n(i) AS (VALUES (2) UNION ALL SELECT i + 1 FROM n WHERE i < 9999)"
        raw_sql.run(tenantry.url, f"INSERT INTO thing {rows} SELECT i FROM n")
        with Path(tenantry.name).open("r+b") as file:
            file.seek(3 * 4096)
            file.write(b"\xff" * 20 * 4096)

        ended = tenantry.adopt(TENANTRY_TENANT_MIGRATIONS=migrations)

        assert ended.returncode != 0
        assert "The database is damaged" in ended.stderr
        assert "Shop" not in tenantry("tenant", "list").stdout

    def test_refuses_in_one_line(self, tenantry: Adopting):
        raw_sql.run(tenantry.url, "INSERT INTO alembic_version VALUES ('t9')")

        ended = tenantry.adopt()

        assert ended.returncode == 2
        assert ended.stdout == ""
        assert "several rows" in only_line(ended.stderr)

    def test_names_what_is_not_there(self, tenantry: Adopting):
        missing = f"nothing-{secrets.token_hex(4)}"
        asked = ("tenant", "adopt", "Shop", *ASKED, "--database", missing)

        ended = tenantry(*asked)

        assert ended.returncode == 2
        only_line(ended.stderr)

    def test_ends_with_3_when_the_server_cannot_be_reached(self, tenantry: Adopting):
        servers = json.dumps({"far": "postgresql://someone:hunter2@127.0.0.1:1/nowhere"})

        ended = tenantry.adopt("--server", "far", TENANTRY_TENANT_SERVERS=servers)

        assert ended.returncode == 3
        assert "hunter2" not in only_line(ended.stderr)

    def test_refuses_an_unknown_server(self, tenantry: Adopting):
        ended = tenantry.adopt("--server", "nowhere")

        assert ended.returncode == 2
        only_line(ended.stderr)

    def test_says_that_deleting_the_tenant_drops_the_database(self, tenantry: Adopting):
        ended = tenantry("tenant", "adopt", "--help")

        help_text = " ".join(ended.stdout.split())
        assert "If you delete the tenant later, the database is dropped" in help_text


def _data(ended: "subprocess.CompletedProcess[str]") -> Any:
    assert ended.returncode == 0, ended.stderr
    return json.loads(ended.stdout)
