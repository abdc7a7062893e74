"""The attempts of one run at one database: retry a lock timeout, or a race with another run.

A race can be about objects of the whole server: two tenants change the same role at once.
"""

import contextlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from uuid import UUID

import sqlalchemy as sa

from tenantry.kit.backoff import backoff_seconds
from tenantry.kit.clock import monotonic_seconds
from tenantry.kit.errors import TenantryError, Unavailable
from tenantry.migration.errors import is_lock_timeout, is_shared_object_race, is_write_refused
from tenantry.migration.execution import Execution
from tenantry.migration.guard import NotRehearsable
from tenantry.migration.lint import drops_of
from tenantry.migration.lock_timeouts import LockTimeouts
from tenantry.migration.recorder import Unrecorded
from tenantry.migration.revisions import RevisionFailed
from tenantry.migration.run_scripts import RunScripts
from tenantry.migration.schema_state import Applied, SchemaRevision, SchemaState
from tenantry.migration.scripts import Script
from tenantry.migration.statements import SchemaMoved

# About 15 s in all, with the default TENANTRY_LOCK_TIMEOUT_MS of 3 s and the pauses.
LOCK_TRIES_MAX = 4
# Of several transactions that change the same role, all but one fail each time.
RACE_TRIES_MAX = 16
LOCK_PAUSE_SECONDS_MAX = 1.0
MOVED_PAUSE_SECONDS = 0.01
MOVED_PAUSE_SECONDS_MAX = 1.0
# A plan of an undo counts at most so many rows of each table, and so many tables and columns.
LOST_ROWS_MAX = 100_000
LOSSES_MAX = 50


NOT_READ = "(unknown)"
"""The planned revision of a database that could not be read: no database is at it."""


class NotPlanned(Unavailable):
    """The database is not at the revision at which the plan of the run has found it."""

    def __init__(self, planned: str, found: str) -> None:
        super().__init__(
            f"The plan of this run has found the database at revision {planned}, and it is at "
            f"{found} now: nothing was applied. Make a new plan."
        )


class RunUndone(Unavailable):
    """The run was undone or has ended in this database: start a new run to apply its revisions."""


class LogLost(Unavailable):
    """The log of the database has lost what the run has applied: it is perhaps an older copy.

    Nothing was undone.
    """


class FilesReplaced(Exception):
    """A file of the plan was replaced while the tenant was migrated: it was rolled back."""


@dataclass(frozen=True, slots=True)
class Loss:
    """What one database loses when a revision is undone: a table, or a column of it.

    Attributes:
        count: The rows of the table, or the values of the column, among `LOST_ROWS_MAX` rows.
        is_more: Whether the table has more rows than those.
    """

    revision: Applied
    table: str
    column: str | None
    count: int
    is_more: bool


@dataclass(frozen=True, slots=True)
class Inspection:
    """The state of one database before a run, and what a run would apply.

    Attributes:
        dialect: Its engine.
        revision: Its current revision.
        pending: The revisions that would be applied, in order; empty if unknown.
        error: Why they are unknown; or why the rehearsal failed.
        losses: What is lost if they are undone, as far as their statements are recorded.
        executed_ms: How long a rehearsal has executed them, with the waits for locks; None if it
            has not.
    """

    dialect: sa.Dialect
    revision: SchemaRevision
    pending: Sequence[Applied]
    error: Exception | None = None
    losses: Sequence[Loss] = ()
    executed_ms: int | None = None


