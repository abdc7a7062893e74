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

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cached_property
from itertools import takewhile
from typing import Any
from uuid import UUID

import sqlalchemy as sa
from sqlalchemy.sql.base import Executable

from tenantry.kit.errors import Unavailable
from tenantry.migration import sql_text
from tenantry.migration.bootstrap import BOOTSTRAP_LOCK, check_length, class_of, create_log
from tenantry.migration.closing import close_run, is_open
from tenantry.migration.guard import NotRehearsable
from tenantry.migration.lock_timeouts import LockTimeouts, lock_timeout_sql, timeouts_sql
from tenantry.migration.recorder import Recording, Unrecorded, named_type_of
from tenantry.migration.revisions import Revision, RevisionFailed, heads_after
from tenantry.migration.schema_state import (
    AND,
    BASE,
    BEGUN,
    Applied,
    SchemaRevision,
    Undo,
    check_heads,
    check_undoable,
    exists,
    has_rows,
    insert_log,
    log,
    render,
    user_version_table,
    version,
)
from tenantry.migration.statements import (
    AutocommitRevision,
    CreatedTypes,
    LiveRevision,
    RecordedRevision,
    SchemaMoved,
    Statement,
    Step,
    TypeName,
)
from tenantry.migration.streams import Streams

# A script with an autocommit block holds it exclusively, and every transaction shares it. Both
# only try to lock: PostgreSQL's concurrent commands wait for every open transaction, also for one
# that waits for them, which would be a deadlock.
AUTOCOMMIT_LOCK = BOOTSTRAP_LOCK + 1

# An attached database has no version of Tenantry. There the lock on the user's version table is the
# mutex: Alembic's own writes of it wait, too, and reads do not. A setting of the transaction says
# whether it is still the one of the script.
_MARK = "tenantry.is_migrating"
_CREATING = Statement(f"SELECT pg_advisory_xact_lock({BOOTSTRAP_LOCK})")
_MARKED = sa.func.current_setting(_MARK, sa.true()) == "yes"

# Tenantry's version was written by this transaction. Needs PostgreSQL 13.
_OURS = (
    sa.exists().select_from(version).where(sa.literal_column("xmin = pg_current_xact_id()::xid"))
)


class TransactionEnded(Unavailable):
    """A revision ended the transaction that it ran in, so part of it may be committed."""


class VersionWritten(Unavailable):
    """A revision wrote to Alembic's version table."""


class LogMissing(Unavailable):
    """An autocommit_block needs the log in the database: migrate without --no-log."""


