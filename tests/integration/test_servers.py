"""Databases are created, copied, published and dropped; nothing else creates one."""

import asyncio
import os
import secrets
import stat
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest
import sqlalchemy as sa

from tenantry.db.database import Budget
from tenantry.db.outage_errors import ServerAway
from tenantry.db.servers import PROBE_SECONDS_MAX, Server, checked_name
from tenantry.db.sessions import DatabaseUnavailable
from tenantry.db.sqlite_folder import SqliteFolder
from tenantry.db.statements import Statement
from testkit import raw_sql
from testkit.faults import Faults
from tests.integration.conftest import Keep
from tests.integration.engines import on_postgresql, on_sqlite

WAIT_SECONDS = 60
ONE = Statement[Any](sa.text("SELECT 1"))
# A program that copies a database: its arguments are a URL and two names.
COPY = """
import asyncio, sys
from tenantry.db.factory import open_server
server = open_server(sys.argv[1], connections_max=1, timeout_seconds=5.0, synchronous="NORMAL")
asyncio.run(server.copy(*sys.argv[2:]))
"""
_CREATING = (
    "SELECT 1 FROM pg_stat_activity WHERE state = 'active' AND pid <> pg_backend_pid()"
    " AND query LIKE '%CREATE DATABASE%{}%'"
)


@pytest.fixture(name="server")
def _server(make_server: Callable[[int], Server]) -> Server:
    return make_server(4)


async def made(server: Server, name: str, *statements: str) -> str:
    await server.create(name)
    raw_sql.run(server.url(name), *statements)
    return server.url(name)


class TestCreate:
    async def test_makes_an_empty_database(self, server: Server, prefix: str):
        url = await made(server, f"{prefix}a")

        assert raw_sql.tables(url) == set()
        assert await server.names(prefix) == [f"{prefix}a"]

    @on_postgresql
    async def test_says_when_the_name_is_taken(self, server: Server, prefix: str):
        await server.create(f"{prefix}a")

        with pytest.raises(DatabaseUnavailable):
            await server.create(f"{prefix}a")

    @on_sqlite
    async def test_writes_ahead(self, server: Server, prefix: str):
        url = await made(server, f"{prefix}a")

        assert raw_sql.rows(url, "PRAGMA journal_mode") == [("wal",)]


class TestOpen:
    async def test_never_makes_a_database(self, keep: Keep, server: Server, prefix: str):
        await server.create(f"{prefix}there_1111")  # so that there is a folder for the file
        database = keep(server.open(f"{prefix}gone_1111"))

        for _ in range(3):
            with pytest.raises(DatabaseUnavailable):
                await database.execute(ONE)

        assert await server.names(prefix) == [f"{prefix}there_1111"]


class TestCopy:
    async def test_has_what_the_template_has(self, server: Server, prefix: str):
        await made(server, f"{prefix}a", "CREATE TABLE t (i integer)", "INSERT INTO t VALUES (7)")
        await server.publish(f"{prefix}a", f"{prefix}template")

        assert await server.copy(f"{prefix}template", f"{prefix}b")
        assert await server.copy(f"{prefix}template", f"{prefix}c")

        raw_sql.run(server.url(f"{prefix}b"), "INSERT INTO t VALUES (8)")
        assert raw_sql.rows(server.url(f"{prefix}c"), "SELECT i FROM t") == [(7,)]

    async def test_without_a_template_is_false_and_leaves_nothing(
        self, server: Server, prefix: str
    ):
        assert not await server.copy(f"{prefix}none", f"{prefix}b")

        assert await server.names(prefix) == []

    async def test_many_at_once_from_one_template(self, server: Server, prefix: str):
        await made(server, f"{prefix}a", "CREATE TABLE t (i integer)")
        await server.publish(f"{prefix}a", f"{prefix}template")
        names = [f"{prefix}{number}" for number in range(6)]

        done = await asyncio.gather(*(server.copy(f"{prefix}template", name) for name in names))

        assert done == [True] * 6
        assert [raw_sql.tables(server.url(name)) for name in names] == [{"t"}] * 6


