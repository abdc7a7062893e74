"""A migration script: all statements for one database, in the order in which they are sent.

The safety of the engine depends on this order. So it is data, defined once and executed on both
engines. The version row of Tenantry's own stream is swapped first, even if its value stays the
same. This row is the mutex: a second run waits for it, and then finds that the revision has
changed. After the swap the lock timeout is short: it protects a tenant's traffic from the script,
not runs from each other. The log is written in the same transaction, so after a kill the outcome
is read, not guessed.

The execution sends BEGIN and COMMIT. A script that included its COMMIT would continue on the
server after the client was killed.
"""

from collections.abc import Callable
from dataclasses import replace
from functools import cached_property
from itertools import takewhile
from typing import Any
from uuid import UUID

import sqlalchemy as sa
from sqlalchemy.sql.base import Executable

from tenantry.kit.errors import Unavailable
from tenantry.migration import sql_text
from tenantry.migration.guard import NotRehearsable
from tenantry.migration.recorder import Recording, Unrecorded
from tenantry.migration.revisions import Revision, RevisionFailed, heads_after
from tenantry.migration.schema_state import (
    BASE,
    BEGUN,
    Applied,
    SchemaRevision,
    insert_log,
    log,
    metadata,
    render,
    user_version_table,
    version,
)
from tenantry.migration.statements import (
    AutocommitRevision,
    LiveRevision,
    LockTimeouts,
    SchemaMoved,
    Statement,
    Step,
)
from tenantry.migration.streams import BadStream, Streams

BOOTSTRAP_WAIT_MS = 30_000
BOOTSTRAP_LOCK = 0x74656E616E747279  # "tenantry", as eight bytes
# A script with an autocommit block holds it exclusively, and every transaction shares it. Both
# only try to lock: PostgreSQL's concurrent commands wait for every open transaction, also for one
# that waits for them, which would be a deadlock.
AUTOCOMMIT_LOCK = BOOTSTRAP_LOCK + 1

# The row was written by this transaction. Needs PostgreSQL 13.
_IS_OURS: sa.ColumnElement[bool] = sa.literal_column(
    "tenantry_version.xmin = CAST(pg_current_xact_id() AS xid)"
)
_OURS = sa.exists().where(_IS_OURS).select_from(version)
# A role's or a database's own timeouts are for requests, not for migrations.
_TIMEOUTS = ("statement_timeout", "idle_in_transaction_session_timeout")
_TIMEOUTS_SINCE = {"transaction_timeout": (17,)}


class TransactionEnded(Unavailable):
    """A revision ended the transaction that it ran in, so part of it may be committed."""


class VersionWritten(Unavailable):
    """A revision wrote to Alembic's version table."""


