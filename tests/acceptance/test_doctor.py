"""``tenantry doctor`` on settings and machines that would fail later."""

import secrets
from importlib.metadata import version as version_of
from pathlib import Path
from typing import Any

import pytest

from tenantry.backup import dumps
from tenantry.cli.doctor.capacity import space_finding
from tenantry.cli.doctor.findings import State
from tenantry.db.postgres.roles import HARMLESS_CREATEROLE_SINCE, Role, read_role
from testkit import raw_sql
from tests.acceptance.commands import OTHER_KEY, PASSWORD, Commands
from tests.acceptance.fleets import Fleet
from tests.integration.engines import on_postgresql

GIB = 2**30
JOB = (
    "INSERT INTO job (id, kind, state, worker_id, actor, started_at, bytes_done, has_suspended,"
    " has_made_read_only, is_cancelled) SELECT '0000000000000000000000000000000{number}', 'backup',"
    " '{state}', '00000000000000000000000000000000', 'ada', created_at, 0, false, false, false"
    " FROM tenant LIMIT 1"
)


class TestRelease:
    def test_is_the_first_finding(self, alone: Commands):
        first = alone("doctor", "--json").data["items"][0]

        assert (first["check"], first["detail"]) == ("release", version_of("tenantry"))


class TestHarmfulSettings:
    """They are valid, and the service would start with them."""

    @pytest.mark.parametrize(
        ("name", "value", "state"),
        [
            ("TENANTRY_TRUSTED_PROXIES", "0.0.0.0/0", "failed"),
            ("TENANTRY_TRUSTED_PROXIES", "10.1.2.3,::/0", "failed"),
            ("TENANTRY_TRUSTED_PROXIES", "0.0.0.0/1", "warning"),
            ("TENANTRY_TRUSTED_PROXIES", "198.0.0.0/8", "warning"),
            ("TENANTRY_CORS_ORIGINS", "https://www.example.com, *", "warning"),
            ("TENANTRY_CORS_ORIGINS", "www.example.com", "warning"),
            ("TENANTRY_CORS_ORIGINS", "https://www.example.com/", "warning"),
            ("TENANTRY_LOCK_TIMEOUT_MS", "5000", "warning"),
            ("TENANTRY_TENANT_DEADLINE_S", "0.1", "warning"),
            ("TENANTRY_TENANT_DEADLINE_S", "1000000000", "warning"),
            ("TENANTRY_MIGRATION_DRIVER", "nonsense", "failed"),
        ],
    )
    def test_are_found(self, alone: Commands, name: str, value: str, state: str):
        ended = alone("doctor", "--json", **{name: value})

        found = _found(ended.data, name)
        assert found["state"] == state
        assert found["advice"]
        assert ended.status == (3 if state == "failed" else 0)

    def test_are_distinguished_from_ordinary_ones(self, alone: Commands):
        ended = alone(
            *("doctor", "--json"),
            TENANTRY_TRUSTED_PROXIES="10.0.0.0/8,192.0.2.7,fd00::/8",
            TENANTRY_CORS_ORIGINS="https://www.example.com,http://localhost:3000",
            TENANTRY_LOCK_TIMEOUT_MS="4999",
            TENANTRY_TENANT_DEADLINE_S="86400",
            TENANTRY_MIGRATION_DRIVER="psycopg2",
        )

        assert ended.status == 0
        assert {one["state"] for one in ended.data["items"]} == {"ok"}


class TestDisk:
    @pytest.mark.parametrize(
        ("free_bytes", "state"),
        [
            (2 * GIB, State.OK),
            (GIB - 1, State.WARNING),
            (2**26 - 1, State.FAILED),
            (0, State.FAILED),
        ],
    )
    def test_that_is_nearly_full_is_found(self, free_bytes: int, state: State):
        found = space_finding("disk space", Path("data"), free_bytes)

        assert found.state is state
        assert (found.advice is not None) == (state is not State.OK)

    def test_below_the_mark_is_found(self):
        found = space_finding("disk space", Path("data"), 2 * GIB, 3 * GIB)

        assert found.state is State.FAILED
        assert found.detail.startswith("Content is rejected")

    def test_that_cannot_be_written_is_found(self, alone: Commands):
        """Not by a permission: /proc accepts no files, not even from root."""
        ended = alone("doctor", "--json", TENANTRY_DATA_DIR="/proc/tenantry")

        found = _found(ended.data, "data folder")
        assert ended.status == 3
        assert found["state"] == "failed"
        assert "not writable" in found["detail"]

    def test_is_left_as_it_was(self, alone: Commands):
        alone.create_tenant("acme")
        before = sorted(alone.settings.data_dir.rglob("*"))

        alone("doctor")

        assert sorted(alone.settings.data_dir.rglob("*")) == before


