"""Failures of one kind have one cause, whichever names and values the databases report."""

import sqlite3

import asyncpg
import pytest

from tenantry.migration.errors import explain, failure_cause
from tenantry.migration.revisions import RevisionFailed
from tenantry.migration.schema_state import NoVersion
from tenantry.migration.streams import UnknownRevision
from testkit.raw_sql import error_in_sqlite


def in_revision(name: str, cause: Exception) -> RevisionFailed:
    """Return what the engine raises when *cause* was raised in a revision."""
    error = RevisionFailed(name)
    error.__cause__ = cause
    return error


def exists(table: str) -> sqlite3.Error:
    return error_in_sqlite(f"CREATE TABLE {table} (x)", f"CREATE TABLE {table} (x)")


SAME = {
    "a table of PostgreSQL": (
        in_revision("0002_add", asyncpg.DuplicateTableError('relation "t_acme" already exists')),
        in_revision("0002_add", asyncpg.DuplicateTableError('relation "orders" already exists')),
        '0002_add: relation "…" already exists (SQLSTATE 42P07).',
    ),
    "a constraint": (
        asyncpg.UniqueViolationError('duplicate key value violates unique constraint "uq_post_1"'),
        asyncpg.UniqueViolationError('duplicate key value violates unique constraint "uq_tag"'),
        'duplicate key value violates unique constraint "…" (SQLSTATE 23505).',
    ),
    "a function": (
        asyncpg.UndefinedFunctionError("function slug_of(text) does not exist"),
        asyncpg.UndefinedFunctionError("function to_slug(text) does not exist"),
        "function …(text) does not exist (SQLSTATE 42883).",
    ),
    "a permission": (
        asyncpg.InsufficientPrivilegeError("permission denied for table post"),
        asyncpg.InsufficientPrivilegeError("permission denied for table note_2"),
        "permission denied for table … (SQLSTATE 42501).",
    ),
    "a table of SQLite": (
        in_revision("0002_add", exists("note")),
        in_revision("0002_add", exists("post_17")),
        "0002_add: SQLite: table … already exists.",
    ),
    "columns of SQLite": (
        error_in_sqlite(
            "CREATE TABLE n (b, c, UNIQUE (b, c))", *["INSERT INTO n VALUES (1, 1)"] * 2
        ),
        error_in_sqlite("CREATE TABLE post (slug UNIQUE)", *["INSERT INTO post VALUES (1)"] * 2),
        "SQLite: UNIQUE constraint failed: ….",
    ),
    "a revision": (
        UnknownRevision("x9", "user"),
        UnknownRevision("abc", "user"),
        "The database is at revision …, which is not among the user ones.",
    ),
    "an exception of a revision": (
        in_revision("0002_add", ValueError("row 17")),
        in_revision("0002_add", ValueError("row 18")),
        "0002_add: The migration raised ValueError…",
    ),
}
DIFFERENT = [
    in_revision("0002_add_posts", exists("note")),
    in_revision("0003_add_notes", exists("note")),
    in_revision("0002_add_posts", error_in_sqlite("SELECT * FROM note")),
    asyncpg.DuplicateTableError('relation "a" already exists'),
    asyncpg.DuplicateObjectError('relation "a" already exists'),
    in_revision("0002_add_posts", ValueError("x")),
    in_revision("0002_add_posts", KeyError("x")),
    asyncpg.InvalidCatalogNameError('database "x" does not exist'),
    NoVersion(),
    TimeoutError(),
]
UNCHANGED = [
    asyncpg.InvalidCatalogNameError('database "x" does not exist'),
    asyncpg.LockNotAvailableError("canceling statement due to lock timeout"),
    asyncpg.InvalidPasswordError("password authentication failed"),
    sqlite3.OperationalError("unable to open database file"),
    sqlite3.OperationalError("database is locked"),
    TimeoutError(),
    OSError(),
    NoVersion(),
]


class TestFailureCause:
    @pytest.mark.parametrize("name", SAME)
    def test_is_one_for_errors_of_one_kind(self, name: str):
        one, other, cause = SAME[name]

        assert failure_cause(one) == cause
        assert failure_cause(other) == cause

    def test_is_another_for_each_kind(self):
        assert len({failure_cause(error) for error in DIFFERENT}) == len(DIFFERENT)

    @pytest.mark.parametrize("error", UNCHANGED, ids=lambda error: type(error).__name__)
    def test_is_the_reason_itself_where_that_names_nothing(self, error: Exception):
        assert failure_cause(error) == explain(error)

    @pytest.mark.parametrize("name", SAME)
    def test_matches_the_reasons_where_the_placeholder_is_any_text(self, name: str):
        """The console assigns failures to causes by this."""
        *errors, cause = SAME[name]
        before, _, after = cause.partition("…")

        for error in errors:
            assert explain(error).startswith(before)
            assert explain(error).endswith(after)
