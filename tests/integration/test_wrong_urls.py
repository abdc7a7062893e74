"""A wrong URL of an attached database: the run says what is wrong, and waits only if that helps."""

import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psycopg
import pytest

from tenantry.fleet_api import RunResult, migrate
from testkit import raw_sql
from testkit.postgres import Server, create_database, own_server
from testkit.programs import free_port
from testkit.revisions import AlembicFolder

pytestmark = pytest.mark.slow

PASSWORD = "not-to-be-seen"
WAITS = "has been away for more than 1 s. The database cannot be reached"
REFUSED = "(Connection refused)."
READ_ONLY = "The transaction is read-only: see `default_transaction_read_only` of the URL"
SOON_SECONDS_MAX = 120.0
"""Also on a busy machine, and far less than the patience with a server."""
PATIENCE_SECONDS = 300.0


@pytest.fixture(name="server", scope="module")
def _server() -> Iterator[Server]:
    with own_server() as server:
        hba = server.data / "pg_hba.conf"
        hba.write_text(f"host all secured all scram-sha-256\n{hba.read_text()}")
        with psycopg.connect(server.url, autocommit=True) as connection:
            connection.execute("SET password_encryption = 'scram-sha-256'")
            connection.execute("CREATE ROLE secured LOGIN SUPERUSER PASSWORD 'right'")
            connection.execute("CREATE ROLE reader LOGIN SUPERUSER")
            connection.execute("ALTER ROLE reader SET default_transaction_read_only = on")
            connection.execute("SELECT pg_reload_conf()")
        yield server


@pytest.fixture(name="started")
def _started(tmp_path: Path, folder: AlembicFolder) -> Callable[..., RunResult]:
    """Migrates databases to a revision with a table."""
    folder.add("u1_note", "op.create_table('note', sa.Column('id', sa.Integer))")

    def start(*urls: str, patience_seconds: float = PATIENCE_SECONDS) -> RunResult:
        return migrate(
            [{"url": url, "name": f"d{number}"} for number, url in enumerate(urls)],
            folder.path,
            state=tmp_path / "state.db",
            patience_seconds=patience_seconds,
        )

    return start


def database(server: Server) -> str:
    return create_database(server.url, f"test_{time.monotonic_ns()}")


def alter_system(server: Server, command: str) -> None:
    with psycopg.connect(server.url, autocommit=True) as connection:
        connection.execute("SET default_transaction_read_only = off")
        connection.execute(f"ALTER SYSTEM {command}".encode())
        connection.execute("SELECT pg_reload_conf()")


class TestThatWaitingDoesNotCorrect:
    @pytest.mark.parametrize(
        ("suffix", "sentence"),
        [
            ("?sslmode=require", "(the server does not support TLS): see its certificate and"),
            ("?sslmode=verify-full&sslrootcert=/none.pem", "(No such file or directory (/none.pem"),
            ("?options=-c%20default_transaction_read_only%3Don", READ_ONLY),
            ("?default_transaction_read_only=on", READ_ONLY),
            ("?options=nonsense", "The server refuses `options`, or the value of a setting"),
            ("?work_mem=nonsense", "The server refuses `options`, or the value of a setting"),
            ("?nonsense=1", "unrecognized configuration parameter"),
        ],
    )
    def test_fails_soon_and_keeps_no_other_database_of_the_server_waiting(
        self, server: Server, started: Callable[..., RunResult], suffix: str, sentence: str
    ):
        """The wrong one is the first in the list: the server is probed with its URL."""
        wrong, good = database(server) + suffix, database(server)
        began = time.monotonic()

        result = started(wrong, good)

        assert time.monotonic() - began < SOON_SECONDS_MAX
        errors = {one.name: one.error or "" for one in result.databases}
        assert sentence in errors["d0"]
        assert errors["d1"] == ""
        assert "note" in raw_sql.tables(good)

    def test_fails_soon_with_a_wrong_password_which_is_not_shown(
        self, server: Server, started: Callable[..., RunResult]
    ):
        url = database(server).replace("postgres@", f"secured:{PASSWORD}@")
        began = time.monotonic()

        [found] = started(url).databases

        assert time.monotonic() - began < SOON_SECONDS_MAX
        assert found.error == "The server refuses our role or password (SQLSTATE 28P01)."

    def test_fails_soon_with_a_role_that_only_reads(
        self, server: Server, started: Callable[..., RunResult]
    ):
        url = database(server).replace("postgres@", "reader@")
        began = time.monotonic()

        [found] = started(url).databases

        assert time.monotonic() - began < SOON_SECONDS_MAX
        assert READ_ONLY in (found.error or "")

    @pytest.mark.parametrize("path", ["none.db", "no/folder/none.db"])
    def test_fails_soon_without_the_file(
        self, tmp_path: Path, started: Callable[..., RunResult], path: str
    ):
        [found] = started(f"sqlite:///{tmp_path / path}").databases

        assert found.error == "The database file does not exist, or cannot be opened."


class TestThatMayBeAnOutage:
    @pytest.mark.parametrize(
        ("place", "sentence"),
        [
            ("127.0.0.1:{closed}", f"{WAITS} {REFUSED}"),
            ("none.invalid", WAITS),  # the words are those of the resolver
            ("none.invalid,127.0.0.1:{closed}", f"{WAITS} {REFUSED}"),
            ("%2Fnone", f"{WAITS} (No such file or directory)."),
        ],
    )
    def test_fails_after_the_patience_with_its_cause(
        self, started: Callable[..., RunResult], place: str, sentence: str
    ):
        where = place.format(closed=free_port())
        # A socket has no TLS, whose file is not read then.
        url = f"postgresql://someone:{PASSWORD}@{where}/customers"
        url += "?sslrootcert=/none.pem" if "%2F" in where else ""

        [found] = started(url, patience_seconds=1).databases

        assert sentence in (found.error or "")
        assert PASSWORD not in (found.error or "")

    @pytest.mark.parametrize(
        ("suffix", "sentence"),
        [
            ("", "The server is read-only: it is a standby, or set to be."),
            ("?target_session_attrs=read-write", "(no host matches `target_session_attrs` of"),
        ],
    )
    def test_fails_with_the_words_of_a_server_that_accepts_no_writes(
        self, server: Server, started: Callable[..., RunResult], suffix: str, sentence: str
    ):
        """As a primary that was demoted."""
        url = database(server) + suffix
        try:
            alter_system(server, "SET default_transaction_read_only = on")
            [found] = started(url, patience_seconds=1).databases
        finally:
            alter_system(server, "RESET default_transaction_read_only")

        assert "has been away for more than 1 s." in (found.error or "")
        assert sentence in (found.error or "")
