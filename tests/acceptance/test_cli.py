"""The command line: what it prints, and how it ends."""

import json
import re
import secrets
import signal
import subprocess
import sys
from pathlib import Path

import httpx
import pytest
from typer.testing import CliRunner

from tenantry.cli.main import cli
from testkit.programs import (
    START_SECONDS_MAX,
    answers,
    free_port,
    only_line,
    run,
    running,
)
from testkit.raw_sql import connected
from tests.acceptance.commands import (
    ADA,
    CREATE_WIDGETS,
    OTHER_KEY,
    PAGE,
    SLOWLY,
    TENANT,
    UNREACHABLE,
    Commands,
    at_a_terminal,
    ended_count,
    every_command,
    wait_until,
)
from tests.conftest import PASSWORD


class TestEveryCommand:
    def test_prints_json(self):
        for path, command in every_command():
            assert any("--json" in one.opts for one in command.params), path

    def test_takes_no_password_as_an_argument(self):
        for path, command in every_command():
            named = [one for one in command.params if "password" in str(one.name)]
            assert all(one.is_flag for one in named), path

    def test_has_a_help_text(self, alone: Commands):
        for path, command in every_command():
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

    def test_ends_with_2_when_an_argument_is_no_text(self, tmp_path: Path):
        ended = subprocess.run(
            [sys.executable, "-m", "tenantry", "tenant", "show", b"\xff\xfe"],
            cwd=tmp_path,
            capture_output=True,
            timeout=START_SECONDS_MAX,
            check=False,
        )

        assert ended.returncode == 2
        assert ended.stderr == b"tenantry: error: The arguments must be UTF-8 text.\n"


class TestSettings:
    """A mistake in them is one line, and exit status 3."""

    def test_with_an_unknown_name(self, alone: Commands):
        ended = alone("tenant", "list", TENANTRY_PROT="1")

        assert ended.status == 3
        assert "TENANTRY_PROT" in only_line(ended.stderr)

    def test_that_are_wrong(self, alone: Commands):
        ended = alone("tenant", "list", TENANTRY_PORT="eighty")

        assert ended.status == 3
        assert "TENANTRY_PORT" in only_line(ended.stderr)

    def test_with_an_unknown_name_in_the_file(self, alone: Commands):
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

    def test_of_another_machine_without_its_secret_key(self, alone: Commands):
        """A command that only reads makes neither a key, which would be wrong, nor a folder."""
        alone("admin", "create", ADA, password=PASSWORD)
        catalog = (Path("data") / "catalog.db").resolve()

        ended = alone(
            "tenant", "list", TENANTRY_CATALOG_URL=f"sqlite:///{catalog}", TENANTRY_DATA_DIR="other"
        )

        assert ended.status == 3
        assert "TENANTRY_SECRET_KEY" in only_line(ended.stderr)
        assert not Path("other").exists()

    def test_with_an_invalid_data_folder(self, alone: Commands):
        Path("file").touch()

        ended = alone("tenant", "list", TENANTRY_DATA_DIR="file/data")

        assert ended.status == 3
        only_line(ended.stderr)


class TestCommandThatOnlyReads:
    def test_creates_no_catalog(self, tenantry: Commands):
        for command in ("tenant list", "admin list", "audit list", "migrate history"):
            ended = tenantry(*command.split())

            assert (ended.status, ended.stdout) == (3, "")
            assert "no catalog" in only_line(ended.stderr)
        assert not tenantry.settings.data_dir.exists()


class TestAdminCreate:
    def test_makes_an_admin(self, tenantry: Commands):
        made = tenantry.create_admin()

        assert set(made) == {"id", "email", "isActive", "createdAt"}
        assert (made["email"], made["isActive"]) == (ADA, True)
        assert tenantry("admin", "list", "--json").data == {"items": [made]}

    def test_prints_text_without_json(self, alone: Commands):
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

        with connected(alone.settings.catalog) as query:
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
        assert not alone.settings.data_dir.exists()

    @pytest.mark.slow
    def test_asks_at_a_terminal_and_shows_nothing_of_it(self, tmp_path: Path):
        shown, status = at_a_terminal(
            tmp_path,
            ["admin", "create", ADA],
            {"Password: ": PASSWORD, "Repeat password: ": PASSWORD},
        )

        assert status == 0
        assert ADA in shown
        assert PASSWORD not in shown

    @pytest.mark.slow
    def test_asks_twice(self, tmp_path: Path):
        shown, status = at_a_terminal(
            tmp_path,
            ["admin", "create", ADA],
            {"Password: ": PASSWORD, "Repeat password: ": "another"},
        )

        assert status == 2
        assert "differ" in shown


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
        assert "password" not in ended.stdout
        assert "tnk_" not in alone("tenant", "show", "acme").stdout

    def test_refuses_a_name_that_is_taken(self, tenantry: Commands):
        tenantry.create_tenant("acme")
        owner = ("--owner-email", "o@example.com", "--owner-name", "O")

        ended = tenantry("tenant", "create", "ACME", *owner, password=PASSWORD)

        assert ended.status == 2
        only_line(ended.stderr)

    def test_prints_a_generated_password_once(self, alone: Commands):
        ended = alone("tenant", "create", "acme", "--owner-email", "o@example.com")

        password = re.search(r"^password +(\S{20,})$", ended.stdout, re.MULTILINE)
        assert ended.status == 0
        assert password is not None
        assert password[1] not in alone("tenant", "show", "acme").stdout
        assert "not shown again" in ended.stderr

    def test_names_everything_that_is_missing(self, alone: Commands):
        ended = alone("tenant", "create")

        assert ended.status == 2
        assert "'name', '--owner-email'." in only_line(ended.stderr)

    def test_refuses_an_owner_that_breaks_a_rule(self, alone: Commands):
        owner = ("--owner-email", "nobody", "--owner-name", "O")

        ended = alone("tenant", "create", "acme", *owner, password=PASSWORD)

        assert ended.status == 2
        assert alone("tenant", "list", "--json").data["totalCount"] == 0


