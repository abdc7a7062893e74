"""``tenantry backup``: archives, and tenants that come back from them."""

import asyncio
import json
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psycopg
import pytest

from tenantry.db.factory import open_server
from tenantry.db.urls import sqlite_path
from tenantry.kit.secrets import digest
from tenantry.migration.migrator import Migrator
from testkit import raw_sql
from testkit.faults import Faults
from testkit.programs import environment_of
from tests.acceptance.commands import CREATE_WIDGETS, OTHER_KEY, Commands
from tests.integration.engines import on_postgresql, on_sqlite

SHOP = "Shop 50% / ä"


def url_of(tenantry: Commands, tenant: Any) -> str:
    server = open_server(
        tenantry.settings.servers["default"].address,
        connections_max=1,
        timeout_seconds=5,
        synchronous="FULL",
    )
    return server.url(tenant["databaseName"])


def shown(tenantry: Commands, name: str) -> Any:
    return tenantry("tenant", "show", name, "--json").data


def write(url: str, *statements: str) -> None:
    raw_sql.run(url, *statements)


def notes(url: str) -> list[str]:
    return [str(row[0]) for row in raw_sql.rows(url, "SELECT body FROM note ORDER BY body")]


def databases(tenantry: Commands) -> set[str]:
    """Return the databases of tenants that exist, listed or not."""
    server = open_server(
        tenantry.settings.servers["default"].address,
        connections_max=1,
        timeout_seconds=5,
        synchronous="FULL",
    )
    names = asyncio.run(server.names("tenantry_"))
    return {name for name in names if "template" not in name}


@pytest.fixture(name="shop")
def _shop(tenantry: Commands) -> Any:
    """A tenant with a table of its own."""
    shop = tenantry.create_tenant(SHOP)
    write(
        url_of(tenantry, shop),
        "CREATE TABLE note (id INTEGER PRIMARY KEY, body VARCHAR(100) NOT NULL)",
        "CREATE INDEX ix_note_body ON note (body)",
        "INSERT INTO note VALUES (1, 'saved')",
    )
    return shop


@pytest.fixture(name="archive")
def _archive(tenantry: Commands, shop: Any) -> str:
    """An archive of the tenant, which was changed afterwards."""
    (made,) = tenantry("backup", "create", "--tenant", SHOP, "--json").data["items"]
    write(url_of(tenantry, shop), "INSERT INTO note VALUES (2, 'lost')")
    return str(made["archive"])


