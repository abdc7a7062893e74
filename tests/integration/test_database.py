"""Sessions, transactions and the budget of connections, on real databases."""

import asyncio
import contextlib
import random
import sqlite3
import threading
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any, ClassVar

import msgspec
import pytest
import sqlalchemy as sa

from tenantry.db.database import Budget, Database
from tenantry.db.factory import single_connector
from tenantry.db.open_files import LogLeftBehind
from tenantry.db.servers import Server
from tenantry.db.sessions import Connection, DatabaseUnavailable, RejectedByDatabase
from tenantry.db.sqlite import files
from tenantry.db.sqlite.connections import SqliteFile
from tenantry.db.statements import POSTGRESQL, SQLITE, Statement, compile_for
from tenantry.kit import log
from tenantry.kit.ids import new_id
from testkit import raw_sql
from tests.integration.conftest import Keep
from tests.integration.engines import on_postgresql, on_sqlite
from tests.integration.samples import ADD, FIND, NoteInUse, Sample, sample
from tests.logs import logs_kept

Connect = Callable[[], Awaitable[Connection]]

WORKING = """
SELECT pid FROM pg_stat_activity
WHERE datname = current_database() AND state = 'active' AND pid <> pg_backend_pid()
"""
OURS = """
SELECT pid FROM pg_stat_activity
WHERE datname = current_database() AND application_name = 'tenantry'
"""
SLOW = {
    "sqlite": Statement[Any](
        sa.text(
            "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 3000000) "
            "SELECT max(i) FROM n"
        )
    ),
    "postgresql": Statement[Any](sa.text("SELECT pg_sleep(60)")),
}


class Counting:
    """Opens real connections, and counts how many are open."""

    def __init__(self) -> None:
        self.open = 0
        self.most = 0

    def over(self, connect: Callable[[], Awaitable[Connection]]) -> Callable[[], Awaitable[Any]]:
        async def counted() -> Connection:
            connection = await connect()
            self.open += 1
            self.most = max(self.most, self.open)
            close, is_open = connection.close, [True]

            async def closing() -> None:
                try:
                    await close()
                finally:
                    self.open -= is_open.pop() if is_open else 0

            connection.close = closing  # type: ignore[method-assign]
            return connection

        return counted


@pytest.fixture(name="url")
def _url(engine: str, new_database: Callable[[], str]) -> str:
    url = new_database()
    create_sample(engine, url)
    return url


@pytest.fixture(name="counting")
def _counting() -> Counting:
    return Counting()


@pytest.fixture(name="database")
async def _database(url: str, counting: Counting) -> AsyncIterator[Database[Any]]:
    """One connection, so that one that leaked is missed."""
    async with opened(url, counting, 1) as database:
        yield database


def create_sample(engine: str, url: str) -> None:
    dialect = SQLITE if engine == "sqlite" else POSTGRESQL
    raw_sql.run(url, compile_for(dialect, sa.schema.CreateTable(sample)).sql)


def connector(url: str, most: int = 1) -> Connect:
    connect, _ = single_connector(
        url, connections_max=most, timeout_seconds=5, synchronous="NORMAL"
    )
    return connect


@contextlib.asynccontextmanager
async def opened(
    url: str, counting: Counting, most: int, connect: Connect | None = None
) -> AsyncIterator[Database[Any]]:
    connect = connect or connector(url, most)
    database: Database[Any] = Database(counting.over(connect), Budget(most), most)
    try:
        yield database
    finally:
        await database.close()
        assert counting.open == 0, "every connection is closed with its database"


def a_sample(note: str) -> dict[str, Any]:
    return msgspec.structs.asdict(msgspec.structs.replace(Sample(id=new_id()), note=note))


def notes(url: str) -> set[str]:
    return {note for (note,) in raw_sql.rows(url, "SELECT note FROM sample")}