class TestTenantList:
    @pytest.mark.slow
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
        assert by_id["serverName"] == "default"
        assert re.search(
            r"^server +default$", tenantry("tenant", "show", "acme").stdout, re.MULTILINE
        )

    @pytest.mark.parametrize("tenant", ["nobody", "01890a5d-ac96-774b-bcce-b302099a8057"])
    def test_refuses_an_unknown_tenant(self, alone: Commands, tenant: str):
        alone("admin", "create", ADA, password=PASSWORD)
        ended = alone("tenant", "show", tenant)

        assert ended.status == 2
        assert "tenant list" in only_line(ended.stderr)


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
        # On PostgreSQL, the doctor warns of the tests' role, a superuser, and of no size limit.
        expected = ("role of ", "size of tenants")
        others = [one for one in after.data["items"] if not one["check"].startswith(expected)]
        assert {one["state"] for one in others} == {"ok"}
        if tenantry.settings.catalog.startswith("postgresql"):
            with connected(tenantry.settings.catalog) as query:
                left = "SELECT 1 FROM pg_database WHERE starts_with(datname, 'tenantry_doctor')"
                assert query(left) == []

    def test_reports_what_is_wrong_with_the_settings(self, alone: Commands):
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
    def test_reports_what_does_not_work(
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

    def test_warns_of_what_an_env_py_does_in_vain(self, alone: Commands):
        versions = Path("shop/migrations/versions")
        versions.mkdir(parents=True)
        (versions / "w1_widgets.py").write_text(CREATE_WIDGETS)
        (versions.parent / "env.py").write_text(
            "context.configure(connection=c, version_table_schema='app')\n"
            "c.execute('SET ROLE owner')\n"
        )
        Path("shop/alembic.ini").write_text(
            "[alembic]\nscript_location = %(here)s/migrations\nprepend_sys_path = lib\n"
            "path_separator = os\n"
        )

        ended = alone("doctor", "--json", TENANTRY_TENANT_MIGRATIONS="shop/migrations")

        checks = ("your project", "your env.py")
        found = [one for one in ended.data["items"] if one["check"] in checks]
        assert ended.status == 0
        assert [one["state"] for one in found] == ["ok", "warning", "warning"]
        assert str(Path("shop/lib").absolute()) in found[0]["detail"]
        assert "version_table_schema" in found[1]["detail"]
        assert "SET ROLE" in found[2]["detail"]
        assert all(one["advice"] for one in found[1:])

    @pytest.mark.parametrize("engine", ["postgresql"], indirect=True)
    def test_sees_a_role_that_may_not_create_databases(self, tenantry: Commands, postgres_url: str):
        role = f"role_{secrets.token_hex(8)}"
        with connected(postgres_url) as query:
            query(f"CREATE ROLE {role} LOGIN PASSWORD 'hunter2'")
        url = postgres_url.replace("//postgres@", f"//{role}:hunter2@")

        ended = tenantry("doctor", "--json", TENANTRY_TENANT_SERVER_URL=url)

        found = {one["check"]: one for one in ended.data["items"]}["tenant server default"]
        assert ended.status == 3
        assert "42501" in found["detail"]
        assert "hunter2" not in ended.stdout

    def test_warns_of_tenants_without_a_size_limit_on_postgresql(
        self, tenantry: Commands, engine: str
    ):
        found = [one["check"] for one in tenantry("doctor", "--json").data["items"]]
        limited = tenantry("doctor", "--json", TENANTRY_TENANT_SIZE_MAX="10GB").data["items"]

        assert ("size of tenants" in found) == (engine == "postgresql")
        assert "size of tenants" not in [one["check"] for one in limited]

    @pytest.mark.slow
    @pytest.mark.parametrize("engine", ["postgresql"], indirect=True)
    def test_sees_a_tenant_database_that_every_role_may_open(self, tenantry: Commands):
        tenantry.create_tenant("acme")
        with connected(tenantry.settings.catalog) as query:
            name = query("SELECT database_name FROM tenant")[0][0]
        with connected(tenantry.settings.servers["default"].address) as query:
            query(f'GRANT CONNECT ON DATABASE "{name}" TO PUBLIC')

        ended = tenantry("doctor", "--json")

        found = {one["check"]: one for one in ended.data["items"]}["tenant access default"]
        assert found["state"] == "warning"
        assert name in found["detail"]
        assert "REVOKE CONNECT" in found["advice"]

    def test_sees_that_the_secret_file_is_gone(self, alone: Commands):
        alone.create_admin()
        Path("data/secret-key").unlink()

        ended = alone("doctor", "--json")

        assert ended.status == 3
        assert not Path("data/secret-key").exists()

    def test_sees_an_invalid_catalog(self, alone: Commands):
        Path("data").mkdir()
        Path("data/catalog.db").write_text("this is no database, however long the text is")

        assert alone("doctor", "--json").status == 3


class TestServe:
    @pytest.mark.slow
    def test_answers_until_a_signal_stops_it(self, tenantry: Commands):
        port = free_port()

        with running(
            tenantry.folder, "serve", "--port", str(port), "--json", **tenantry.environment
        ) as program:
            url = json.loads(program.wait_for(r"(?s)\{.*\}")[0])["url"]
            assert url == f"http://127.0.0.1:{port}"
            answer = httpx.get(f"{url}/readyz", timeout=60)
            made = tenantry.create_tenant("acme")
            headers = {"X-Api-Key": made["apiKey"]}
            posts = httpx.get(f"{url}/api/public/blog/posts", headers=headers, timeout=60)
            status = program.end()

        assert answer.json()["success"]
        assert "server" not in answer.headers
        assert posts.json()["success"]
        assert status == 0
        assert "Traceback" not in program.stderr

    @pytest.mark.slow
    def test_ends_with_130_when_it_is_interrupted(self, tmp_path: Path):
        with running(tmp_path, "serve", "--port", str(free_port())) as program:
            program.wait_for("answers at")

            assert program.end(signal.SIGINT) == 130

    @pytest.mark.slow
    def test_says_what_comes_next_until_there_is_an_admin(self, alone: Commands, tmp_path: Path):
        port = free_port()
        with running(tmp_path, "serve", "--port", str(port)) as program:
            program.wait_for(r"`tenantry admin create EMAIL`.*http://127.0.0.1:\d+/console")
            program.end()
        alone.create_admin()
        with running(tmp_path, "serve", "--port", str(port)) as program:
            program.wait_for("answers at")
            program.end()

            assert "admin create" not in program.stdout

    @pytest.mark.slow
    def test_locks_its_data_folder(self, tmp_path: Path):
        with running(tmp_path, "serve", "--port", str(free_port())) as program:
            program.wait_for("answers at")
            second = run(tmp_path, "serve", "--port", str(free_port()))

        assert second.returncode == 3
        assert str(program.process.pid) in only_line(second.stderr)

    @pytest.mark.slow
    def test_uses_a_folder_that_a_killed_process_locked(self, tmp_path: Path):
        with running(tmp_path, "serve", "--port", str(free_port())) as program:
            program.wait_for("answers at")
            program.end(signal.SIGKILL)

        with running(tmp_path, "serve", "--port", str(free_port())) as program:
            program.wait_for("answers at")

    @pytest.mark.slow
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

    @pytest.mark.slow
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

    @pytest.mark.slow
    def test_ends_while_a_client_waits_for_a_migration(self, tenantry: Commands):
        """The run goes on in the next process, and the client is informed."""
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
            wait_until(lambda: ended_count(tenantry) > 0)
            status = program.end()
            answer = waiting.communicate(timeout=60)[0]
        left = tenantry("migrate", "history", "--json").data["items"][0]

        assert status == 0
        assert json.loads(answer)["success"] is False
        assert 0 < left["successCount"] < 12
        assert not answers(f"http://127.0.0.1:{port}")

    @pytest.mark.slow
    @pytest.mark.parametrize("engine", ["postgresql"], indirect=True)
    def test_allows_any_number_of_processes_on_a_postgresql_catalog(self, tenantry: Commands):
        ports = [str(free_port()) for _ in range(2)]

        with (
            running(tenantry.folder, "serve", "--port", ports[0], **tenantry.environment) as one,
            running(tenantry.folder, "serve", "--port", ports[1], **tenantry.environment) as two,
        ):
            one.wait_for("answers at")
            two.wait_for("answers at")

            assert one.end() == two.end() == 0


def _migrate_all(url: str) -> list[str]:
    """Return a program that logs in as Ada, calls migrate-all, and prints the answer."""
    script = f"""
import httpx
login = {{"email": {ADA!r}, "password": {PASSWORD!r}}}
token = httpx.post("{url}/api/admin/auth/login", json=login, timeout=50).json()["data"]["token"]
headers = {{"Authorization": "Bearer " + token}}
print(httpx.post("{url}/api/admin/tenants/migrate-all", headers=headers, timeout=50).text)
"""
    return [sys.executable, "-c", script]