class TestBackupCreate:
    def test_makes_an_archive_that_only_its_owner_can_read(self, tenantry: Commands, shop: Any):
        ended = tenantry("backup", "create", "--tenant", SHOP)

        assert ended.status == 0, ended.stderr
        path = Path(ended.stdout.strip())
        assert path.parent == tenantry.settings.data_dir / "backups"
        assert path.name.startswith("shop-50-")
        assert path.stat().st_mode & 0o777 == 0o600
        assert path.parent.stat().st_mode & 0o777 == 0o700
        assert shop["apiKey"].encode() not in path.read_bytes()
        assert digest(shop["apiKey"]).encode() in path.read_bytes()

    @pytest.mark.slow
    def test_makes_one_of_every_tenant_and_of_the_catalog(self, tenantry: Commands, shop: Any):
        tenantry.create_tenant("Other")

        made = tenantry("backup", "create", "--all", "--json").data["items"]

        assert [one["tenantName"] for one in made[:1]] == [None], "the catalog comes first"
        assert {one["tenantName"] for one in made[1:]} == {SHOP, "Other"}
        listed = tenantry("backup", "list", "--json").data["items"]
        assert {one["kind"] for one in listed} == {"catalog", "tenant"}
        assert {one["tenantId"] for one in listed} >= {shop["id"]}
        for one in listed:
            assert tenantry("backup", "verify", one["name"]).status == 0

    def test_makes_one_of_each_tenant_that_an_expression_selects(
        self, tenantry: Commands, shop: Any
    ):
        tenantry.create_tenant("Other")
        tenantry("tenant", "label", shop["id"], "plan=free")

        made = tenantry("backup", "create", "--where", "plan=free", "--json").data["items"]

        assert [one["tenantName"] for one in made] == [SHOP]
        none = tenantry("backup", "create", "--where", "plan=pro")
        assert (none.status, none.stdout) == (2, "")
        assert "`plan=pro` selects nothing that is served." in none.stderr
        assert tenantry("drift", "check", "--where", "plan=pro").status == 2
        assert tenantry("migrate", "all", "--where", "plan=pro").status == 2
        checked = tenantry("drift", "check", "--where", "plan=free", "--json").data
        assert checked["compared"] == 1
        for where, count in (("plan=free", 1), ("plan!=free", 0)):
            listed = tenantry("drift", "list", "--where", where, "--json").data
            assert (len(listed["items"]), listed["totalCount"]) == (count, count)
        assert tenantry("drift", "check", SHOP, "--where", "plan=free").status == 2
        assert tenantry("drift", "check", "--where", "plan=").status == 2

    def test_fails_if_one_of_the_tenants_cannot_be_saved(self, tenantry: Commands, shop: Any):
        tenantry.create_tenant("Other")
        tenantry.drop_database(shop)

        ended = tenantry("backup", "create", "--all")

        assert ended.status == 1
        assert f"Not backed up: {SHOP}" in ended.stderr
        listed = tenantry("backup", "list", "--json").data["items"]
        assert {one["tenantName"] for one in listed} == {None, "Other"}
        jobs = tenantry("backup", "jobs", "--json").data["items"]
        assert [one["state"] for one in jobs if one["tenantName"] == SHOP] == ["failed"]

    def test_is_in_the_audit_log(self, tenantry: Commands, archive: str):
        (entry,) = tenantry("audit", "list", "--action", "backup.create", "--json").data["items"]

        assert entry["command"].endswith("backup create")
        assert tenantry("backup", "jobs", "--json").data["items"][0]["archive"] == archive

    @pytest.mark.parametrize(
        "arguments",
        [(), ("--all", "--to", "-"), ("--all", "--tenant", "Shop"), ("--all", "--where", "a=b")],
    )
    def test_rejects_arguments_that_contradict_each_other(
        self, alone: Commands, arguments: tuple[str, ...]
    ):
        assert alone("backup", "create", *arguments).status == 2

    @on_postgresql
    def test_names_the_program_that_is_missing(self, tenantry: Commands, shop: Any, tmp_path: Path):
        del shop

        ended = tenantry(
            "backup", "create", "--tenant", SHOP, TENANTRY_PG_TOOLS=str(tmp_path / "none")
        )

        assert ended.status == 3
        assert "TENANTRY_PG_TOOLS" in ended.stderr
        assert not list((tenantry.settings.data_dir / "backups").glob("*"))

    @on_postgresql
    def test_rejects_a_program_that_is_older_than_the_server(
        self, tenantry: Commands, shop: Any, tmp_path: Path
    ):
        del shop
        old = tmp_path / "pg_dump"
        old.write_text("#!/bin/sh\necho 'pg_dump (PostgreSQL) 9.6'\n")
        old.chmod(0o700)

        ended = tenantry("backup", "create", "--tenant", SHOP, TENANTRY_PG_TOOLS=str(tmp_path))

        assert ended.status == 3
        assert "has version 9, and the server" in ended.stderr


class TestBackupCancel:
    def test_rejects_a_job_that_has_ended_or_does_not_exist(self, tenantry: Commands, archive: str):
        del archive
        (job, *_) = tenantry("backup", "jobs", "--json").data["items"]

        ended = tenantry("backup", "cancel", job["id"])
        missing = tenantry("backup", "cancel", "none")

        assert (ended.status, missing.status) == (2, 2)
        assert "has ended" in ended.stderr