class TestCatalog:
    def test_is_no_database_of_another_program(self, fleet: Fleet):
        url = fleet.absolute(fleet.make_url("other"))
        raw_sql.run(url, "CREATE TABLE customers (id INTEGER)")
        settings = {"TENANTRY_CATALOG_URL": url, "TENANTRY_SECRET_KEY": OTHER_KEY}

        doctor = fleet.tenantry("doctor", "--json", **settings)
        create = ("admin", "create", "ada@example.com")
        created = fleet.tenantry(*create, password=PASSWORD, **settings)

        found = _found(doctor.data, "catalog")
        assert (found["state"], doctor.status, created.status) == ("failed", 3, 3)
        for said in (found["detail"], created.stderr):
            assert "The database has tables of another program: use an empty one" in said
        assert raw_sql.tables(url) == {"customers"}


@pytest.mark.slow
class TestTenantDatabase:
    def test_that_is_missing_is_found(self, tenantry: Commands):
        tenantry.create_tenant("acme")
        lost = tenantry.create_tenant("globex")
        tenantry.drop_database(lost)

        ended = tenantry("doctor", "--json")

        found = _found(ended.data, "tenant databases default")
        assert ended.status == 3
        assert found["state"] == "failed"
        assert lost["databaseName"] in found["detail"]
        assert "1 of 2" in found["detail"]


class TestConnections:
    @pytest.mark.parametrize("engine", ["postgresql"], indirect=True)
    def test_are_compared_with_those_that_the_server_allows(self, tenantry: Commands):
        few = tenantry("doctor", "--json")
        many = tenantry("doctor", "--json", TENANTRY_TENANT_CONNECTIONS="10000")

        assert (few.status, many.status) == (0, 0)
        state, detail = _connections(few.data)
        assert state == "ok"
        assert "at most 84" in detail  # also of a dry run, and of a check for drift
        state, detail = _connections(many.data)
        assert state == "warning"
        assert "10020" in detail


@pytest.mark.slow
class TestLeftovers:
    def test_are_listed_until_someone_acts(self, tenantry: Commands):
        for name in ("acme", "globex", "shop"):
            tenantry.create_tenant(name)
        tenantry("tenant", "read-only", "acme")
        tenantry("tenant", "suspend", "globex")
        tenantry("tenant", "delete", "globex", "--name", "globex")
        for number, state in enumerate(("running", "dropping", "kept", "done", "failed")):
            raw_sql.run(tenantry.settings.catalog, JOB.format(number=number, state=state))

        ended = tenantry("doctor", "--json")

        jobs, kept = _found(ended.data, "jobs"), _found(ended.data, "kept databases")
        assert jobs["detail"].startswith("2 unfinished")
        assert kept["detail"].startswith("1 old")
        assert "1 reject writes" in _found(ended.data, "read-only tenants")["detail"]
        assert "acme" in _found(ended.data, "read-only tenants")["detail"]
        [deleted] = [one for one in ended.data["items"] if one["check"] == "deleted tenants"]
        assert (deleted["state"], "1 can be undeleted" in deleted["detail"]) == ("ok", True)
        assert ended.status == 0


class TestRole:
    @pytest.mark.parametrize("engine", ["postgresql"], indirect=True)
    def test_that_can_run_programs_is_found(self, tenantry: Commands):
        """The role of the tests is a superuser."""
        ended = tenantry("doctor", "--json")

        for check in ("role of catalog", "role of tenant server default"):
            found = _found(ended.data, check)
            assert found["state"] == "warning"
            assert "superuser" in found["detail"]
        assert ended.status == 0

    @pytest.mark.parametrize("engine", ["postgresql"], indirect=True)
    async def test_that_can_only_create_databases_is_not_found(self, tenantry: Commands):
        catalog = tenantry.settings.catalog
        name = f"test_{secrets.token_hex(8)}"
        raw_sql.run(catalog, f"CREATE ROLE {name} LOGIN CREATEDB CREATEROLE")
        try:
            async with dumps.connected(catalog) as raw:
                await raw.execute(f"SET ROLE {name}")
                role = await read_role(raw)
        finally:
            raw_sql.run(catalog, f"DROP ROLE {name}")

        assert (role.name, role.is_superuser, role.creates_roles) == (name, False, True)
        is_old = role.server_version < HARMLESS_CREATEROLE_SINCE
        assert (role.power is not None) == is_old

    @pytest.mark.parametrize(
        ("rights", "version", "is_powerful"),
        [
            ({}, 150_018, False),
            ({"is_superuser": True}, 180_000, True),
            ({"creates_roles": True}, 150_018, True),
            ({"creates_roles": True}, 160_000, False),
            ({"uses_machine": True}, 180_000, True),
        ],
    )
    def test_is_powerful_by_its_rights_and_the_version(
        self, rights: dict[str, bool], version: int, *, is_powerful: bool
    ):
        """Before PostgreSQL 16, CREATEROLE grants every role but superusers."""
        role = Role(name="r", server_version=version, **rights)

        assert (role.power is not None) == is_powerful


