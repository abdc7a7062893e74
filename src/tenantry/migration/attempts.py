"""One database while it is migrated: what is tried there, how often, and what came of it."""

import asyncio
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial
from uuid import UUID

from tenantry.kit.clock import monotonic_seconds, utc_now
from tenantry.kit.errors import Unavailable
from tenantry.kit.ids import new_id
from tenantry.migration.errors import is_lock_timeout
from tenantry.migration.execution import DatabaseConnection, SchemaState
from tenantry.migration.run_scripts import RunScripts
from tenantry.migration.schema_state import Applied, SchemaRevision
from tenantry.migration.scripts import bootstrap
from tenantry.migration.statements import LockTimeouts, SchemaMoved, Step
from tenantry.migration.streams import RevisionFailed

LOCK_TRIES_MAX = 3
LOCK_PAUSE_SECONDS_MAX = 1.0
MOVED_PAUSE_SECONDS = 0.005
MOVED_PAUSE_SECONDS_MAX = 1.0
SPARE_SECONDS_MAX = 3.0
SPARE_PART_MAX = 0.2


@dataclass(frozen=True, kw_only=True)
class TimeLimits:
    """How long the migration of one database may take, and wait.

    Attributes:
        connect_seconds: For a connection.
        deadline_seconds: For everything.
        lock_ms: At one lock, with the tenant's traffic behind.
    """

    connect_seconds: float
    deadline_seconds: float
    lock_ms: int

    @property
    def work_seconds(self) -> float:
        """How long the work may take, so that there is time to find out what became of it."""
        spare = min(SPARE_SECONDS_MAX, self.deadline_seconds * SPARE_PART_MAX)
        return self.deadline_seconds - spare


@dataclass(frozen=True, slots=True)
class MigrationResult:
    """What became of one database.

    Attributes:
        applied: What the run has applied there, by the database's own log: after a crash it
            may be more than this attempt did, and after a failure it is what stayed.
        revision: Where it now stands.
        error: Why it is not at the head; None when it is.
    """

    applied: list[Applied]
    revision: SchemaRevision
    error: Exception | None


@dataclass(frozen=True, slots=True)
class Inspection:
    """What a run would find in one database, and would do there.

    Attributes:
        revision: Where it stands.
        pending: What would be applied, in order; nothing when that cannot be told.
        error: Why it cannot be told; or why it failed when it was rehearsed.
    """

    revision: SchemaRevision
    pending: list[Applied]
    error: Exception | None = None


class NotRehearsable(Unavailable):
    """It runs outside a transaction, so neither it nor what follows can be rehearsed."""