class TestBackupVerify:
    def test_compares_the_rows_and_leaves_nothing(self, tenantry: Commands, archive: str):
        before = databases(tenantry)

        verified = tenantry("backup", "verify", archive, "--json").data

        assert verified["rows"] >= 2
        assert databases(tenantry) == before

    def test_rejects_a_damaged_archive_and_leaves_nothing(self, tenantry: Commands, archive: str):
        before = databases(tenantry)
        path = Path(archive)
        data = bytearray(path.read_bytes())
        at = data.index(b"database/000000000000") + 4000
        data[at] ^= 1
        path.write_bytes(data)

        ended = tenantry("backup", "verify", archive)

        assert ended.status == 1
        assert "damaged" in ended.stderr
        assert databases(tenantry) == before
        assert tenantry("backup", "jobs", "--json").data["items"][0]["state"] == "failed"

    def test_rejects_an_archive_that_is_cut_off(self, tenantry: Commands, archive: str):
        path = Path(archive)
        path.write_bytes(path.read_bytes()[:-3000])

        assert tenantry("backup", "verify", archive).status == 1

    def test_says_that_there_is_no_such_archive(self, alone: Commands):
        ended = alone("backup", "verify", "none.tar")

        assert ended.status == 2
        assert "tenantry backup list" in ended.stderr


class TestBackupPrune:
    @pytest.mark.slow
    def test_keeps_the_newest_and_removes_the_others(self, tenantry: Commands, shop: Any):
        del shop
        for _ in range(3):
            tenantry("backup", "create", "--tenant", SHOP)
        names = [one["name"] for one in tenantry("backup", "list", "--json").data["items"]]

        kept = tenantry("backup", "prune", "--json")
        assert kept.data["items"] == [], "none is 30 days old"
        rule = ("--keep-days", "0", "--keep-last", "1")
        assert len(tenantry("backup", "prune", *rule, "--dry-run", "--json").data["items"]) == 2
        tenantry("backup", "prune", *rule)

        left = [one["name"] for one in tenantry("backup", "list", "--json").data["items"]]
        assert left == names[:1]

    def test_removes_what_a_killed_process_has_left(self, tenantry: Commands, archive: str):
        folder = Path(archive).parent
        partial = folder / ".shop-20261122T000000Z-00000000.tar.partial"
        partial.write_bytes(b"half")

        tenantry("backup", "prune")

        assert not partial.exists()
        assert Path(archive).exists()


class TestFailedDisk:
    @on_sqlite
    def test_is_reported_in_one_line(self, tenantry: Commands, archive: str, faults: Faults):
        def fail(_: object, url: str, *__: object) -> None:
            if url != tenantry.settings.catalog:
                raise sqlite3.OperationalError("disk I/O error")

        faults.before(Migrator, "read_state", fail)
        ended = tenantry("backup", "restore", archive, "--as", "Copy")

        assert ended.status == 3
        assert ended.stderr == "tenantry: error: SQLite: disk I/O error.\n"
        assert len(databases(tenantry)) == 1