async def cancelled_after(work: Awaitable[object], steps: int, pause: float = 0) -> None:
    """Begin *work*, let the loop turn *steps* times, and cancel it."""
    task = asyncio.ensure_future(work)
    for _ in range(steps):
        await asyncio.sleep(pause)
    task.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await task


class TestAutocommit:
    async def test_commits_each_statement(self, database: Database[Any], url: str):
        await database.execute(ADD, **a_sample("one"))

        assert notes(url) == {"one"}

    async def test_goes_on_after_a_conflict(self, database: Database[Any], url: str):
        await database.execute(ADD, **a_sample("one"))

        with pytest.raises(NoteInUse):
            await database.execute(ADD, **a_sample("one"))
        await database.execute(ADD, **a_sample("two"))

        assert notes(url) == {"one", "two"}


REFERRING = "CREATE TABLE referring (sample_id {id} REFERENCES sample (id) {more})"
REFER = "INSERT INTO referring SELECT id FROM sample"
UNIQUE = {
    "unique": "CREATE UNIQUE INDEX of_operator ON sample (number)",
    # SQLite defers foreign keys only.
    "deferred unique": "ALTER TABLE sample ADD UNIQUE (number) DEFERRABLE INITIALLY DEFERRED",
}
REFUSING = {
    "sqlite": "CREATE TRIGGER refusing BEFORE DELETE ON sample "
    "BEGIN SELECT RAISE(ABORT, 'row of a customer'); END",
    "postgresql": "CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS "
    "$$ BEGIN RAISE EXCEPTION 'row of a customer'; END $$; "
    "CREATE TRIGGER refusing BEFORE DELETE ON sample FOR EACH ROW EXECUTE FUNCTION refuse()",
}


class TestRejected:
    """By what the operator's own revisions have added to a table of Tenantry."""

    @pytest.fixture(name="filled", params=["foreign key", "deferred", *UNIQUE, "trigger"])
    async def _filled(
        self, request: pytest.FixtureRequest, database: Database[Any], url: str, engine: str
    ) -> Statement[Any]:
        """Return a statement that the database rejects."""
        await database.execute(ADD, **a_sample("one"))
        await database.execute(ADD, **a_sample("two"))
        removing: Statement[Any] = Statement(sa.delete(sample))
        if request.param == "trigger":
            raw_sql.run(url, REFUSING[engine])
            return removing
        if request.param in UNIQUE:
            raw_sql.run(url, UNIQUE[request.param] if engine == "postgresql" else UNIQUE["unique"])
            return Statement(sa.update(sample).values(number=1))
        more = "DEFERRABLE INITIALLY DEFERRED" if request.param == "deferred" else ""
        id_type = "text" if engine == "sqlite" else "uuid"
        raw_sql.run(url, REFERRING.format(id=id_type, more=more), REFER)
        return removing

    async def test_change_is_a_conflict_and_changes_nothing(
        self, database: Database[Any], url: str, filled: Statement[Any]
    ):
        with pytest.raises(RejectedByDatabase):
            async with database.begin() as session:
                await session.execute(filled)

        assert notes(url) == {"one", "two"}
        await database.execute(ADD, **a_sample("three"))

    async def test_change_is_logged_without_values(
        self,
        database: Database[Any],
        filled: Statement[Any],
        capsys: pytest.CaptureFixture[str],
    ):
        with logs_kept():
            log.configure(log_format="json", level="info")
            with pytest.raises(RejectedByDatabase):
                await database.execute(filled)

        logged = capsys.readouterr().err
        assert "change rejected by the database" in logged
        assert "customer" not in logged


