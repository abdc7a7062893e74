"""The dialects with which revisions are recorded: SQLAlchemy's own, that know no database.

What they would have read from the server when they first connect is set from its version.
What depends on more than that (the first schema of the search path, the driver) stops the
recording.
"""

import sqlite3
from functools import lru_cache
from typing import Any

import sqlalchemy as sa
from sqlalchemy.dialects.postgresql.base import PGDialect
from sqlalchemy.dialects.sqlite.pysqlite import SQLiteDialect_pysqlite

SERVERS_REMEMBERED_MAX = 64


class Unrecordable(BaseException):
    """The revision needs a database. No ``except Exception`` of a revision catches it."""


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

    def __init__(self, version: tuple[int, ...]) -> None:
        # Named, so that a percent sign is not doubled: no driver reads the text.
        super().__init__(paramstyle="named")  # type: ignore[no-untyped-call]
        self.server_version_info = version
        # What `PGDialect.initialize` makes of the version.
        self.supports_virtual_generated_columns = version >= (18,)
        self._supports_jsonb_subscripting = version >= (14,)


SQLITE: sa.Dialect = _SqliteRecording()


@lru_cache(SERVERS_REMEMBERED_MAX)
def postgresql(version: tuple[int, ...]) -> sa.Dialect:
    """Return the dialect for servers of this version."""
    return _PostgresRecording(version)
