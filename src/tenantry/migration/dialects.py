"""The dialects of SQLAlchemy by which revisions see a database.

They leave transactions alone, and the connection to its owner. They are the same for a
revision that is recorded and for one that runs live, so that both send the same.
"""

import sqlite3
from collections.abc import Callable
from copy import copy
from functools import cache, lru_cache
from typing import Any, Self, cast

import asyncpg
from sqlalchemy.dialects.postgresql.asyncpg import PGDialect_asyncpg
from sqlalchemy.dialects.sqlite.pysqlite import SQLiteDialect_pysqlite
from sqlalchemy.util.concurrency import await_

from tenantry.kit.errors import Unavailable
from tenantry.migration import sql_text

SERVERS_REMEMBERED_MAX = 64

READ_SCHEMA = "SELECT current_schema()"

OURS = {"tenantry_is_ours": True}
"""The execution options of what is ours, and may end a transaction."""


class EndsTransaction(Unavailable):
    """The revision ends the transaction it runs in (COMMIT): use autocommit_block."""


class _Guest:
    """Leaves the transaction alone, and the connection to its owner.

    SQLAlchemy's AUTOCOMMIT would not do on SQLite: it assigns ``isolation_level``, and
    Python's driver answers that with a COMMIT. And it would close a connection that it
    thinks is broken, in a loop of its own.
    """

    def do_begin(self, _raw: object) -> None:
        """Do nothing."""

    do_commit = do_rollback = do_close = do_terminate = do_begin


class SqliteGuest(_Guest, SQLiteDialect_pysqlite):
    """SQLite, as revisions see it."""

    supports_statement_cache = True

    def __init__(self) -> None:
        super().__init__(dbapi=sqlite3)
        self.server_version_info = sqlite3.sqlite_version_info
        self.default_schema_name = "main"
        self.default_isolation_level = "SERIALIZABLE"

    def prepare(self, raw: sqlite3.Connection) -> None:
        """Give a connection the functions that each of SQLAlchemy's has."""
        on_connect = self.on_connect()
        on_connect(cast("Any", raw))


class PostgresGuest(_Guest, PGDialect_asyncpg):
    """PostgreSQL, as revisions see it. SQLAlchemy would ask each server anew what it can.

    Args:
        version: Of the server.
    """

    supports_statement_cache = True

    def __init__(self, version: tuple[int, ...]) -> None:
        super().__init__(dbapi=PGDialect_asyncpg.import_dbapi())  # type: ignore[no-untyped-call]
        self.server_version_info = version
        self.read_schema: Callable[[], str | None] = lambda: None
        self.default_isolation_level = "READ COMMITTED"
        # What `PGDialect.initialize` makes of the version.
        self.supports_virtual_generated_columns = version >= (18,)
        self._supports_jsonb_subscripting = version >= (14,)

    @property
    def default_schema_name(self) -> str | None:  # type: ignore[override]
        """The first schema of the search path: asked for by what looks around, and by nothing else.

        A recorded revision is for many databases, and knows none.
        """
        return self.read_schema()

    def over(self, raw: "asyncpg.Connection[asyncpg.Record]") -> Self:
        """Return the dialect of the guests on *raw*."""
        guest = copy(self)
        guest.read_schema = cache(lambda: await_(raw.fetchval(READ_SCHEMA)))
        return guest

    def prepare(self, adapted: Any) -> None:
        """Make a connection read and write JSON as every one of SQLAlchemy's does."""
        on_connect = self.on_connect()  # type: ignore[no-untyped-call]
        on_connect(adapted)

    def do_execute(self, cursor: Any, statement: str, parameters: Any, context: Any = None) -> None:
        """Refuse what ends the transaction."""
        is_ours = context.execution_options.keys() >= OURS.keys()
        if sql_text.read(statement).ends_transaction and not is_ours:
            raise EndsTransaction
        super().do_execute(cursor, statement, parameters, context)  # type: ignore[no-untyped-call]


SQLITE_GUEST = SqliteGuest()


@lru_cache(SERVERS_REMEMBERED_MAX)
def postgres_guest(version: tuple[int, ...]) -> PostgresGuest:
    """Return the dialect of guests on servers of this version."""
    return PostgresGuest(version)