class TestBackupRestoreReplace:
    @pytest.mark.slow
    def test_takes_no_archive_of_another_tenant(self, tenantry: Commands, shop: Any, archive: str):
        """Its users would find the data of the other one."""
        other = tenantry.create_tenant("Other")

        ended = tenantry("backup", "restore", archive, "--replace", "Other")

        assert ended.status == 2
        assert "another tenant" in ended.stderr
        assert shown(tenantry, "Other") == {name: other[name] for name in shown(tenantry, "Other")}
        assert shown(tenantry, SHOP)["databaseName"] == shop["databaseName"]

    def test_brings_the_data_back_and_keeps_the_keys(
        self, tenantry: Commands, shop: Any, archive: str
    ):
        ended = tenantry("backup", "restore", archive, "--replace", SHOP)

        assert ended.status == 0, ended.stderr
        now = shown(tenantry, SHOP)
        assert now["id"] == shop["id"]
        assert now["isActive"]
        assert now["databaseName"] != shop["databaseName"]
        assert notes(url_of(tenantry, now)) == ["saved"]
        keys = tenantry("key", "list", SHOP, "--json").data["items"]
        assert [one["prefix"] for one in keys] == [shop["apiKey"][:12]]

    def test_keeps_the_old_database_until_it_is_confirmed(
        self, tenantry: Commands, shop: Any, archive: str
    ):
        tenantry("backup", "restore", archive, "--replace", SHOP)
        (job, *_) = tenantry("backup", "jobs", "--json").data["items"]
        assert (job["state"], job["databaseName"]) == ("kept", shop["databaseName"])
        assert notes(url_of(tenantry, shop)) == ["lost", "saved"]

        assert tenantry("backup", "confirm", SHOP).status == 0

        assert shop["databaseName"] not in databases(tenantry)
        assert shown(tenantry, SHOP)["databaseName"] in databases(tenantry)
        assert tenantry("backup", "confirm", SHOP).status == 2, "there is nothing more to drop"

    def test_changes_nothing_if_the_archive_is_damaged(
        self, tenantry: Commands, shop: Any, archive: str
    ):
        before, path = databases(tenantry), Path(archive)
        path.write_bytes(path.read_bytes()[:-3000])

        ended = tenantry("backup", "restore", archive, "--replace", SHOP)

        assert ended.status == 1
        assert shown(tenantry, SHOP)["databaseName"] == shop["databaseName"]
        assert shown(tenantry, SHOP)["isActive"]
        assert notes(url_of(tenantry, shop)) == ["lost", "saved"]
        assert databases(tenantry) == before

    def test_leaves_a_suspended_tenant_suspended(self, tenantry: Commands, shop: Any, archive: str):
        del shop
        tenantry("tenant", "suspend", SHOP)

        tenantry("backup", "restore", archive, "--replace", SHOP)

        assert not shown(tenantry, SHOP)["isActive"]

    def test_restores_a_tenant_without_a_database(
        self, tenantry: Commands, shop: Any, archive: str
    ):
        tenantry.drop_database(shop)

        ended = tenantry("backup", "restore", archive, "--replace", SHOP)

        assert ended.status == 0, ended.stderr
        assert notes(url_of(tenantry, shown(tenantry, SHOP))) == ["saved"]

    @pytest.mark.slow
    def test_migrates_an_older_archive_to_the_head(
        self, tenantry: Commands, shop: Any, archive: str
    ):
        """The recipe with `pg_restore --clean` broke a tenant after a revision with a new table."""
        del shop
        migrations = tenantry.migrations(CREATE_WIDGETS)
        tenantry.create_admin()
        ours = {"TENANTRY_TENANT_MIGRATIONS": migrations}
        assert tenantry("migrate", "all", **ours).status == 0

        ended = tenantry("backup", "restore", archive, "--replace", SHOP, "--json", **ours)

        assert ended.data["schemaRevision"].endswith("/w1")
        url = url_of(tenantry, shown(tenantry, SHOP))
        assert raw_sql.rows(url, "SELECT * FROM widgets") == []

    def test_suspends_a_tenant_that_cannot_be_migrated(
        self, tenantry: Commands, shop: Any, archive: str
    ):
        del shop
        broken = CREATE_WIDGETS.replace('"widgets"', '"note"')

        ended = tenantry(
            "backup",
            "restore",
            archive,
            "--replace",
            SHOP,
            TENANTRY_TENANT_MIGRATIONS=tenantry.migrations(broken),
        )

        assert ended.status == 1
        assert "The data are restored" in ended.stderr
        now = shown(tenantry, SHOP)
        assert not now["isActive"]
        assert notes(url_of(tenantry, now)) == ["saved"]


