"""Runs of ``tenantry fleet``: plans, waves, undo; with Alembic, and with another process beside."""

import contextlib
import subprocess
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from tenantry.catalog.workers import SILENCE_MS
from testkit import forked, raw_sql
from testkit.programs import END_SECONDS_MAX, run, running
from tests.acceptance.fleets import LOG, Fleet, statuses, version
from tests.integration.engines import on_postgresql, on_sqlite
from tests.integration.projects import HEAD

SLOWLY = """
from pathlib import Path
import time
from alembic import op
import sqlalchemy as sa

revision = "{id}"
down_revision = "{down}"
online = True

def upgrade():
    op.execute("CREATE TABLE {table} (id INTEGER PRIMARY KEY)")
    op.execute("INSERT INTO {table} VALUES (1)")
    time.sleep({seconds})

def downgrade():
    time.sleep({down_seconds})
    op.drop_table("{table}")
"""


def add_slow(fleet: Fleet, seconds: float, number: int = 5, *, down_seconds: float = 0) -> None:
    """Add a revision that waits in its transaction, after `HEAD` or the one before."""
    table = "slow" if number == 5 else f"slow{number}"
    names = {"id": f"a{number}", "down": f"a{number - 1}", "table": table}
    text = SLOWLY.format(seconds=seconds, down_seconds=down_seconds, **names)
    (fleet.project.migrations / "versions" / f"a{number}_slow.py").write_text(text)


@pytest.fixture(name="small_disk")
def _small_disk(tmp_path: Path) -> Iterator[Path]:
    """Mount a small file system; only root can."""
    folder = tmp_path / "disk"
    folder.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=8m", "none", str(folder)]
    if subprocess.run(command, capture_output=True, check=False).returncode:
        pytest.skip("needs the right to mount a file system")
    try:
        yield folder
    finally:
        subprocess.run(["umount", "--lazy", str(folder)], check=True)


def fill(folder: Path) -> Path:
    """Fill the file system of *folder*; return the file that does."""
    filler = folder / "filler"
    with contextlib.suppress(OSError), filler.open("wb", buffering=0) as file:
        while file.write(bytes(4096)):
            pass
    return filler


class TestPlan:
    def test_changes_nothing_and_is_run_exactly(self, fleet: Fleet):
        urls = fleet.add("a", "b")

        plan = fleet("plan", "--json").data
        tables = raw_sql.tables(urls["a"])
        run = fleet.migrate("--plan", plan["plan"]["id"])

        assert (plan["pending"], plan["failed"]) == (2, 0)
        assert {one["currentRevision"] for one in plan["details"]} == {"base"}
        assert not tables
        assert statuses(run) == {"a": "success", "b": "success"}

    def test_is_not_run_if_alembic_has_migrated_a_database(self, fleet: Fleet):
        url = fleet.add("a")["a"]
        plan = fleet("plan", "--json").data
        fleet.project.alembic("upgrade", "a1", url=fleet.absolute(url))

        ended = fleet("migrate", "--plan", plan["plan"]["id"])

        assert ended.status == 2
        assert version(url) == [("a1",)]

    def test_rehearses_and_rolls_back(self, fleet: Fleet):
        urls = fleet.add("a", "b")
        with raw_sql.connected(urls["b"]) as query:
            query("CREATE TABLE customer (id INTEGER)")

        ended = fleet("plan", "--rehearse")

        assert ended.status == 1
        assert "2 databases rehearsed" in ended.stdout
        assert "1 passed, 0 at the head, 1 failed" in ended.stdout
        assert not raw_sql.tables(urls["a"])


