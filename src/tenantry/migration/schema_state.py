"""The schema state of a database: the tables that store it, and the statements on them."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from uuid import UUID

import msgspec
import sqlalchemy as sa
from sqlalchemy.sql.base import Executable

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
    sa.Column("run_id", sa.Uuid, nullable=False),
    sa.Column("stream", sa.String, nullable=False),
    sa.Column("revision", sa.String, nullable=False),
    sa.Column("applied_at", Instant, nullable=False, server_default=sa.func.current_timestamp()),
)

BASE = ""
"""The version of a database that has no revision yet."""

BEGUN = "begun"
"""The stream of a log entry for an index that a revision has begun."""


class Version(msgspec.Struct, frozen=True):
    """The version row of Tenantry's own stream."""

    version_num: str


class Applied(msgspec.Struct, frozen=True):
    """A revision that a run has applied."""

    stream: str
    revision: str


@dataclass(frozen=True)
class SchemaRevision:
    """The revision of a database in both streams.

    Attributes:
        own: The revision of Tenantry's own stream.
        user: The revision of the user's stream; None without such a stream.
    """

    own: str
    user: str | None

    def __str__(self) -> str:
        """Return it as displayed: ``own``, or ``own/user``."""
        return self.own if self.user is None else f"{self.own}/{self.user}"


class NoVersion(Unavailable):
    """This is not a database of Tenantry: its version table is missing or damaged."""


class SeveralVersions(Unavailable):
    """The database is at several revisions at once: merge them first."""


@dataclass(frozen=True, slots=True)
class SchemaState:
    """The schema state of a database, as stored in it.

    Attributes:
        revision: The current revision.
        applied: The revisions that the given run has applied there, in order.
    """

    revision: SchemaRevision
    applied: list[Applied]


READ_VERSION = Statement(sa.select(version.c.version_num), Version)
READ_APPLIED = Statement(
    sa.select(log.c.stream, log.c.revision)
    .where(log.c.run_id == sa.bindparam("run"), log.c.stream != BEGUN)
    .order_by(log.c.position),
    Applied,
)


class Found(msgspec.Struct, frozen=True):
    """A row that `find` reads.

    Attributes:
        source: The table that it is from: ``own``, ``user`` or ``log``.
        position: The position in the log; 0 for the other tables.
        stream: The stream in the log; empty for the other tables.
        revision: The revision; in the log, its name.
    """

    source: str
    position: int
    stream: str
    revision: str


@lru_cache(STATEMENTS_REMEMBERED_MAX)
def find(dialect: sa.Dialect, user_table: str | None, run_id: UUID | None) -> str:
    """Return one query for both versions, and for the revisions that a run has applied.

    Args:
        dialect: The engine.
        user_table: The version table of the user's stream; None to omit it.
        run_id: The run; None to omit the log. On a new connection to PostgreSQL, the log takes as
            long as the versions, because the first use of a table is expensive.
    """
    tables = {"own": version}
    if user_table is not None:
        tables["user"] = user_version_table(user_table)
    parts = [
        sa.select(sa.literal(source), sa.literal(0), sa.literal(""), table.c.version_num)
        for source, table in tables.items()
    ]
    if run_id is not None:
        columns = (sa.literal("log"), log.c.position, log.c.stream, log.c.revision)
        parts.append(sa.select(*columns).where(log.c.run_id == run_id, log.c.stream != BEGUN))
    return render(dialect, sa.union_all(*parts))


def insert_log(
    run_id: UUID,
    stream: sa.ColumnElement[str],
    name: str,
    where: tuple[sa.Table, sa.ColumnElement[bool]] | None = None,
) -> sa.Insert:
    """Return the insert of a log entry; *where* is a table and a condition on it."""
    row = sa.select(sa.literal(run_id, sa.Uuid), stream, sa.literal(name))
    if where is not None:
        row = row.select_from(where[0]).where(where[1])
    return sa.insert(log).from_select(["run_id", "stream", "revision"], row)


def render(dialect: sa.Dialect, clause: Executable | sa.ClauseElement) -> str:
    """Return the text of a statement, with its values as literals."""
    if isinstance(clause, sa.schema.ExecutableDDLElement):  # it has no values
        return str(clause.compile(dialect=dialect)).strip()
    compiled = clause.compile(dialect=dialect, compile_kwargs={"literal_binds": True})  # type: ignore[union-attr]
    return str(compiled)


def user_version_table(name: str) -> sa.Table:
    """Return the version table of the user's stream, as Alembic defines it."""
    column = sa.Column("version_num", sa.String(32), nullable=False)
    key = sa.PrimaryKeyConstraint("version_num", name=f"{name}_pkc")
    return sa.Table(name, sa.MetaData(), column, key)


def read_user_version(table_name: str) -> Statement[Version]:
    """Return the statement that reads the version of the user's stream."""
    return Statement(sa.select(user_version_table(table_name).c.version_num), Version)


def state_in(rows: Sequence[Found], *, has_user: bool) -> SchemaState:
    """Return the state that the rows of `find` describe.

    Raises:
        NoVersion, SeveralVersions: The rows do not contain one revision.
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