class TestBackupRestoreAs:
    def test_makes_another_tenant(self, tenantry: Commands, shop: Any, archive: str):
        ended = tenantry("backup", "restore", archive, "--as", "Yesterday", "--json")

        made = ended.data
        assert made["id"] != shop["id"]
        assert made["apiKey"] != shop["apiKey"]
        assert notes(url_of(tenantry, made)) == ["saved"]
        assert notes(url_of(tenantry, shop)) == ["lost", "saved"]
        users = [
            tenantry("user", "list", name, "--json").data["items"][0]["email"]
            for name in (SHOP, "Yesterday")
        ]
        assert users[0] == users[1]

    def test_ends_the_sessions_of_its_users(self, tenantry: Commands, archive: str):
        made = tenantry("backup", "restore", archive, "--as", "Yesterday", "--json").data

        (row,) = raw_sql.rows(
            url_of(tenantry, made), "SELECT generation, token_generation FROM tenantry_user"
        )
        assert min(row) > 1_000_000, "more than any count of changes"

    def test_ends_the_session_that_changed_a_password(self, tenantry: Commands, shop: Any):
        """A change spares its own session, and an admin may have ended it since the backup."""
        raw_sql.run(url_of(tenantry, shop), "UPDATE tenantry_user SET spared_jti = 'spared'")
        archive = tenantry("backup", "create", "--tenant", SHOP, "--json").data["items"][0]
        restore = "backup", "restore", archive["archive"], "--as"

        made = [tenantry(*restore, name, "--json").data for name in ("Once", "Twice")]

        query = "SELECT spared_jti, generation FROM tenantry_user"
        (once,), (twice,) = (raw_sql.rows(url_of(tenantry, one), query) for one in made)
        assert [once[0], twice[0]] == [None, None]
        assert once[1] != twice[1], "the sessions of the first restore"

    def test_rejects_a_name_that_is_in_use(self, tenantry: Commands, archive: str):
        before = databases(tenantry)

        ended = tenantry("backup", "restore", archive, "--as", SHOP)

        assert ended.status == 2
        assert databases(tenantry) == before

    def test_accepts_an_archive_of_another_installation_only_on_request(
        self, tenantry: Commands, archive: str, tmp_path: Path
    ):
        other = {
            "TENANTRY_DATA_DIR": str(tmp_path / "other"),
            "TENANTRY_CATALOG_URL": f"sqlite:///{tmp_path / 'other' / 'catalog.db'}",
            "TENANTRY_SECRET_KEY": OTHER_KEY,
        }
        if sqlite_path(tenantry.settings.servers["default"].address) is not None:
            other["TENANTRY_TENANT_SERVER_URL"] = f"sqlite:///{tmp_path / 'other' / 'tenants'}"

        refused = tenantry("backup", "restore", archive, "--as", "Copy", **other)
        assert refused.status == 2
        assert "--foreign" in refused.stderr

        ended = tenantry("backup", "restore", archive, "--as", "Copy", "--foreign", **other)
        if sqlite_path(tenantry.settings.servers["default"].address) is None:
            assert ended.status == 2, "the role of the tests is a superuser"
            assert "superuser" in ended.stderr
        else:
            assert ended.status == 0, ended.stderr
        assert tenantry("backup", "restore", archive, "--foreign", **other).status == 2


class TestBackupRestore:
    @pytest.mark.slow
    def test_brings_a_deleted_tenant_back_with_its_keys(
        self, tenantry: Commands, shop: Any, archive: str
    ):
        tenantry("tenant", "suspend", SHOP)
        assert tenantry("tenant", "delete", SHOP, "--name", SHOP).status == 0
        assert tenantry("backup", "restore", archive).status == 2, "it can be undeleted"
        assert tenantry("tenant", "purge", SHOP, "--name", SHOP).status == 0

        ended = tenantry("backup", "restore", archive)

        assert ended.status == 0, ended.stderr
        now = shown(tenantry, SHOP)
        assert now["id"] == shop["id"]
        assert now["createdAt"] == shop["createdAt"]
        assert notes(url_of(tenantry, now)) == ["saved"]
        (key,) = tenantry("key", "list", SHOP, "--json").data["items"]
        assert key["prefix"] == shop["apiKey"][:12]

    def test_rejects_a_tenant_that_exists(self, tenantry: Commands, archive: str):
        ended = tenantry("backup", "restore", archive)

        assert ended.status == 2
        assert "--replace" in ended.stderr

    @pytest.mark.slow
    def test_works_on_a_machine_that_has_only_the_archive_and_the_key(
        self, tenantry: Commands, shop: Any, archive: str, new_database: Callable[[], str]
    ):
        """A wrong key, or none, leaves no catalog that the right one could not open."""
        saved = tenantry.folder / "saved.tar"
        shutil.copy(archive, saved)
        secret = (
            tenantry.settings.secret_key.get_secret_value()
            or (tenantry.settings.data_dir / "secret-key").read_text()
        )
        fresh = {
            "TENANTRY_DATA_DIR": str(tenantry.folder / "fresh"),
            "TENANTRY_SECRET_KEY": secret.strip(),
        }
        if tenantry.settings.catalog.startswith("postgres"):
            fresh["TENANTRY_CATALOG_URL"] = new_database()

        wrong = {**fresh, "TENANTRY_SECRET_KEY": "another key, of another installation"}
        refused = tenantry("backup", "restore", str(saved), **wrong)
        ended = tenantry("backup", "restore", str(saved), "--json", **fresh)

        assert (refused.status, "another TENANTRY_SECRET_KEY" in refused.stderr) == (2, True)
        assert ended.status == 0, ended.stderr
        assert ended.data["id"] == shop["id"]
        (key,) = tenantry("key", "list", SHOP, "--json", **fresh).data["items"]
        assert key["prefix"] == shop["apiKey"][:12]

    @pytest.mark.slow
    def test_reads_and_writes_a_stream(self, tenantry: Commands, shop: Any):
        del shop
        environment = environment_of(**tenantry.environment)

        def piped(*arguments: str, data: bytes = b"") -> bytes:
            done = subprocess.run(
                [sys.executable, "-m", "tenantry", "backup", *arguments],
                cwd=tenantry.folder,
                env=environment,
                input=data,
                capture_output=True,
                timeout=50,
                check=False,
            )
            assert done.returncode == 0, done.stderr
            return done.stdout

        stream = piped("create", "--tenant", SHOP, "--to", "-")
        made = json.loads(piped("restore", "-", "--as", "Copy", "--json", data=stream))

        assert notes(url_of(tenantry, made)) == ["saved"]

    @on_sqlite
    def test_needs_a_server_of_the_engine_of_the_archive(
        self, tenantry: Commands, archive: str, postgres_url: str
    ):
        ended = tenantry(
            "backup", "restore", archive, "--as", "Copy", TENANTRY_TENANT_SERVER_URL=postgres_url
        )

        assert ended.status == 2
        assert "sqlite" in ended.stderr

    @on_postgresql
    def test_executes_no_sql_of_a_stranger_as_a_superuser(
        self, tenantry: Commands, archive: str, tmp_path: Path
    ):
        with psycopg.connect(tenantry.settings.servers["default"].address) as connection:
            row = connection.execute("SELECT rolsuper FROM pg_roles WHERE rolname = current_user")
            assert row.fetchone() == (True,)
        other = {
            "TENANTRY_DATA_DIR": str(tmp_path / "other"),
            "TENANTRY_CATALOG_URL": f"sqlite:///{tmp_path / 'other' / 'catalog.db'}",
            "TENANTRY_SECRET_KEY": OTHER_KEY,
        }

        ended = tenantry("backup", "verify", archive, "--foreign", **other)

        assert ended.status == 2
        assert "superuser" in ended.stderr


