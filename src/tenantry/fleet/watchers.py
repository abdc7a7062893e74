"""Watch a run until it ends, independent of the processes that work on it."""

import asyncio
import contextlib
from collections.abc import AsyncGenerator
from dataclasses import dataclass, field
from uuid import UUID

from tenantry.catalog import runs
from tenantry.catalog.activity import Activity, activity_of
from tenantry.catalog.database import Catalog
from tenantry.catalog.runs import MigrationRun, RunTenant
from tenantry.fleet.worker import Worker
from tenantry.kit.errors import Unavailable

# Each watcher polls the catalog.
WATCHERS_MAX = 100
# The interval of polls, and the shortest one, after this process has written outcomes.
POLL_SECONDS = 0.5
POLL_SECONDS_MIN = 0.1


class TooManyWatchers(Unavailable):
    """Too many clients are watching migration runs. The run continues; see the history."""


@dataclass(frozen=True, slots=True)
class RunUpdate:
    """The changes since the previous poll; may be empty.

    Attributes:
        sequence: The sequence of the last item that was yielded, to continue from.
        items: Tenants that have ended, in that order.
        run: The run, if it or its activity has changed.
        activity: Its activity; only if `run` is set.
    """

    sequence: int
    items: list[RunTenant] = field(default_factory=list)
    run: MigrationRun | None = None
    activity: Activity = field(default_factory=Activity)


class Watchers:
    """The watchers of runs in this process.

    Args:
        worker: Signals when this process has written outcomes, and when it stops.
    """

    def __init__(
        self, catalog: Catalog, worker: Worker, *, watchers_max: int = WATCHERS_MAX
    ) -> None:
        self._catalog = catalog
        self._worker = worker
        self._most = watchers_max
        self._count = 0

    async def watch(self, run_id: UUID, *, after: int = 0) -> AsyncGenerator[RunUpdate, None]:
        """Yield the current state of the run, the items that have ended, and then each change.

        It ends after the last update of the run, or when this process stops. There is an update for
        each poll, at least every `POLL_SECONDS`. It continues after the update with the sequence
        *after*; a sequence that the run has not reached counts as 0.

        Raises:
            MigrationRunNotFound: No run has this id.
            TooManyWatchers: There are `watchers_max` already.
            DatabaseUnavailable: The catalog cannot be reached.
        """
        run = await runs.get(self._catalog, run_id)
        if self._count >= self._most:
            raise TooManyWatchers
        self._count += 1
        try:
            sequence = after if after <= (run.last_sequence or 0) else 0
            activity = await activity_of(self._catalog, run)
            yield RunUpdate(sequence, run=run, activity=activity)
            async with contextlib.aclosing(self._follow(run, activity, sequence)) as updates:
                async for update in updates:
                    yield update
        finally:
            self._count -= 1

    async def _follow(
        self, known: MigrationRun, known_activity: Activity, sequence: int
    ) -> AsyncGenerator[RunUpdate, None]:
        while True:
            written = self._worker.written
            # Read before its items, so that they include every tenant that it counts.
            run = await runs.get(self._catalog, known.id)
            while items := await runs.ended_after(self._catalog, run.id, sequence):
                sequence = items[-1].sequence or sequence
                yield RunUpdate(sequence, items)
            if run.finished_at is not None:
                yield RunUpdate(sequence, run=run)
                return
            if self._worker.is_stopping:
                return
            activity = await activity_of(self._catalog, run)
            is_new = run != known or not activity.is_like(known_activity)
            yield RunUpdate(sequence, run=run if is_new else None, activity=activity)
            known, known_activity = run, activity
            await asyncio.sleep(POLL_SECONDS_MIN)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(POLL_SECONDS):
                    await written.wait()
