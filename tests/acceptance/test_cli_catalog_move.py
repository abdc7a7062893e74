"""``tenantry catalog move``: the catalog in another database."""

import asyncio
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from pydantic import SecretStr

from tenantry.db.copying import table_copy
from tenantry.db.sessions import DatabaseUnavailable
from tenantry.db.urls import sqlite_path
from tenantry.services import open_services
from testkit import raw_sql
from testkit.faults import Faults
from testkit.forked import run_module
from testkit.programs import environment_of
from tests.acceptance.commands import Commands, Ended

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
KILLED = "tests.acceptance.killed"

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


def move(tenantry: Commands, target: str) -> Ended:
    """Move the catalog; the URL may have a password."""
    return tenantry("catalog", "move", "--to", "-", stdin=f"{target}\n")


def everything(url: str) -> dict[str, list[tuple[Any, ...]]]:
    """Return the rows of every table, except of those that every command changes.

    Those of a full-text index are left out, too: it is rebuilt.
    """
    data = raw_sql.dump(url).data
    return {
        name: rows
        for name, rows in data.items()
        if name not in {"worker", "audit_entry"} and not name.startswith("tenant_name_trigrams")
    }


def drop_tables(url: str, names: set[str]) -> None:
    """Drop tables, and what belongs to them: references, and the tables of a search index."""
    if url.startswith("sqlite"):
        statements = [f"DROP TABLE IF EXISTS {name}" for name in sorted(names)]
    else:
        statements = [f"DROP TABLE {name} CASCADE" for name in sorted(names)]
        statements.append("DROP FUNCTION count_tenant, name_tenant, label_tenant, tenant_trigrams")
    raw_sql.run(url, *statements)


def move_killed(tenantry: Commands, target: str, when: str) -> None:
    """Move the catalog in a process that is killed before or after it copies the rows."""
    move_catalog = ("catalog", "move", "--to", "-")
    ended = run_module(
        *(KILLED, when, table_copy.__name__, "copy_rows", *move_catalog),
        folder=ROOT,
        environment=environment_of(**tenantry.environment),
        stdin=f"{target}\n",
    )
    assert ended.returncode == -signal.SIGKILL, ended.stderr


def lose(*_: Any, **__: Any) -> None:
    raise DatabaseUnavailable