class TestTenantClone:
    def test_makes_another_tenant_with_the_data_of_this_moment(self, tenantry: Commands, shop: Any):
        made = tenantry("tenant", "clone", SHOP, "--as", "Staging", "--json").data

        assert made["id"] != shop["id"]
        assert made["apiKey"] != shop["apiKey"]
        assert notes(url_of(tenantry, made)) == ["saved"]
        write(url_of(tenantry, made), "DELETE FROM note")
        assert notes(url_of(tenantry, shop)) == ["saved"], "they are independent"

    def test_executes_the_sql_before_the_clone_is_listed(
        self, tenantry: Commands, shop: Any, tmp_path: Path
    ):
        del shop
        sql = tmp_path / "anonymise.sql"
        sql.write_text("UPDATE note SET body = 'removed';\nDELETE FROM tenantry_user;")

        made = tenantry(
            "tenant", "clone", SHOP, "--as", "Staging", "--anonymise", str(sql), "--json"
        ).data

        assert notes(url_of(tenantry, made)) == ["removed"]
        assert tenantry("user", "list", "Staging", "--json").data["items"] == []

    def test_leaves_nothing_if_the_sql_fails(self, tenantry: Commands, shop: Any, tmp_path: Path):
        del shop
        before = databases(tenantry)
        sql = tmp_path / "anonymise.sql"
        sql.write_text("UPDATE note SET body = 'removed'; UPDATE none SET x = 1;")

        ended = tenantry("tenant", "clone", SHOP, "--as", "Staging", "--anonymise", str(sql))

        assert ended.status == 2
        assert "--anonymise" in ended.stderr
        assert tenantry("tenant", "show", "Staging").status == 2
        assert databases(tenantry) == before

    def test_rejects_a_server_that_does_not_exist(self, tenantry: Commands, shop: Any):
        del shop

        ended = tenantry("tenant", "clone", SHOP, "--as", "Staging", "--server", "mars")

        assert ended.status == 2
        assert "TENANTRY_TENANT_SERVERS" in ended.stderr


