"""A script: everything that one database needs, in the order in which it is sent.

The order is the safety of the whole engine, so it is data, written down once and played
by both drivers (`db.apply`). The version row of our own stream is swapped first, even when
it stays what it is: it is the mutex, at which a second run waits and then finds the
database moved. Only then is the lock timeout short, because it protects a tenant's
traffic from the script and not runs from each other. The log is in the same transaction,
so that after a kill the outcome is read and never guessed. COMMIT comes from the client:
a script that held its own would go on after the client is gone.

What is sent holds its values as literals, because PostgreSQL takes several commands in
one message only without parameters. They are ours, and SQLAlchemy quotes them.
"""

from collections.abc import Callable
from datetime import datetime
from functools import cached_property
from typing import Any
from uuid import UUID

import sqlalchemy as sa
from sqlalchemy.sql.base import Executable

from tenantry.migration.recorder import Recorded, Recording, Way
from tenantry.migration.schema_state import (
    BEGUN,
    Applied,
    SchemaRevision,
    log,
    metadata,
    user_version_table,
    version,
)
from tenantry.migration.statements import (
    Command,
    LockTimeouts,
    Outside,
    SchemaMoved,
    Step,
    TransactionEnded,
    is_last,
)
from tenantry.migration.streams import BASE, Revision, Streams

BOOTSTRAP_WAIT_MS = 30_000
BOOTSTRAP_LOCK = 0x74656E616E747279  # "tenantry", as eight bytes
# Held by a revision that runs outside a transaction, and shared by every transaction: what
# it would wait for, it does not wait for here, because PostgreSQL's concurrent commands
# wait for whoever waits for them.
OUTSIDE_LOCK = BOOTSTRAP_LOCK + 1

# Of this transaction. Needs PostgreSQL 13.
_IS_OURS = sa.text("tenantry_version.xmin = CAST(pg_current_xact_id() AS xid)")
_OURS = sa.exists().where(_IS_OURS).select_from(version)
_MARK = "\0"  # stands where a value comes that changes; no name can hold it