class LockRetries:
    """Sends the scripts of one run to one database, and retries them.

    A pause after a lock timeout is at most *lock_pause_seconds*. With *planned_from*, a database
    that is not at this revision is not migrated. With *has_files*, nothing is committed when that
    returns False: a live revision can read and import files until its end. With *must_be_logged*,
    an undo fails if the log has no row of the run.

    Attributes:
        has_sent: Whether anything was sent that may have been committed.
    """

    def __init__(
        self,
        scripts: RunScripts,
        run_id: UUID,
        timeouts: LockTimeouts,
        *,
        lock_pause_seconds: float = LOCK_PAUSE_SECONDS_MAX,
        planned_from: str | None = None,
        has_files: Callable[[], bool] | None = None,
        must_be_logged: bool = False,
    ) -> None:
        self._scripts = scripts
        self._must_be_logged = must_be_logged
        self._has_files = has_files
        self._planned_from = planned_from
        self._run_id = run_id
        self._timeouts = timeouts
        self._lock_pause_seconds = lock_pause_seconds
        self._lock_timeouts = self._races = self._moves = 0
        self._following: Script | None = None  # of the script that was executed last
        self.has_sent = False
        self._rehearsed_seconds: float | None = None

    def migrate(self, execution: Execution, *, is_first: bool) -> SchemaState:
        """Bring the database to the head; return its state, with the error if it failed.

        Raises:
            Exception: Any error of the drivers, if the state cannot be read afterwards.
        """
        try:
            return self.to_head(execution, is_first=is_first)
        except Exception as error:  # noqa: BLE001 - a revision can raise anything
            return self.state_after(execution, error)

    def state_after(self, execution: Execution, error: Exception) -> SchemaState:
        """Return what is committed in the database after *error*; raise it if that is unknown."""
        try:
            state = execution.read_state(self._run_id, self._scripts.undo)
        except Exception as unreadable:
            if error.__cause__ is None:
                raise error from unreadable
            raise error from error.__cause__  # what the revision has met, and not a later error
        # All is committed, and only the answer was late, as in a process that was frozen.
        is_late = isinstance(error, TimeoutError) and state.applied and self._scripts.is_done(state)
        return state if is_late else replace(state, error=error)

    def to_head(self, execution: Execution, *, is_first: bool = True) -> SchemaState:
        """Bring the database to the head.

        Raises:
            Exception: Any error of the drivers and the revisions.
        """
        execution.guard.before_commit = self._check_files
        state = self._migrate_from_expected(execution) if is_first else None
        if state is None:
            # The log has entries of this run only if the run has begun with this database before.
            is_new = is_first and not self.has_sent
            run_id = None if is_new and self._scripts.undo is None else self._run_id
            state = self._read_state(execution, run_id)
            self._scripts.expected = (execution.dialect, state.revision, state.has_log)
            self._check_planned(state)
        # What an open transaction has applied cannot be seen. It must commit nothing after the undo
        # of its run, or after another process has ended the tenant, which is at the head by another
        # run. So these execute a script even if it is empty: it waits, and closes the run there.
        must_close = self._scripts.undo is not None or self._may_be_open(state, is_first=is_first)
        is_closed = not must_close
        while not (is_closed and self._scripts.is_done(state)):
            script = self._following or self._scripts.script(execution.dialect, state)
            try:
                is_executed = self._execute(execution, script)
            except Exception as error:
                # Who may not write there has not applied anything, so nothing of it is open.
                if script.applied or not is_write_refused(error):
                    raise
                is_executed = must_close = False
            is_closed = is_executed or not must_close
            if is_executed and script.applied:
                # Its rows in the log are committed, so they need not be read again.
                state = state.after(script.stop, script.applied)
            else:
                state = self._read_state(execution, self._run_id)
                self._check_planned(state)
                is_closed |= self._scripts.is_closed(state)
        return state

    def _may_be_open(self, state: SchemaState, *, is_first: bool) -> bool:
        """Return whether an earlier attempt may still apply something, unless the run is closed.

        After the last revision it cannot, unless that is undone, which closes the run.
        """
        if is_first or not self._scripts.streams.has_log:
            return False
        return not self._scripts.is_closed(state) and not self._scripts.has_last(state.applied)

    def _check_files(self) -> None:
        if self._has_files is not None and not self._has_files():
            raise FilesReplaced

    def _check_planned(self, state: SchemaState) -> None:
        """Check that the run has applied, and will apply, the planned revisions and no other.

        Raises:
            NotPlanned: Something else has migrated the database since it was planned.
        """
        if self._planned_from is None or str(state.revision) == self._planned_from:
            return
        if state.applied and self._scripts.undo is not None:
            return  # `SchemaState.is_newest`: nothing else has migrated it since it was begun
        if state.applied:
            planned_from = self._scripts.streams.parse(self._planned_from)
            planned = self._scripts.pending(planned_from)
            # After an interruption between branches, Alembic can go on in another order.
            if {*state.applied, *self._scripts.pending(state.revision)} == {*planned}:
                return
        raise NotPlanned(self._planned_from, str(state.revision))

    def inspect(self, execution: Execution) -> Inspection:
        """Return the pending revisions.

        Raises:
            Exception: Any error of the drivers, if the revision of the database cannot be read.
        """
        return self._inspect(execution)[0]

    def _inspect(self, execution: Execution) -> tuple[Inspection, SchemaState]:
        state = execution.read_state(undo=self._scripts.undo)
        try:
            pending, error = self._scripts.left(state), None
        except TenantryError as unknown:  # the revisions cannot be read, or not contain this one
            pending, error = [], unknown
        losses = list(islice(self._losses(execution, pending), LOSSES_MAX))
        return Inspection(execution.dialect, state.revision, pending, error, losses), state

    def _losses(self, execution: Execution, pending: Sequence[Applied]) -> Iterator[Loss]:
        """Count what the undo of *pending* revisions drops; what is not there yet has no count."""
        dialect = execution.dialect
        if self._scripts.undo is None or not pending:
            return
        for revision, recording, _ in self._scripts.recorded(dialect, pending, LOSSES_MAX):
            if isinstance(recording, Unrecorded):
                continue
            for table, column in drops_of(recording, dialect.name):
                with contextlib.suppress(Exception):
                    count, is_more = execution.count_lost(table, column, LOST_ROWS_MAX)
                    yield Loss(
                        Applied(revision.stream, revision.name), table, column, count, is_more
                    )

    def rehearse(self, execution: Execution) -> Inspection:
        """Execute the pending revisions, and roll them back.

        Raises:
            Exception: Any error of the drivers, if the revision of the database cannot be read.
        """
        found = self._rehearse(execution)
        seconds = self._rehearsed_seconds
        return found if seconds is None else replace(found, executed_ms=round(seconds * 1_000))

    def _rehearse(self, execution: Execution) -> Inspection:
        while True:
            found, state = self._inspect(execution)
            if found.error is not None or not found.pending:
                return found
            try:
                script = self._scripts.script(execution.dialect, state)
                script.check_can_roll_back()
                tried = 0 if script.is_autocommit else len(script.applied)
                if tried and not self._execute(execution, script, rehearses=True):
                    continue
            except Exception as error:  # noqa: BLE001 - a revision can raise anything
                return replace(found, error=error)
            if tried == len(found.pending):
                return found
            failed = RevisionFailed(found.pending[tried].revision)
            failed.__cause__ = NotRehearsable()
            return replace(found, error=failed)

    def _migrate_from_expected(self, execution: Execution) -> SchemaState | None:
        """Assume that the database is at the same revision as the previous one.

        The compare-and-swap verifies it, and changes nothing if it does not match. Then this
        returns None. It also returns None on other errors: reading the state finds them again.
        What an undo does depends on the log, too, so it always reads the state.
        """
        dialect, start, has_log = self._scripts.expected or (None, None, True)
        if start is None or self._scripts.undo is not None:
            return None
        if start == self._scripts.head() or dialect is not execution.dialect:
            return None
        if self._planned_from not in (None, str(start)):
            return None
        try:
            script = self._scripts.get(execution.dialect, start, has_log=has_log)
            if script.is_autocommit or not self._execute(execution, script):
                return None
        except RevisionFailed:
            raise
        except Exception:  # noqa: BLE001 - see above
            return None
        return SchemaState(script.stop, script.applied)

    def _read_state(self, execution: Execution, run_id: UUID | None) -> SchemaState:
        execution.guard.awaits_other = False
        while True:
            try:
                state = execution.read_state(run_id, self._scripts.undo)
            except Exception as error:  # noqa: BLE001 - it is raised if it is not a lock
                self._pause_at_lock(execution, error)
            else:
                if not self._scripts.is_done(state) and self._scripts.is_closed(state):
                    raise RunUndone
                if self._must_be_logged and not state.is_logged:
                    raise LogLost
                return state

    def _execute(self, execution: Execution, script: Script, *, rehearses: bool = False) -> bool:
        """Execute a script; return False if the state must be read again.

        Raises:
            Exception: An error of the drivers or the revisions that no retry can fix.
        """
        self.has_sent, self._following = True, None
        steps = script.steps(self._run_id, self._timeouts)
        has_next = bool(script.rest)
        wait_ms = self._timeouts.swap_ms
        began = monotonic_seconds()
        try:
            execution.execute(steps, wait_ms=wait_ms, rehearses=rehearses, has_next=has_next)
        except SchemaMoved:  # another run has migrated the database, or is doing so: wait for it
            self._moves += 1
            pause = backoff_seconds(
                MOVED_PAUSE_SECONDS, self._moves, longest=MOVED_PAUSE_SECONDS_MAX, jitter=1
            )
            execution.guard.awaits_other = True  # also where the lock is only tried
            execution.guard.sleep(pause)
        except Exception as error:  # noqa: BLE001 - it is raised if it is not a lock
            self._pause_at_lock(execution, error)
        else:
            self._lock_timeouts = self._races = self._moves = 0
            self._following = script.following
            return True
        finally:
            if rehearses:
                self._rehearsed_seconds = (
                    monotonic_seconds() - began + (self._rehearsed_seconds or 0)
                )
        return False

    def _pause_at_lock(self, execution: Execution, error: Exception) -> None:
        """Pause before the next attempt if it may succeed after *error*; else raise it."""
        is_race, is_lock = is_shared_object_race(error), is_lock_timeout(error)
        self._races += is_race
        self._lock_timeouts += is_lock
        tries, tries_max = (
            (self._races, RACE_TRIES_MAX) if is_race else (self._lock_timeouts, LOCK_TRIES_MAX)
        )
        if not (is_race or is_lock) or tries >= tries_max or execution.guard.is_final:
            raise error
        # With jitter, so that two transactions that collided do not collide again.
        execution.guard.sleep(backoff_seconds(self._lock_pause_seconds, jitter=1))