@pytest.mark.slow
class TestRecovery:
    def test_restores_everything_on_a_new_machine(
        self, tenantry: Commands, shop: Any, new_database: Callable[[], str]
    ):
        tenantry.create_admin()
        tenantry.create_tenant("Other")
        assert tenantry("backup", "create", "--all").status == 0
        archives = tenantry.settings.data_dir / "backups"
        (catalog,) = archives.glob("catalog-*.tar")
        secret = (
            tenantry.settings.secret_key.get_secret_value()
            or (tenantry.settings.data_dir / "secret-key").read_text()
        )
        fresh = {
            "TENANTRY_DATA_DIR": str(tenantry.folder / "fresh"),
            "TENANTRY_SECRET_KEY": secret.strip(),
            "TENANTRY_BACKUP_TARGET": str(archives),
        }
        if tenantry.settings.catalog.startswith("postgres"):
            fresh["TENANTRY_CATALOG_URL"] = new_database()
            for name in (SHOP, "Other"):  # the server of the tests is the same one
                tenantry.drop_database(shown(tenantry, name))

        before = tenantry("signing-key", "list", "--json").data["items"]
        restored = tenantry("backup", "restore-catalog", catalog.name, **fresh)
        assert restored.status == 0, restored.stderr
        ended = tenantry("backup", "restore-missing", **fresh)

        assert ended.status == 0, ended.stderr
        assert "Restored 2 tenants." in ended.stdout
        now = tenantry("tenant", "show", SHOP, "--json", **fresh).data
        assert now["id"] == shop["id"]
        assert now["isActive"]
        assert len(tenantry("admin", "list", "--json", **fresh).data["items"]) == 1
        keys = tenantry("signing-key", "list", "--json", **fresh).data["items"]
        assert before
        assert not {one["id"] for one in keys} & {one["id"] for one in before}, "logins end"
        (job,) = tenantry("backup", "jobs", "--json", **fresh).data["items"][-1:]
        assert job["state"] == "failed"
        assert "The catalog was restored" in job["error"], "and nothing of it was dropped"
        again = tenantry("backup", "restore-catalog", catalog.name, **fresh)
        assert again.status == 2, "there is a catalog now"
        assert "Restored 0 tenants." in tenantry("backup", "restore-missing", **fresh).stdout

    @pytest.mark.parametrize("good", [1, 0], ids=["an older one", "none"])
    def test_leaves_out_an_archive_that_is_damaged_inside(
        self, tenantry: Commands, shop: Any, good: int
    ):
        """The list reads the ends of an archive, and not all of it."""
        archives = tenantry.settings.data_dir / "backups"
        for count in range(good + 1):
            assert tenantry("backup", "create", "--tenant", SHOP).status == 0
            assert len(list(archives.glob("*.tar"))) == count + 1
        newest = max(archives.glob("*.tar"), key=lambda path: path.stat().st_mtime_ns)
        damaged = bytearray(newest.read_bytes())
        damaged[len(damaged) // 2] ^= 0x10
        newest.write_bytes(damaged)
        tenantry.drop_database(shop)

        ended = tenantry("backup", "restore-missing")

        assert ended.status == 1
        assert f"Restored {good} tenant" in ended.stdout
        if good:
            assert f"{SHOP}: It was restored from an older archive: {newest.name}" in ended.stderr
        else:
            assert f"{SHOP}: It was not restored: The archive is damaged" in ended.stderr
        # Else an archive from elsewhere would bring it back suspended.
        assert tenantry("tenant", "show", SHOP, "--json").data["isActive"]

    def test_says_which_tenant_has_no_archive(self, tenantry: Commands, shop: Any):
        tenantry.drop_database(shop)
        archives = tenantry.settings.data_dir / "backups"
        archives.mkdir(exist_ok=True)
        (archives / "shop.tar").write_bytes(b"damaged")

        ended = tenantry("backup", "restore-missing")
        as_json = tenantry("backup", "restore-missing", "--json")

        assert ended.status == as_json.status == 1
        assert f"{SHOP}: It was not restored: " in ended.stderr
        assert "Unusable archives: 1, such as shop.tar (damaged)" in ended.stderr
        assert [one["tenantName"] for one in as_json.data["failed"]] == [SHOP]