class Script:
    """The way from one position to the head of the streams, or to where it has to stop.

    A revision that runs outside a transaction is a script of its own.

    Args:
        dialect: The engine.
        streams: Lead to the head.
        start: Where the database stands.
        record: Records a revision.

    Raises:
        UnknownRevision, BadStream: There is none.
    """

    def __init__(
        self,
        dialect: sa.Dialect,
        streams: Streams,
        start: SchemaRevision,
        record: Callable[[Revision, sa.Dialect], Recording],
    ) -> None:
        self._dialect = dialect
        self._streams = streams
        self._start = start
        self._parts: list[tuple[Revision, Recording]] = []
        for revision in streams.pending(start):
            recording = record(revision, dialect)
            if recording is Way.OUTSIDE and self._parts:
                break
            self._parts.append((revision, recording))
            if recording is Way.OUTSIDE:
                break
        self.stop = streams.after(start, [revision for revision, _ in self._parts])

    @property
    def is_outside(self) -> bool:
        """Whether it is a step outside a transaction."""
        return self._parts[0][1] is Way.OUTSIDE

    @property
    def applied(self) -> list[Applied]:
        """What it applies, in order."""
        return [Applied(revision.stream, revision.name) for revision, _ in self._parts]

    def steps(self, run_id: UUID | None, now: datetime, limits: LockTimeouts) -> list[Step]:
        """Return what to send for the run *run_id* at *now*."""
        if self.is_outside:
            return self._outside(run_id, now, limits)
        return self.transaction(run_id, now, limits)

    def transaction(self, run_id: UUID | None, now: datetime, limits: LockTimeouts) -> list[Step]:
        """Return what to send, from BEGIN to COMMIT."""
        return [
            *_begin(limits.swap_ms, postgres=self._postgres),
            *self._swap,
            *([_lock_timeout(limits.lock_ms)] if self._postgres else []),
            *(
                step
                for revision, recording in self._parts
                for step in (*_steps(revision, recording), *self._end(revision, run_id, now))
            ),
            Command("COMMIT"),
        ]

    def rehearsal(self, run_id: UUID, now: datetime, limits: LockTimeouts) -> list[Step]:
        """Return the transaction, taken back at its end."""
        *steps, _ = self.transaction(run_id, now, limits)
        # What is checked at COMMIT alone is checked here: it must fail now if it would then.
        deferred = [Command("SET CONSTRAINTS ALL IMMEDIATE")]
        return [*steps, *(deferred if self._postgres else []), Command("ROLLBACK")]

    def _outside(self, run_id: UUID | None, now: datetime, limits: LockTimeouts) -> list[Step]:
        """Return a revision that commits what it likes, with the version moved at its end."""
        ((revision, _),) = self._parts
        forget = self._render(sa.delete(log).where(log.c.stream == BEGUN))
        return [
            Command(f"SELECT 1 WHERE pg_try_advisory_lock({OUTSIDE_LOCK})", guard=SchemaMoved),
            *_begin(limits.lock_ms, postgres=True),
            self._look,
            Outside(revision, run_id, limits),
            *self._swap,
            Command(forget),
            *self._end(revision, run_id, now),
            Command("COMMIT"),
            Command(f"SELECT pg_advisory_unlock({OUTSIDE_LOCK})"),
        ]

    def _end(self, revision: Revision, run_id: UUID | None, now: datetime) -> list[Step]:
        """Return the row in the log, and after the last revision the move of the user's version.

        It is moved last, as Alembic does it. Both do nothing on PostgreSQL when a revision has
        ended the transaction, even when it has begun another, so one guard does for both.
        """
        before, between, after = self._log_texts[revision.stream, revision.name]
        sql = f"{before}{self._literal(log.c.run_id, run_id)}{between}"
        sql = f"{sql}{self._literal(log.c.applied_at, now)}{after}"
        if revision is not self._parts[-1][0] or not self._moves_user:
            return [Command(sql, guard=TransactionEnded, revision=revision.name)]
        return [
            Command(sql, revision=revision.name),
            Command(self._move_user, guard=TransactionEnded, revision=revision.name),
        ]

    @cached_property
    def _log_texts(self) -> dict[tuple[str, str], list[str]]:
        """The insert into the log for each revision, in three parts."""
        mark: sa.ColumnClause[Any] = sa.literal_column(_MARK)
        names = ["run_id", "stream", "revision", "applied_at"]
        texts = {}
        for revision, _ in self._parts:
            row = sa.select(mark, sa.literal(revision.stream), sa.literal(revision.name), mark)
            if self._postgres:
                row = row.select_from(version).where(_IS_OURS)
            sql = self._render(sa.insert(log).from_select(names, row))
            texts[revision.stream, revision.name] = sql.split(_MARK)
        return texts

    @cached_property
    def _swap(self) -> list[Command]:
        """The swap of our own version, and a look at the user's.

        That was read before the mutex was held.
        """
        own = version.c.version_num
        swap = sa.update(version).values(version_num=self.stop.own)
        swap = swap.where(own == self._start.own, _is_alone(version))
        if self._postgres:
            swap = swap.where(sa.func.pg_try_advisory_xact_lock_shared(OUTSIDE_LOCK))
        swap_sql = self._render(swap)
        if not self._moves_user:
            return [Command(swap_sql, guard=SchemaMoved)]
        create = sa.schema.CreateTable(self._user, if_not_exists=True)
        creation = [Command(self._render(create))] if self._start.user == BASE else []
        at = self._render(self._is_at_start(_OURS if self._postgres else sa.true()))
        # On PostgreSQL one guard does for both, and so one message.
        guard = None if self._postgres else SchemaMoved
        return [Command(swap_sql, guard=guard), *creation, Command(at, guard=SchemaMoved)]

    @cached_property
    def _look(self) -> Command:
        """A look at both versions."""
        is_own = version.c.version_num == self._start.own
        if self._start.user is None or self._start.user == BASE:
            # The user's is looked at with the swap: its table may not be there yet.
            return Command(self._render(sa.select(sa.literal(1)).where(is_own)), guard=SchemaMoved)
        own = sa.exists().where(is_own).select_from(version)
        return Command(self._render(self._is_at_start(own)), guard=SchemaMoved)

    def _is_at_start(self, also: sa.ColumnElement[bool]) -> sa.Select[Any]:
        if self._start.user == BASE:
            return sa.select(sa.literal(1)).where(~sa.exists().select_from(self._user), also)
        at = self._user.c.version_num == self._start.user
        # The user's team may migrate it, too: from here on they wait for us.
        alone = _is_alone(self._user)
        return sa.select(self._user.c.version_num).where(at, alone, also).with_for_update()

    @cached_property
    def _move_user(self) -> str:
        """The move of the user's version."""
        is_ours = _OURS if self._postgres else sa.true()
        if self._start.user == BASE:
            row = sa.select(sa.literal(self.stop.user)).where(is_ours)
            return self._render(sa.insert(self._user).from_select(["version_num"], row))
        is_start = self._user.c.version_num == self._start.user
        move = sa.update(self._user).values(version_num=self.stop.user)
        return self._render(move.where(is_start, is_ours))

    @property
    def _moves_user(self) -> bool:
        return self._start.user != self.stop.user

    @cached_property
    def _user(self) -> sa.Table:
        return user_version_table(self._streams.user_table)

    @property
    def _postgres(self) -> bool:
        return self._dialect.name == "postgresql"

    def _render(self, clause: Executable) -> str:
        return _render(self._dialect, clause)

    def _literal(self, column: sa.Column[Any], value: object) -> str:
        process = column.type.dialect_impl(self._dialect).literal_processor(self._dialect)
        assert process is not None
        return "NULL" if value is None else str(process(value))