class TestCatalogMove:
    def test_moves_every_row(self, tenantry: Commands, shop: Any, target: str):
        before = everything(tenantry.settings.catalog)

        ended = move(tenantry, target)

        assert ended.status == 0, ended.stderr
        assert "Set TENANTRY_CATALOG_URL" in ended.stdout
        assert everything(target) == before
        there = {"TENANTRY_CATALOG_URL": target}
        assert tenantry("tenant", "show", "Shop", "--json", **there).data["id"] == shop["id"]
        found = tenantry("tenant", "list", "--search", "hop", "--json", **there).data
        assert [one["id"] for one in found["items"]] == [shop["id"]]
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
        move(tenantry, target)

        ended = tenantry("tenant", "list")

        assert ended.status == 3
        assert tenantry("catalog", "move", "--cancel").status == 0
        assert tenantry("tenant", "suspend", "Shop").status == 0

    def test_rejects_a_catalog_that_a_process_uses(
        self, tenantry: Commands, shop: Any, target: str, engine: str
    ):
        del shop
        raw_sql.run(tenantry.settings.catalog, HEARTBEAT.format(id="0" * 32, ms=NOW_MS[engine]))

        ended = move(tenantry, target)

        assert ended.status == 2
        assert "Processes use the old catalog: web-1, process 7, 0.1.0." in ended.stderr
        assert tenantry("tenant", "suspend", "Shop").status == 0

    def test_rejects_a_target_that_a_process_uses(
        self, tenantry: Commands, shop: Any, target: str, engine: str
    ):
        """It has no tenants yet, and would lose those that it is about to create."""
        del shop
        settings = tenantry.settings.model_copy(update={"catalog_url": SecretStr(target)})

        async def start() -> UUID:
            async with open_services(settings, works=False) as services:
                return services.catalog.cache.catalog_id

        other = asyncio.run(start())
        raw_sql.run(target, HEARTBEAT.format(id="0" * 32, ms=NOW_MS[engine]))

        ended = move(tenantry, target)

        assert ended.status == 2
        assert "Processes use the new catalog: web-1, process 7, 0.1.0." in ended.stderr
        assert UUID(str(raw_sql.rows(target, "SELECT id FROM catalog")[0][0])) == other
        assert tenantry("tenant", "suspend", "Shop").status == 0

    @pytest.mark.parametrize("engine", ["postgresql"])
    def test_rejects_a_target_in_which_a_function_has_the_name_of_its_own(
        self, tenantry: Commands, shop: Any, target: str
    ):
        del shop
        body = "RETURNS integer LANGUAGE sql RETURN 1"
        raw_sql.run(target, f"CREATE FUNCTION tenant_trigrams(name text) {body}")

        ended = move(tenantry, target)

        assert ended.status == 3
        assert "The new catalog cannot be created: 0001_create_catalog: " in ended.stderr
        assert tenantry("tenant", "suspend", "Shop").status == 0

    def test_rejects_a_target_with_a_catalog(self, tenantry: Commands, shop: Any, target: str):
        del shop
        assert move(tenantry, target).status == 0
        tenantry("catalog", "move", "--cancel")

        ended = move(tenantry, target)

        assert ended.status == 2
        assert "contains a catalog" in ended.stderr
        assert tenantry("tenant", "suspend", "Shop").status == 0

    def test_rejects_a_target_with_other_tables(
        self, tenantry: Commands, shop: Any, new_database: Callable[[], str]
    ):
        del shop
        other = new_database()
        raw_sql.run(other, "CREATE TABLE mine (id INTEGER)")

        assert move(tenantry, other).status == 2
        assert raw_sql.tables(other) == {"mine"}
        assert tenantry("tenant", "suspend", "Shop").status == 0

    @pytest.mark.parametrize("is_early", [False, True])
    def test_continues_after_an_interruption(
        self, tenantry: Commands, shop: Any, target: str, *, is_early: bool
    ):
        """The old catalog rejects writes, and the new one has tables."""
        del shop
        before = everything(tenantry.settings.catalog)

        move_killed(tenantry, target, "before")
        if is_early:
            others = raw_sql.tables(target) - {"tenantry_version", "tenantry_migration_log"}
            drop_tables(target, others)
            raw_sql.run(target, "UPDATE tenantry_version SET version_num = ''")
            raw_sql.run(target, "DELETE FROM tenantry_migration_log")
        assert raw_sql.tables(target), "there are tables"
        assert tenantry("tenant", "list").status == 3

        ended = move(tenantry, target)

        assert ended.status == 0, ended.stderr
        assert everything(target) == before

    def test_is_complete_if_it_was_killed_after_the_copy(
        self, tenantry: Commands, shop: Any, target: str
    ):
        """Every row is in the new catalog: the old one must not accept writes again."""
        del shop
        before = everything(tenantry.settings.catalog)
        move_killed(tenantry, target, "after")

        assert tenantry("tenant", "suspend", "Shop").status == 3
        assert move(tenantry, target).status == 0

        assert everything(target) == before
        assert tenantry("tenant", "suspend", "Shop").status == 3
        there = {"TENANTRY_CATALOG_URL": target}
        assert tenantry("tenant", "suspend", "Shop", **there).status == 0

    def test_rejects_another_target_after_a_move(
        self, tenantry: Commands, shop: Any, target: str, new_database: Callable[[], str]
    ):
        """The first one is the catalog now, and a second one would be another."""
        del shop
        assert move(tenantry, target).status == 0
        other = new_database()

        ended = move(tenantry, other)

        assert ended.status == 2
        assert "repeat that, or use --cancel" in ended.stderr
        assert raw_sql.tables(other) == set()
        assert tenantry("tenant", "suspend", "Shop").status == 3

    def test_does_not_accept_writes_if_an_error_comes_after_the_copy(
        self, tenantry: Commands, shop: Any, new_database: Callable[[], str], faults: Faults
    ):
        """As if the response to the last COMMIT was lost."""
        del shop
        target = new_database()
        faults.after(table_copy, "copy_rows", lose, once=True)

        ended = move(tenantry, target)

        assert (ended.status, "repeat the move" in ended.stderr) == (3, True)
        assert tenantry("tenant", "suspend", "Shop").status == 3
        assert move(tenantry, target).status == 0

    def test_changes_nothing_if_the_copy_fails(
        self, tenantry: Commands, shop: Any, target: str, faults: Faults
    ):
        del shop
        faults.before(table_copy, "copy_rows", lose, once=True)

        assert move(tenantry, target).status == 3
        assert tenantry("tenant", "suspend", "Shop").status == 0

    @pytest.mark.parametrize(
        ("arguments", "message"),
        [
            ((), "Use either --to URL or --cancel."),
            (("--cancel", "--to", "sqlite:///x"), "Use either --to URL or --cancel."),
            (("--to", "mysql://x"), "--to must be a URL"),
            (("--to", "-"), "--to must be a URL"),
            (("--to", "postgresql://u:secret@h/x"), "`--to -`"),
            (("--to", "postgresql://u@h/x?password=secret"), "`--to -`"),
            (("--to", "postgresql://u@h/x?sslpassword=secret"), "`--to -`"),
        ],
    )
    def test_rejects_arguments(self, alone: Commands, arguments: tuple[str, ...], message: str):
        ended = alone("catalog", "move", *arguments)

        assert ended.status == 2
        assert message in " ".join(ended.stderr.split())
        assert "secret" not in ended.stderr

    def test_says_that_there_is_no_catalog(self, tenantry: Commands, target: str):
        ended = move(tenantry, target)

        assert ended.status == 2
        assert "There is no catalog" in ended.stderr
