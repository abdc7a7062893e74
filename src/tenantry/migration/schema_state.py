"""The schema state of a database: the tables that hold it, and the statements on them."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import msgspec
import sqlalchemy as sa

from tenantry.db.statements import Statement
from tenantry.db.types import Instant
from tenantry.kit.errors import Unavailable

STATEMENTS_REMEMBERED_MAX = 64

metadata = sa.MetaData()
version = sa.Table(
    "tenantry_version", metadata, sa.Column("version_num", sa.String, nullable=False)
)
log = sa.Table(
    "tenantry_migration_log",
    metadata,
    sa.Column("position", sa.Integer, primary_key=True),
    sa.Column("run_id", sa.Uuid, nullable=True),
    sa.Column("stream", sa.String, nullable=False),
    sa.Column("revision", sa.String, nullable=False),
    sa.Column("applied_at", Instant, nullable=False),
)

BASE = ""
"""The version of a database that has no revision yet."""

BEGUN = "begun"
"""The stream of a log entry which says that a revision has begun an index."""


class Version(msgspec.Struct, frozen=True):
    """The version row of our own stream."""

    version_num: str


class Applied(msgspec.Struct, frozen=True):
    """A revision that a run has applied."""

    stream: str
    revision: str


@dataclass(frozen=True)
class SchemaRevision:
    """The revision of a database in both streams.

    Attributes:
        own: The revision of our own stream.
        user: That of the user's stream; None when there is no such stream.
    """

    own: str
    user: str | None

    def __str__(self) -> str:
        """Return it as people see it: ``own``, or ``own/user``."""
        return self.own if self.user is None else f"{self.own}/{self.user}"


class NoVersion(Unavailable):
    """This is no database of Tenantry's: its version table is missing or damaged."""


class SeveralVersions(Unavailable):
    """The database stands at several revisions at once: merge them first."""


@dataclass(frozen=True, slots=True)
class SchemaState:
    """What a database says of itself.

    Attributes:
        revision: At which it is.
        applied: What the run that was asked about has applied there, in order.
    """

    revision: SchemaRevision
    applied: list[Applied]


_OF_RUN = (
    log.c.run_id == sa.bindparam("run"),
    log.c.stream != sa.literal_column(f"'{BEGUN}'"),
)

READ_VERSION = Statement(sa.select(version.c.version_num), Version)
READ_APPLIED = Statement(
    sa.select(log.c.stream, log.c.revision).where(*_OF_RUN).order_by(log.c.position), Applied
)


class Found(msgspec.Struct, frozen=True):
    """A row of what `find` reads.

    Attributes:
        source: Which table it is from: ``own``, ``user`` or ``log``.
        position: Of a row of the log.
        stream: Of a row of the log.
        revision: The revision; or its name, in a row of the log.
    """

    source: str
    position: int
    stream: str
    revision: str


@lru_cache(STATEMENTS_REMEMBERED_MAX)
def find(user_table: str | None, *, has_log: bool) -> Statement[Found]:
    """Return what reads both versions, and what a run has applied, in one query.

    Args:
        user_table: The version table of the user's stream; None to leave it out.
        has_log: Whether to read the log. A new connection to PostgreSQL needs as long for that
            as for the versions: the first use of a table is expensive.
    """
    tables = {"own": version}
    if user_table is not None:
        tables["user"] = user_version_table(user_table)
    parts = [_row(source, table.c.version_num) for source, table in tables.items()]
    if has_log:
        applied = _row("log", log.c.revision, log.c.position, log.c.stream)
        parts.append(applied.where(*_OF_RUN))
    return Statement(sa.union_all(*parts), Found)


def _row(
    source: str,
    revision: sa.ColumnElement[Any],
    position: sa.ColumnElement[Any] | None = None,
    stream: sa.ColumnElement[Any] | None = None,
) -> sa.Select[Any]:
    return sa.select(
        sa.literal_column(f"'{source}'", sa.String).label("source"),
        (sa.literal_column("0", sa.Integer) if position is None else position).label("position"),
        (sa.literal_column("''", sa.String) if stream is None else stream).label("stream"),
        revision.label("revision"),
    )


def user_version_table(name: str) -> sa.Table:
    """Return the version table of the user's stream, which is made as Alembic's."""
    column = sa.Column("version_num", sa.String(32), nullable=False)
    key = sa.PrimaryKeyConstraint("version_num", name=f"{name}_pkc")
    return sa.Table(name, sa.MetaData(), column, key)


def read_user_version(table_name: str) -> Statement[Version]:
    """Return what reads the version of the user's stream."""
    return Statement(sa.select(user_version_table(table_name).c.version_num), Version)


def state_in(rows: Sequence[Found], *, has_user: bool) -> SchemaState:
    """Return the state that the rows of `find` describe.

    Raises:
        NoVersion, SeveralVersions: They describe none.
    """
    own = [row.revision for row in rows if row.source == "own"]
    user = [row.revision for row in rows if row.source == "user"]
    if len(own) != 1:
        raise NoVersion
    if len(user) > 1:
        raise SeveralVersions
    revision = SchemaRevision(own[0], (user or [BASE])[0] if has_user else None)
    logged = sorted((row for row in rows if row.source == "log"), key=lambda row: row.position)
    return SchemaState(revision, [Applied(row.stream, row.revision) for row in logged])
