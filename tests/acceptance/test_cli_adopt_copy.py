"""``tenantry tenant adopt --as``: a restored copy of a tenant's database becomes a new tenant."""

import json
import secrets
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tenantry.db.urls import sqlite_path
from testkit import raw_sql
from testkit.postgres import create_database
from testkit.programs import only_line
from tests.acceptance.commands import UNREACHABLE, Commands, Ended
from tests.conftest import PASSWORD
from tests.integration.engines import on_postgresql, on_sqlite

PLAIN = "plain"


@dataclass(frozen=True)
class Restored:
    """A tenant, and a copy of its database as another program would restore it.

    Attributes:
        tenantry: Runs commands.
        tenant: The tenant, as it was created.
        url: The URL of its database.
        copy: The URL of the copy.
        environment: Settings with a server whose role has no more rights than it needs.
    """

    tenantry: Commands
    tenant: Any
    url: str
    copy: str
    environment: dict[str, str]

    def adopt(self, *arguments: str, database: str = "", stdin: str = "") -> Ended:
        path = sqlite_path(self.copy)
        source = database or (self.copy if path is None else str(path))
        server = () if "--server" in arguments or path is not None else ("--server", PLAIN)
        asked = ("tenant", "adopt", "--as", "Shop on Tuesday", "--database", source)
        return self.tenantry(*asked, *server, *arguments, stdin=stdin, **self.environment)

    def list(self) -> list[str]:
        listed = self.tenantry("tenant", "list", "--json", **self.environment)
        return [one["name"] for one in listed.data["items"]]


@pytest.fixture(name="restored")
def _restored(tenantry: Commands, tmp_path: Path, postgres_url: str) -> Restored:
    tenant = tenantry.create_tenant("Shop")
    name = tenant["databaseName"]
    server = tenantry.settings.servers["default"].address
    folder = sqlite_path(server)
    if folder is not None:
        (path,) = folder.glob(f"*/*/{name}.db")
        url, copy, environment = f"sqlite:///{path}", f"sqlite:///{tmp_path / 'copy.db'}", {}
        raw_sql.run(url, "CREATE TABLE note (body TEXT)", "INSERT INTO note VALUES ('saved')")
        shutil.copyfile(path, tmp_path / "copy.db")
    else:
        role = f"role_{secrets.token_hex(6)}"
        raw_sql.run(postgres_url, f"CREATE ROLE {role} LOGIN CREATEDB")
        plain = server.replace("postgres@", f"{role}@")
        environment = {"TENANTRY_TENANT_SERVERS": json.dumps({PLAIN: plain})}
        url = f"{server.rpartition('/')[0]}/{name}"
        raw_sql.run(url, "CREATE TABLE note (body TEXT)", "INSERT INTO note VALUES ('saved')")
        copy = create_database(postgres_url, f"copy_{secrets.token_hex(6)}", template=name)
    raw_sql.run(url, "INSERT INTO note VALUES ('later')")
    return Restored(tenantry, tenant, url, copy, environment)


def notes(url: str) -> set[str]:
    return {str(row[0]) for row in raw_sql.rows(url, "SELECT body FROM note")}


