"""A failure is one readable sentence, without secrets and without values of rows."""

import sqlite3

import asyncpg
import psycopg
import pytest
import sqlalchemy as sa
import sqlalchemy.exc

from tenantry.db.outage_errors import ServerAway
from tenantry.db.sessions import DatabaseUnavailable
from tenantry.migration.errors import REASON_CHARS_MAX, explain, is_lock_timeout
from tenantry.migration.revisions import RevisionFailed
from tenantry.migration.schema_state import NoVersion
from tenantry.migration.statements import SchemaMoved
from testkit.raw_sql import error_in_sqlite

VALUE = "4711-secret-value"
URL = f"postgresql://somebody:{VALUE}@db.internal/tenant"


def of_postgres(type_: type[asyncpg.PostgresError], message: str) -> asyncpg.PostgresError:
    error = type_(message)
    error.detail = f"Key (email)=({VALUE}) already exists."
    error.hint = error.where = error.internal_query = error.query = VALUE
    return error


def wrapped(cause: Exception) -> Exception:
    """As SQLAlchemy raises it."""
    return sqlalchemy.exc.IntegrityError(f"INSERT INTO t VALUES ('{VALUE}')", {"x": VALUE}, cause)


def raised_twice() -> Exception:
    """As a driver raises its first error, after it has tried the other addresses."""
    first = ConnectionResetError()
    try:
        refuse(first)
    except ConnectionRefusedError:
        try:
            raise first
        except ConnectionResetError as error:
            return error
    raise AssertionError


def refuse(cause: Exception) -> None:
    raise ConnectionRefusedError from cause


POSTGRES = [
    (
        of_postgres(asyncpg.InsufficientPrivilegeError, "permission denied to create database"),
        "permission denied to create database: `ALTER ROLE … CREATEDB` (SQLSTATE 42501).",
    ),
    (
        of_postgres(
            asyncpg.UniqueViolationError, 'duplicate key value violates unique constraint "uq"'
        ),
        'duplicate key value violates unique constraint "uq" (SQLSTATE 23505).',
    ),
    (
        of_postgres(asyncpg.InvalidTextRepresentationError, f'invalid input syntax: "{VALUE}"'),
        "A value in a row does not fit, or cannot be computed with (SQLSTATE 22P02).",
    ),
    (
        of_postgres(asyncpg.DataError, f"a value of a row: {VALUE}"),
        "A value in a row does not fit, or cannot be computed with (SQLSTATE 22000).",
    ),
    (
        of_postgres(asyncpg.RaiseError, f"a trigger says {VALUE}"),
        "A function or trigger of the database raised an error (SQLSTATE P0001).",
    ),
    (
        of_postgres(asyncpg.InvalidPasswordError, f'password authentication failed for "{VALUE}"'),
        "The server refuses our role or password (SQLSTATE 28P01).",
    ),
    (
        of_postgres(asyncpg.InvalidCatalogNameError, f'database "{VALUE}" does not exist'),
        "The database does not exist (SQLSTATE 3D000).",
    ),
    (
        of_postgres(asyncpg.LockNotAvailableError, "canceling statement due to lock timeout"),
        "A lock was not free in time: something else uses the table (SQLSTATE 55P03).",
    ),
    (
        of_postgres(asyncpg.PostgresSyntaxError, f"syntax error at or near \"'{VALUE}'\""),
        "A statement has a syntax error (SQLSTATE 42601).",
    ),
    (
        of_postgres(asyncpg.DuplicateTableError, 'relation "t" already exists'),
        'relation "t" already exists (SQLSTATE 42P07).',
    ),
    (
        of_postgres(asyncpg.NotNullViolationError, 'null value in column "x" of relation "t"'),
        'null value in column "x" of relation "t" (SQLSTATE 23502).',
    ),
    (
        of_postgres(
            asyncpg.ActiveSQLTransactionError, "VACUUM cannot run inside a transaction block"
        ),
        (
            "VACUUM cannot run inside a transaction block: use `autocommit_block()` (SQL: "
            "`-- tenantry: no-transaction`) in a separate revision (SQLSTATE 25001)."
        ),
    ),
    (
        of_postgres(
            asyncpg.ActiveSQLTransactionError,
            "SET TRANSACTION ISOLATION LEVEL must be called before any query",
        ),
        "SET TRANSACTION ISOLATION LEVEL must be called before any query (SQLSTATE 25001).",
    ),
]


