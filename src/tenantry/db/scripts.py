"""A script: everything that one database needs, in the order in which it is sent.

The order is the safety of the whole engine, so it is data, written down once and played
by both drivers (`db.apply`). The version row of our own stream is swapped first, even when
it stays what it is: it is the mutex, at which a second run waits and then finds the
database moved. Only then is the lock timeout short, because it protects a tenant's
traffic from the script and not runs from each other. The log is in the same transaction,
so that after a kill the outcome is read and never guessed. COMMIT comes from the client:
a script that held its own would go on after the client is gone.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import cached_property
from typing import Any
from uuid import UUID

import msgspec
import sqlalchemy as sa

from tenantry.db.revisions import BASE, Revision, Stream
from tenantry.db.statements import POSTGRESQL, Statement, compile_for
from tenantry.db.types import Instant

BOOTSTRAP_WAIT_MS = 30_000
BOOTSTRAP_LOCK = 0x74656E616E747279  # "tenantry", as eight bytes

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


class Version(msgspec.Struct, frozen=True):
    """The version row of our own stream."""

    version_num: str


class Applied(msgspec.Struct, frozen=True):
    """A revision that a run has applied."""

    stream: str
    revision: str


@dataclass(frozen=True)
class Position:
    """Where a database stands in both streams.

    Attributes:
        own: The revision of our own stream.
        user: That of the user's stream; None when there is no such stream.
    """

    own: str
    user: str | None

    def __str__(self) -> str:
        """Return it as people see it: ``own``, or ``own/user``."""
        return self.own if self.user is None else f"{self.own}/{self.user}"


READ_VERSION = Statement(sa.select(version.c.version_num), Version)
READ_APPLIED = Statement(
    sa.select(log.c.stream, log.c.revision)
    .where(log.c.run_id == sa.bindparam("run"))
    .order_by(log.c.position),
    Applied,
)
_SWAP = Statement[Any](
    sa.update(version)
    .values(version_num=sa.bindparam("target"))
    .where(version.c.version_num == sa.bindparam("start"))
)
_LOG = Statement[Any](
    sa.insert(log).values(
        {name: sa.bindparam(name) for name in ("run_id", "stream", "revision", "applied_at")}
    )
)
_INSERT_VERSION = Statement[Any](
    sa.insert(version).from_select(
        ["version_num"], sa.select(sa.literal(BASE)).where(~sa.exists().select_from(version))
    )
)


@dataclass(frozen=True)
class Command:
    """One statement to send.

    Attributes:
        guards: It must change or find exactly one row; else another run was quicker.
    """

    sql: str
    arguments: Sequence[object] = ()
    guards: bool = False


Step = Command | Revision
"""What is sent; or a revision that runs live, at this place in the transaction."""


@dataclass(frozen=True)
class Limits:
    """How long a script waits for a lock, in milliseconds.

    Attributes:
        swap_ms: At the version row: what is left of the tenant's deadline.
        lock_ms: At every lock after it, with the tenant's traffic behind.
    """

    swap_ms: int
    lock_ms: int


@dataclass(frozen=True)
class Streams:
    """The history of one kind of database: our own stream, and perhaps the user's.

    Attributes:
        own: Our own.
        user: The user's Alembic directory.
        user_table: Its version table.
    """

    own: Stream
    user: Stream | None = None
    user_table: str = "alembic_version"

    @property
    def head(self) -> Position:
        """Where every database should stand."""
        return Position(self.own.head, self.user.head if self.user else None)

    def know(self, head: str) -> bool:
        """Tell whether *head*, as a `Position` is written, is a place in these streams."""
        own, _, user = head.partition("/")
        known = {revision.id for revision in self.user.revisions} if self.user else set()
        return own in {revision.id for revision in self.own.revisions} and user in {BASE, *known}

    def display(self, applied: Applied) -> str:
        """Return the name of a revision, with its stream where both streams have the name."""
        if self.user is None:
            return applied.revision
        names = [{one.name for one in stream.revisions} for stream in (self.own, self.user)]
        if applied.revision in names[0] & names[1]:
            return f"{applied.stream}:{applied.revision}"
        return applied.revision

    def pending(self, start: Position) -> list[Revision]:
        """Return what leads from *start* to the head: our own first, then the user's.

        Raises:
            UnknownRevision, BadStream: It cannot be told.
        """
        pending = list(self.own.after(start.own))
        if self.user is not None:
            pending += self.user.after(start.user or BASE)
        return pending


class Script:
    """The way from one position to the head of the streams, on one engine."""

    def __init__(self, dialect: sa.Dialect, streams: Streams, start: Position) -> None:
        self._dialect = dialect
        self._streams = streams
        self._start = start
        self._head = streams.head
        self._revisions = streams.pending(start)

    def transaction(self, run_id: UUID | None, now: datetime, limits: Limits) -> list[Step]:
        """Return what to send, from BEGIN to COMMIT, for the run *run_id* at *now*."""
        postgres = self._dialect is POSTGRESQL
        return [
            *_begin(limits.swap_ms, postgres=postgres),
            self._guard(_SWAP, start=self._start.own, target=self._head.own),
            *self._expect_user(),
            *([_lock_timeout(limits.lock_ms)] if postgres else []),
            *(
                step
                for revision in self._revisions
                for step in (revision, self._log(revision, run_id, now))
            ),
            *self._move_user(),
            Command("COMMIT"),
        ]

    def rehearsal(self, run_id: UUID, now: datetime, limits: Limits) -> list[Step]:
        """Return the same, taken back at the end instead of committed."""
        *steps, _ = self.transaction(run_id, now, limits)
        # What is checked at COMMIT alone is checked here: it must fail now if it would then.
        deferred = [Command("SET CONSTRAINTS ALL IMMEDIATE")]
        postgres = self._dialect is POSTGRESQL
        return [*steps, *(deferred if postgres else []), Command("ROLLBACK")]

    @property
    def pending(self) -> list[Applied]:
        """What the script applies, in order."""
        return [Applied(revision.stream, revision.name) for revision in self._revisions]

    def _log(self, revision: Revision, run_id: UUID | None, now: datetime) -> Command:
        return self._command(
            _LOG,
            run_id=run_id,
            stream=revision.stream,
            revision=revision.name,
            applied_at=now,
        )

    def _expect_user(self) -> list[Step]:
        """Return the look at the user's version: it was read before the mutex was held."""
        if not self._moves_user:
            return []
        if self._start.user != BASE:
            return [self._guard(self._user.is_at, start=self._start.user)]
        create = compile_for(self._dialect, self._user.create)
        return [Command(create.sql), self._guard(self._user.is_empty)]

    def _move_user(self) -> list[Step]:
        """Return the move of the user's version: last, as Alembic does it."""
        if not self._moves_user:
            return []
        if self._start.user == BASE:
            return [self._guard(self._user.add, target=self._head.user)]
        return [self._guard(self._user.move, start=self._start.user, target=self._head.user)]

    @property
    def _moves_user(self) -> bool:
        return self._start.user != self._head.user

    @cached_property
    def _user(self) -> "UserVersion":
        return UserVersion(self._streams.user_table)

    def _guard(self, statement: Statement[Any], **values: object) -> Command:
        return replace(self._command(statement, **values), guards=True)

    def _command(self, statement: Statement[Any], **values: object) -> Command:
        compiled = statement.on(self._dialect)
        return Command(compiled.sql, compiled.arguments(values))