class TestBegin:
    async def test_commits_at_the_end_of_the_block(self, database: Database[Any], url: str):
        async with database.begin() as session:
            await session.execute(ADD, **a_sample("one"))
            await session.execute(ADD, **a_sample("two"))
            assert notes(url) == set()

        assert notes(url) == {"one", "two"}

    async def test_rolls_back_when_the_block_raises(self, database: Database[Any], url: str):
        with pytest.raises(ZeroDivisionError):  # noqa: PT012
            async with database.begin() as session:
                await session.execute(ADD, **a_sample("one"))
                raise ZeroDivisionError
        await database.execute(ADD, **a_sample("two"))

        assert notes(url) == {"two"}

    async def test_rolls_back_after_a_conflict(self, database: Database[Any], url: str):
        with pytest.raises(NoteInUse):  # noqa: PT012
            async with database.begin() as session:
                await session.execute(ADD, **a_sample("one"))
                await session.execute(ADD, **a_sample("one"))
        await database.execute(ADD, **a_sample("two"))

        assert notes(url) == {"two"}

    async def test_rolls_back_when_the_block_is_cancelled(self, database: Database[Any], url: str):
        async def block() -> None:
            async with database.begin() as session:
                await session.execute(ADD, **a_sample("one"))
                await asyncio.sleep(60)

        await cancelled_after(block(), 20, 0.005)
        await database.execute(ADD, **a_sample("two"))

        assert notes(url) == {"two"}


class TestCancellation:
    async def test_in_a_statement_closes_the_connection(
        self, engine: str, database: Database[Any], counting: Counting, url: str
    ):
        """It may still execute the statement, so it is closed and its place is released."""
        await database.execute(ADD, **a_sample("warm"))

        await cancelled_after(database.execute(SLOW[engine]), 3, 0.01)

        assert counting.open == 0
        await database.execute(ADD, **a_sample("after"))
        assert notes(url) == {"warm", "after"}

    @pytest.mark.parametrize("steps", range(6))
    async def test_while_a_transaction_begins_loses_no_later_write(
        self, database: Database[Any], url: str, steps: int
    ):
        """After a cancelled BEGIN, a connection may be inside a transaction that does not end."""

        async def block() -> None:
            async with database.begin():
                await asyncio.sleep(60)

        await database.execute(ADD, **a_sample("warm"))  # so that there is an idle connection

        await cancelled_after(block(), steps)
        await database.execute(ADD, **a_sample("after"))

        assert notes(url) == {"warm", "after"}

    async def test_at_any_moment_leaks_nothing_and_loses_no_later_write(
        self, database: Database[Any], url: str, counting: Counting
    ):
        """Every acknowledged write is there, whatever was cancelled before it."""
        expected = set()

        async def block(note: str) -> None:
            async with database.begin() as session:
                await session.execute(ADD, **a_sample(note))
                await session.execute(ADD, **a_sample(f"{note} too"))

        for number in range(60):
            await cancelled_after(block(f"cut {number}"), number % 20, random.choice([0, 0.0004]))  # noqa: S311
            async with asyncio.timeout(30):
                await database.execute(ADD, **a_sample(f"kept {number}"))
            expected.add(f"kept {number}")

        found = notes(url)
        assert {note for note in found if note.startswith("kept")} == expected
        cut = {note for note in found if note.startswith("cut")}
        assert all(f"{note} too" in cut for note in cut if not note.endswith("too"))
        assert counting.most == 1

    async def test_of_a_waiter_for_the_only_connection_loses_no_place(
        self, database: Database[Any]
    ):
        async with database.begin():
            for _ in range(5):
                await cancelled_after(database.execute(ADD, **a_sample("never")), 2)

        async with asyncio.timeout(30):
            await database.execute(ADD, **a_sample("served"))


