"""The schema state of a database: the tables that store it, and the statements on them."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any
from uuid import UUID

import msgspec
import sqlalchemy as sa
from sqlalchemy.sql.base import Executable

from tenantry.db.copying.schema_listing import SchemaObject
from tenantry.db.statements import Statement
from tenantry.db.types import Instant
from tenantry.kit.errors import Conflict, Unavailable

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

attached_log = sa.Table(
    log.name,
    sa.MetaData(),
    sa.Column("position", sa.Integer, sa.Identity()),
    sa.Column("run_id", sa.Uuid, nullable=False),
    sa.Column("stream", sa.String(64), nullable=False),
    sa.Column("revision", sa.String(400), nullable=False),
    sa.Column("applied_at", Instant, nullable=False, server_default=sa.func.current_timestamp()),
)
"""The log of an attached database on PostgreSQL. An index, and a table for long values, would take
half of the time of its creation. Those of an older release have them, and are kept."""

BASE = ""
"""The version of a database that has no revision yet."""

BASE_SHOWN = "base"
"""How the base of an attached database is displayed: Alembic's word."""

AND = "+"
"""Between the revisions of a database at several: Alembic allows it in none."""

BEGUN = "begun"
"""The stream of a log entry for an index that a revision has begun."""

STAMPED_TABLE, STAMPED_ROW = "stamped table", "stamped row"
"""The stream of a log entry for a stamp: in a new version table, or in an empty one."""


UNDONE, CLOSED = "undone ", "closed "
"""How the stream of a log entry for an undone revision begins, and that for a run that is closed
where nothing was left to do or to undo; the id of the run follows. The revision of the latter is
the head at which it is closed, or empty, for each head.

After any of them, a late process applies no revision of that run: see `closing.is_open`.
"""
HEAD_CHARS_MAX = 400
"""So much of the head fits into each log. What is cut is an unknown head: for each process."""


class Undo(msgspec.Struct, frozen=True):
    """What is undone: the revisions of the user's *stream* that a run has applied."""

    run_id: UUID
    stream: str

    @property
    def logged_as(self) -> str:
        """The stream of the log entries for the undone revisions."""
        return undone_as(self.run_id)


def undone_as(run_id: UUID) -> str:
    """Return the stream of the log entries for the undone revisions of a run."""
    return UNDONE + run_id.hex


def closed_as(run_id: UUID) -> str:
    """Return the stream of the log entry that closes a run."""
    return CLOSED + run_id.hex


is_of_revision = sa.and_(
    log.c.stream != BEGUN,
    log.c.revision != "",  # an older release closed a run as undone, without a revision
    sa.func.substr(log.c.stream, 1, len(CLOSED)) != CLOSED,
)
"""The condition that a log entry is of a revision that was applied or undone."""


class Version(msgspec.Struct, frozen=True):
    """The version row of Tenantry's own stream."""

    version_num: str


class Applied(msgspec.Struct, frozen=True):
    """A revision that a run has applied."""

    stream: str
    revision: str


@dataclass(frozen=True)
class SchemaRevision:
    """The revision of a database in Tenantry's own stream, and in the user's, if there is one.

    Between two branches, the user's are several, with `AND` between them. Of an attached database,
    *own* is the head of Tenantry's stream, of which nothing applies to it; in a fleet `BASE`.
    """

    own: str
    user: str | None

    @property
    def heads(self) -> tuple[str, ...]:
        """The rows of the user's version table, in its order."""
        return tuple(self.user.split(AND)) if self.user else ()

    def __str__(self) -> str:
        """Return it as displayed: ``own``, or ``own/user``; ``user`` of a database of a fleet."""
        if self.user is None:
            return self.own
        return f"{self.own}/{self.user}" if self.own else self.user or BASE_SHOWN

    @classmethod
    def parse(cls, text: str, *, is_alone: bool = False) -> "SchemaRevision":
        """Return the revision displayed as *text*; with *is_alone*, that of the user's stream."""
        if is_alone:
            return cls(BASE, BASE if text == BASE_SHOWN else text)
        own, slash, user = text.partition("/")
        return cls(own, user if slash else None)


def closed_head(head: SchemaRevision) -> str:
    """Return what the log entry that closes a run at *head* has of that."""
    return str(head)[:HEAD_CHARS_MAX]


class NoVersion(Unavailable):
    """This is not a database of Tenantry: its version table is missing or damaged."""


class HasOtherTables(Conflict):
    """The database has tables of another program: use an empty one."""


class DatabaseOfTenantry(Unavailable):
    """This is the state of a fleet, or a database of a Tenantry service: take it off the list."""


class SeveralVersions(Unavailable):
    """One revision in the version table includes another: delete the row of the latter."""