class Script:
    """The statements from one revision to the head of the streams, or to where it must stop.

    A revision with an autocommit block is a separate script. It shares a script with the next
    revisions only if no version identifies the state between them (in the second branch of a
    merge).

    Args:
        dialect: The engine.
        streams: The streams to migrate along.
        start: The revision of the database.
        record: Records a revision.

    Attributes:
        dialect: The engine.
        stop: The revision of the database after the script.

    Raises:
        UnknownRevision, BadStream: There is no script from *start*.
    """

    def __init__(
        self,
        dialect: sa.Dialect,
        streams: Streams,
        start: SchemaRevision,
        record: Callable[[Revision, sa.Dialect], Recording],
    ) -> None:
        self.dialect = dialect
        self._streams = streams
        self._start = start
        self._parts: list[tuple[Revision, Recording]] = []
        for revision in streams.pending(start):
            recording = record(revision, dialect)
            is_autocommit = recording is Unrecorded.AUTOCOMMIT
            if self._parts and (is_autocommit or self.is_autocommit) and self._can_stop:
                break
            if self._parts and is_autocommit:
                raise BadStream(
                    f"{self._parts[-1][0].name} or {revision.name} runs outside a transaction "
                    "between two branches of the revisions, where no version identifies the state "
                    "of a database."
                )
            self._parts.append((revision, recording))
        self.stop = self._after_parts()
        self._steps: tuple[UUID, LockTimeouts, list[Step]] | None = None

    @property
    def is_autocommit(self) -> bool:
        """Whether it begins with a revision that commits by itself."""
        return self._parts[0][1] is Unrecorded.AUTOCOMMIT

    @property
    def applied(self) -> list[Applied]:
        """The revisions that it applies, in order."""
        return [Applied(revision.stream, revision.name) for revision, _ in self._parts]

    def steps(self, run_id: UUID, timeouts: LockTimeouts) -> list[Step]:
        """Return the steps between BEGIN and COMMIT, for the run *run_id*."""
        if self._steps is None or self._steps[:2] != (run_id, timeouts):
            self._steps = (run_id, timeouts, self._make_steps(run_id, timeouts))
        return self._steps[2]

    def _make_steps(self, run_id: UUID, timeouts: LockTimeouts) -> list[Step]:
        body = [
            step
            for revision, recording in self._parts
            for step in self._send(revision, recording, run_id)
        ]
        if not self.is_autocommit:
            settings = _settings(self.dialect, timeouts.swap_ms)
            return [*settings, *self._swap, *self._lock_timeout(timeouts), *body]
        first, heads = self._parts[0][0], self._heads_before(self._parts[0][0])
        begun = sa.delete(log).where(log.c.stream == BEGUN)
        return [
            *_settings(self.dialect, timeouts.lock_ms),
            # The lock is held until the connection is closed.
            Statement(f"SELECT 1 WHERE pg_try_advisory_lock({AUTOCOMMIT_LOCK})", guard=SchemaMoved),
            self._check_versions,
            AutocommitRevision(first, heads, run_id, timeouts),
            *self._swap,
            Statement(self._render(begun)),
            *body,
        ]

    def check_can_roll_back(self) -> None:
        """Check that a rollback undoes all recorded statements.

        Raises:
            RevisionFailed: It does not, for a revision; the cause is `NotRehearsable`.
        """
        for revision, recording in self._parts:
            if isinstance(recording, Unrecorded) or not self._postgres:
                continue
            if any(map(sql_text.outlives_rollback, recording)):
                raise RevisionFailed(revision.name) from NotRehearsable()

    @property
    def _can_stop(self) -> bool:
        try:
            self._after_parts()
        except BadStream:
            return False
        return True

    def _after_parts(self) -> SchemaRevision:
        return self._streams.after(self._start, [revision for revision, _ in self._parts])

    def _send(self, revision: Revision, recording: Recording, run_id: UUID) -> list[Step]:
        """Return the steps of a revision: its statements, its log entry, its version update.

        On PostgreSQL, the entry and the update do nothing if the revision has ended the
        transaction, even if it has begun another. So one guard is enough if they share a message.
        """
        where = (version, _IS_OURS) if self._postgres else None
        entry = insert_log(run_id, sa.literal(revision.stream), revision.name, where)
        logged = Statement(self._render(entry), guard=TransactionEnded, revision=revision.name)
        heads = self._heads_before(revision)
        is_users = revision.stream != self._streams.own.name
        moves = self._move(heads, revision) if is_users else []
        if isinstance(recording, Unrecorded):
            # A revision with an autocommit block was sent already.
            live = [LiveRevision(revision, heads)] if recording is Unrecorded.LIVE else []
            return [*live, logged, *moves]
        texts = (
            Statement(sql, revision=revision.name, is_last=sql_text.is_last(sql))
            for sql in recording
        )
        if not moves:
            return [*texts, logged]
        last = replace(moves[-1], guard=TransactionEnded)
        return [*texts, replace(logged, guard=None), *moves[:-1], last]

    def _heads_before(self, revision: Revision) -> tuple[str, ...]:
        """Return the heads of the revision's stream before it runs."""
        start = self._start.own if revision.stream == self._streams.own.name else self._start.user
        before = takewhile(lambda part: part[0] is not revision, self._parts)
        applied = [one for one, _ in before if one.stream == revision.stream]
        return heads_after([start or BASE], applied)

    def _move(self, old: tuple[str, ...], revision: Revision) -> list[Statement]:
        """Return the update of the user's version from *old*, as Alembic does it."""
        new = heads_after(old, [revision])
        number, is_ours = self._user.c.version_num, _OURS if self._postgres else sa.true()
        if len(old) == len(new) == 1:
            move = sa.update(self._user).values(version_num=new[0])
            moves: list[Executable] = [move.where(number == old[0], is_ours)]
        else:
            rows = [sa.select(sa.literal(one)).where(is_ours) for one in new]
            inserts = [sa.insert(self._user).from_select(["version_num"], row) for row in rows]
            moves = [*([sa.delete(self._user)] if old else []), *inserts]
        statements = [Statement(self._render(one), revision=revision.name) for one in moves]
        return [*statements[:-1], replace(statements[-1], guard=VersionWritten)]

    def _lock_timeout(self, timeouts: LockTimeouts) -> list[Statement]:
        return [_lock_timeout(timeouts.lock_ms)] if self._postgres else []

    @cached_property
    def _swap(self) -> list[Statement]:
        """The swap of Tenantry's version, and a check of the user's.

        The user's version was read before the mutex was held, so it is checked again.
        """
        own = version.c.version_num
        swap = sa.update(version).values(version_num=self.stop.own)
        swap = swap.where(own == self._start.own, _is_alone(version))
        if self._postgres:
            swap = swap.where(sa.func.pg_try_advisory_xact_lock_shared(AUTOCOMMIT_LOCK))
        swap_sql = self._render(swap)
        if not self._moves_user:
            return [Statement(swap_sql, guard=SchemaMoved)]
        create = sa.schema.CreateTable(self._user, if_not_exists=True)
        creation = [Statement(self._render(create))] if self._start.user == BASE else []
        at = self._render(self._is_at_start(_OURS if self._postgres else sa.true()))
        # On PostgreSQL one guard covers both, so they can share a message.
        guard = None if self._postgres else SchemaMoved
        return [Statement(swap_sql, guard=guard), *creation, Statement(at, guard=SchemaMoved)]

    @cached_property
    def _check_versions(self) -> Statement:
        """A check of both versions."""
        is_own = version.c.version_num == self._start.own
        if self._start.user is None or self._start.user == BASE:
            # The user's version is checked with the swap: its table may not exist yet.
            return Statement(
                self._render(sa.select(sa.literal(1)).where(is_own)), guard=SchemaMoved
            )
        own = sa.exists().where(is_own).select_from(version)
        return Statement(self._render(self._is_at_start(own)), guard=SchemaMoved)

    def _is_at_start(self, also: sa.ColumnElement[bool]) -> sa.Select[Any]:
        if self._start.user == BASE:
            return sa.select(sa.literal(1)).where(~sa.exists().select_from(self._user), also)
        at = self._user.c.version_num == self._start.user
        # The user's team may migrate it with Alembic, too: from here on, Alembic waits.
        alone = _is_alone(self._user)
        return sa.select(self._user.c.version_num).where(at, alone, also).with_for_update()

    @property
    def _moves_user(self) -> bool:
        return self._start.user != self.stop.user

    @cached_property
    def _user(self) -> sa.Table:
        return user_version_table(self._streams.user_table)

    @property
    def _postgres(self) -> bool:
        return self.dialect.name == "postgresql"

    def _render(self, clause: Executable) -> str:
        return render(self.dialect, clause)