class TestWaves:
    def test_hold_until_they_are_continued(self, fleet: Fleet):
        urls = fleet.add("a", "b", "c")

        held = fleet("migrate", "--wave", "1", "--wave", "3", "--hold", "--json")
        other = fleet("migrate")
        first = {name for name, url in urls.items() if raw_sql.tables(url)}
        run = held.data["runId"]
        ended = fleet("continue", run, "--wave", "1", "--json")
        again = fleet("continue", run, "--wave", "1")

        assert (held.status, other.status) == (4, 2)
        assert "`tenantry fleet continue RUN`" in other.stderr
        assert (again.status, "`tenantry fleet continue RUN` does" in again.stderr) == (2, True)
        assert first == {"a"}
        assert statuses(ended.data) == dict.fromkeys(urls, "success")

    def test_that_hold_are_not_continued_with_other_files(self, fleet: Fleet):
        urls = fleet.add("a", "b")
        run = fleet("migrate", "--wave", "1", "--wave", "2", "--hold", "--json").data["runId"]
        add_slow(fleet, 0)

        refused = [fleet("continue", run, *wave) for wave in (("--wave", "1"), ())]
        shown = fleet("show", run, "--json", has_list=False).data

        assert {one.status for one in refused} == {2}
        for one in refused:
            assert "a5_slow is new" in one.stderr
            assert f"`tenantry fleet cancel {run}`" in one.stderr
        assert (shown["holdingWave"], raw_sql.tables(urls["b"])) == (1, set())

        (fleet.project.migrations / "versions" / "a5_slow.py").unlink()
        ended = fleet("continue", run, "--wave", "1", "--json")
        assert statuses(ended.data) == {"a": "success", "b": "success"}

    def test_that_hold_can_be_cancelled(self, fleet: Fleet):
        fleet.add("a", "b")
        run = fleet("migrate", "--wave", "1", "--wave", "2", "--hold", "--json").data["runId"]

        cancelled = fleet("cancel", run, has_list=False)
        shown = fleet("show", run, "--json", has_list=False).data

        assert cancelled.status == 0
        assert statuses(shown) == {"a": "success", "b": "failed"}


class TestUndo:
    def test_runs_the_downgrades_of_the_run(self, fleet: Fleet):
        urls = fleet.add("a", "b")
        fleet.migrate()
        add_slow(fleet, 0)
        run = fleet.migrate()["runId"]

        undone = fleet("undo", run, "--json")

        assert statuses(undone.data) == {"a": "success", "b": "success"}
        for url in urls.values():
            assert version(url) == [(HEAD,)]
            assert "slow" not in raw_sql.tables(url)

    def test_leaves_what_alembic_has_migrated_since(self, fleet: Fleet):
        url = fleet.add("a")["a"]
        fleet.migrate()
        add_slow(fleet, 0)
        run = fleet.migrate()["runId"]
        fleet.project.alembic("downgrade", "a4", url=fleet.absolute(url))

        undone = fleet("undo", run, "--json")

        assert statuses(undone.data) == {"a": "failed"}
        assert version(url) == [(HEAD,)]

    def test_needs_the_log(self, fleet: Fleet):
        fleet.add("a")
        add_slow(fleet, 0)
        run = fleet.migrate("--no-log")["runId"]

        undone = fleet("undo", run)

        assert undone.status == 2
        assert "The run was made with --no-log" in undone.stderr
        assert "slow" in raw_sql.tables(fleet.urls()["a"])


class TestDrift:
    def test_names_what_differs_and_leaves_nothing(self, fleet: Fleet):
        urls = fleet.add("a", "b", "c")
        fleet.project.alembic("upgrade", "head", url=fleet.absolute(urls["c"]))
        fleet.migrate()
        with raw_sql.connected(urls["b"]) as query:
            query("ALTER TABLE customer ADD COLUMN extra INTEGER")

        found = fleet("drift")

        assert found.status == 1
        assert "3 compared, 1 drifted, 0 not at the head, 0 not readable." in found.stdout
        assert "not defined: column" in found.stdout

    def test_is_none_after_a_run(self, fleet: Fleet):
        fleet.add("a", "b")
        fleet.migrate()

        assert fleet("drift", "--json").data["drifted"] == 0

    def test_leaves_no_temporary_file(self, fleet: Fleet, tmp_path: Path):
        fleet.add("a")
        fleet.migrate()
        temporary = tmp_path / "temporary"
        temporary.mkdir()

        drift = ("fleet", "drift", "--urls", "databases.txt")
        done = run(fleet.project.folder, *drift, TMPDIR=str(temporary))

        assert done.returncode == 0, done.stderr
        assert [*temporary.rglob("*")] == []


