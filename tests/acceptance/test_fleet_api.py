"""``tenantry.fleet_api``: the migration of many databases, called by a program."""

import asyncio
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import pytest

from tenantry.fleet_api import (
    DatabasesFailed,
    Progress,
    RunResult,
    TenantryError,
    migrate,
    migrate_async,
)
from testkit import raw_sql
from tests.acceptance.fleets import Fleet, version
from tests.acceptance.test_fleet_runs import add_slow
from tests.integration.projects import HEAD

HEAVY = ("pydantic", "pydantic_settings", "starlette", "uvicorn", "mcp", "typer", "uvloop")


def test_the_library_imports_no_settings_and_no_server():
    program = f"import sys, tenantry.fleet_api; print([m for m in {HEAVY} if m in sys.modules])"

    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )

    assert done.stdout == "[]\n"


class TestMigrate:
    def test_returns_the_result_of_each_database(self, fleet: Fleet):
        urls = fleet.add("a", "b")
        shown: list[Progress] = []

        result = migrate(
            [urls["a"], {"url": urls["b"], "name": "B", "plan": "pro"}],
            "migrations",
            waves=["plan=pro", "100%"],
            on_progress=shown.append,
        )

        result.check()
        assert (result.state, result.total, result.succeeded) == ("success", 2, 2)
        assert len(result.databases[0].applied) == 4
        assert result.databases[1].name == "B"
        assert shown[-1] == Progress(result.run_id, 2, 2, 0)
        assert version(urls["a"]) == [(HEAD,)]

    def test_raises_an_error_about_failures_in_check(self, fleet: Fleet):
        urls = fleet.add("a", "b")
        with raw_sql.connected(urls["b"]) as query:
            query("CREATE TABLE customer (id INTEGER)")

        result = migrate([{"url": url, "name": name} for name, url in urls.items()], "migrations")

        with pytest.raises(DatabasesFailed, match="1 of 2 databases failed: b: "):
            result.check()

    def test_starts_nothing_with_a_wrong_argument(self, fleet: Fleet):
        url = fleet.add("a")["a"]

        with pytest.raises(TenantryError):
            migrate([url], "nowhere")
        with pytest.raises(TenantryError):
            migrate(["mysql://x/y"], "migrations")

        assert not raw_sql.tables(url)

    async def test_leaves_a_running_event_loop_free(self, fleet: Fleet):
        urls = fleet.add("a", "b")
        add_slow(fleet, 2)
        ticks = 0

        async def tick() -> None:
            nonlocal ticks
            while True:
                await asyncio.sleep(0.01)
                ticks += 1

        ticking = asyncio.create_task(tick())
        result = await migrate_async(list(urls.values()), "migrations")
        ticking.cancel()

        assert result.state == "success"
        assert ticks > 10

    async def test_that_is_cancelled_finishes_what_it_has_started(self, fleet: Fleet):
        url, begun = fleet.add("a")["a"], fleet.project.folder / "begun"
        add_slow(fleet, 1)
        [revision] = fleet.project.migrations.glob("versions/a5_*.py")
        touch = f"    Path({str(begun)!r}).touch()\n    time.sleep"
        revision.write_text(revision.read_text().replace("    time.sleep", touch))

        call = asyncio.create_task(migrate_async([url], "migrations"))
        while not begun.exists():  # noqa: ASYNC110 - by another thread
            await asyncio.sleep(0.02)
        call.cancel()

        with pytest.raises(asyncio.CancelledError):
            await call
        assert raw_sql.rows(url, "SELECT count(*) FROM slow") == [(1,)]
        assert version(url) == [("a5",)]

    def test_works_from_several_threads_with_one_state(self, fleet: Fleet):
        urls = list(fleet.add(*"abcd").values())

        def call(_: int) -> RunResult:
            return migrate(urls, "migrations")

        with ThreadPoolExecutor(3) as threads:
            results = list(threads.map(call, range(3)))

        assert {one.state for one in results} == {"success"}
        for url in urls:
            assert raw_sql.rows(url, "SELECT count(*) FROM tenantry_migration_log") == [(4,)]