class TestLostConnection:
    @on_postgresql
    async def test_is_unavailable_and_the_next_statement_works(
        self, engine: str, url: str, counting: Counting
    ):
        async with opened(url, counting, 1) as database:
            running = asyncio.create_task(database.execute(SLOW[engine]))
            while not raw_sql.rows(url, WORKING):  # noqa: ASYNC110 - the database knows, no event
                await asyncio.sleep(0.05)
            _terminate_backends(url)

            with pytest.raises(DatabaseUnavailable):
                await running

            await database.execute(ADD, **a_sample("after"))
            assert notes(url) == {"after"}

    @on_postgresql
    async def test_in_a_transaction_leaves_nothing(self, url: str, counting: Counting):
        async with opened(url, counting, 1) as database:
            with pytest.raises(DatabaseUnavailable):  # noqa: PT012
                async with database.begin() as session:
                    await session.execute(ADD, **a_sample("one"))
                    _terminate_backends(url)
                    await session.execute(ADD, **a_sample("two"))

            await database.execute(ADD, **a_sample("after"))
            assert notes(url) == {"after"}

    @on_postgresql
    async def test_while_idle_is_not_handed_out(self, url: str, counting: Counting):
        """A connection that the server closed is replaced, not tried."""
        async with opened(url, counting, 1) as database:
            await database.execute(ADD, **a_sample("one"))
            _terminate_backends(url)
            async with asyncio.timeout(60):
                while raw_sql.rows(url, OURS):  # noqa: ASYNC110 - they end by themselves
                    await asyncio.sleep(0.05)
            await asyncio.sleep(0.2)

            await database.execute(ADD, **a_sample("two"))

            assert notes(url) == {"one", "two"}

    @on_postgresql
    async def test_to_a_server_that_became_read_only_is_closed(self, url: str, counting: Counting):
        """After a failover the old server may answer for long, and refuse each write."""
        name = url.rpartition("/")[2]
        raw_sql.run(url, f"ALTER DATABASE {name} SET default_transaction_read_only = on")
        async with opened(url, counting, 1) as database:
            with pytest.raises(DatabaseUnavailable):
                await database.execute(ADD, **a_sample("refused"))
            raw_sql.run(
                url.replace(name, "postgres"),
                f"ALTER DATABASE {name} SET default_transaction_read_only = off",
            )

            await database.execute(ADD, **a_sample("after"))

            assert notes(url) == {"after"}

    async def test_to_a_database_that_is_not_there_is_unavailable(
        self, url: str, counting: Counting
    ):
        async with opened(f"{url}_gone", counting, 1) as database:
            for _ in range(3):
                async with asyncio.timeout(30):  # no place is lost
                    with pytest.raises(DatabaseUnavailable):
                        await database.execute(ADD, **a_sample("never"))

    @on_sqlite
    async def test_to_what_is_no_database_is_unavailable(self, url: str, counting: Counting):
        raw_sql.rows(url, "SELECT 1")
        path = url.removeprefix("sqlite:///")
        with open(path, "wb") as file:  # noqa: ASYNC230, PTH123 - damage it
            file.write(b"no database at all" * 500)

        async with opened(url, counting, 1) as database:
            with pytest.raises(DatabaseUnavailable):
                await database.execute(ADD, **a_sample("never"))


class TestFileOpenedForReading:
    @on_sqlite
    async def test_is_opened_again_after_a_write_was_rejected(self, url: str, counting: Counting):
        """SQLite opens a file so, without a word, when it has no file descriptor for a moment."""
        file = SqliteFile(Path(url.removeprefix("sqlite:///")), synchronous="NORMAL")
        opened_before: list[Connection] = []

        async def connect() -> Connection:
            connection = await file.connect()
            if not opened_before:
                await connection.command("PRAGMA query_only = ON")
            opened_before.append(connection)
            return connection

        async with opened(url, counting, 1, connect) as database:
            with pytest.raises(DatabaseUnavailable):
                await database.execute(ADD, **a_sample("rejected"))
            await database.execute(ADD, **a_sample("stored"))

        assert notes(url) == {"stored"}


