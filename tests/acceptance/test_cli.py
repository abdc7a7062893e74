"""The command line: what it prints, and how it ends."""

import json
import os
import pty
import secrets
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import UUID

import httpx
import pytest
import typer
from typer.testing import CliRunner

from tenantry.cli.main import cli
from tenantry.db.servers import open_server
from tenantry.settings import Settings
from tests.acceptance.programs import (
    answers,
    environment_of,
    free_port,
    logs_kept,
    only_line,
    run,
    running,
    variables,
)
from tests.conftest import PASSWORD
from tests.integration.looking import looking_into

ADA = "ada@example.com"
OTHER_KEY = "another secret key, of forty characters."
UNREACHABLE = "postgresql://someone:hunter2@127.0.0.1:1/nowhere"
TENANT = {"id", "name", "databaseName", "isActive", "createdAt", "schemaRevision", "modules"}
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
        assert self.status in {0, 1, 3}, self.stderr
        return json.loads(self.stdout)


@dataclass(frozen=True)
class Commands:
    """Runs commands with the settings of a test."""

    settings: Settings
    folder: Path
    environment: dict[str, str]

    def __call__(self, *arguments: str, password: str | None = None, **environment: str) -> Ended:
        if password is not None:
            arguments = (*arguments, "--password-stdin")
        clean = {name: None for name in environment_of() if name.startswith("TENANTRY_")}
        result = CliRunner().invoke(
            cli,
            list(arguments),
            input="" if password is None else f"{password}\n",
            env={**clean, **self.environment, **environment},
        )
        assert result.exception is None or isinstance(result.exception, SystemExit)
        return Ended(result.exit_code, result.stdout, result.stderr)

    def create_admin(self, email: str = ADA) -> Any:
        return self("admin", "create", email, "--json", password=PASSWORD).data

    def create_tenant(self, name: str, email: str = "owner@example.com") -> Any:
        owner = ("--owner-email", email, "--owner-name", "The Owner")
        return self("tenant", "create", name, *owner, "--json", password=PASSWORD).data

    def migrations(self, source: str) -> str:
        """Return a new folder of migrations whose one revision is *source*."""
        versions = self.folder / "migrations" / "versions"
        versions.mkdir(parents=True, exist_ok=True)
        (versions / "0001_create_widgets.py").write_text(source)
        return str(versions.parent)

    def break_tenant(self, tenant: Any) -> None:
        """Let the next revision find what it wants to create."""
        server = open_server(
            self.settings.tenant_server,
            connections_max=1,
            timeout_seconds=1,
            synchronous="FULL",
        )
        with looking_into(server.url(tenant["databaseName"])) as query:
            query("CREATE TABLE widgets (id INTEGER)")


@pytest.fixture(name="as_before", autouse=True)
def _as_before() -> Iterator[None]:
    with logs_kept():
        yield