class Visit:
    """One database while it is looked at or migrated, on one connection.

    Args:
        migrator: Has the connection.
        scripts: Of the run.
        patience: With this database.
    """

    def __init__(
        self, migrator: DatabaseConnection, scripts: RunScripts, patience: TimeLimits
    ) -> None:
        self._migrator = migrator
        self._scripts = scripts
        self._patience = patience
        self._ends = monotonic_seconds() + patience.work_seconds
        self._failed = self._moved = 0
        self.has_sent = False

    async def standing(self, run_id: UUID | None = None) -> SchemaState:
        """Return where the database stands, and what a run has applied there."""
        return await self._migrator.read_state(run_id)

    async def bootstrap(self) -> None:
        """Make an empty database ready for scripts."""
        await self._migrator.play(bootstrap(self._migrator.dialect))

    async def migrate(
        self, run_id: UUID, now: Callable[[], datetime], *, is_first: bool
    ) -> MigrationResult:
        """Bring the database to the head, and tell what became of it.

        Raises:
            Exception: Whatever went wrong, when not even that can be told.
        """
        try:
            standing = await self.to_head(run_id, now, is_first=is_first)
        except Exception as error:  # noqa: BLE001 - a revision can raise anything; it is the outcome
            try:
                standing = await self.standing(run_id)
            except Exception as unreadable:
                raise error from unreadable
            return MigrationResult(standing.applied, standing.revision, error)
        return MigrationResult(standing.applied, standing.revision, None)

    async def to_head(
        self, run_id: UUID, now: Callable[[], datetime], *, is_first: bool
    ) -> SchemaState:
        """Bring the database to the head.

        Args:
            run_id: The run.
            now: The clock.
            is_first: Nobody has begun with it in this run, so the log need not be asked.

        Raises:
            Exception: Whatever the drivers and the revisions raise.
        """
        head = await self._scripts.head()
        standing = await self._leap(run_id, now) if is_first else None
        if standing is None:
            has_begun = self.has_sent or not is_first
            standing = await self._migrator.read_state(run_id if has_begun else None, leave_at=head)
            self._scripts.expected_revision = standing.revision
        while standing.revision != head:
            script = await self._scripts.get(self._migrator.dialect, standing.revision)
            if await self._play(partial(script.steps, run_id, now()), leaves=script.stop == head):
                # Its rows in the log are committed, so they need not be read again.
                standing = SchemaState(script.stop, [*standing.applied, *script.applied])
            else:
                standing = await self._migrator.read_state(run_id, leave_at=head)
        return standing

    async def _leap(self, run_id: UUID, now: Callable[[], datetime]) -> SchemaState | None:
        """Play from where the database before this one stood, or return None: then look.

        A fleet stands at one place, mostly. The script makes sure of that, and nothing is
        changed where it is not so; what else is wrong is found again with a look.
        """
        start, head = self._scripts.expected_revision, await self._scripts.head()
        if start is None or start == head:
            return None
        try:
            script = await self._scripts.get(self._migrator.dialect, start)
            if script.is_outside:
                return None
            steps = partial(script.steps, run_id, now())
            is_played = await self._play(steps, leaves=script.stop == head)
        except RevisionFailed:
            raise
        except Exception:  # noqa: BLE001 - see above
            return None
        return SchemaState(script.stop, script.applied) if is_played else None

    async def look(self) -> Inspection:
        """Tell what is pending."""
        position = (await self.standing()).revision
        try:
            return Inspection(position, await self._scripts.pending(position))
        except Unavailable as error:  # the revisions cannot be read, or do not lead on from here
            return Inspection(position, [], error)

    async def rehearse(self) -> Inspection:
        """Try what is pending, and take it back."""
        while (looked := await self.look()).pending:
            try:
                script = await self._scripts.get(self._migrator.dialect, looked.revision)
                tried = 0 if script.is_outside else len(script.applied)
                if not tried or await self._play(partial(script.rehearsal, new_id(), utc_now())):
                    _check_tried(looked.pending, tried)
                    break
            except Exception as error:  # noqa: BLE001 - a revision can raise anything; it is the outcome
                return replace(looked, error=error)
        return looked

    async def _play(
        self, steps: Callable[[LockTimeouts], Sequence[Step]], *, leaves: bool = False
    ) -> bool:
        """Play a script, and return whether it was played to its end; else it is worth a look.

        Args:
            steps: Of the script.
            leaves: It is the last.

        Raises:
            Exception: Whatever the drivers and the revisions raise, if no other try is worth it.
        """
        self.has_sent = True
        left_ms = max(1, int((self._ends - monotonic_seconds()) * 1000))
        limits = LockTimeouts(swap_ms=left_ms, lock_ms=self._patience.lock_ms)
        try:
            await self._migrator.play(steps(limits), leaves=leaves)
        except (
            SchemaMoved
        ):  # by another run, which is as good; or it is about to, which takes a while
            self._moved += 1
            longest = min(MOVED_PAUSE_SECONDS_MAX, MOVED_PAUSE_SECONDS * 2**self._moved)
        except Exception as error:
            self._failed += 1
            if self._failed >= LOCK_TRIES_MAX or not is_lock_timeout(error):
                raise
            # Whoever holds the lock gets a moment, and two that collided part ways.
            longest = LOCK_PAUSE_SECONDS_MAX
        else:
            self._failed = self._moved = 0
            return True
        await asyncio.sleep(random.uniform(0, longest))  # noqa: S311
        return False


def _check_tried(pending: Sequence[Applied], tried: int) -> None:
    """Check that everything was tried.

    Raises:
        RevisionFailed: A revision cannot be.
    """
    if tried < len(pending):
        raise RevisionFailed(pending[tried].revision) from NotRehearsable()
