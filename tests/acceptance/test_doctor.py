"""``tenantry doctor`` on settings and machines that would fail later."""

from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest

from tenantry.cli.capacity import space_finding
from tenantry.cli.findings import State
from tests.acceptance.commands import OTHER_KEY, Commands

GIB = 2**30


class TestRelease:
    def test_is_the_first_finding(self, alone: Commands):
        first = alone("doctor", "--json").data["items"][0]

        assert (first["check"], first["detail"]) == ("release", version("tenantry"))


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
        assert "at most 76" in detail
        state, detail = _connections(many.data)
        assert state == "warning"
        assert "10012" in detail


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


def _connections(data: Any) -> tuple[str, str]:
    (one,) = [one for one in data["items"] if one["check"].startswith("connections to")]
    return one["state"], one["detail"]