class TestTenantAdoptAs:
    def test_makes_a_tenant_with_the_data_of_the_copy(self, restored: Restored):
        before = raw_sql.rows(restored.copy, "SELECT generation FROM tenantry_user")

        made = restored.adopt("--json").data

        assert made["name"] == "Shop on Tuesday"
        assert made["id"] != restored.tenant["id"]
        assert made["apiKey"] not in {None, restored.tenant["apiKey"]}
        assert made["behind"] is None
        assert made["isActive"]
        url = restored.copy.replace(_name(restored.copy), made["databaseName"])
        if sqlite_path(url) is not None:
            (path,) = restored.tenantry.settings.data_dir.glob(f"**/{made['databaseName']}.db")
            url = f"sqlite:///{path}"
        assert notes(url) == {"saved"}
        assert notes(restored.url) == {"saved", "later"}, "today's tenant is not changed"
        after = raw_sql.rows(restored.copy, "SELECT generation FROM tenantry_user")
        assert after == before, "the copy is only read"
        users = restored.tenantry("user", "list", made["id"], "--json", **restored.environment)
        assert [one["email"] for one in users.data["items"]] == ["owner@example.com"]

    def test_is_in_the_audit_log_and_among_the_jobs(self, restored: Restored):
        made = restored.adopt("--json").data

        audit = restored.tenantry("audit", "list", "--action", "tenant.adopt", "--json")
        assert [one["target"] for one in audit.data["items"]] == [made["id"]]
        (job,) = restored.tenantry("backup", "jobs", "--json").data["items"]
        assert (job["kind"], job["state"]) == ("adopt", "done")

    def test_refuses_a_database_of_something_else(self, restored: Restored):
        raw_sql.run(restored.copy, "ALTER TABLE tenantry_user RENAME TO customer")

        ended = restored.adopt()

        assert ended.status == 2
        assert "not a copy of a tenant's database" in only_line(ended.stderr)
        assert restored.list() == ["Shop"]

    @pytest.mark.parametrize(
        "more",
        [("Name",), ("--owner-email", "a@example.com"), ("--stamp", "1"), ("--password-stdin",)],
        ids=lambda more: more[0],
    )
    def test_rejects_the_options_of_a_database_of_ones_own(
        self, restored: Restored, more: tuple[str, ...]
    ):
        ended = restored.adopt(*more)

        assert ended.status == 2
        assert "--as NAME" in only_line(ended.stderr)

    def test_rejects_a_name_that_is_in_use(self, restored: Restored):
        restored.adopt()

        ended = restored.adopt()

        assert ended.status == 2
        assert restored.list() == ["Shop", "Shop on Tuesday"]

    @on_sqlite
    def test_accepts_the_url_of_a_file(self, restored: Restored):
        assert restored.adopt(database=restored.copy).status == 0

    @on_sqlite
    def test_does_not_change_the_files_of_the_copy(self, restored: Restored, tmp_path: Path):
        """Nor move what is in the log of SQLite into the database."""
        path, copied = Path(str(sqlite_path(restored.copy))), tmp_path / "with-log" / "copy.db"
        copied.parent.mkdir()
        logs = [Path(f"{one}-wal") for one in (path, copied)]
        with raw_sql.connected(restored.copy) as query:
            query("INSERT INTO note VALUES ('in the log')")
            shutil.copyfile(path, copied)
            shutil.copyfile(*logs)
        before = [copied.read_bytes(), logs[1].read_bytes()]
        assert b"in the log" in before[1]

        made = restored.adopt("--json", database=str(copied)).data

        assert [copied.read_bytes(), logs[1].read_bytes()] == before
        (adopted,) = restored.tenantry.settings.data_dir.glob(f"**/{made['databaseName']}.db")
        assert notes(f"sqlite:///{adopted}") == {"saved", "in the log"}

    @on_sqlite
    def test_names_a_file_that_is_missing(self, restored: Restored):
        ended = restored.adopt(database="nothing.db")

        assert ended.status == 2
        assert "nothing.db" in only_line(ended.stderr)

    @on_sqlite
    def test_refuses_a_damaged_file(self, restored: Restored):
        path = sqlite_path(restored.copy)
        assert path is not None
        path.write_bytes(path.read_bytes()[:20_000])

        assert restored.adopt().status in {2, 3}
        assert restored.list() == ["Shop"]

    @on_postgresql
    def test_accepts_the_name_of_a_database_on_the_server(self, restored: Restored):
        role = json.loads(restored.environment["TENANTRY_TENANT_SERVERS"])[PLAIN]
        name = role.partition("//")[2].partition("@")[0]
        raw_sql.run(
            restored.copy,
            f"GRANT SELECT ON ALL TABLES IN SCHEMA public TO {name}",
            f"GRANT SELECT ON ALL SEQUENCES IN SCHEMA public TO {name}",
        )

        ended = restored.adopt(database=_name(restored.copy))

        assert ended.status == 0, ended.stderr

    @on_postgresql
    def test_reads_a_url_with_a_password_from_standard_input_only(self, restored: Restored):
        secret = restored.copy.replace("postgres@", f"postgres:{PASSWORD.replace(' ', '%20')}@")

        refused = restored.adopt(database=secret)
        accepted = restored.adopt(database="-", stdin=f"{secret}\n")

        assert refused.status == 2
        assert "--database -" in only_line(refused.stderr)
        assert accepted.status == 0, accepted.stderr

    @on_postgresql
    def test_refuses_a_superuser_as_the_role_of_the_server(self, restored: Restored):
        """The copy could contain code that the server then runs as a superuser."""
        ended = restored.adopt("--server", "default")

        assert ended.status == 2
        assert "superuser" in only_line(ended.stderr)
        assert restored.list() == ["Shop"]

    @on_postgresql
    def test_ends_with_3_when_the_server_of_the_copy_cannot_be_reached(self, restored: Restored):
        ended = restored.adopt(database=UNREACHABLE.replace(":hunter2", ""))

        assert ended.status == 3
        assert restored.list() == ["Shop"]


def _name(url: str) -> str:
    return url.rpartition("/")[2]