class TestNewFile:
    async def test_is_created_by_several_at_once(self, tmp_path: Path):
        for number in range(100):  # one of ten failed when SQLite did not wait
            path = tmp_path / f"{number}.db"
            await asyncio.gather(*(asyncio.to_thread(files.create, path) for _ in range(4)))
            with contextlib.closing(sqlite3.connect(path)) as raw:
                assert raw.execute("PRAGMA journal_mode").fetchone() == ("wal",)

    def test_is_created_where_a_link_says(self, tmp_path: Path):
        (link := tmp_path / "link.db").symlink_to(tmp_path / "elsewhere.db")

        files.create(link)

        assert (tmp_path / "elsewhere.db").stat().st_mode & 0o777 == 0o600


class TestMovedFile:
    def test_is_complete_without_its_log(self, tmp_path: Path):
        """Closing the last connection does not report that the disk has failed."""
        draft, template = tmp_path / "draft.db", tmp_path / "template.db"
        files.create(draft)
        with contextlib.closing(sqlite3.connect(draft)) as open_for_now:
            open_for_now.execute("CREATE TABLE note (id INTEGER)")

            with pytest.raises(DatabaseUnavailable):
                files.move(draft, template)
        files.move(draft, template)

        assert raw_sql.tables(f"sqlite:///{template}") == {"note"}


class TestBusyFile:
    @on_sqlite
    async def test_is_unavailable_when_its_writer_does_not_end(self, url: str, counting: Counting):
        path = Path(url.removeprefix("sqlite:///"))
        connect = SqliteFile(path, synchronous="NORMAL", busy_seconds=0.2).connect
        async with (
            opened(url, Counting(), 1) as writer,
            opened(url, counting, 1, connect) as database,
        ):
            async with writer.begin() as session:
                await session.execute(ADD, **a_sample("first"))
                with pytest.raises(DatabaseUnavailable):
                    await database.execute(ADD, **a_sample("never"))
                assert await database.fetch_all(FIND, id=new_id()) == [], "readers go on"

            await database.execute(ADD, **a_sample("second"))
            assert notes(url) == {"first", "second"}

    @on_sqlite
    async def test_is_waited_for(self, url: str, counting: Counting):
        async with opened(url, Counting(), 1) as writer, opened(url, counting, 1) as database:
            async with writer.begin() as session:
                await session.execute(ADD, **a_sample("first"))
                waiting = asyncio.create_task(database.execute(ADD, **a_sample("second")))
                await asyncio.sleep(0.3)
                assert not waiting.done()
            await waiting

        assert notes(url) == {"first", "second"}


class TestChangedTable:
    """A migration changes a table under connections that have used it."""

    @on_postgresql
    async def test_is_read_again_after_a_change_of_type(self, database: Database[Any], url: str):
        one = a_sample("one")
        await database.execute(ADD, **one)
        for _ in range(3):
            await database.fetch_one(FIND, id=one["id"])

        raw_sql.run(url, "ALTER TABLE sample ALTER COLUMN note TYPE text, ADD COLUMN more int")
        found = await database.fetch_one(FIND, id=one["id"])

        assert found is not None
        assert found.note == "one"

    @on_postgresql
    async def test_inside_a_transaction_is_unavailable_and_the_next_one_works(
        self, database: Database[Any], url: str
    ):
        one = a_sample("one")
        await database.execute(ADD, **one)
        await database.fetch_one(FIND, id=one["id"])

        with pytest.raises(DatabaseUnavailable):  # noqa: PT012
            async with database.begin() as session:
                raw_sql.run(url, "ALTER TABLE sample ALTER COLUMN note TYPE text")
                await session.fetch_one(FIND, id=one["id"])

        async with database.begin() as session:
            assert await session.fetch_one(FIND, id=one["id"]) is not None


