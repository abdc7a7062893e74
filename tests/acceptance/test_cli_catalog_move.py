"""``tenantry catalog move``: the catalog in another database."""

from collections.abc import Callable
from typing import Any

import pytest

from tenantry.backup import catalog_moving
from tenantry.db import files, table_copy
from tenantry.db.sessions import DatabaseUnavailable
from tenantry.db.urls import sqlite_path
from testkit import raw_sql
from tests.acceptance.commands import Commands

HEARTBEAT = (
    "INSERT INTO worker (id, seen_at_ms, program) VALUES ('{id}', {ms}, 'web-1, process 7, 0.1.0')"
)
NOW_MS = {
    "sqlite": "CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER)",
    "postgresql": "CAST(extract(epoch FROM clock_timestamp()) * 1000 AS BIGINT)",
}


@pytest.fixture(name="target")
def _target(tenantry: Commands, new_database: Callable[[], str]) -> str:
    """An empty database, or a file that does not exist."""
    if sqlite_path(tenantry.settings.catalog) is None:
        return new_database()
    return f"sqlite:///{tenantry.folder / 'new' / 'catalog.db'}"


@pytest.fixture(name="shop")
def _shop(tenantry: Commands) -> Any:
    tenantry.create_admin()
    return tenantry.create_tenant("Shop")


def everything(url: str) -> dict[str, list[tuple[Any, ...]]]:
    """Return the rows of every table, except of those that every command changes."""
    data = raw_sql.dump(url).data
    return {name: rows for name, rows in data.items() if name not in {"worker", "audit_entry"}}


class TestCatalogMove:
    def test_moves_every_row(self, tenantry: Commands, shop: Any, target: str):
        before = everything(tenantry.settings.catalog)

        ended = tenantry("catalog", "move", "--to", target)

        assert ended.status == 0, ended.stderr
        assert "Set TENANTRY_CATALOG_URL" in ended.stdout
        assert everything(target) == before
        there = {"TENANTRY_CATALOG_URL": target}
        assert tenantry("tenant", "show", "Shop", "--json", **there).data["id"] == shop["id"]
        entries = tenantry("audit", "list", "--action", "catalog.move", "--json", **there).data
        assert entries["totalCount"] == 1
        assert tenantry.environment.get("TENANTRY_CATALOG_URL") != target
        made = tenantry(
            "tenant", "create", "Other", "--owner-email", "o@example.com", "--json", **there
        )
        assert made.status == 0, made.stderr

    def test_lets_no_process_continue_with_the_old_catalog(
        self, tenantry: Commands, shop: Any, target: str
    ):
        del shop
        tenantry("catalog", "move", "--to", target)

        ended = tenantry("tenant", "list")

        assert ended.status == 3
        assert tenantry("catalog", "move", "--cancel").status == 0
        assert tenantry("tenant", "suspend", "Shop").status == 0

    def test_rejects_a_catalog_that_a_process_uses(
        self, tenantry: Commands, shop: Any, target: str, engine: str
    ):
        del shop
        raw_sql.run(tenantry.settings.catalog, HEARTBEAT.format(id="0" * 32, ms=NOW_MS[engine]))

        ended = tenantry("catalog", "move", "--to", target)

        assert ended.status == 2
        assert "Processes use the catalog: web-1, process 7, 0.1.0." in ended.stderr
        assert tenantry("tenant", "suspend", "Shop").status == 0

    def test_rejects_a_target_with_a_catalog(self, tenantry: Commands, shop: Any, target: str):
        del shop
        assert tenantry("catalog", "move", "--to", target).status == 0
        tenantry("catalog", "move", "--cancel")

        ended = tenantry("catalog", "move", "--to", target)

        assert ended.status == 2
        assert "contains a catalog" in ended.stderr
        assert tenantry("tenant", "suspend", "Shop").status == 0

    def test_rejects_a_target_with_other_tables(
        self, tenantry: Commands, shop: Any, new_database: Callable[[], str]
    ):
        del shop
        other = new_database()
        raw_sql.run(other, "CREATE TABLE mine (id INTEGER)")

        assert tenantry("catalog", "move", "--to", other).status == 2
        assert raw_sql.tables(other) == {"mine"}
        assert tenantry("tenant", "suspend", "Shop").status == 0

    def test_continues_after_an_interruption(
        self, tenantry: Commands, shop: Any, target: str, monkeypatch: pytest.MonkeyPatch
    ):
        """As after a kill: the old catalog rejects writes, and the new one has its tables."""
        del shop
        before = everything(tenantry.settings.catalog)

        def fail(*_arguments: Any, **_options: Any) -> None:
            raise DatabaseUnavailable

        async def do_nothing(_url: str) -> None:
            return

        with monkeypatch.context() as killed:
            killed.setattr(table_copy, "copy_rows", fail)
            killed.setattr(catalog_moving, "accept_writes", do_nothing)
            killed.setattr(files, "remove", lambda _path: None)
            assert tenantry("catalog", "move", "--to", target).status == 3
        assert raw_sql.tables(target), "the tables are there"
        assert tenantry("tenant", "list").status == 3

        ended = tenantry("catalog", "move", "--to", target)

        assert ended.status == 0, ended.stderr
        assert everything(target) == before

    def test_changes_nothing_if_the_copy_fails(
        self, tenantry: Commands, shop: Any, target: str, monkeypatch: pytest.MonkeyPatch
    ):
        del shop

        def fail(*_arguments: Any, **_options: Any) -> None:
            raise DatabaseUnavailable

        with monkeypatch.context() as failing:
            failing.setattr(table_copy, "copy_rows", fail)
            assert tenantry("catalog", "move", "--to", target).status == 3

        assert tenantry("tenant", "suspend", "Shop").status == 0

    @pytest.mark.parametrize(
        ("arguments", "message"),
        [
            ((), "Use either --to URL or --cancel."),
            (("--cancel", "--to", "sqlite:///x"), "Use either --to URL or --cancel."),
            (("--to", "mysql://x"), "--to must be a URL"),
        ],
    )
    def test_rejects_arguments(self, alone: Commands, arguments: tuple[str, ...], message: str):
        ended = alone("catalog", "move", *arguments)

        assert ended.status == 2
        assert message in ended.stderr

    def test_says_that_there_is_no_catalog(self, tenantry: Commands, target: str):
        ended = tenantry("catalog", "move", "--to", target)

        assert ended.status == 2
        assert "There is no catalog" in ended.stderr