@dataclass(frozen=True, slots=True)
class SchemaState:
    """The schema state of a database, as stored in it.

    Attributes:
        revision: The current revision.
        applied: The revisions that the given run has logged there, in order. After a crash these
            can be more than the last attempt has applied.
        error: Why the database is not at the head, after an attempt to migrate it.
        undoable: The names of the revisions that the undone run has applied and that were not
            undone, in order.
        is_newest: Whether no other run has applied a revision of the user after the first of them.
        closed_at: At which heads the given run is closed there; "" is each one.
        is_logged: Whether the log has a row of the undone run.
        has_log: Whether the database has the log; always, unless it is attached.
    """

    revision: SchemaRevision
    applied: list[Applied]
    error: Exception | None = None
    undoable: tuple[str, ...] = ()
    is_newest: bool = True
    closed_at: frozenset[str] = frozenset()
    is_logged: bool = False
    has_log: bool = True

    def after(self, revision: SchemaRevision, applied: list[Applied]) -> "SchemaState":
        """Return the state after a script has led to *revision*."""
        done = {one.revision for one in applied if one.stream.startswith(UNDONE)}
        left = tuple(name for name in self.undoable if name not in done)
        return SchemaState(revision, [*self.applied, *applied], undoable=left)


@dataclass(frozen=True, slots=True)
class Schema:
    """The schema of a database: the objects that it consists of, at a revision."""

    revision: SchemaRevision
    objects: list[SchemaObject]

    def has_tables(self, version_table: str) -> bool:
        """Return whether there is a table beside the version table of the user's stream."""
        tables = (one.name for one in self.objects if one.kind == "table")
        return any(one.rpartition(".")[2].strip('"') != version_table for one in tables)


HAS_VERSION, HAS_LOG = 1, 2
"""Of an attached database: that it has a version of Tenantry, or the log."""

READ_VERSION = Statement(sa.select(version.c.version_num), Version)


@lru_cache(STATEMENTS_REMEMBERED_MAX)
def find(
    dialect: sa.Dialect,
    user_table: str | None,
    run_id: UUID | None,
    undo: Undo | None = None,
    *,
    is_attached: bool = False,
) -> str:
    """Return one query for both versions, and for the revisions that a run has applied.

    Its rows are ``own`` or ``user``, 0, "" and a version; or ``log``, the position in the log, the
    stream and the name of a revision; or ``closed`` and the same, if that run was closed; or
    ``undo`` and the same, with an empty stream if another run has applied a revision later, or
    ``past`` for the other rows of the run that is undone. Of an attached database there is at
    least one row ``user``, perhaps without a version, and its number is the sum of `HAS_VERSION`
    and `HAS_LOG`.

    Args:
        dialect: The engine.
        user_table: The version table of the user's stream; None to omit it.
        run_id: The run; None to omit the log. On a new connection to PostgreSQL, the log takes as
            long as the versions, because the first use of a table is expensive.
        undo: What is undone; None for an upgrade.
        is_attached: Whether it is an attached database.
    """
    user = None if user_table is None else user_version_table(user_table)
    if is_attached:
        parts = [_find_attached(dialect, user)]
    else:
        tables = {"own": version} if user is None else {"own": version, "user": user}
        parts = [
            sa.select(sa.literal(source), sa.literal(0), sa.literal(""), table.c.version_num)
            for source, table in tables.items()
        ]
    if run_id is not None:
        is_closed = log.c.stream.in_([undone_as(run_id), closed_as(run_id)])
        source = sa.case((is_closed, "closed"), else_="log")
        is_own = sa.and_(log.c.run_id == run_id, is_of_revision)
        columns = (source, log.c.position, log.c.stream, log.c.revision)
        parts.append(sa.select(*columns).where(sa.or_(is_own, is_closed)))
    if undo is not None:
        stream = sa.case((_is_newest(undo), log.c.stream), else_="")
        source = sa.case((_is_in_effect(undo, log), "undo"), else_="past")
        undone = sa.select(source, log.c.position, stream, log.c.revision)
        parts.append(undone.where(log.c.run_id == undo.run_id))
    return render(dialect, sa.union_all(*parts))


def _find_attached(dialect: sa.Dialect, user: sa.Table | None) -> sa.Select[Any]:
    # One scan: to plan a union takes as long as to open the table.
    tables = ((version, HAS_VERSION), (log, HAS_LOG))
    owned = [sa.case((exists(dialect, table), mark), else_=0) for table, mark in tables]
    columns = (sa.literal("user"), owned[0] + owned[1], sa.literal(""))
    if user is None:
        return sa.select(*columns, sa.null())
    one = sa.select(sa.literal(1)).subquery()
    return sa.select(*columns, user.c.version_num).select_from(one.outerjoin(user, sa.true()))


def exists(dialect: sa.Dialect, table: sa.Table) -> sa.ColumnElement[bool]:
    """Return the condition that a database has a table of Tenantry."""
    if dialect.name == "postgresql":
        return sa.func.to_regclass(sa.literal(table.name, sa.String)).is_not(None)
    name = sa.column("name", sa.String)
    return sa.exists().where(name == table.name).select_from(sa.table("sqlite_master", name))