class TestFilling:
    async def test_keeps_what_was_written(self, server: Server, prefix: str):
        await made(server, f"{prefix}a", "CREATE TABLE t (i integer)")
        await server.publish(f"{prefix}a", f"{prefix}template")
        await server.copy(f"{prefix}template", f"{prefix}b")

        async with server.filling(f"{prefix}b") as session:
            await session.execute(Statement[Any](sa.text("INSERT INTO t VALUES (7)")))

        assert raw_sql.rows(server.url(f"{prefix}b"), "SELECT i FROM t") == [(7,)]

    @on_sqlite
    async def test_ends_with_one_whole_file_that_is_durable(
        self, server: SqliteFolder, prefix: str, faults: Faults
    ):
        """The name of it since the copy; and everything is in it when it is synchronised."""
        await made(server, f"{prefix}a", "CREATE TABLE t (i integer)")
        await server.publish(f"{prefix}a", f"{prefix}template")
        path = server.path(f"{prefix}b")
        seen: list[tuple[int, list[Path]]] = []

        def note(handle: int) -> None:
            seen.append((os.fstat(handle).st_ino, [*path.parent.iterdir()]))

        faults.before(os, "fsync", note)

        await server.copy(f"{prefix}template", f"{prefix}b")
        assert seen == [(path.parent.stat().st_ino, [path])]
        async with server.filling(f"{prefix}b") as session:
            await session.execute(Statement[Any](sa.text("INSERT INTO t VALUES (7)")))
            assert len(seen) == 1

        assert seen[1:] == [(path.stat().st_ino, [path])]
        assert stat.S_IMODE(path.stat().st_mode) == 0o600

    async def test_does_not_make_a_database(self, server: Server, prefix: str):
        with pytest.raises(DatabaseUnavailable):
            async with server.filling(f"{prefix}none"):
                pass

        assert await server.names(prefix) == []


class TestPublish:
    async def test_of_the_slower_one_drops_its_draft(self, server: Server, prefix: str):
        for draft in ("a", "b"):
            await made(server, f"{prefix}{draft}", "CREATE TABLE t (i integer)")
            await server.publish(f"{prefix}{draft}", f"{prefix}template")

        assert await server.names(prefix) == [f"{prefix}template"]
        assert await server.copy(f"{prefix}template", f"{prefix}c")

    @on_postgresql
    async def test_refuses_connections(self, keep: Keep, server: Server, prefix: str):
        """One idle session on a template blocks every copy."""
        await made(server, f"{prefix}a")
        await server.publish(f"{prefix}a", f"{prefix}template")
        database = keep(server.open(f"{prefix}template"))

        with pytest.raises(DatabaseUnavailable):
            await database.execute(ONE)


class TestDrop:
    async def test_of_a_database_in_use_ends_its_connections(
        self, keep: Keep, server: Server, prefix: str
    ):
        await made(server, f"{prefix}a")
        database = keep(server.open(f"{prefix}a"))
        await database.execute(ONE)

        await server.drop(f"{prefix}a")

        assert await server.names(prefix) == []

    async def test_of_a_template_and_of_nothing(self, server: Server, prefix: str):
        await made(server, f"{prefix}a")
        await server.publish(f"{prefix}a", f"{prefix}template")

        await server.drop(f"{prefix}template")
        await server.drop(f"{prefix}template")

        assert await server.names(prefix) == []

    @on_sqlite
    async def test_leaves_no_side_file(
        self, keep: Keep, server: Server, prefix: str, tmp_path: Path
    ):
        await made(server, f"{prefix}a", "CREATE TABLE t (i integer)")
        database = keep(server.open(f"{prefix}a"))
        await database.execute(ONE)

        await server.drop(f"{prefix}a")

        assert [path for path in (tmp_path / "server").rglob("*") if path.is_file()] == []


@on_postgresql
class TestDropOfADatabaseInCreation:
    async def test_leaves_nothing_of_a_process_that_was_killed(
        self, server: Server, postgres_url: str
    ):
        """The server continues a CREATE DATABASE without its client."""
        template, name = (f"tenantry_{secrets.token_hex(16)}" for _ in range(2))
        await server.create(template)
        with psycopg.connect(postgres_url) as holder:
            # Until its end, the template cannot be copied.
            holder.execute(f"ALTER DATABASE {template} RENAME TO {template}x".encode())
            arguments = [sys.executable, "-c", COPY, postgres_url, template, name]
            process = await asyncio.create_subprocess_exec(*arguments)
            async with asyncio.timeout(WAIT_SECONDS):
                while not raw_sql.rows(postgres_url, _CREATING.format(name)):  # noqa: ASYNC110
                    await asyncio.sleep(0.05)
            process.kill()
            await process.wait()

            await server.drop(name)
            holder.rollback()

        async with asyncio.timeout(WAIT_SECONDS):
            while raw_sql.rows(postgres_url, _CREATING.format(name)):  # noqa: ASYNC110
                await asyncio.sleep(0.05)
        assert await server.names(name) == []
        await server.drop(template)


class TestOwnNames:
    async def test_are_generated_and_of_our_role(
        self, server: Server, engine: str, request: pytest.FixtureRequest, tmp_path: Path
    ):
        ours, stranger = (f"tenantry_{secrets.token_hex(16)}" for _ in range(2))
        await server.create(ours)
        await server.create(other := f"tenantry_t{secrets.token_hex(6)}")
        if engine == "postgresql":
            role, url = f"owner_{secrets.token_hex(4)}", request.getfixturevalue("postgres_url")
            raw_sql.run(url, f"CREATE ROLE {role}", f"CREATE DATABASE {stranger} OWNER {role}")
        else:
            (folder := tmp_path / "server" / "aa" / "bb").mkdir(parents=True)
            (folder / "notes.db").touch()

        found = await server.own_names()

        assert ours in found
        assert not found & {other, stranger, "notes"}
        for name in (ours, other):
            await server.drop(name)
        if engine == "postgresql":
            raw_sql.run(url, f"DROP DATABASE {stranger}", f"DROP ROLE {role}")