class TestDatabaseUrl:
    """A URL that cannot work is refused at every start, and never printed."""

    @pytest.mark.parametrize(
        "url",
        [
            "postgresql+asyncpg://u:hunter2@db/catalog",
            "mysql://u:hunter2@db/catalog",
            "postgresql://u:hunter2@db:port/catalog",
            "postgresql://u:hunter2@db:99999/catalog",
            "postgresql://u:hun#ter2@db/catalog",
            "postgresql://u:hunter2@[db/catalog",
            "postgresql://u:hunter2@db/cata log",
            "sqlite:///",
            "sqlite+aiosqlite:///data/catalog.db",
        ],
    )
    @pytest.mark.parametrize("name", ["TENANTRY_CATALOG_URL", "TENANTRY_TENANT_SERVER_URL"])
    def test_is_refused(self, alone: Commands, name: str, url: str):
        doctor = alone("doctor", "--json", **{name: url}, TENANTRY_SECRET_KEY=OTHER_KEY)
        listed = alone("tenant", "list", **{name: url}, TENANTRY_SECRET_KEY=OTHER_KEY)

        assert (doctor.status, listed.status) == (3, 3)
        found = _found(doctor.data, "settings")
        assert name in found["detail"]
        assert name in listed.stderr
        assert "hunter2" not in doctor.stdout + listed.stderr


def _found(data: Any, check: str) -> Any:
    return next(one for one in data["items"] if one["check"] == check and one["state"] != "ok")


def _states(data: Any) -> dict[str, str]:
    return {one["check"]: one["state"] for one in data["items"]}


def _connections(data: Any) -> tuple[str, str]:
    (one,) = [one for one in data["items"] if one["check"].startswith("connections to")]
    return one["state"], one["detail"]


class TestClientPrograms:
    """Without them, or with older ones, no backup on PostgreSQL succeeds."""

    CHECK = "pg_dump, pg_restore"

    @on_postgresql
    def test_are_found(self, tenantry: Commands):
        states = _states(tenantry("doctor", "--json").data)

        assert states[self.CHECK] == "ok"

    @on_postgresql
    def test_that_are_missing_are_reported(self, tenantry: Commands, tmp_path: Path):
        ended = tenantry("doctor", "--json", TENANTRY_PG_TOOLS=str(tmp_path))

        found = _found(ended.data, self.CHECK)
        assert (found["state"], ended.status) == ("warning", 0)
        assert "Not installed" in found["detail"]
        assert "postgresql-client-" in found["advice"]

    @on_postgresql
    def test_that_are_too_old_are_reported(self, tenantry: Commands, tmp_path: Path):
        for name in ("pg_dump", "pg_restore"):
            program = tmp_path / name
            program.write_text(f"#!/bin/sh\necho '{name} (PostgreSQL) 9.6'\n")
            program.chmod(0o755)
        ended = tenantry("doctor", "--json", TENANTRY_PG_TOOLS=str(tmp_path))

        found = _found(ended.data, self.CHECK)
        assert found["state"] == "warning"
        assert "has version 9" in found["detail"]

    def test_are_not_needed_on_sqlite(self, alone: Commands):
        assert self.CHECK not in _states(alone("doctor", "--json").data)


class TestFilesWithSecrets:
    def test_that_others_can_read_are_reported(self, alone: Commands):
        """Also the settings, which were not looked at."""
        alone.create_admin()
        file = alone.folder / ".env"
        file.write_text("TENANTRY_LOG_LEVEL=info\n")
        file.chmod(0o644)
        before = _found(alone("doctor", "--json").data, "file modes")
        file.chmod(0o600)
        after = _states(alone("doctor", "--json").data)

        assert before["state"] == "warning"
        assert str(file) in before["detail"]
        assert str(file) in before["advice"]
        assert after["file modes"] == "ok"

    def test_that_others_can_read_are_reported_of_a_url(self, alone: Commands, tmp_path: Path):
        key = tmp_path / "client.key"
        key.write_text("no key\n")
        key.chmod(0o640)
        url = f"postgresql://someone@127.0.0.1:1/nowhere?sslkey={key}"
        ended = alone("doctor", "--json", TENANTRY_TENANT_SERVER_URL=url)

        assert str(key) in _found(ended.data, "file modes")["detail"]