class UserVersion:
    """The statements on the version table of the user's stream, which is made as Alembic's."""

    def __init__(self, table_name: str) -> None:
        column = sa.Column("version_num", sa.String(32), nullable=False)
        key = sa.PrimaryKeyConstraint("version_num", name=f"{table_name}_pkc")
        table = sa.Table(table_name, sa.MetaData(), column, key)
        target = sa.bindparam("target", type_=sa.String)
        start = sa.bindparam("start", type_=sa.String)
        self.create = sa.schema.CreateTable(table, if_not_exists=True)
        self.read = Statement(sa.select(table.c.version_num), Version)
        self.is_at = Statement[Any](sa.select(table.c.version_num).where(column == start))
        self.is_empty = Statement[Any](
            sa.select(sa.literal(1)).where(~sa.exists().select_from(table))
        )
        self.add = Statement[Any](sa.insert(table).values(version_num=target))
        self.move = Statement[Any](
            sa.update(table).values(version_num=target).where(column == start)
        )


def bootstrap(dialect: sa.Dialect) -> list[Step]:
    """Return what makes an empty database ready for scripts: its version row and its log.

    Sent again, it changes nothing.
    """
    postgres = dialect is POSTGRESQL
    tables = [sa.schema.CreateTable(table, if_not_exists=True) for table in metadata.sorted_tables]
    row = _INSERT_VERSION.on(dialect)
    return [
        *_begin(BOOTSTRAP_WAIT_MS, postgres=postgres),
        # "If not exists" does not wait for whoever is creating it at this moment.
        *([Command(f"SELECT pg_advisory_xact_lock({BOOTSTRAP_LOCK})")] if postgres else []),
        *(Command(compile_for(dialect, table).sql) for table in tables),
        Command(row.sql, row.arguments({})),
        Command("COMMIT"),
    ]


def _begin(wait_ms: int, *, postgres: bool) -> list[Command]:
    if postgres:
        return [Command("BEGIN"), _lock_timeout(wait_ms)]
    return [Command(f"PRAGMA busy_timeout = {wait_ms}"), Command("BEGIN IMMEDIATE")]


def _lock_timeout(milliseconds: int) -> Command:
    return Command(f"SET LOCAL lock_timeout = {milliseconds}")
