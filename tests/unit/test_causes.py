"""Failure causes: errors that differ only in names and numbers have one cause."""

import pytest

from tenantry.catalog.causes import cause_of

NAMES = ("acme", "tenantry_01980a")

SAME = [
    (
        '0002_add_posts: relation "t_acme" already exists (SQLSTATE 42P07).',
        '0002_add_posts: relation "orders" already exists (SQLSTATE 42P07).',
        "0002_add_posts: relation … already exists (SQLSTATE 42P07).",
    ),
    (
        'a1: null value in column "x" of relation "t" violates a constraint (SQLSTATE 23502).',
        'a1: null value in column "y" of relation "u" violates a constraint (SQLSTATE 23502).',
        "a1: null value in column … of relation … violates a constraint (SQLSTATE 23502).",
    ),
    (
        "a1: column post.title does not exist (SQLSTATE 42703).",
        "a1: column note.id does not exist (SQLSTATE 42703).",
        "a1: column … does not exist (SQLSTATE 42703).",
    ),
    (
        "a1: function f(integer, text) does not exist (SQLSTATE 42883).",
        "a1: function to_slug(text) does not exist (SQLSTATE 42883).",
        "a1: function … does not exist (SQLSTATE 42883).",
    ),
    (
        "a1: permission denied for table post (SQLSTATE 42501).",
        "a1: permission denied for table note (SQLSTATE 42501).",
        "a1: permission denied for table … (SQLSTATE 42501).",
    ),
    (
        "a1: must be owner of table post (SQLSTATE 42501).",
        "a1: must be owner of table note (SQLSTATE 42501).",
        "a1: must be owner of table … (SQLSTATE 42501).",
    ),
    (
        "a1: acme has 17 rows too many (SQLSTATE P0001).",
        "a1: tenantry_01980a has 3.5 rows too many (SQLSTATE P0001).",
        "a1: … has … rows too many (SQLSTATE P0001).",
    ),
    (
        "a1: no owner in 0198cb1e-6a6f-7000-8000-1c2d3e4f5a6b (SQLSTATE P0001).",
        "a1: no owner in Acme (SQLSTATE P0001).",
        "a1: no owner in … (SQLSTATE P0001).",
    ),
    (
        "0002_x: SQLite: table note already exists.",
        "0002_x: SQLite: table post_17 already exists.",
        "0002_x: SQLite: table … already exists.",
    ),
    (
        "SQLite: UNIQUE constraint failed: note.a, note.b.",
        "SQLite: UNIQUE constraint failed: post.slug.",
        "SQLite: UNIQUE constraint failed: ….",
    ),
    (
        "a1: SQLite: no such table: main.note.",
        "a1: SQLite: no such table: post.",
        "a1: SQLite: no such table: ….",
    ),
    (
        "a1: SQLite: table post has no column named a.",
        "a1: SQLite: table note has no column named b.",
        "a1: SQLite: table … has no column named ….",
    ),
    (
        "a1: SQLite: duplicate column name: a.",
        "a1: SQLite: duplicate column name: b.",
        "a1: SQLite: duplicate column name: ….",
    ),
    (
        "The database is at revision 'x9', which is not among the user ones.",
        "The database is at revision 'abc', which is not among the user ones.",
        "The database is at revision …, which is not among the user ones.",
    ),
]

DIFFERENT = [
    "0002_add_posts: SQLite: table note already exists.",
    "0003_add_notes: SQLite: table note already exists.",
    "0002_add_posts: SQLite: no such table: note.",
    "0002_add_posts: SQLite: index note already exists.",
    'relation "a" already exists (SQLSTATE 42P07).',
    'relation "a" already exists (SQLSTATE 42710).',
    "user:0002_add_posts: The migration raised ValueError.",
    "user:0002_add_posts: The migration raised KeyError.",
    "The database does not exist (SQLSTATE 3D000).",
    "not attempted: run cancelled",
    "not attempted: more than 3 tenants failed",
    "not attempted: more than 5 tenants failed",
]


class TestCauseOf:
    @pytest.mark.parametrize(("one", "other", "cause"), SAME, ids=range(len(SAME)))
    def test_is_one_for_errors_of_one_kind(self, one: str, other: str, cause: str):
        assert cause_of(one, NAMES) == cause
        assert cause_of(other, NAMES) == cause

    def test_differs_for_each_kind(self):
        assert len({cause_of(error, NAMES) for error in DIFFERENT}) == len(DIFFERENT)

    @pytest.mark.parametrize(
        "error",
        [
            "The database does not exist (SQLSTATE 3D000).",
            "A lock was not free in time: something else uses the table (SQLSTATE 55P03).",
            "The database did not answer in time.",
            "The database file does not exist, or cannot be opened.",
            "0002_add_posts: The migration raised ValueError.",
            "not attempted: run cancelled",
        ],
    )
    def test_keeps_text_without_names(self, error: str):
        assert cause_of(error, NAMES) == error
        assert cause_of(error, ("lock", "a")) == error, "there are tenants of this name"

    def test_takes_no_letter_out_of_a_word(self):
        error = "a1: a lake has no water (SQLSTATE P0001)."

        assert cause_of(error, ("", "a")) == "a1: … lake has no water (SQLSTATE P0001)."

    def test_of_a_cause_is_the_cause(self):
        """What an older release has left is worked out again, and must meet the new."""
        for one, _, cause in SAME:
            assert cause_of(cause_of(one, NAMES), NAMES) == cause