class TestBesideAlembic:
    def test_a_database_that_alembic_is_migrating_is_not_migrated_twice(self, fleet: Fleet):
        url = fleet.add("a")["a"]
        add_slow(fleet, 1.5)
        fleet.project.set_url(fleet.absolute(url))
        with ThreadPoolExecutor(1) as threads:
            alembic = threads.submit(fleet.project.alembic, "upgrade", "head")
            time.sleep(1.2)
            run = fleet.migrate()
            try:
                alembic.result()
                has_won = True
            except AssertionError:
                has_won = False

        assert statuses(run) == {"a": "success"}
        assert has_won or fleet.applied() != {None}
        assert version(url) == [("a5",)]
        assert raw_sql.rows(url, "SELECT count(*) FROM slow") == [(1,)]
        assert raw_sql.rows(url, "SELECT count(*) FROM customer") == [(2,)]


class TestFullDisk:
    """The disk under the state is full: the run says so, and nothing is half."""

    @on_sqlite
    def test_ends_the_command_with_the_name_of_the_state(self, fleet: Fleet, small_disk: Path):
        urls, state = fleet.add("a", "b"), str(small_disk / "state.db")
        fleet.migrate("--state", state)
        add_slow(fleet, 0)
        filler = fill(small_disk)

        failed = fleet("migrate", "--state", state)
        before = [version(url) for url in urls.values()]
        filler.unlink()
        ended = fleet.migrate("--state", state)

        assert failed.status == 3
        assert f"The state {state} cannot be used: its disk is full." in failed.stderr
        assert before == [[(HEAD,)]] * 2
        assert statuses(ended) == {"a": "success", "b": "success"}
        assert raw_sql.rows(f"sqlite:///{state}", "PRAGMA integrity_check") == [("ok",)]

    @on_sqlite
    def test_ends_a_new_state_with_its_name(self, fleet: Fleet, small_disk: Path):
        url, state = fleet.add("a")["a"], str(small_disk / "state.db")
        filler = fill(small_disk)

        failed = fleet("migrate", "--state", state)
        filler.unlink()
        ended = fleet.migrate("--state", state)

        assert failed.status == 3
        assert f"The state {state} cannot be used: its disk is full." in failed.stderr
        assert statuses(ended) == {"a": "success"}
        assert raw_sql.rows(f"sqlite:///{state}", "PRAGMA journal_mode") == [("wal",)]
        assert version(url) == [(HEAD,)]

    @on_sqlite
    @pytest.mark.slow
    def test_in_the_middle_of_a_run_is_waited_for(self, fleet: Fleet, small_disk: Path):
        urls, state = fleet.add(*"abcdefgh"), str(small_disk / "state.db")
        fleet.migrate("--state", state)
        add_slow(fleet, 0.5)
        arguments = ["fleet", "migrate", "--urls", "databases.txt", "--state", state]

        with running(fleet.project.folder, *arguments) as program:
            while not any("slow" in raw_sql.tables(url) for url in urls.values()):
                time.sleep(0.05)
            filler = fill(small_disk)
            with contextlib.suppress(subprocess.TimeoutExpired):
                program.process.wait(5)
            filler.unlink()
            assert program.process.wait(END_SECONDS_MAX) == 0, program.stderr
        ended = fleet.migrate("--state", state)

        assert statuses(ended) == dict.fromkeys(urls, "success"), program.stderr
        for url in urls.values():
            assert version(url) == [("a5",)]
            assert raw_sql.rows(url, "SELECT count(*) FROM slow") == [(1,)]
            assert raw_sql.rows(url, f"SELECT count(*) FROM {LOG}") == [(5,)]