class TestNames:
    @pytest.mark.parametrize(
        "name", ["", "a" * 64, "A", "a-b", 'a"b', "a b", "ä", "1a", "../a", "a\n", "a/b"]
    )
    def test_are_only_generated_ones(self, name: str):
        with pytest.raises(AssertionError):
            checked_name(name)

    def test_may_have_63_characters(self):
        assert checked_name("a" * 63) == "a" * 63

    @on_sqlite
    async def test_are_spread_over_folders(self, server: Server, tmp_path: Path):
        """By their end: the beginning of a UUIDv7 is the time, and alike for all of a day."""
        await server.create("tenantry_0190aaaabbbbccccddddeeeeffff1234")

        path = tmp_path / "server" / "34" / "12" / "tenantry_0190aaaabbbbccccddddeeeeffff1234.db"
        assert path.is_file()

    async def test_are_only_those_of_the_prefix(self, server: Server, prefix: str):
        for name in ("a", "b"):
            await server.create(f"{prefix}{name}")

        assert sorted(await server.names(prefix)) == [f"{prefix}a", f"{prefix}b"]
        assert await server.names(f"{prefix}b") == [f"{prefix}b"]


@pytest.fixture(name="stranger")
def _stranger(postgres_url: str) -> Iterator[str]:
    """A second role of the server, that owns nothing."""
    name = f"test_{secrets.token_hex(6)}"
    raw_sql.run(postgres_url, f"CREATE ROLE {name} LOGIN PASSWORD '{name}'")
    yield name
    raw_sql.run(postgres_url, f"DROP ROLE {name}")


def as_stranger(url: str, name: str) -> str:
    """Return *url* with another role."""
    host = url.removeprefix("postgresql://").rpartition("@")[2]
    return f"postgresql://{name}:{name}@{host}"


@on_postgresql
class TestStrangers:
    """Another role of the same server."""

    async def test_cannot_connect_to_a_new_database(
        self, server: Server, prefix: str, stranger: str
    ):
        url = await made(server, f"{prefix}a")

        with pytest.raises(psycopg.OperationalError, match="permission denied for database"):
            raw_sql.rows(as_stranger(url, stranger), "SELECT 1")
        assert raw_sql.rows(url, "SELECT 1") == [(1,)]

    async def test_cannot_connect_to_a_copy(self, server: Server, prefix: str, stranger: str):
        await made(server, f"{prefix}a")
        await server.publish(f"{prefix}a", f"{prefix}template")
        await server.copy(f"{prefix}template", f"{prefix}b")

        with pytest.raises(psycopg.OperationalError, match="permission denied for database"):
            raw_sql.rows(as_stranger(server.url(f"{prefix}b"), stranger), "SELECT 1")
        assert not {f"{prefix}b", f"{prefix}template"} & set(await server.public_names())

    async def test_are_found_where_they_may_connect(
        self, server: Server, prefix: str, stranger: str
    ):
        url = await made(server, f"{prefix}a", f"GRANT CONNECT ON DATABASE {prefix}a TO PUBLIC")

        assert raw_sql.rows(as_stranger(url, stranger), "SELECT 1") == [(1,)]
        assert f"{prefix}a" in await server.public_names()


class TestProbe:
    @pytest.mark.slow
    @on_sqlite
    async def test_of_a_disk_that_hangs_ends_and_uses_one_thread(
        self, server: Server, prefix: str, faults: Faults
    ):
        """As on an NFS server that is away: nothing can end the system call."""
        await server.create(f"{prefix}a")
        hung, back = threading.Semaphore(0), threading.Event()

        def hang(_handle: int) -> None:
            hung.release()
            assert back.wait(WAIT_SECONDS)

        faults.before(os, "fsync", hang)
        try:
            for _ in range(2):
                with pytest.raises(ServerAway):
                    async with asyncio.timeout(2 * PROBE_SECONDS_MAX):
                        await server.probe()
        finally:
            back.set()

        assert hung.acquire(blocking=False)
        assert not hung.acquire(blocking=False)
        await server.probe()

    async def test_of_a_missing_folder_says_so_each_time(self, tmp_path: Path):
        folder = tmp_path / "unmounted"
        server = SqliteFolder(folder, Budget(1), synchronous="FULL")
        for _ in range(2):
            with pytest.raises(ServerAway):
                await server.probe()
        folder.mkdir()
        (folder / "file").touch()

        await server.probe()
