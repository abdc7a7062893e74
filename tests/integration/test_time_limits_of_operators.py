"""Time limits that operators set on a server or a role: they do not end a long copy."""

import asyncio
import io
import time
from collections.abc import Callable
from contextlib import closing
from typing import BinaryIO

import pytest

from tenantry.backup import dumps
from tenantry.db.copying import table_copy, table_export
from tenantry.db.copying.change_copy import APPLICATION, ChangeCopy
from tenantry.db.copying.row_formats import RowFormat
from tenantry.db.postgres.visibility import CURRENT
from tenantry.kit.stopping import Stop
from testkit import raw_sql
from tests.integration.engines import on_postgresql

pytestmark = on_postgresql

# The sessions of this test have the limits, too, and are slow on a busy machine.
LIMIT_SECONDS, LONGER_SECONDS = 2.0, 3.0
LIMITS = (
    "statement_timeout",
    "lock_timeout",
    "idle_in_transaction_session_timeout",
    "idle_session_timeout",
    "transaction_timeout",
)
CONNECT_SECONDS = 5.0
SLEEP = f"SELECT pg_sleep({LONGER_SECONDS})"


@pytest.fixture(name="limited")
def _limited(new_database: Callable[[], str]) -> Callable[[], str]:
    """Makes databases whose sessions have every time limit of PostgreSQL, and a row."""

    def make() -> str:
        url = new_database()
        with raw_sql.connected(url) as query:
            name = query("SELECT current_database()")[0][0]
            query("CREATE TABLE note (id integer PRIMARY KEY, body text)")
            query("INSERT INTO note VALUES (1, 'a')")
            known = {row[0] for row in query("SELECT name FROM pg_settings")}
            for limit in known & {*LIMITS}:
                query(f"ALTER DATABASE {name} SET {limit} = '{LIMIT_SECONDS}s'")
        return url

    return make


@pytest.mark.slow
class TestConnected:
    async def test_has_none_of_them(self, limited: Callable[[], str]):
        async with dumps.connected(limited()) as raw:
            await raw.execute(SLEEP)
            await asyncio.sleep(LONGER_SECONDS)
            assert await raw.fetchval("SELECT count(*) FROM note") == 1


@pytest.mark.slow
class TestOpenedSnapshot:
    async def test_has_none_of_them(self, limited: Callable[[], str]):
        async with dumps.opened_snapshot(limited()) as (raw, _):
            await raw.execute(SLEEP)
            await asyncio.sleep(LONGER_SECONDS)
            assert await raw.fetchval("SELECT count(*) FROM note") == 1


@pytest.mark.slow
class TestTableCopy:
    async def test_has_none_of_them(self, limited: Callable[[], str]):
        source, target = limited(), limited()
        raw_sql.run(target, "DELETE FROM note")

        await asyncio.to_thread(
            table_copy.copy_rows,
            source,
            target,
            connect_seconds=CONNECT_SECONDS,
            count=lambda _size: time.sleep(LONGER_SECONDS),
            stop=Stop(),
        )

        assert raw_sql.rows(target, "SELECT id, body FROM note") == [(1, "a")]


@pytest.mark.slow
class TestTableExport:
    async def test_has_none_of_them(self, limited: Callable[[], str]):
        def open_new(_name: str) -> BinaryIO:
            time.sleep(LONGER_SECONDS)  # the client is slow
            return io.BytesIO()

        tables = await asyncio.to_thread(
            table_export.export_tables,
            limited(),
            open_new,
            row_format=RowFormat.JSON_LINES,
            left_out=lambda _name: frozenset(),
            connect_seconds=CONNECT_SECONDS,
            stop=Stop(),
        )

        assert [(one.name, one.rows) for one in tables] == [("note", 1)]


@pytest.mark.slow
class TestChangeCopy:
    async def test_keeps_its_connection_while_the_rows_are_compared(
        self, limited: Callable[[], str]
    ):
        source, target = limited(), limited()
        changes = ChangeCopy(
            source,
            target,
            "unused",
            raw_sql.rows(source, CURRENT)[0][0],
            connect_seconds=CONNECT_SECONDS,
            count=lambda _size: None,
        )
        with closing(changes):
            await asyncio.sleep(LONGER_SECONDS)
            found = raw_sql.rows(
                target,
                "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() "
                f"AND application_name = '{APPLICATION}'",
            )
            assert found == [(1,)]
