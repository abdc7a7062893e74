"""The attempts of one run at one database: retry a lock timeout, or a race with another run."""

import random
from collections.abc import Sequence
from uuid import UUID

from tenantry.migration.errors import is_lock_timeout
from tenantry.migration.execution import Execution
from tenantry.migration.guard import NotRehearsable
from tenantry.migration.revisions import RevisionFailed
from tenantry.migration.run_scripts import RunScripts
from tenantry.migration.schema_state import Applied, SchemaRevision, SchemaState
from tenantry.migration.scripts import Script
from tenantry.migration.statements import LockTimeouts, SchemaMoved

# About 15 s in all, with the default TENANTRY_LOCK_TIMEOUT_MS of 3 s and the pauses.
LOCK_TRIES_MAX = 4
LOCK_PAUSE_SECONDS_MAX = 1.0
MOVED_PAUSE_SECONDS = 0.005
MOVED_PAUSE_SECONDS_MAX = 1.0


class Attempts:
    """Sends the scripts of one run to one database, and retries them.

    Args:
        scripts: The scripts of the run.
        run_id: The run.
        timeouts: The lock timeouts.

    Attributes:
        has_sent: Whether anything was sent that may have been committed.
    """

    def __init__(self, scripts: RunScripts, run_id: UUID, timeouts: LockTimeouts) -> None:
        self._scripts = scripts
        self._run_id = run_id
        self._timeouts = timeouts
        self._lock_timeouts = self._moves = 0
        self.has_sent = False

    def to_head(self, execution: Execution, *, is_first: bool) -> SchemaState:
        """Bring the database to the head.

        Raises:
            Exception: Any error of the drivers and the revisions.
        """
        head = self._scripts.head()
        state = self._migrate_from_expected(execution) if is_first else None
        if state is None:
            # The log has entries of this run only if the run has begun with this database before.
            run_id = self._run_id if self.has_sent or not is_first else None
            state = self._read_state(execution, run_id)
            self._scripts.expected = (execution.dialect, state.revision)
        while state.revision != head:
            script = self._scripts.get(execution.dialect, state.revision)
            if self._execute(execution, script):
                # Its rows in the log are committed, so they need not be read again.
                state = SchemaState(script.stop, [*state.applied, *script.applied])
            else:
                state = self._read_state(execution, self._run_id)
        return state

    def rehearse(
        self, execution: Execution, start: SchemaRevision, pending: Sequence[Applied]
    ) -> bool:
        """Execute the pending revisions and roll them back.

        Returns:
            Whether all of them were executed; if not, the state must be read again.

        Raises:
            RevisionFailed: A revision cannot be rehearsed, or fails.
            Exception: Any error of the drivers.
        """
        script = self._scripts.get(execution.dialect, start)
        script.check_can_roll_back()
        tried = 0 if script.is_autocommit else len(script.applied)
        if tried and not self._execute(execution, script, rehearses=True):
            return False
        if tried < len(pending):
            raise RevisionFailed(pending[tried].revision) from NotRehearsable()
        return True

    def _migrate_from_expected(self, execution: Execution) -> SchemaState | None:
        """Assume that the database is at the same revision as the previous one.

        The compare-and-swap verifies it, and changes nothing if it does not match. Then this
        returns None. It also returns None on other errors: reading the state finds them again.
        """
        if self._scripts.expected is None:
            return None
        dialect, start = self._scripts.expected
        if start == self._scripts.head():
            return None
        try:
            if execution.dialect is not dialect:
                return None
            script = self._scripts.get(dialect, start)
            if script.is_autocommit or not self._execute(execution, script):
                return None
        except RevisionFailed:
            raise
        except Exception:  # noqa: BLE001 - see above
            return None
        return SchemaState(script.stop, script.applied)

    def _read_state(self, execution: Execution, run_id: UUID | None) -> SchemaState:
        while True:
            try:
                return execution.read_state(run_id)
            except Exception as error:  # noqa: BLE001 - it is raised if it is not a lock
                self._pause_at_lock(execution, error)

    def _execute(self, execution: Execution, script: Script, *, rehearses: bool = False) -> bool:
        """Execute a script; return False if the state must be read again.

        Raises:
            Exception: An error of the drivers or the revisions that no retry can fix.
        """
        self.has_sent = True
        steps = script.steps(self._run_id, self._timeouts)
        try:
            execution.execute(steps, wait_ms=self._timeouts.swap_ms, rehearses=rehearses)
        except SchemaMoved:  # another run has migrated the database, or is doing so: wait for it
            self._moves += 1
            longest = min(MOVED_PAUSE_SECONDS_MAX, MOVED_PAUSE_SECONDS * 2**self._moves)
            execution.guard.sleep(random.uniform(0, longest))  # noqa: S311
        except Exception as error:  # noqa: BLE001 - it is raised if it is not a lock
            self._pause_at_lock(execution, error)
        else:
            self._lock_timeouts = self._moves = 0
            return True
        return False

    def _pause_at_lock(self, execution: Execution, error: Exception) -> None:
        """Pause before the next attempt if *error* is a lock timeout or deadlock; else raise it."""
        self._lock_timeouts += 1
        if self._lock_timeouts >= LOCK_TRIES_MAX or not is_lock_timeout(error):
            raise error
        # With jitter, so that two transactions that collided do not collide again.
        execution.guard.sleep(random.uniform(0, LOCK_PAUSE_SECONDS_MAX))  # noqa: S311