def bootstrap(dialect: sa.Dialect) -> list[Step]:
    """Return what makes an empty database ready for scripts: its version row and its log.

    Sent again, it changes nothing.
    """
    postgres = dialect.name == "postgresql"
    tables = [sa.schema.CreateTable(table, if_not_exists=True) for table in metadata.sorted_tables]
    base = sa.select(sa.literal(BASE)).where(~sa.exists().select_from(version))
    row = sa.insert(version).from_select(["version_num"], base)
    return [
        *_begin(BOOTSTRAP_WAIT_MS, postgres=postgres),
        # "If not exists" does not wait for whoever is creating it at this moment.
        *([Command(f"SELECT pg_advisory_xact_lock({BOOTSTRAP_LOCK})")] if postgres else []),
        *(Command(_render(dialect, table)) for table in tables),
        Command(_render(dialect, row)),
        Command("COMMIT"),
    ]


def _steps(revision: Revision, recording: Recording) -> list[Step]:
    if isinstance(recording, Way):
        return [revision]
    return [_command(one, revision.name) for one in recording]


def _is_alone(table: sa.Table) -> sa.ColumnElement[bool]:
    """Return the condition that a version table has one row: else it tells nothing."""
    return sa.select(sa.func.count()).select_from(table.alias()).scalar_subquery() == 1


def _command(one: Recorded, name: str) -> Command:
    return Command(one.sql, one.rows, many=one.many, revision=name, is_last=is_last(one.sql))


def _render(dialect: sa.Dialect, clause: Executable) -> str:
    if isinstance(clause, sa.schema.ExecutableDDLElement):  # it has no values
        return str(clause.compile(dialect=dialect)).strip()
    compiled = clause.compile(dialect=dialect, compile_kwargs={"literal_binds": True})  # type: ignore[attr-defined]
    return str(compiled)


def _begin(wait_ms: int, *, postgres: bool) -> list[Command]:
    if postgres:
        return [Command("BEGIN"), _lock_timeout(wait_ms)]
    return [Command(f"PRAGMA busy_timeout = {wait_ms}"), Command("BEGIN IMMEDIATE")]


def _lock_timeout(milliseconds: int) -> Command:
    return Command(f"SET LOCAL lock_timeout = {milliseconds}")
