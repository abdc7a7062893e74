"""A backup of a PostgreSQL database with a table that Tenantry's role may not read."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tenantry.backup import dumps
from tenantry.backup.dumps import NotPermitted
from tenantry.db.postgres.tools import PostgresTools
from testkit import raw_sql
from testkit.postgres import find_binaries
from tests.integration.engines import on_postgresql

pytestmark = on_postgresql

ROLE = "plain_of_dumps"


@pytest.fixture(name="url")
def _url(new_database: Callable[[], str]) -> Iterator[str]:
    """A database in which another role owns a table."""
    url = new_database()
    raw_sql.run(url, f"CREATE ROLE {ROLE} LOGIN", "CREATE TABLE hidden (id int)")
    yield url.replace("postgres@", f"{ROLE}@", 1)
    raw_sql.run(url, f"DROP ROLE {ROLE}")


async def test_names_the_table_that_cannot_be_read(url: str, tmp_path: Path):
    """The count of the rows fails, which ends the snapshot: pg_dump would only say that."""
    tools = PostgresTools(find_binaries())

    with pytest.raises(NotPermitted, match="permission denied for table hidden"):
        await dumps.dump(url, lambda _data: None, tools=tools, scratch=tmp_path)