def bootstrap(dialect: sa.Dialect) -> list[Step]:
    """Return the steps that prepare an empty database for scripts: its version row and its log.

    They are idempotent.
    """
    tables = [sa.schema.CreateTable(table, if_not_exists=True) for table in metadata.sorted_tables]
    base = sa.select(sa.literal(BASE)).where(~sa.exists().select_from(version))
    row = sa.insert(version).from_select(["version_num"], base)
    # "If not exists" does not wait for another session that is creating the table.
    lock = Statement(f"SELECT pg_advisory_xact_lock({BOOTSTRAP_LOCK})")
    return [
        *_settings(dialect, BOOTSTRAP_WAIT_MS),
        *([lock] if dialect.name == "postgresql" else []),
        *(Statement(render(dialect, one)) for one in (*tables, row)),
    ]


def _is_alone(table: sa.Table) -> sa.ColumnElement[bool]:
    """Return the condition that a version table has exactly one row."""
    return sa.select(sa.func.count()).select_from(table.alias()).scalar_subquery() == 1


def _settings(dialect: sa.Dialect, wait_ms: int) -> list[Statement]:
    """Return the settings of a transaction on PostgreSQL. On SQLite, the connection has them."""
    if dialect.name != "postgresql":
        return []
    since = [name for name, least in _TIMEOUTS_SINCE.items() if _version(dialect) >= least]
    off = [Statement(f"SET LOCAL {name} = 0") for name in (*_TIMEOUTS, *since)]
    return [_lock_timeout(wait_ms), *off]


def _lock_timeout(milliseconds: int) -> Statement:
    return Statement(f"SET LOCAL lock_timeout = {milliseconds}")


def _version(dialect: sa.Dialect) -> tuple[Any, ...]:
    return dialect.server_version_info or ()
