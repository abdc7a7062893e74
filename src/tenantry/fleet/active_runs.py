"""The runs that this process works on, each with its latest known state.

What has not started when a run is stopped must not start, and the stop may come from any
process. So a part starts only if its run was seen going on a moment ago, and not while
failures are unwritten that may be one too many.
"""

import asyncio
import contextlib
from collections import OrderedDict
from collections.abc import Callable
from datetime import timedelta
from uuid import UUID

from tenantry.catalog import parts
from tenantry.catalog.causes import NOT_ATTEMPTED
from tenantry.catalog.database import Catalog
from tenantry.catalog.progress import Progress
from tenantry.catalog.runs import UnfinishedRun
from tenantry.kit.clock import monotonic_seconds
from tenantry.migration.run_scripts import RunScripts
from tenantry.migration.streams import Streams

RUNS_REMEMBERED_MAX = 100
# How long it is believed that a run goes on.
SEEN_SECONDS_MAX = 0.25
# How soon a run whose revisions this process does not know is looked at again, and after
# how long somebody has to say that nobody knows them.
FOREIGN_SECONDS = 5.0
ORPHANED_AFTER = timedelta(seconds=60)
REVISIONS_UNKNOWN = f"{NOT_ATTEMPTED}no process that works knows the revisions of this run"


class ActiveRun:
    """How this process takes part in one run.

    Args:
        run_id: Of the run.
        scripts: Of the run.
        is_known: Whether they lead to where the run is to bring the tenants.

    Attributes:
        failures_unwritten: Tenants that failed here, and are not in the catalog's count yet.
        stop_reason: Why nothing more of the run may start; None while it goes on.
    """

    def __init__(self, run_id: UUID, scripts: RunScripts, *, is_known: bool = True) -> None:
        self.run_id = run_id
        self.scripts = scripts
        self.failures_unwritten = 0
        self.stop_reason = None if is_known else REVISIONS_UNKNOWN
        self._max_failures: int | None = None
        self._failed_count = 0
        self._seen_at = float("-inf")
        self._seen = asyncio.Event()
        self._looking = asyncio.Lock()

    def see(self, run: Progress | UnfinishedRun) -> None:
        """Take note of how the run is, or was a moment ago: no stop is ever taken back."""
        self.stop_reason = self.stop_reason or run.stop_reason
        self._max_failures = run.max_failures
        self._failed_count = max(self._failed_count, run.failed_count)
        self._seen_at = monotonic_seconds()
        seen, self._seen = self._seen, asyncio.Event()
        seen.set()

    async def is_clear(self, catalog: Catalog) -> bool:
        """Tell whether `stop_reason` now says if the next part may start; else ask again.

        It looks, or waits for a moment, so that whoever asks may give up between.

        Raises:
            DatabaseUnavailable: It cannot be told.
        """
        if self.stop_reason is not None:
            return True
        if self._may_be_one_too_many:
            await self._next_sight()
            return False
        if monotonic_seconds() - self._seen_at < SEEN_SECONDS_MAX:
            return True
        await self._look(catalog)
        return False

    @property
    def _may_be_one_too_many(self) -> bool:
        return (
            self._max_failures is not None
            and self.failures_unwritten > 0
            and self._failed_count + self.failures_unwritten > self._max_failures
        )

    async def _next_sight(self) -> None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(SEEN_SECONDS_MAX):
                await self._seen.wait()

    async def _look(self, catalog: Catalog) -> None:
        async with self._looking:  # one for all that are about to start
            if monotonic_seconds() - self._seen_at >= SEEN_SECONDS_MAX:
                self.see(await parts.progress_of(catalog, self.run_id))


class ActiveRuns:
    """The runs that this process takes part in.

    Args:
        streams: Reads the revisions as they are now.
    """

    def __init__(self, streams: Callable[[], Streams]) -> None:
        self._streams = streams
        self._runs: OrderedDict[UUID, ActiveRun] = OrderedDict()
        self._foreign: OrderedDict[UUID, tuple[float, float]] = OrderedDict()

    def begin(self, run_id: UUID, scripts: RunScripts, *, is_known: bool = True) -> ActiveRun:
        """Take part in a run with these scripts, unless this process does so already.

        Its tasks hold the object and wait for it, so there must be one only.
        """
        active_run = self._runs.setdefault(run_id, ActiveRun(run_id, scripts, is_known=is_known))
        if len(self._runs) > RUNS_REMEMBERED_MAX:
            self._runs.popitem(last=False)
        return active_run

    def see(self, run: Progress) -> None:
        """Take note of how a run is, if this process takes part in it."""
        if run.id in self._runs:
            self._runs[run.id].see(run)

    def forget_failure(self, run_id: UUID) -> None:
        """Take note that a failure is in the catalog's count now."""
        if run_id in self._runs:
            self._runs[run_id].failures_unwritten -= 1

    def forget(self) -> None:
        """Take part in nothing any more, until the runs are come upon again."""
        self._runs.clear()

    async def of(self, run: UnfinishedRun) -> ActiveRun | None:
        """Return how to take part in a run, or None if that is for others.

        An older release, or a process that is configured without the user's revisions,
        would find every tenant at its own head, and call that a success. What nobody has
        taken after a while is ended as failed, by whoever comes upon it.
        """
        active_run = self._runs.get(run.id) or await self._join(run)
        if active_run is not None:
            self._runs.move_to_end(run.id)
            active_run.see(run)
        return active_run

    async def _join(self, run: UnfinishedRun) -> ActiveRun | None:
        now = monotonic_seconds()
        first_seen, look_again_at = self._foreign.get(run.id, (now, now))
        if look_again_at > now:
            return None
        scripts = RunScripts(self._streams())
        is_known = run.head is None or await scripts.have(run.head)
        # By this process's own clock: the clock of the one that began the run may be another.
        if is_known or now - first_seen >= ORPHANED_AFTER.total_seconds():
            return self.begin(run.id, scripts, is_known=is_known)
        self._foreign[run.id] = first_seen, now + FOREIGN_SECONDS
        if len(self._foreign) > RUNS_REMEMBERED_MAX:
            self._foreign.popitem(last=False)
        return None