class TestExplain:
    @pytest.mark.parametrize(("error", "sentence"), POSTGRES)
    def test_returns_the_message_of_postgresql_and_its_sqlstate(
        self, error: asyncpg.PostgresError, sentence: str
    ):
        assert explain(error) == sentence
        assert explain(wrapped(error)) == sentence

    def test_says_in_words_that_another_process_works_on_the_database(self):
        assert explain(SchemaMoved()).startswith("Another process has changed the revision")

    def test_hides_the_message_of_a_state_that_postgresql_does_not_define(self):
        error = asyncpg.exceptions.UnknownPostgresError(f"an extension says {VALUE}")
        error.sqlstate = "ZZ999"

        said = "A function or trigger of the database raised an error (SQLSTATE ZZ999)."
        assert explain(error) == said

    @pytest.mark.parametrize(
        "error",
        [
            ValueError(VALUE),
            KeyError(VALUE),
            AssertionError(VALUE),
            OSError(111, f"refused by {URL}"),
            ConnectionRefusedError(URL),
            TimeoutError(URL),
            asyncpg.InterfaceError(URL),
            asyncpg.ClientConfigurationError(URL),
            sqlalchemy.exc.ProgrammingError(f"SELECT '{VALUE}'", {"a": VALUE}, ValueError(VALUE)),
            sqlalchemy.exc.ArgumentError(URL),
            UnicodeDecodeError("utf-8", VALUE.encode(), 0, 1, VALUE),
            SystemExit(VALUE),
            ExceptionGroup(VALUE, [ValueError(VALUE)]),
        ],
        ids=lambda error: type(error).__name__,
    )
    def test_names_what_it_does_not_know_by_its_type_alone(self, error: BaseException):
        said = explain(error)

        assert VALUE not in said
        assert "somebody" not in said
        assert said.endswith(".")
        assert len(said) > 10

    @pytest.mark.parametrize(
        "statements",
        [
            ["CREATE TABLE t (a UNIQUE)", f"INSERT INTO t VALUES ('{VALUE}'), ('{VALUE}')"],
            ["CREATE TABLE t (a CHECK (a <> 1))", "INSERT INTO t VALUES (1)"],
            ["CREATE TABLE t (a int) STRICT", f"INSERT INTO t VALUES ('{VALUE}')"],
            [f"SELECT * FROM nowhere WHERE a = '{VALUE}'"],
            [f"SELECT abs('{VALUE}'"],
            [f"SELECT 1 WHERE 1 = '1' '{VALUE}'"],
            [f"SELECT 1 FROM '{VALUE}"],
            [f"SELECT json('{VALUE}')"],
            [f"SELECT '{VALUE}' -> '{VALUE}'"],
            [f"SELECT CAST('x' AS int) LIKE 'x' ESCAPE '{VALUE}'"],
        ],
        ids=range(10),
    )
    def test_holds_no_value_of_a_statement_on_sqlite(self, statements: list[str]):
        said = explain(error_in_sqlite(*statements))

        assert VALUE not in said
        assert said.startswith("SQLite: ")

    def test_reports_a_missing_file(self):
        with pytest.raises(sqlite3.OperationalError) as caught:
            sqlite3.connect(f"file:/nowhere/{VALUE}?mode=rw", uri=True)

        assert explain(caught.value) == "The database file does not exist, or cannot be opened."

    @pytest.mark.parametrize("wrapper", [DatabaseUnavailable, ServerAway])
    def test_of_a_database_that_is_away_says_why(self, wrapper: type[Exception]):
        """And without the address, which asyncio adds."""
        refused = ConnectionRefusedError(111, "Connect call failed ('10.1.2.3', 5432)")
        both = OSError("Multiple exceptions: [Errno 111] Connect call failed ('::1', 5432), …")
        for cause in (refused, both):
            away = wrapper()
            away.__cause__ = cause

            assert explain(away) == "The database cannot be reached (Connection refused)."

    @pytest.mark.timeout(30)
    def test_of_an_error_that_was_raised_again_while_its_successor_was_handled_ends(self):
        """Each is then the cause or the context of the other."""
        first = raised_twice()

        again = first.__context__
        assert again is not None
        assert again.__cause__ is first
        assert explain(first) == explain(again) == "The database cannot be reached."

    @pytest.mark.parametrize(
        "message",
        [
            "VACUUM cannot run inside a transaction block",
            "SAVEPOINT can only be used in transaction blocks",
            "current transaction is aborted, commands ignored until end of transaction block",
            "cannot ALTER TABLE because it is being used by active queries in this session",
            "deadlock detected",
            "out of shared memory",
            "canceling statement due to statement timeout",
            "canceling statement due to user request",
            "cannot ALTER TABLE because it has pending trigger events",
            "could not write to file: No space left on device",
            "could not serialize access due to concurrent update",
            "terminating connection due to administrator command",
        ],
    )
    def test_keeps_the_words_of_postgresql_in_a_live_revision(self, message: str):
        failed = RevisionFailed("0002", "VACUUM SAVEPOINT ALTER being queries session")
        failed.__cause__ = of_postgres(asyncpg.ActiveSQLTransactionError, message)

        assert message in explain(failed)

    @pytest.mark.parametrize(
        ("error", "expected"),
        [
            (psycopg.ProgrammingError("can't change 'autocommit' now"), "rejected a call"),
            (psycopg.ProgrammingError("cannot adapt type 'object'"), "has a Python type"),
            (sqlite3.ProgrammingError("Incorrect number of bindings supplied"), "rejected a call"),
            (sqlite3.ProgrammingError("Error binding parameter 1: type 'x'"), "has a Python type"),
        ],
    )
    def test_names_a_wrong_type_only_if_the_driver_does(self, error: Exception, expected: str):
        assert expected in explain(error)

    def test_does_not_blame_others_for_a_table_that_the_transaction_itself_uses(self):
        said = explain(error_in_sqlite("BEGIN IMMEDIATE", "PRAGMA wal_checkpoint(TRUNCATE)"))

        assert "the same transaction" in said
        assert "something else" not in said

    def test_returns_the_message_of_our_own_errors(self):
        assert explain(NoVersion()) == NoVersion.__doc__

    def test_returns_a_short_text_that_can_be_stored(self):
        error = of_postgres(asyncpg.RaiseError, "x\0\ud800" + "y" * 10_000)

        said = explain(error)

        assert len(said) <= REASON_CHARS_MAX
        assert "\0" not in said
        said.encode()


class TestIsLock:
    @pytest.mark.parametrize(
        ("error", "expected"),
        [
            (asyncpg.LockNotAvailableError("x"), True),
            (asyncpg.DeadlockDetectedError("x"), True),
            (asyncpg.SerializationError("x"), True),
            (asyncpg.UniqueViolationError("x"), False),
            (asyncpg.QueryCanceledError("x"), False),
            (sqlite3.OperationalError("database is locked"), True),
            (sqlite3.OperationalError("database table is locked"), True),
            (sqlite3.OperationalError("no such table: x"), False),
            (ValueError("locked"), False),
        ],
    )
    def test_is_worth_another_try(self, error: Exception, expected: bool):  # noqa: FBT001
        assert is_lock_timeout(error) is expected
        if isinstance(error, asyncpg.PostgresError):
            assert is_lock_timeout(wrapped(error)) is expected

    def test_sees_through_sqlalchemy(self):
        orig = sqlite3.OperationalError("database is locked")

        assert is_lock_timeout(sqlalchemy.exc.OperationalError("x", {}, orig))
        assert not is_lock_timeout(sa.exc.InvalidRequestError("x"))