class TestTwoProcesses:
    @on_postgresql
    def test_share_a_state_and_work_on_one_run(self, fleet: Fleet):
        urls = fleet.add(*"abcdefgh")
        add_slow(fleet, 0.3)
        state = fleet.make_url("state")
        arguments = ["fleet", "migrate", "--urls", "databases.txt", "--state", state]

        def migrate(_: int) -> Any:
            return forked.run(fleet.project.folder, *arguments)

        with ThreadPoolExecutor(2) as threads:
            both = list(threads.map(migrate, range(2)))

        assert [one.returncode for one in both] == [0, 0], [one.stderr for one in both]
        for url in urls.values():
            assert version(url) == [("a5",)]
            assert raw_sql.rows(url, f"SELECT count(*) FROM {LOG}") == [(5,)]


def version_of(url: str) -> tuple[str, ...]:
    [found] = version(url)
    return found


@pytest.mark.slow
class TestReplacedFiles:
    def test_of_a_plan_end_the_command_and_not_the_run(self, fleet: Fleet):
        urls = fleet.add(*(f"d{number}" for number in range(4)))
        fleet.migrate()
        add_slow(fleet, 2)
        plan = fleet("plan", "--json").data["plan"]["id"]
        file = fleet.project.migrations / "env.py"
        text = file.read_text()
        arguments = ("fleet", "migrate", "--urls", "databases.txt", "--plan", plan)
        one = {"TENANTRY_MIGRATE_CONCURRENCY": "1"}

        with running(fleet.project.folder, *arguments, **one) as program:
            while not any(version_of(url) == ("a5",) for url in urls.values()):
                time.sleep(0.05)
            file.write_text(f"{text}\n# edited\n")
            status = program.process.wait(END_SECONDS_MAX)
        file.write_text(text)
        run = fleet("history", "--json", has_list=False).data["items"][0]["id"]
        ended = fleet("continue", run, "--json")

        assert status == 4, program.stderr
        assert "env.py has changed" in program.stdout
        assert "Continue: `tenantry fleet continue --urls databases.txt" in program.stderr
        assert statuses(ended.data) == dict.fromkeys(urls, "success")


def killed(fleet: Fleet, *words: str, when: Callable[[], bool]) -> str:
    """Kill a command that starts a run, one database after the other; return the run."""
    before = {one["id"] for one in fleet("history", "--json", has_list=False).data["items"]}
    one = {"TENANTRY_MIGRATE_CONCURRENCY": "1"}
    command, *arguments = words
    with running(
        fleet.project.folder, "fleet", command, "--urls", "databases.txt", *arguments, **one
    ) as program:
        while not when():
            time.sleep(0.05)
        program.process.kill()
    shown = fleet("history", "--json", has_list=False).data
    [run_id] = {one["id"] for one in shown["items"]} - before
    return str(run_id)


def killed_run(fleet: Fleet, urls: dict[str, str]) -> str:
    """Kill `fleet migrate` when the first of several databases has ended; return the run."""
    fleet.migrate()
    add_slow(fleet, 1)
    return killed(
        fleet, "migrate", when=lambda: any(version_of(url) == ("a5",) for url in urls.values())
    )