class TestBudget:
    async def test_closes_the_longest_idle_connection_first(
        self, keep: Keep, make_server: Callable[[int], Server], prefix: str
    ):
        server = make_server(2)
        counting = {name: Counting() for name in ("a", "b", "c")}
        databases = {}
        for name, counted in counting.items():
            await server.create(prefix + name)
            connect = counted.over(connector(server.url(prefix + name)))
            databases[name] = keep(Database(connect, server.budget, 1))

        one = Statement[Any](sa.text("SELECT 1"))
        for name in ("a", "b", "a", "c"):
            await databases[name].execute(one)

        assert {name: counted.open for name, counted in counting.items()} == {
            "a": 1,
            "b": 0,
            "c": 1,
        }

    async def test_serves_the_longest_waiter_first(
        self, keep: Keep, make_server: Callable[[int], Server], prefix: str
    ):
        server = make_server(1)
        for name in ("a", "b", "c"):
            await server.create(prefix + name)
        served = []
        databases = [keep(server.open(prefix + name)) for name in ("a", "b", "c")]

        async def use(number: int) -> None:
            async with databases[number].begin():
                served.append(number)

        async with databases[0].begin():
            waiting = []
            for number in (1, 2):
                waiting.append(asyncio.create_task(use(number)))
                await asyncio.sleep(0.02)
        await asyncio.gather(*waiting)

        assert served == [1, 2]

    async def test_passes_a_place_on_when_its_waiter_was_cancelled(self):
        """The place and the cancellation arrive at the same moment."""
        budget = Budget(1)
        await budget.take()
        leaving = asyncio.create_task(budget.take())
        staying = asyncio.create_task(budget.take())
        await asyncio.sleep(0)

        budget.give_back()
        leaving.cancel()

        async with asyncio.timeout(30):
            await staying
        assert leaving.cancelled()

    async def test_of_one_database_passes_to_its_next_waiter(
        self, database: Database[Any], url: str
    ):
        async def work(note: str) -> None:
            await database.execute(ADD, **a_sample(note))

        for number in range(10):
            async with database.begin():
                leaving = asyncio.create_task(work("never"))
                staying = asyncio.create_task(work(f"note {number}"))
                await asyncio.sleep(0)
            leaving.cancel()
            async with asyncio.timeout(30):
                await asyncio.gather(leaving, staying, return_exceptions=True)

        assert notes(url) >= {f"note {number}" for number in range(10)}

    async def test_bounds_every_wait(self, keep: Keep, new_database: Callable[[], str]):
        budget = Budget(1)
        first = keep(Database(connector(new_database()), budget, 1))
        second = keep(Database(connector(new_database()), budget, 1, wait_seconds_max=0.4))
        one = Statement[Any](sa.text("SELECT 1"))

        async with first.begin():
            with pytest.raises(DatabaseUnavailable):
                await second.execute(one)
            with pytest.raises(DatabaseUnavailable):
                await second.execute(one)

        patient = keep(Database(connector(new_database()), budget, 1, wait_seconds_max=60))
        await patient.execute(one)

    @pytest.mark.slow
    async def test_waits_as_long_as_it_is_set_to(self, keep: Keep, new_database: Callable[[], str]):
        """For a connection of its own, and for one of all databases of the server."""
        budget = Budget(1)
        first, second = (
            keep(Database(connector(new_database()), budget, 1, wait_seconds_max=60))
            for _ in range(2)
        )
        one = Statement[Any](sa.text("SELECT 1"))

        async with asyncio.TaskGroup() as waiting, first.begin():
            waiting.create_task(first.execute(one))
            waiting.create_task(second.execute(one))
            await asyncio.sleep(6)  # longer than the default of 5

    @pytest.mark.slow
    async def test_holds_under_a_storm_and_leaks_nothing(
        self, keep: Keep, engine: str, make_server: Callable[[int], Server], prefix: str
    ):
        """200 tasks over 50 databases, some of them cancelled, with a budget of 8."""
        server, counting, most = make_server(8), Counting(), 8
        threads = threading.active_count()
        names = [f"{prefix}{number}" for number in range(50)]
        await _create(engine, server, names)
        databases = []
        for name in names:
            connect, limit = single_connector(
                server.url(name),
                connections_max=4,
                timeout_seconds=60,
                synchronous="NORMAL",
                statement_seconds=60,
            )
            counted = counting.over(connect)
            databases.append(keep(Database(counted, server.budget, limit, wait_seconds_max=60)))
        written: set[tuple[str, str]] = set()

        async def work(number: int) -> None:
            database, name = databases[number % 50], names[number % 50]
            note = f"note {number}"
            async with database.begin() as session:
                await session.execute(ADD, **a_sample(note))
            written.add((name, note))
            await database.fetch_all(FIND, id=new_id())

        tasks = [asyncio.create_task(work(number)) for number in range(200)]
        for task in random.sample(tasks, 30):
            await asyncio.sleep(0.005)
            task.cancel()
        results = await asyncio.gather(*tasks, return_exceptions=True)

        failed = [one for one in results if isinstance(one, Exception)]
        assert [(one, one.__cause__) for one in failed] == []
        assert counting.most <= most
        for name in names:
            assert {note for where, note in written if where == name} <= notes(server.url(name))
        async with asyncio.timeout(30):  # no place is lost
            async with contextlib.AsyncExitStack() as stack:
                for database in databases[:most]:
                    await stack.enter_async_context(database.begin())
        for database in databases:
            await database.close()
        assert counting.open == 0
        await asyncio.sleep(0.1)
        assert threading.active_count() <= threads + 6, "threads of the default executor at most"


