"""The dialects of SQLAlchemy by which revisions see a database.

They leave transactions alone, and the connection to its owner. They are the same for a
revision that is recorded and for one that runs live, so that both send the same.
"""

import sqlite3
from functools import lru_cache
from typing import Any, cast

from sqlalchemy.dialects.postgresql.asyncpg import AsyncAdapt_asyncpg_cursor, PGDialect_asyncpg
from sqlalchemy.dialects.sqlite.pysqlite import SQLiteDialect_pysqlite
from sqlalchemy.util.concurrency import await_

from tenantry.db import lexer
from tenantry.kit.errors import Unavailable

SERVERS_REMEMBERED_MAX = 64

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
        schema: The first of the search path, if it is known.
    """

    supports_statement_cache = True

    def __init__(self, version: tuple[int, ...], schema: str | None) -> None:
        super().__init__(dbapi=PGDialect_asyncpg.import_dbapi())  # type: ignore[no-untyped-call]
        self.server_version_info = version
        self.default_schema_name = schema
        self.default_isolation_level = "READ COMMITTED"
        # What `PGDialect.initialize` makes of the version.
        self.supports_virtual_generated_columns = version >= (18,)
        self._supports_jsonb_subscripting = version >= (14,)

    def prepare(self, adapted: Any) -> None:
        """Make a connection read and write JSON as every one of SQLAlchemy's does."""
        on_connect = self.on_connect()  # type: ignore[no-untyped-call]
        on_connect(adapted)

    def do_execute(self, cursor: Any, statement: str, parameters: Any, context: Any = None) -> None:
        """Refuse what ends the transaction, and let a text be several commands.

        Other drivers take several, and so revisions count on it. asyncpg takes them without
        parameters alone, and from another method.
        """
        text = lexer.read(statement)
        if text.ends_transaction and not context.execution_options.keys() >= OURS.keys():
            raise EndsTransaction
        is_live = isinstance(cursor, AsyncAdapt_asyncpg_cursor)
        # DDL answers nothing, so it need not be prepared either.
        if is_live and (len(text.commands) > 1 or context.isddl) and not parameters:
            raw = context.root_connection.connection.driver_connection
            try:
                await_(raw.execute(statement))
            except Exception as error:  # noqa: BLE001 - as the cursor does: a revision may catch it
                cursor._handle_exception(error)  # noqa: SLF001
        else:
            super().do_execute(cursor, statement, parameters, context)  # type: ignore[no-untyped-call]


SQLITE_GUEST = SqliteGuest()


@lru_cache(SERVERS_REMEMBERED_MAX)
def postgres_guest(version: tuple[int, ...], schema: str | None = None) -> PostgresGuest:
    """Return the dialect of guests on servers of this version.

    A recorded revision is for many databases, and knows no *schema*.
    """
    return PostgresGuest(version, schema)
