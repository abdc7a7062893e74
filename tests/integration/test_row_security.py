"""Policies that hide rows from Tenantry's role: what would leave out rows is refused."""

import sqlite3
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO

import pytest

from tenantry.db.copying import table_copy, table_export
from tenantry.db.copying.row_formats import RowFormat
from tenantry.db.copying.table_export import NotExportable
from tenantry.db.copying.table_plan import NotCarried
from tenantry.kit.stopping import Stop
from testkit import raw_sql
from tests.integration.engines import on_postgresql

pytestmark = on_postgresql

ROLE = "plain_of_row_security"
SECRET = "CREATE TABLE secret (id INTEGER PRIMARY KEY, body TEXT)"


@pytest.fixture(name="url")
def _url(new_database: Callable[[], str]) -> Iterator[str]:
    """A database in which a policy hides one of two rows from the owner of a table."""
    url = new_database()
    raw_sql.run(
        url,
        f"CREATE ROLE {ROLE} LOGIN",
        SECRET,
        "INSERT INTO secret VALUES (1, 'seen'), (2, 'hidden')",
        f"ALTER TABLE secret OWNER TO {ROLE}",
        "ALTER TABLE secret ENABLE ROW LEVEL SECURITY",
        "ALTER TABLE secret FORCE ROW LEVEL SECURITY",
        "CREATE POLICY visible ON secret USING (id = 1)",
    )
    plain = url.replace("postgres@", f"{ROLE}@", 1)
    assert raw_sql.rows(plain, "SELECT id FROM secret") == [(1,)]
    yield plain
    raw_sql.run(url, "DROP TABLE secret", f"DROP ROLE {ROLE}")


class TestPolicy:
    def test_ends_a_copy_to_the_other_engine(self, url: str, tmp_path: Path):
        target = tmp_path / "target.db"
        with sqlite3.connect(target) as raw:
            raw.execute(SECRET)
        raw.close()

        with pytest.raises(NotCarried, match=r"the table secret .*InsufficientPrivilege"):
            table_copy.copy_rows(
                url,
                f"sqlite:///{target}",
                connect_seconds=5,
                count=lambda _bytes: None,
                stop=Stop(),
            )

    def test_ends_an_export(self, url: str, tmp_path: Path):
        def open_new(name: str) -> IO[bytes]:
            return (tmp_path / name).open("wb")

        with pytest.raises(NotExportable, match=r"The table secret .* a policy of row-level"):
            table_export.export_tables(
                url,
                open_new,
                row_format=RowFormat.JSON_LINES,
                left_out=lambda _name: frozenset(),
                connect_seconds=5,
                stop=Stop(),
            )