async def _create(engine: str, server: Server, names: list[str]) -> None:
    await server.create(names[0])
    create_sample(engine, server.url(names[0]))
    for name in names[1:]:
        assert await server.copy(names[0], name)


def _terminate_backends(url: str) -> None:
    raw_sql.rows(
        url,
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
        "WHERE datname = current_database() AND application_name = 'tenantry'",
    )


@on_sqlite
class TestFile:
    """The file of a database that is removed or replaced while it is open."""

    @pytest.fixture(name="path")
    def _path(self, url: str) -> Path:
        return Path(url.removeprefix("sqlite:///"))

    async def test_that_was_removed_is_unavailable(self, url: str, path: Path, counting: Counting):
        async with opened(url, counting, 1) as database:
            await database.execute(ADD, **a_sample("before"))
            path.unlink()  # noqa: ASYNC240 - as an operator does

            for _ in range(2):
                with pytest.raises(DatabaseUnavailable):
                    await database.execute(ADD, **a_sample("lost"))
            with pytest.raises(DatabaseUnavailable):
                async with database.begin():
                    raise AssertionError

            assert not path.exists(), "only provisioning makes one"  # noqa: ASYNC240

    async def test_that_was_put_back_is_used_again_with_all_that_was_written(
        self, url: str, path: Path, counting: Counting
    ):
        async with opened(url, counting, 1) as database:
            await database.execute(ADD, **a_sample("before"))
            aside = path.rename(path.with_suffix(".aside"))  # noqa: ASYNC240 - as above
            with pytest.raises(DatabaseUnavailable):
                await database.execute(ADD, **a_sample("lost"))
            aside.rename(path)

            await database.execute(ADD, **a_sample("after"))

        assert notes(url) == {"before", "after"}

    async def test_that_was_replaced_with_its_log_is_reopened(
        self, url: str, path: Path, counting: Counting
    ):
        backup = make_backup(path, note="from the backup")
        async with opened(url, counting, 1) as database:
            await database.execute(ADD, **a_sample("before"))
            database.revision = "0005"
            backup.replace(path)
            for suffix in ("-wal", "-shm"):
                path.with_name(f"{path.name}{suffix}").unlink()

            await database.execute(ADD, **a_sample("after"))

            assert database.revision == "", "a backup can be older than the file was"
        assert notes(url) == {"from the backup", "after"}

    async def test_that_was_replaced_is_reopened_for_a_transaction(
        self, url: str, path: Path, counting: Counting
    ):
        backup = make_backup(path, note="from the backup")
        async with opened(url, counting, 1) as database:
            await database.execute(ADD, **a_sample("before"))
            backup.replace(path)
            for suffix in ("-wal", "-shm"):
                path.with_name(f"{path.name}{suffix}").unlink()

            async with database.begin() as session:
                await session.execute(ADD, **a_sample("after"))

        assert notes(url) == {"from the backup", "after"}

    async def test_that_was_replaced_without_its_log_is_not_destroyed(
        self, url: str, path: Path, counting: Counting
    ):
        """SQLite would apply the log of the old file to the new one."""
        backup = make_backup(path, note="from the backup")
        async with opened(url, counting, 1) as database:
            await database.execute(ADD, **a_sample("before"))
            backup.replace(path)
            for _ in range(2):
                with pytest.raises(DatabaseUnavailable) as caught:
                    await database.execute(ADD, **a_sample("lost"))
                assert isinstance(caught.value.__cause__, LogLeftBehind)
            for suffix in ("-wal", "-shm"):
                path.with_name(f"{path.name}{suffix}").unlink()

            await database.execute(ADD, **a_sample("after"))

        assert notes(url) == {"from the backup", "after"}


