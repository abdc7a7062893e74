"""The dialects that record revisions: SQLAlchemy's own, without a database.

The values that SQLAlchemy reads from the server at the first connection are derived from the
server's version. An access to anything else that depends on the server (the first schema of the
search path, the driver) stops the recording.
"""

import sqlite3
from functools import lru_cache
from typing import Any

import sqlalchemy as sa
from sqlalchemy.dialects.postgresql.base import PGDialect
from sqlalchemy.dialects.sqlite.pysqlite import SQLiteDialect_pysqlite

SERVERS_REMEMBERED_MAX = 64


class Unrecordable(BaseException):
    """The revision needs a database. ``except Exception`` in a revision does not catch this."""


def refuse(*_: object, **__: object) -> Any:
    """Stop the recording."""
    raise Unrecordable


class _SqliteRecording(SQLiteDialect_pysqlite):
    supports_statement_cache = True
    default_schema_name = property(refuse)

    def __init__(self) -> None:
        super().__init__(dbapi=sqlite3)
        self.server_version_info = sqlite3.sqlite_version_info


class _PostgresRecording(PGDialect):
    supports_statement_cache = True
    default_schema_name = property(refuse)
    driver = property(refuse)

    def __init__(self, version: tuple[int, ...], *, joins_rows: bool) -> None:
        # "named", so that percent signs are not doubled: no driver formats the text.
        super().__init__(paramstyle="named")  # type: ignore[no-untyped-call]
        self.server_version_info = version
        self.joins_rows = joins_rows
        # As `PGDialect.initialize` derives them from the version.
        self.supports_virtual_generated_columns = version >= (18,)
        self._supports_jsonb_subscripting = version >= (14,)


SQLITE: sa.Dialect = _SqliteRecording()


@lru_cache(SERVERS_REMEMBERED_MAX)
def postgresql(version: tuple[int, ...], driver: str = "psycopg") -> sa.Dialect:
    """Return the dialect for servers of this version, and for the live driver."""
    return _PostgresRecording(version, joins_rows=driver != "psycopg")