@pytest.mark.slow
class TestKills:
    """SIGKILL of `fleet migrate`, at any moment: each revision once, and nothing half."""

    @pytest.mark.timeout(300)
    def test_leave_each_revision_applied_once(self, fleet: Fleet):
        urls = fleet.add(*(f"d{number}" for number in range(12)))
        add_slow(fleet, 0.05)
        arguments = ["fleet", "migrate", "--urls", "databases.txt"]

        for kill in range(12):
            with (
                contextlib.suppress(subprocess.TimeoutExpired),
                running(fleet.project.folder, *arguments) as program,
            ):
                program.process.wait(0.8 + 0.13 * kill)
        last = fleet("migrate", "--json")

        assert last.status == 0, last.stdout
        for url in urls.values():
            assert version(url) == [("a5",)]
            applied = raw_sql.rows(
                url, f"SELECT revision FROM {LOG} WHERE stream = 'user' ORDER BY position"
            )
            assert len(applied) == len(set(applied)) == 5
            assert raw_sql.rows(url, "SELECT count(*) FROM customer") == [(2,)]

    def test_are_undone_after_the_run_was_cancelled(self, fleet: Fleet):
        urls = fleet.add(*(f"d{number}" for number in range(8)))
        run_id = killed_run(fleet, urls)

        refused = fleet("undo", run_id)
        cancelled = fleet("cancel", run_id, has_list=False)
        undone = fleet("undo", run_id, "--json")

        assert (refused.status, cancelled.status) == (2, 0)
        assert f"{run_id} --watch`." in cancelled.stderr
        assert undone.status == 0, undone.stderr
        assert {version(url)[0] for url in urls.values()} == {("a4",)}

    def test_leave_a_run_that_a_plan_and_a_retry_name(self, fleet: Fleet):
        urls = fleet.add(*(f"d{number}" for number in range(8)))
        run_id = killed_run(fleet, urls)

        planned = fleet("plan")
        retried = fleet("retry", run_id)

        assert f"A run has not ended: `tenantry fleet show {run_id}" in planned.stderr
        assert retried.status == 2
        assert "none of the selected databases can be retried so far" in retried.stderr

    def test_are_named_by_show_and_status_after_some_seconds(self, fleet: Fleet):
        urls = fleet.add(*(f"d{number}" for number in range(8)))
        run_id = killed_run(fleet, urls)
        left = "No process works on it. To go on: `tenantry fleet continue RUN`."
        time.sleep(SILENCE_MS / 1000 + 1)

        shown = fleet("show", run_id, has_list=False)
        status = fleet("status", has_list=False)
        with running(fleet.project.folder, "fleet", "show", run_id, "--watch") as watching:
            ends = time.monotonic() + END_SECONDS_MAX
            while left not in watching.stderr:
                assert time.monotonic() < ends, watching.stderr
                time.sleep(0.05)
        fleet("continue", run_id)
        ended = fleet("show", run_id, has_list=False)

        assert left in " ".join(shown.stdout.split())
        assert left in status.stdout
        assert ended.status == 0
        assert "No process" not in ended.stdout

    def test_of_an_undo_let_no_migration_begin_until_it_has_ended(self, fleet: Fleet):
        """It would find databases at the head, and the undo would take that back later."""
        urls = fleet.add(*(f"d{number}" for number in range(6)))
        fleet.migrate()
        add_slow(fleet, 0, down_seconds=1)
        run_id = fleet.migrate()["runId"]
        undone = killed(
            fleet, "undo", run_id, when=lambda: ("a4",) in map(version_of, urls.values())
        )

        refused = fleet("migrate")
        continued = fleet("continue", undone)

        assert refused.status == 2
        assert f"{undone}, which undoes another one" in refused.stderr
        assert continued.status == 0, continued.stderr
        assert {version_of(url) for url in urls.values()} == {("a4",)}
        assert fleet("migrate").status == 0

    @on_postgresql
    @pytest.mark.timeout(300)
    def test_of_one_of_two_machines_leave_the_rest_to_the_other(self, fleet: Fleet):
        urls = fleet.add(*"abcdefgh")
        state = fleet.make_url("state")
        arguments = ["fleet", "migrate", "--urls", "databases.txt", "--state", state]
        folder = fleet.project.folder
        fleet("migrate", "--state", state)

        for number in range(5, 10):
            add_slow(fleet, 0.3, number)
            with running(folder, *arguments) as other:
                with (
                    contextlib.suppress(subprocess.TimeoutExpired),
                    running(folder, *arguments) as program,
                ):
                    program.process.wait(1.6 + 0.2 * (number - 5))
                assert other.process.wait(END_SECONDS_MAX) == 0, other.stderr
            for url in urls.values():
                assert version(url) == [(f"a{number}",)]
                applied = raw_sql.rows(url, f"SELECT revision FROM {LOG} WHERE stream = 'user'")
                assert len(applied) == len(set(applied)) == number
