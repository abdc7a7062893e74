"""SQLAlchemy as a guest on a driver's connection that is already in a transaction of ours.

A revision that runs live wants a SQLAlchemy connection, and must run in the same
transaction as what stands around it. A guest therefore neither begins nor ends anything,
and closes nothing.
"""

import sqlite3
from collections.abc import Callable
from typing import Any

import asyncpg
import sqlalchemy as sa
from sqlalchemy.dialects.sqlite.pysqlite import SQLiteDialect_pysqlite
from sqlalchemy.ext.asyncio import create_async_engine
from sqlalchemy.pool import StaticPool


class _Sqlite(SQLiteDialect_pysqlite):
    """Leaves the transaction alone.

    SQLAlchemy's AUTOCOMMIT would not: it assigns ``isolation_level``, and Python's driver
    answers that with a COMMIT.
    """

    supports_statement_cache = True

    def do_begin(self, dbapi_connection: Any) -> None:
        """Do nothing."""

    def do_commit(self, dbapi_connection: Any) -> None:
        """Do nothing."""

    def do_rollback(self, dbapi_connection: Any) -> None:
        """Do nothing."""


def on_sqlite(raw: sqlite3.Connection) -> sa.Connection:
    """Return a guest on *raw*. It need not be closed."""
    dialect = _Sqlite(dbapi=sqlite3)
    pool = StaticPool(lambda: raw, reset_on_return=None, dialect=dialect)  # type: ignore[arg-type]
    return sa.Engine(pool, dialect, sa.make_url("sqlite://")).connect()


async def on_postgresql(
    raw: "asyncpg.Connection[asyncpg.Record]", work: Callable[[sa.Connection], None]
) -> None:
    """Run *work* with a guest on *raw*."""

    async def creator() -> Any:
        return raw

    engine = create_async_engine(
        "postgresql+asyncpg://",
        async_creator=creator,
        poolclass=StaticPool,
        pool_reset_on_return=None,
        isolation_level="AUTOCOMMIT",
        skip_autocommit_rollback=True,
        hide_parameters=True,
    )
    async with engine.connect() as connection:
        await connection.run_sync(work)