@pytest.fixture(name="tenantry")
def _tenantry(settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Commands:
    monkeypatch.chdir(tmp_path)
    return Commands(settings, tmp_path, variables(settings))


@pytest.fixture(name="alone")
def _alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Commands:
    """Runs commands on SQLite, where the engine does not matter."""
    monkeypatch.chdir(tmp_path)
    return Commands(Settings(data_dir=tmp_path / "data"), tmp_path, {})


class TestEveryCommand:
    def test_prints_json(self):
        for path, command in _leaves(typer.main.get_command(cli)):
            assert any("--json" in one.opts for one in command.params), path

    def test_takes_no_password_as_an_argument(self):
        for path, command in _leaves(typer.main.get_command(cli)):
            named = [one for one in command.params if "password" in str(one.name)]
            assert all(one.is_flag for one in named), path

    def test_has_a_help_text(self, alone: Commands):
        for path, command in _leaves(typer.main.get_command(cli)):
            ended = alone(*path, "--help")
            assert ended.status == 0
            assert str(command.help).partition(".")[0] in " ".join(ended.stdout.split())

    @pytest.mark.parametrize(
        "arguments",
        [
            ("nonsense",),
            ("tenant", "nonsense"),
            ("tenant", "show"),
            ("tenant", "create", "acme"),
            ("tenant", "list", "--page", "0"),
            ("migrate", "history", "--page-size", "x"),
            ("serve", "--port", "65536"),
            ("serve", "--nonsense"),
        ],
    )
    def test_ends_with_2_when_it_is_used_wrongly(self, alone: Commands, arguments: tuple[str, ...]):
        ended = alone(*arguments)

        assert (ended.status, ended.stdout) == (2, "")
        assert ended.stderr


class TestSettings:
    """A mistake in them is one line, and exit status 3."""

    def test_that_nobody_knows(self, alone: Commands):
        ended = alone("tenant", "list", TENANTRY_PROT="1")

        assert ended.status == 3
        assert "TENANTRY_PROT" in only_line(ended.stderr)

    def test_that_are_wrong(self, alone: Commands):
        ended = alone("tenant", "list", TENANTRY_PORT="eighty")

        assert ended.status == 3
        assert "TENANTRY_PORT" in only_line(ended.stderr)

    def test_that_stand_in_a_file(self, alone: Commands):
        Path(".env").write_text("TENANTRY_PROT=1\n")

        ended = alone("tenant", "list")

        assert ended.status == 3
        assert "TENANTRY_PROT" in only_line(ended.stderr)

    def test_that_name_no_catalog(self, alone: Commands):
        keys = {"TENANTRY_CATALOG_URL": UNREACHABLE, "TENANTRY_SECRET_KEY": OTHER_KEY}

        ended = alone("tenant", "list", **keys)

        assert (ended.status, ended.stdout) == (3, "")
        assert "hunter2" not in only_line(ended.stderr)

    def test_with_another_secret_key(self, tenantry: Commands):
        tenantry.create_admin()

        ended = tenantry("admin", "list", TENANTRY_SECRET_KEY=OTHER_KEY)

        assert ended.status == 3
        assert "TENANTRY_SECRET_KEY" in only_line(ended.stderr)

    def test_with_a_data_folder_that_is_none(self, alone: Commands):
        Path("file").touch()

        ended = alone("tenant", "list", TENANTRY_DATA_DIR="file/data")

        assert ended.status == 3
        only_line(ended.stderr)


class TestAdminCreate:
    def test_makes_an_admin(self, tenantry: Commands):
        made = tenantry.create_admin()

        assert set(made) == {"id", "email", "isActive", "createdAt"}
        assert (made["email"], made["isActive"]) == (ADA, True)
        assert tenantry("admin", "list", "--json").data == {"items": [made]}

    def test_prints_for_people(self, alone: Commands):
        ended = alone("admin", "create", ADA, password=PASSWORD)

        assert ended.status == 0
        assert ADA in ended.stdout
        assert PASSWORD not in ended.stdout + ended.stderr
        assert ADA in alone("admin", "list").stdout

    @pytest.mark.parametrize(
        ("email", "password", "said"),
        [
            (ADA, "short", "password"),
            (ADA, "", "--password-stdin"),
            (ADA, ADA, "password"),
            ("nobody", PASSWORD, "email"),
        ],
    )
    def test_refuses_what_breaks_a_rule(
        self, alone: Commands, email: str, password: str, said: str
    ):
        ended = alone("admin", "create", email, password=password)

        assert (ended.status, ended.stdout) == (2, "")
        assert said in only_line(ended.stderr)

    def test_refuses_an_address_that_is_taken(self, tenantry: Commands):
        tenantry.create_admin()

        ended = tenantry("admin", "create", ADA.upper(), password=PASSWORD)

        assert ended.status == 2
        assert "admin list" in only_line(ended.stderr)

    def test_reads_only_the_first_line(self, alone: Commands):
        alone("admin", "create", ADA, password=f"{PASSWORD}\r\nsecond line")

        with looking_into(alone.settings.catalog) as query:
            assert len(query("SELECT password_hash FROM admin")) == 1

    def test_needs_a_password(self, alone: Commands):
        ended = alone("admin", "create", ADA)

        assert ended.status == 2
        assert "--password-stdin" in only_line(ended.stderr)

    def test_refuses_a_password_that_is_no_text(self, alone: Commands):
        ended = CliRunner().invoke(
            cli, ["admin", "create", ADA, "--password-stdin"], input=b"\xff\xfe password\n"
        )

        assert ended.exit_code == 2
        only_line(ended.stderr)
        assert alone("admin", "list", "--json").data == {"items": []}

    def test_asks_at_a_terminal_and_shows_nothing_of_it(self, tmp_path: Path):
        shown, status = _at_a_terminal(
            tmp_path, ["admin", "create", ADA], {"Password: ": PASSWORD, "Once more: ": PASSWORD}
        )

        assert status == 0
        assert ADA in shown
        assert PASSWORD not in shown

    def test_asks_twice(self, tmp_path: Path):
        shown, status = _at_a_terminal(
            tmp_path, ["admin", "create", ADA], {"Password: ": PASSWORD, "Once more: ": "another"}
        )

        assert status == 2
        assert "not the same" in shown


class TestTenantCreate:
    def test_makes_a_tenant_with_owner_and_key(self, tenantry: Commands):
        made = tenantry.create_tenant("Acme Ωmega")

        assert set(made) == {*TENANT, "apiKey", "owner"}
        assert made["name"] == "Acme Ωmega"
        assert made["apiKey"].startswith("tnk_")
        assert set(made["owner"]) == {"id", "email", "fullName", "isActive", "createdAt"}
        assert made["owner"]["fullName"] == "The Owner"

    def test_prints_the_key_once(self, alone: Commands):
        owner = ("--owner-email", "o@example.com", "--owner-name", "O")

        ended = alone("tenant", "create", "acme", *owner, password=PASSWORD)

        assert ended.status == 0
        assert "tnk_" in ended.stdout
        assert "tnk_" not in alone("tenant", "show", "acme").stdout

    def test_refuses_a_name_that_is_taken(self, tenantry: Commands):
        tenantry.create_tenant("acme")
        owner = ("--owner-email", "o@example.com", "--owner-name", "O")

        ended = tenantry("tenant", "create", "ACME", *owner, password=PASSWORD)

        assert ended.status == 2
        only_line(ended.stderr)

    def test_refuses_an_owner_that_breaks_a_rule(self, alone: Commands):
        owner = ("--owner-email", "nobody", "--owner-name", "O")

        ended = alone("tenant", "create", "acme", *owner, password=PASSWORD)

        assert ended.status == 2
        assert alone("tenant", "list", "--json").data["totalCount"] == 0


class TestTenantList:
    def test_pages_by_name(self, tenantry: Commands):
        for name in ("globex", "acme"):
            tenantry.create_tenant(name)

        page = tenantry("tenant", "list", "--json").data

        assert set(page) == PAGE
        assert [one["name"] for one in page["items"]] == ["acme", "globex"]
        assert all(set(one) == TENANT for one in page["items"])

    def test_searches_the_names(self, alone: Commands):
        for name in ("globex", "acme"):
            alone.create_tenant(name)

        found = alone("tenant", "list", "--search", "LOB", "--json").data

        assert [one["name"] for one in found["items"]] == ["globex"]
        assert "globex" in alone("tenant", "list", "--search", "lob").stdout
        assert alone("tenant", "list", "--search", "nobody").stdout == ""

    def test_prints_names_as_they_are(self, alone: Commands):
        alone.create_tenant("[red]not markup[/red] :smile:")

        assert "[red]not markup[/red] :smile:" in alone("tenant", "list").stdout

    def test_survives_what_is_no_text(self, alone: Commands):
        ended = alone("tenant", "list", "--search", "\udcff")

        assert ended.status == 2
        only_line(ended.stderr)


class TestTenantShow:
    def test_takes_an_id_or_a_name(self, tenantry: Commands):
        made = tenantry.create_tenant("acme")

        by_id = tenantry("tenant", "show", made["id"].upper(), "--json").data
        by_name = tenantry("tenant", "show", "ACME", "--json").data

        assert by_id == by_name
        assert set(by_id) == TENANT

    @pytest.mark.parametrize("tenant", ["nobody", "01890a5d-ac96-774b-bcce-b302099a8057"])
    def test_knows_only_those_there_are(self, alone: Commands, tenant: str):
        ended = alone("tenant", "show", tenant)

        assert ended.status == 2
        assert "tenant list" in only_line(ended.stderr)


class TestMigrateAll:
    def test_brings_every_tenant_to_the_head(self, tenantry: Commands):
        tenantry.create_admin()
        made = [tenantry.create_tenant(name) for name in ("acme", "globex")]
        migrations = {"TENANTRY_TENANT_MIGRATIONS": tenantry.migrations(CREATE_WIDGETS)}

        behind = tenantry("migrate", "status", "--json", **migrations).data
        result = tenantry("migrate", "all", "--json", **migrations)
        after = tenantry("migrate", "status", "--json", **migrations).data

        assert (behind["total"], behind["upToDate"], behind["behind"]) == (2, 0, 2)
        assert result.status == 0
        assert result.data == {
            "total": 2,
            "success": 2,
            "failed": 0,
            "details": [
                {
                    "customerId": one["id"],
                    "customerName": one["name"],
                    "status": "success",
                    "error": None,
                }
                for one in made
            ],
        }
        assert (after["upToDate"], after["behind"], after["unknown"]) == (2, 0, 0)
        assert after["revisions"] == [{"revision": after["head"], "count": 2}]
        assert after["running"] == []

    def test_ends_with_1_when_a_tenant_failed(self, tenantry: Commands):
        tenantry.create_admin()
        broken = tenantry.create_tenant("acme")
        tenantry.create_tenant("globex")
        migrations = {"TENANTRY_TENANT_MIGRATIONS": tenantry.migrations(CREATE_WIDGETS)}
        tenantry.break_tenant(broken)

        as_json = tenantry("migrate", "all", "--json", **migrations)
        as_text = tenantry("migrate", "all", **migrations)

        assert as_json.status == as_text.status == 1
        data = as_json.data
        assert (data["total"], data["success"], data["failed"]) == (2, 1, 1)
        failed = next(one for one in data["details"] if one["status"] == "failed")
        assert failed["customerId"] == broken["id"]
        assert "widgets" in failed["error"]
        assert "acme" in as_text.stdout
        assert "widgets" in as_text.stdout
        assert "globex" not in as_text.stdout
        assert "1 of 2 tenants are at the head" in as_text.stdout
        assert "Traceback" not in as_text.stderr

    def test_migrates_nobody_when_there_is_nobody(self, alone: Commands):
        alone.create_admin()

        assert alone("migrate", "all", "--json").data == {
            "total": 0,
            "success": 0,
            "failed": 0,
            "details": [],
        }

    def test_names_the_only_admin_or_the_one_that_is_named(self, tenantry: Commands):
        tenantry.create_admin()
        tenantry("migrate", "all")
        tenantry.create_admin("bo@example.com")
        tenantry("migrate", "all", "--by", "BO@example.com")

        history = tenantry("migrate", "history", "--json").data

        assert [one["triggeredBy"] for one in history["items"]] == ["bo@example.com", ADA]

    def test_needs_an_admin_to_name(self, alone: Commands):
        without = alone("migrate", "all")
        alone.create_admin()
        stranger = alone("migrate", "all", "--by", "stranger@example.com")
        alone.create_admin("bo@example.com")
        several = alone("migrate", "all")

        assert [one.status for one in (without, stranger, several)] == [2, 2, 2]
        assert "admin create" in only_line(without.stderr)
        assert "admin list" in only_line(stranger.stderr)
        assert "--by" in only_line(several.stderr)
        assert alone("migrate", "history", "--json").data["totalCount"] == 0

    def test_begins_no_run_when_the_revisions_cannot_be_read(self, alone: Commands):
        alone.create_admin()
        alone.create_tenant("acme")

        ended = alone("migrate", "all", TENANTRY_TENANT_MIGRATIONS="nowhere")

        assert ended.status == 3
        only_line(ended.stderr)
        assert alone("migrate", "history", "--json").data["totalCount"] == 0

    def test_stops_at_a_signal_and_leaves_the_rest_to_the_next(self, tenantry: Commands):
        tenantry.create_admin()
        for number in range(12):
            tenantry.create_tenant(f"tenant {number:02}")
        migrations = {"TENANTRY_TENANT_MIGRATIONS": tenantry.migrations(SLOWLY)}
        environment = {**tenantry.environment, **migrations, "TENANTRY_MIGRATE_CONCURRENCY": "1"}

        with running(tenantry.folder, "migrate", "all", "--json", **environment) as program:
            _wait_until(lambda: _ended_count(tenantry) > 0)
            status = program.end(signal.SIGINT)
        left = tenantry("migrate", "history", "--json").data["items"][0]

        assert status == 130
        assert program.stdout == ""
        assert left["id"] in only_line(program.stderr)
        assert left["finishedAt"] is None
        assert 0 < left["successCount"] < 12
        assert len(left["details"]) == left["successCount"]

        status = tenantry("migrate", "all", **migrations).status

        ended = tenantry("migrate", "show", left["id"], "--json").data
        assert status == 0
        assert ended["finishedAt"] is not None
        assert (ended["totalCount"], ended["successCount"]) == (12, 12)


class TestMigrateHistory:
    def test_is_a_page_of_runs(self, tenantry: Commands):
        tenantry.create_admin()
        tenantry.create_tenant("acme")
        for _ in range(3):
            tenantry("migrate", "all")

        page = tenantry("migrate", "history", "--page-size", "2", "--json").data
        rest = tenantry("migrate", "history", "--page", "2", "--page-size", "2", "--json").data

        assert set(page) == PAGE
        assert (page["pageSize"], page["totalCount"], page["totalPages"]) == (2, 3, 2)
        ids = [UUID(one["id"]) for one in (*page["items"], *rest["items"])]
        assert ids == sorted(ids, reverse=True)
        assert all(set(run) == RUN for run in page["items"])
        assert all(set(part) == RUN_DETAIL for run in page["items"] for part in run["details"])

    def test_prints_a_line_for_each_run(self, alone: Commands):
        alone.create_admin()
        alone("migrate", "all")

        ended = alone("migrate", "history")

        assert len(ended.stdout.splitlines()) == 2
        assert ADA in ended.stdout


class TestMigrateShow:
    def test_shows_one_run_with_its_tenants(self, tenantry: Commands):
        tenantry.create_admin()
        broken = tenantry.create_tenant("acme")
        tenantry.create_tenant("globex")
        migrations = {"TENANTRY_TENANT_MIGRATIONS": tenantry.migrations(CREATE_WIDGETS)}
        tenantry.break_tenant(broken)
        tenantry("migrate", "all", **migrations)
        run_id = tenantry("migrate", "history", "--json").data["items"][0]["id"]

        shown = tenantry("migrate", "show", run_id.upper(), "--json").data
        printed = tenantry("migrate", "show", run_id).stdout

        assert set(shown) == RUN
        parts = {part["customerName"]: part for part in shown["details"]}
        assert parts["acme"]["status"] == "Failed"
        assert parts["acme"]["appliedMigrations"] == ""
        assert parts["globex"]["status"] == "Success"
        assert parts["globex"]["appliedMigrations"] == "0001_create_widgets"
        assert all(text in printed for text in (run_id, "acme", "globex", "0001_create_widgets"))

    @pytest.mark.parametrize("run_id", ["nonsense", "01890a5d-ac96-774b-bcce-b302099a8057"])
    def test_knows_only_those_there_are(self, alone: Commands, run_id: str):
        ended = alone("migrate", "show", run_id)

        assert ended.status == 2
        assert "migrate history" in only_line(ended.stderr)


class TestDoctor:
    def test_finds_nothing_wrong_and_leaves_nothing(self, tenantry: Commands):
        before = tenantry("doctor", "--json")
        assert not tenantry.settings.data_dir.exists()
        tenantry.create_tenant("acme")
        after = tenantry("doctor", "--json")

        assert before.status == after.status == 0
        for findings in (before.data, after.data):
            members = {"check", "state", "detail", "advice"}
            assert all(set(one) == members for one in findings["items"])
        assert {one["state"] for one in after.data["items"]} == {"ok"}
        if tenantry.settings.catalog.startswith("postgresql"):
            with looking_into(tenantry.settings.catalog) as query:
                left = "SELECT 1 FROM pg_database WHERE starts_with(datname, 'tenantry_doctor')"
                assert query(left) == []

    def test_tells_what_is_wrong_with_the_settings(self, alone: Commands):
        ended = alone("doctor", "--json", TENANTRY_PROT="1")

        assert ended.status == 3
        assert [one["state"] for one in ended.data["items"]] == ["failed"]
        assert "TENANTRY_PROT" in ended.data["items"][0]["detail"]

    @pytest.mark.parametrize(
        ("check", "environment"),
        [
            ("catalog", {"TENANTRY_CATALOG_URL": UNREACHABLE}),
            ("tenant server default", {"TENANTRY_TENANT_SERVER_URL": UNREACHABLE}),
            ("tenant server eu", {"TENANTRY_TENANT_SERVERS": json.dumps({"eu": UNREACHABLE})}),
            ("signing keys", {"TENANTRY_SECRET_KEY": OTHER_KEY}),
            ("data folder", {"TENANTRY_DATA_DIR": "file/data"}),
            ("your revisions", {"TENANTRY_TENANT_MIGRATIONS": "nowhere"}),
        ],
    )
    def test_tells_what_does_not_work(
        self, alone: Commands, check: str, environment: dict[str, str]
    ):
        alone.create_admin()
        Path("file").touch()
        if "TENANTRY_CATALOG_URL" in environment:
            environment = {**environment, "TENANTRY_SECRET_KEY": OTHER_KEY}

        ended = alone("doctor", "--json", **environment)
        printed = alone("doctor", **environment)

        assert ended.status == printed.status == 3
        found = {one["check"]: one for one in ended.data["items"]}[check]
        assert found["state"] == "failed"
        assert found["advice"]
        assert check in printed.stdout
        assert "hunter2" not in ended.stdout + printed.stdout

    @pytest.mark.parametrize("engine", ["postgresql"], indirect=True)
    def test_sees_a_role_that_may_not_create_databases(self, tenantry: Commands, postgres_url: str):
        role = f"role_{secrets.token_hex(8)}"
        with looking_into(postgres_url) as query:
            query(f"CREATE ROLE {role} LOGIN PASSWORD 'hunter2'")
        url = postgres_url.replace("//postgres@", f"//{role}:hunter2@")

        ended = tenantry("doctor", "--json", TENANTRY_TENANT_SERVER_URL=url)

        found = {one["check"]: one for one in ended.data["items"]}["tenant server default"]
        assert ended.status == 3
        assert "42501" in found["detail"]
        assert "hunter2" not in ended.stdout

    def test_sees_that_the_secret_file_is_gone(self, alone: Commands):
        alone.create_admin()
        Path("data/secret-key").unlink()

        ended = alone("doctor", "--json")

        assert ended.status == 3
        assert not Path("data/secret-key").exists()

    def test_sees_a_catalog_that_is_none(self, alone: Commands):
        Path("data").mkdir()
        Path("data/catalog.db").write_text("this is no database, however long the text is")

        assert alone("doctor", "--json").status == 3


class TestServe:
    def test_answers_until_it_is_told_to_stop(self, tenantry: Commands):
        port = free_port()

        with running(
            tenantry.folder, "serve", "--port", str(port), "--json", **tenantry.environment
        ) as program:
            url = json.loads(program.wait_for(r"(?s)\{.*\}")[0])["url"]
            assert url == f"http://127.0.0.1:{port}"
            answer = httpx.get(f"{url}/readyz")
            made = tenantry.create_tenant("acme")
            posts = httpx.get(f"{url}/api/public/blog/posts", headers={"X-Api-Key": made["apiKey"]})
            status = program.end()

        assert answer.json()["success"]
        assert "server" not in answer.headers
        assert posts.json()["success"]
        assert status == 0
        assert "Traceback" not in program.stderr

    def test_ends_with_130_when_it_is_interrupted(self, tmp_path: Path):
        with running(tmp_path, "serve", "--port", str(free_port())) as program:
            program.wait_for("answers at")

            assert program.end(signal.SIGINT) == 130

    def test_is_alone_in_its_data_folder(self, tmp_path: Path):
        with running(tmp_path, "serve", "--port", str(free_port())) as program:
            program.wait_for("answers at")
            second = run(tmp_path, "serve", "--port", str(free_port()))

        assert second.returncode == 3
        assert str(program.process.pid) in only_line(second.stderr)

    def test_takes_a_folder_that_a_dead_one_held(self, tmp_path: Path):
        with running(tmp_path, "serve", "--port", str(free_port())) as program:
            program.wait_for("answers at")
            program.end(signal.SIGKILL)

        with running(tmp_path, "serve", "--port", str(free_port())) as program:
            program.wait_for("answers at")

    def test_needs_a_port_of_its_own(self, alone: Commands):
        port = free_port()
        with running(alone.folder, "serve", "--port", str(port)) as program:
            program.wait_for("answers at")

            ended = alone("serve", "--port", str(port), TENANTRY_DATA_DIR="another")

        assert ended.status == 3
        assert str(port) in only_line(ended.stderr)

    def test_needs_an_address_of_this_machine(self, alone: Commands):
        ended = alone("serve", "--host", "host.invalid", "--port", str(free_port()))

        assert ended.status == 3
        assert "host.invalid" in only_line(ended.stderr)

    def test_says_in_one_line_why_it_cannot_start(self, tmp_path: Path):
        ended = run(
            tmp_path,
            "serve",
            "--port",
            str(free_port()),
            TENANTRY_CATALOG_URL=UNREACHABLE,
            TENANTRY_SECRET_KEY=OTHER_KEY,
        )

        assert (ended.returncode, ended.stdout) == (3, "")
        assert "hunter2" not in only_line(ended.stderr)

    def test_lets_go_of_a_migration_that_somebody_waits_for(self, tenantry: Commands):
        """The run goes on in the next process, and whoever waited is told so."""
        tenantry.create_admin()
        for number in range(12):
            tenantry.create_tenant(f"tenant {number:02}")
        migrations = {"TENANTRY_TENANT_MIGRATIONS": tenantry.migrations(SLOWLY)}
        environment = {**tenantry.environment, **migrations, "TENANTRY_MIGRATE_CONCURRENCY": "1"}
        port = str(free_port())

        with running(tenantry.folder, "serve", "--port", port, **environment) as program:
            program.wait_for("answers at")
            waiting = subprocess.Popen(
                _migrate_all(f"http://127.0.0.1:{port}"), stdout=subprocess.PIPE
            )
            _wait_until(lambda: _ended_count(tenantry) > 0)
            status = program.end()
            answer = waiting.communicate(timeout=10)[0]
        left = tenantry("migrate", "history", "--json").data["items"][0]

        assert status == 0
        assert json.loads(answer)["success"] is False
        assert 0 < left["successCount"] < 12
        assert not answers(f"http://127.0.0.1:{port}")

    @pytest.mark.parametrize("engine", ["postgresql"], indirect=True)
    def test_lets_any_number_serve_a_postgresql_catalog(self, tenantry: Commands):
        ports = [str(free_port()) for _ in range(2)]

        with (
            running(tenantry.folder, "serve", "--port", ports[0], **tenantry.environment) as one,
            running(tenantry.folder, "serve", "--port", ports[1], **tenantry.environment) as two,
        ):
            one.wait_for("answers at")
            two.wait_for("answers at")

            assert one.end() == two.end() == 0


def _leaves(command: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    if not hasattr(command, "commands"):
        yield path, command
        return
    for name, one in command.commands.items():
        yield from _leaves(one, (*path, name))


def _migrate_all(url: str) -> list[str]:
    """Return a program that logs in as Ada, calls migrate-all, and prints the answer."""
    script = f"""
import httpx
login = {{"email": {ADA!r}, "password": {PASSWORD!r}}}
token = httpx.post("{url}/api/admin/auth/login", json=login).json()["data"]["token"]
headers = {{"Authorization": "Bearer " + token}}
print(httpx.post("{url}/api/admin/tenants/migrate-all", headers=headers, timeout=50).text)
"""
    return [sys.executable, "-c", script]


def _ended_count(tenantry: Commands) -> int:
    with looking_into(tenantry.settings.catalog) as query:
        return sum(row[0] for row in query("SELECT success_count FROM migration_run"))


def _wait_until(holds: Callable[[], bool], seconds_max: float = 40) -> None:
    ends = time.monotonic() + seconds_max
    while not holds():
        assert time.monotonic() < ends
        time.sleep(0.05)


def _at_a_terminal(folder: Path, arguments: list[str], answers: dict[str, str]) -> tuple[str, int]:
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