class Script:
    """The statements from one revision to the head of the streams, or to where it must stop.

    A revision with an autocommit block is a separate script.

    Args:
        pending: The revisions from *start* to the head, in order; or none, for a script that waits
            for an open transaction of the run, or of the run that is undone, and lets none follow.
        types: What the upgrade has created for tables before *start*.
        undo: With *pending* revisions that are undone: what they are.
        has_log: Whether the database has a log. Without it, an attached one gets one.
        reopened: See `closing.is_open`.

    Attributes:
        stop: The revision of the database after the script.
        rest: The revisions after it, in order.
        following: The script of *rest*, in the order in which this one has begun. A plain upgrade
            that is interrupted here can go on in another order.
    """

    def __init__(
        self,
        dialect: sa.Dialect,
        streams: Streams,
        start: SchemaRevision,
        pending: Sequence[Revision],
        record: Callable[[Revision, sa.Dialect], Recording],
        *,
        types: frozenset[TypeName] = frozenset(),
        undo: Undo | None = None,
        has_log: bool = True,
        reopened: frozenset[str] = frozenset(),
    ) -> None:
        self.dialect = dialect
        # Of an attached database, under its mutex.
        self._log_creation = [] if has_log or not streams.has_log else [create_log(dialect)]
        checks = [check_undoable(undo, len(pending))] if undo and pending else []
        self._log_checks = [self._statement(one, guard=SchemaMoved) for one in checks]
        self._undo = undo
        self._reopened = reopened
        self._streams = streams
        self._start = start
        self._parts: list[tuple[Revision, Recording]] = []
        for revision in pending:
            recording = record(revision, dialect)
            is_autocommit = recording is Unrecorded.AUTOCOMMIT
            if self._parts and (is_autocommit or self.is_autocommit):
                break
            self._parts.append((revision, recording))
        self.rest = tuple(pending[len(self._parts) :])
        self.following: Script | None = None
        own = [one.id for one, _ in self._parts if not self._is_users(one)]
        user = AND.join(self._heads_before(None)) if streams.user else None
        self.stop = SchemaRevision([start.own, *own][-1], user)
        self._steps: tuple[UUID, LockTimeouts, list[Step]] | None = None
        self._types = types

    @property
    def is_autocommit(self) -> bool:
        """Whether it begins with a revision that commits by itself."""
        return bool(self._parts) and self._parts[0][1] is Unrecorded.AUTOCOMMIT

    @cached_property
    def applied(self) -> list[Applied]:
        """The revisions that it applies, in order."""
        return [Applied(revision.stream, revision.name) for revision, _ in self._parts]

    def steps(self, run_id: UUID, timeouts: LockTimeouts) -> list[Step]:
        """Return the steps between BEGIN and COMMIT, for the run *run_id*."""
        if self._steps is None or self._steps[:2] != (run_id, timeouts):
            types = [CreatedTypes(self._types)] if self._types else []
            self._steps = (run_id, timeouts, [*types, *self._make_steps(run_id, timeouts)])
        return self._steps[2]

    def _make_steps(self, run_id: UUID, timeouts: LockTimeouts) -> list[Step]:
        body = [step for part in self._parts for step in self._send(*part, run_id)]
        # The log follows all of the user's revisions, because it changes what `lastval()` and
        # `last_insert_rowid()` return. The guard of the last version update covers it, too.
        body[-1:-1] = self._log([one for one, _ in self._parts if self._is_users(one)], run_id)
        if not body:
            closed = (self._undo.run_id, None) if self._undo else (run_id, self._streams.head)
            body = [self._statement(close_run(*closed, by=run_id))]
        if not self.is_autocommit:
            settings = map(Statement, timeouts_sql(self.dialect, timeouts.swap_ms))
            lock_timeout = Statement(lock_timeout_sql(timeouts.lock_ms))
            last = [lock_timeout] if self._postgres else []
            if self._streams.is_attached:
                last = [*self._swap(run_id), *self._log_creation, *last]
                return [*settings, *self._creation(), *last, *body]
            swap, *check = self._swap(run_id)
            return [*settings, swap, *self._creation(), *check, *last, *body]
        if not self._streams.has_log:
            raise LogMissing
        first, heads = self._parts[0][0], self._heads_before(self._parts[0][0])
        own_table = self._streams.user_table if self._streams.is_attached else version.name
        return [
            *map(Statement, timeouts_sql(self.dialect, timeouts.lock_ms)),
            # The lock is held until the connection is closed.
            Statement(f"SELECT 1 WHERE pg_try_advisory_lock({AUTOCOMMIT_LOCK})", guard=SchemaMoved),
            *self._creation(),
            self._check_versions(run_id),
            *self._log_creation,
            *self._log_checks,
            AutocommitRevision(first, heads, run_id, timeouts, self._streams.user_table, own_table),
            *self._swap(run_id),
            self._statement(sa.delete(log).where(log.c.stream == BEGUN)),
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

    def _is_users(self, revision: Revision) -> bool:
        return revision.stream != self._streams.own.name

    def _send(self, revision: Revision, recording: Recording, run_id: UUID) -> list[Step]:
        """Return the steps of a revision: its statements, and its version update or log entry.

        On PostgreSQL, these do nothing if the revision has ended the transaction, even if it has
        begun another. After recorded statements, that is the only reason.
        """
        steps: list[Step] = []
        if recording is Unrecorded.LIVE:
            steps = [LiveRevision(revision, self._heads_before(revision))]
        elif not isinstance(recording, Unrecorded):  # one with an autocommit block was sent already
            live = LiveRevision(revision, self._heads_before(revision))
            statements = [
                Statement(
                    sql,
                    revision=revision.name,
                    is_last=sql_text.is_last(sql),
                    named_type=named_type_of(sql),
                )
                for sql in recording
            ]
            steps = [RecordedRevision(tuple(statements), live)]
        if not self._is_users(revision):
            [entry] = self._log([revision], run_id)
            return [*steps, replace(entry, guard=TransactionEnded)]
        *moves, last = self._move(self._heads_before(revision), revision)
        if not isinstance(recording, Unrecorded):
            return [*steps, *moves, replace(last, guard=TransactionEnded)]
        ours = sa.select(sa.literal(1)).where(self._is_ours)
        check = self._statement(ours, guard=TransactionEnded, revision=revision.name)
        return [*steps, check, *moves, last]

    def _log(self, revisions: Sequence[Revision], run_id: UUID) -> list[Statement]:
        """Return the inserts of log entries, as statements of the last revision."""
        if not self._streams.has_log:
            return []
        entries = [
            insert_log(run_id, sa.literal(one.stream), one.name, self._is_ours) for one in revisions
        ]
        return [self._statement(one, revision=revisions[-1].name) for one in entries]

    def _heads_before(self, revision: Revision | None) -> tuple[str, ...]:
        """Return the heads of the revision's stream before it runs; None: the user's at the end."""
        is_users = revision is None or self._is_users(revision)
        start = self._start.heads if is_users else (self._start.own,)
        before = takewhile(lambda part: part[0] is not revision, self._parts)
        applied = [one for one, _ in before if self._is_users(one) == is_users]
        return heads_after(start, applied, in_place=not self._postgres)

    def _move(self, old: tuple[str, ...], revision: Revision) -> list[Statement]:
        """Return the update of the user's version from *old*, as Alembic does it."""
        new = heads_after(old, [revision], in_place=not self._postgres)
        number = self._user.c.version_num
        if len(old) == len(new) == 1:
            move = sa.update(self._user).values(version_num=new[0])
            moves: list[Executable] = [move.where(number == old[0], self._is_ours)]
        elif not new:  # the first revision was undone
            moves = [sa.delete(self._user).where(self._is_ours)]
        else:
            rows = [sa.select(sa.literal(one)).where(self._is_ours) for one in new]
            inserts = [sa.insert(self._user).from_select(["version_num"], row) for row in rows]
            moves = [*([sa.delete(self._user)] if old else []), *inserts]
        statements = [self._statement(one, revision=revision.name) for one in moves]
        fits = check_length(self.dialect, self._streams.user_table, revision)
        return [*fits, *statements[:-1], replace(statements[-1], guard=VersionWritten)]

    def _swap(self, run_id: UUID) -> list[Statement]:
        """Return the swap of Tenantry's version, and a check of the user's.

        The user's version was read before the mutex was held, so it is checked again.
        """
        if self._streams.is_attached:
            return self._lock_and_check(run_id)
        own = version.c.version_num
        swap = sa.update(version).values(version_num=self.stop.own)
        swap = swap.where(own == self._start.own, has_rows(version, 1))
        if self._postgres:
            swap = swap.where(sa.func.pg_try_advisory_xact_lock_shared(AUTOCOMMIT_LOCK))
        # Without revisions, it has perhaps waited for an undo: then the version has changed.
        needs_check = self._start.heads if not self._parts else self._start.user != self.stop.user
        if not needs_check:
            return [self._statement(swap, guard=SchemaMoved)]
        at = self._is_at_start(self._is_ours, run_id)
        # On PostgreSQL one guard covers both, so they can share a message.
        guard = None if self._postgres else SchemaMoved
        checks = [self._statement(at, guard=SchemaMoved), *self._log_checks]
        return [self._statement(swap, guard=guard), *checks]

    def _lock_and_check(self, run_id: UUID) -> list[Statement]:
        """Return the lock on the user's version table, which is the mutex of an attached database.

        It is followed by a check of what was read before the lock was held: the version, and
        whether there is a log. SQLite has locked the file with BEGIN.
        """
        if not self._postgres:
            at = self._is_at_start(sa.true(), run_id, is_locked=True)
            return [self._statement(at, guard=SchemaMoved)]
        table = self.dialect.identifier_preparer.format_table(self._user)
        alone = sa.func.pg_try_advisory_xact_lock_shared(AUTOCOMMIT_LOCK)
        return [
            Statement(f"SET LOCAL {_MARK} = 'yes'"),
            Statement(f"LOCK TABLE {table} IN SHARE ROW EXCLUSIVE MODE"),
            *([_CREATING] if self._log_creation else []),  # another version table has its own mutex
            self._statement(self._is_at_start(alone, run_id, is_locked=True), guard=SchemaMoved),
            *self._log_checks,
        ]

    def _creation(self) -> list[Statement]:
        """Return the creation of the user's version table, as Alembic does it.

        It precedes the first revision, which can change the current schema. An existing table can
        be in a later schema of the search path, where IF NOT EXISTS would not find it.
        """
        is_used = self._streams.is_attached or self.stop.user != BASE
        if self._start.user != BASE or not is_used:
            return []
        create = render(self.dialect, sa.schema.CreateTable(self._user, if_not_exists=True))
        if not self._postgres:
            return [Statement(create)]
        is_missing = f"{render(self.dialect, class_of(self._streams.user_table))} IS NULL"
        if self._streams.is_attached:  # no mutex is held yet
            lock = f"PERFORM pg_advisory_xact_lock({BOOTSTRAP_LOCK})"
            create = f"{lock}; IF {is_missing} THEN {create}; END IF"
        return [
            Statement(f"DO $tenantry$ BEGIN IF {is_missing} THEN {create}; END IF; END $tenantry$")
        ]

    def _check_versions(self, run_id: UUID) -> Statement:
        """Return a check of both versions."""
        if self._streams.is_attached:
            return self._statement(self._is_at_start(sa.true(), run_id), guard=SchemaMoved)
        own = sa.exists().where(version.c.version_num == self._start.own).select_from(version)
        return self._statement(self._is_at_start(own, run_id), guard=SchemaMoved)

    def _is_at_start(
        self, also: sa.ColumnElement[bool], run_id: UUID, *, is_locked: bool = False
    ) -> sa.Select[Any]:
        heads, number = self._start.heads, self._user.c.version_num
        has_log = self._streams.has_log
        if self._streams.is_attached:
            also = sa.and_(also, ~exists(self.dialect, version))
        if self._streams.is_attached and has_log:
            found = exists(self.dialect, log)  # it is created before an autocommit_block
            has_log = not self._log_creation or is_locked is self.is_autocommit
            also = sa.and_(also, found if has_log else ~found)
        if has_log:
            also = sa.and_(also, is_open(run_id, self._reopened))
        if is_locked:
            return check_heads(self._user, heads, also)
        if not heads:
            return sa.select(sa.literal(1)).where(~sa.exists().select_from(self._user), also)
        # The user's team may migrate it with Alembic, too: from here on, Alembic waits.
        alone = has_rows(self._user, len(heads))
        rows = sa.select(number).where(number.in_(heads), alone, also).with_for_update().subquery()
        count = sa.func.count(rows.c.version_num)
        return sa.select(count).having(count == len(heads))

    @cached_property
    def _user(self) -> sa.Table:
        return user_version_table(self._streams.user_table)

    @property
    def _postgres(self) -> bool:
        return self.dialect.name == "postgresql"

    @property
    def _is_ours(self) -> sa.ColumnElement[bool]:
        """The condition that the transaction is the one of this script."""
        ours = _MARKED if self._streams.is_attached else _OURS
        return ours if self._postgres else sa.true()

    def _statement(
        self,
        clause: Executable,
        *,
        guard: type[Exception] | None = None,
        revision: str | None = None,
    ) -> Statement:
        return Statement(render(self.dialect, clause), guard, revision)
