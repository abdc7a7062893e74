"""Rows that are copied between a SQLite file and PostgreSQL, and what a refusal says."""

import sqlite3
from collections.abc import Callable
from pathlib import Path

import pytest

from tenantry.db.copying import table_copy
from tenantry.db.copying.table_plan import NotCarried
from tenantry.kit.stopping import Stop
from testkit import raw_sql
from tests.integration.engines import on_postgresql

pytestmark = on_postgresql

VALUE = "canary-4111-1111"
CHECKS = f"""
CREATE FUNCTION is_good(body text) RETURNS boolean LANGUAGE plpgsql AS $$ BEGIN
    RAISE '{VALUE} %', body USING ERRCODE = '42501', TABLE = body, COLUMN = body;
END $$
"""


def file_with(folder: Path, *statements: str) -> str:
    path = folder / "note.db"
    with sqlite3.connect(path) as raw:
        for statement in statements:
            raw.execute(statement)
    raw.close()
    return f"sqlite:///{path}"


def copy(source: str, target: str) -> None:
    table_copy.copy_rows(source, target, connect_seconds=5, count=lambda _bytes: None, stop=Stop())


class TestCopyRows:
    def test_checks_deferred_constraints(self, new_database: Callable[[], str], tmp_path: Path):
        target = new_database()
        source = file_with(
            tmp_path,
            "CREATE TABLE note (id int PRIMARY KEY, parent_id int REFERENCES note)",
            "INSERT INTO note VALUES (1, 2), (2, 1)",
        )
        raw_sql.run(
            target,
            "CREATE TABLE note (id int PRIMARY KEY, "
            "parent_id int REFERENCES note INITIALLY DEFERRED)",
        )

        copy(source, target)

        assert raw_sql.rows(target, "SELECT * FROM note ORDER BY id") == [(1, 2), (2, 1)]


class TestRefusal:
    @pytest.mark.parametrize(
        ("tables", "named"),
        [
            (
                ["CREATE TYPE mood AS ENUM ('a', 'b')", "CREATE TABLE note (id int, body mood)"],
                "the table note .*InvalidTextRepresentation",
            ),
            (
                ["CREATE TABLE note (id int, body text NOT NULL, CHECK (length(body) < 3))"],
                "the table note .*CheckViolation",
            ),
            (
                ["CREATE TABLE note (id int NOT NULL, body text)"],
                r"note\.id .*NotNullViolation",
            ),
            (
                [CHECKS, "CREATE TABLE note (id int, body text CHECK (is_good(body)))"],
                "the table note .*InsufficientPrivilege",
            ),
            (
                [
                    "CREATE TABLE other (body text PRIMARY KEY)",
                    "CREATE TABLE note (id int, body text REFERENCES other)",
                ],
                "the table note .*ForeignKeyViolation",
            ),
            (
                [
                    "CREATE TABLE other (body text PRIMARY KEY)",
                    "CREATE TABLE note (id int, body text REFERENCES other INITIALLY DEFERRED)",
                ],
                r"a row cannot be read or written \(ForeignKeyViolation",
            ),
        ],
        ids=["enum", "check", "not null", "function", "foreign key", "deferred"],
    )
    def test_of_the_server_names_the_table_and_no_value(
        self, new_database: Callable[[], str], tmp_path: Path, tables: list[str], named: str
    ):
        target = new_database()
        raw_sql.run(target, *tables)
        others = ["CREATE TABLE other (body text PRIMARY KEY)"] * ("other" in tables[0])
        source = file_with(
            tmp_path,
            *others,
            "CREATE TABLE note (id int, body text)",
            f"INSERT INTO note VALUES (NULL, '{VALUE}')",
        )

        with pytest.raises(NotCarried, match=named) as caught:
            copy(source, target)

        assert VALUE not in caught.value.message

    def test_of_a_value_that_the_driver_cannot_read_names_the_table_and_no_value(
        self, new_database: Callable[[], str], tmp_path: Path
    ):
        source = new_database()
        raw_sql.run(
            source,
            "CREATE TABLE note (at timestamp)",
            "INSERT INTO note VALUES ('20417-03-01 00:00:00')",
        )
        target = file_with(tmp_path, "CREATE TABLE note (at DATETIME)")

        with pytest.raises(NotCarried, match=r"the table note .*DataError") as caught:
            copy(source, target)

        assert "20417" not in caught.value.message

    @pytest.mark.parametrize(
        ("options", "where"), [("", "the rowid 7"), ("WITHOUT ROWID", "the row 2 of the table")]
    )
    def test_of_a_text_that_is_not_utf_8_names_its_column_and_its_row(
        self, new_database: Callable[[], str], tmp_path: Path, options: str, where: str
    ):
        """sqlite3 has the error of a broken database for it, with the text."""
        target = new_database()
        raw_sql.run(target, "CREATE TABLE note (id int PRIMARY KEY, body text)")
        source = file_with(
            tmp_path,
            f"CREATE TABLE note (id INTEGER PRIMARY KEY, body TEXT) {options}",
            f"INSERT INTO note VALUES (3, 'a'), (7, CAST(x'ff' || '{VALUE}' AS TEXT)), (9, 'b')",
        )

        with pytest.raises(
            NotCarried, match=f"note.body has a text .* not UTF-8.* {where}"
        ) as caught:
            copy(source, target)

        assert VALUE not in caught.value.message