def make_backup(path: Path, *, note: str) -> Path:
    """Return a file with the sample's table and one note, beside *path*."""
    backup = path.with_suffix(".backup")
    url = f"sqlite:///{backup}"
    files.create(backup)
    create_sample("sqlite", url)
    raw_sql.run(url, f"INSERT INTO sample (id, note) VALUES ('{new_id().hex}', '{note}')")
    return backup


class TestDeadline:
    """A statement ends at its deadline, on either engine."""

    ENDLESS: ClassVar = {
        "sqlite": Statement[Any](
            sa.text(
                "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) "
                "SELECT max(i) FROM n"
            )
        ),
        "postgresql": Statement[Any](sa.text("SELECT pg_sleep(600)")),
    }
    # A busy machine is late; a statement that is not ended never ends.
    LATE_SECONDS_MAX = 60.0
    # The statements after it end within it, also on a busy machine.
    STATEMENT_SECONDS = 2.0

    @pytest.fixture(name="hurried")
    async def _hurried(self, url: str) -> AsyncIterator[Database[Any]]:
        connect, _ = single_connector(
            url,
            connections_max=1,
            timeout_seconds=5,
            synchronous="NORMAL",
            statement_seconds=self.STATEMENT_SECONDS,
        )
        database: Database[Any] = Database(connect, Budget(1), 1)
        yield database
        await database.close()

    async def test_ends_a_statement(self, hurried: Database[Any], url: str, engine: str):
        began = time.monotonic()
        with pytest.raises(DatabaseUnavailable):
            await hurried.execute(self.ENDLESS[engine])

        assert time.monotonic() - began < self.STATEMENT_SECONDS + self.LATE_SECONDS_MAX
        await hurried.execute(ADD, **a_sample("next"))
        assert notes(url) == {"next"}

    async def test_undoes_the_transaction(self, hurried: Database[Any], url: str, engine: str):
        async def write() -> None:
            async with hurried.begin() as session:
                await session.execute(ADD, **a_sample("undone"))
                await session.execute(self.ENDLESS[engine])

        with pytest.raises(DatabaseUnavailable):
            await write()

        await hurried.execute(ADD, **a_sample("next"))
        assert notes(url) == {"next"}

    @pytest.mark.parametrize("engine", ["sqlite"], indirect=True)
    async def test_ends_the_thread_of_a_cancelled_statement(
        self, database: Database[Any], engine: str
    ):
        """It ends before the deadline, because its caller was cancelled."""
        before = threading.active_count()
        began = time.monotonic()
        await cancelled_after(database.execute(self.ENDLESS[engine]), 3, 0.01)

        while threading.active_count() > before:  # it has ended, or is about to
            assert time.monotonic() - began < self.LATE_SECONDS_MAX
            await asyncio.sleep(0.01)