def check_heads(
    table: sa.Table, heads: Sequence[str], also: sa.ColumnElement[bool]
) -> sa.Select[int]:
    """Return the query that finds a row if a version table, which is locked, has just *heads*."""
    rows = sa.func.count()
    at = rows.filter(table.c.version_num.in_(heads)) == len(heads) if heads else sa.true()
    found = sa.select(rows).select_from(table)
    return found.having(sa.and_(rows == len(heads), at, also))


def has_rows(table: sa.Table, count: int) -> sa.ColumnElement[bool]:
    """Return the condition that a version table has exactly *count* rows."""
    return sa.select(sa.func.count()).select_from(table.alias()).scalar_subquery() == count


def check_undoable(undo: Undo, count: int) -> sa.Select[int]:
    """Return the query that finds a row if *count* revisions can be undone, as in a state."""
    ours = (log.c.run_id == undo.run_id, _is_in_effect(undo, log), _is_newest(undo))
    number = sa.select(sa.func.count().label("number")).where(*ours).subquery()
    return sa.select(number.c.number).where(number.c.number == count)


def _is_in_effect(undo: Undo, entry: sa.FromClause) -> sa.ColumnElement[bool]:
    """Return the condition that a log entry is of the user's stream, and was not undone."""
    undone = log.alias("undone")
    # SQLite stores the id without hyphens.
    run = sa.func.replace(sa.cast(entry.c.run_id, sa.String), "-", "")
    is_same = sa.and_(
        undone.c.stream == sa.literal(UNDONE) + run, undone.c.revision == entry.c.revision
    )
    return sa.and_(entry.c.stream == undo.stream, ~sa.exists().where(is_same))


def _is_newest(undo: Undo) -> sa.ColumnElement[bool]:
    """Return the condition that no other run has applied a revision after a log entry."""
    other = log.alias("other")
    newest = sa.select(sa.func.coalesce(sa.func.max(other.c.position), 0)).where(
        other.c.run_id != undo.run_id, _is_in_effect(undo, other)
    )
    return log.c.position > newest.scalar_subquery()


def insert_log(
    run_id: UUID, stream: sa.ColumnElement[str], name: str, *where: sa.ColumnElement[bool]
) -> sa.Insert:
    """Return the insert of a log entry, on a condition."""
    row = sa.select(sa.literal(run_id, sa.Uuid), stream, sa.literal(name)).where(*where)
    return sa.insert(log).from_select(["run_id", "stream", "revision"], row)


def render(dialect: sa.Dialect, clause: Executable | sa.ClauseElement) -> str:
    """Return the text of a statement, with its values as literals."""
    compiled = clause.compile(dialect=dialect, compile_kwargs={"literal_binds": True})  # type: ignore[union-attr]
    return str(compiled).strip()


def user_version_table(name: str) -> sa.Table:
    """Return the version table of the user's stream, as Alembic defines it."""
    column = sa.Column("version_num", sa.String(32), nullable=False)
    key = sa.PrimaryKeyConstraint("version_num", name=f"{name}_pkc")
    return sa.Table(name, sa.MetaData(), column, key)


def state_in(
    rows: Sequence[tuple[str, int, str, Any]], *, has_user: bool, attached_at: str | None = None
) -> SchemaState:
    """Return the state that the rows of `find` describe.

    *attached_at* is the revision of Tenantry's stream at which an attached database counts.

    Raises:
        NoVersion: The rows do not contain one revision of Tenantry, and it is not attached.
        DatabaseOfTenantry: It is attached, and they do.
    """
    own, user = (
        [row[3] for row in rows if row[0] == source and row[3] is not None]
        for source in ("own", "user")
    )
    marks = 0 if attached_at is None else next(row[1] for row in rows if row[0] == "user")
    if marks & HAS_VERSION:
        raise DatabaseOfTenantry
    if attached_at is None and len(own) != 1:
        raise NoVersion
    at = own[0] if attached_at is None else attached_at
    revision = SchemaRevision(at, AND.join(user) if has_user else None)
    logged = sorted(row[1:] for row in rows if row[0] == "log")
    undoable = sorted(row[1:] for row in rows if row[0] == "undo")
    return SchemaState(
        revision,
        [Applied(stream, name) for _, stream, name in logged],
        undoable=tuple(name for _, _, name in undoable),
        is_newest=all(stream for _, stream, _ in undoable),
        closed_at=frozenset(
            row[3] if row[2].startswith(CLOSED) else "" for row in rows if row[0] == "closed"
        ),
        is_logged=any(row[0] in ("undo", "past") for row in rows),
        has_log=attached_at is None or bool(marks & HAS_LOG),
    )
