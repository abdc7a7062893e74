"""The runs that this process works on, each with its latest known state.

A run can be stopped by any process, and then no more of its tenants may start. So a tenant starts
only if a recent read of its run found no stop, and not while unwritten failures may exceed the
run's maximum.
"""

import asyncio
import contextlib
from collections import OrderedDict
from collections.abc import Callable, Mapping
from uuid import UUID

from tenantry.catalog import notices, run_tenants, runs, stored_plans, workers
from tenantry.catalog.database import Catalog
from tenantry.catalog.pace import PACE, Pace
from tenantry.catalog.run_tenants import MigrationRunEnded
from tenantry.catalog.runs import NOT_ATTEMPTED, MigrationRun, Progress
from tenantry.catalog.stored_plans import PlanNotFound
from tenantry.fleet.approval import file_changes, summary
from tenantry.fleet.in_flight import InFlight
from tenantry.fleet.run_undo import known_scripts
from tenantry.kit.clock import monotonic_seconds, utc_now
from tenantry.migration.project_files import TooManyFiles
from tenantry.migration.run_scripts import RunScripts
from tenantry.migration.streams import BadStream, Streams

RUNS_REMEMBERED_MAX = 100
# How long a read of a run's state is trusted.
STATE_SECONDS_MAX = 0.25
HELD = "No running process has the files of the run."
REVISIONS_UNKNOWN = f"{NOT_ATTEMPTED}no running worker has the revisions of this run"


class ActiveRun:
    """One run that this process works on.

    Args:
        in_flight: Counts the failures that are not in the catalog's count yet.
        planned: The hashes of the files of its plan, by name; None without a plan.

    Attributes:
        is_known: Whether the scripts lead to the head of the run.
        since: When this process began to work on it, by the monotonic clock.
        stop_reason: Why no more tenants of the run may start; None while they may.
    """

    def __init__(
        self,
        run_id: UUID,
        scripts: RunScripts,
        in_flight: InFlight,
        *,
        is_known: bool = True,
        planned: Mapping[str, str] | None = None,
    ) -> None:
        self.run_id = run_id
        self.scripts = scripts
        self.is_known = is_known
        self.since = monotonic_seconds()
        self.stop_reason = None if is_known else REVISIONS_UNKNOWN
        self._in_flight = in_flight
        self._planned = planned
        self._max_failures: int | None = None
        self._failed_count = 0
        self._read_at = float("-inf")
        self._updated = asyncio.Event()
        self._reading = asyncio.Lock()

    def update(self, run: MigrationRun, *, read_at: float = float("-inf")) -> None:
        """Store the state of the run, as read or written. A stop is final.

        Its stored reason comes before `REVISIONS_UNKNOWN`: it may have been cancelled before.
        *read_at* is when the read began, by the monotonic clock: it may be long ago. After a write,
        the answer of its COMMIT may have been late, so that says nothing.
        """
        self.stop_reason = run.stop_reason or self.stop_reason
        limits = [one for one in (run.max_failures, run.wave_failed_max) if one is not None]
        self._max_failures = min(limits, default=None)
        self._failed_count = max(self._failed_count, run.failed_count)
        self._read_at = max(self._read_at, read_at)
        updated, self._updated = self._updated, asyncio.Event()
        updated.set()

    @property
    def is_planned(self) -> bool:
        """Whether the run has a plan."""
        return self._planned is not None

    def has_planned_files(self) -> bool:
        """Return whether this process still has the files of the plan, if there is a plan."""
        return self._planned is None or self.scripts.has(self._planned)

    async def is_clear(self, catalog: Catalog) -> bool:
        """Return True if `stop_reason` is up to date; if False, call again.

        If False, unwritten failures were awaited for a moment, so that the caller can stop waiting
        between two calls. What was read less than `STATE_SECONDS_MAX` before the call, or later, is
        up to date, however late the answer is.

        Raises:
            DatabaseUnavailable: The state cannot be read.
        """
        if self.stop_reason is not None:
            return True
        if self._may_exceed_failures:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(STATE_SECONDS_MAX):
                    await self._updated.wait()
            return False
        called_at = monotonic_seconds()
        if called_at - self._read_at < STATE_SECONDS_MAX:
            return True
        async with self._reading:  # one read for all tasks that wait for it
            if called_at - self._read_at >= STATE_SECONDS_MAX:
                read_at = monotonic_seconds()
                self.update(await runs.get(catalog, self.run_id), read_at=read_at)
        return not self._may_exceed_failures

    @property
    def _may_exceed_failures(self) -> bool:
        unwritten = self._in_flight.failures_unwritten(self.run_id)
        return (
            self._max_failures is not None
            and unwritten > 0
            and self._failed_count + unwritten > self._max_failures
        )


class ActiveRuns:
    """The runs that this process works on.

    Args:
        in_flight: Counts the failures that are not in the catalog's count yet.
        pace: How long a run waits for a process that has its revisions.
    """

    def __init__(
        self, streams: Callable[[], Streams], in_flight: InFlight, pace: Pace = PACE
    ) -> None:
        self._streams = streams
        self._in_flight = in_flight
        self._pace = pace
        self._runs: OrderedDict[UUID, ActiveRun] = OrderedDict()
        self._unknown: OrderedDict[UUID, tuple[float, float]] = OrderedDict()

    def begin(
        self,
        run_id: UUID,
        scripts: RunScripts,
        *,
        is_known: bool = True,
        planned: Mapping[str, str] | None = None,
    ) -> ActiveRun:
        """Return the active run, created with these scripts if this process has none.

        There is one object for each run, because tasks keep it and wait for its updates.
        """
        active = ActiveRun(run_id, scripts, self._in_flight, is_known=is_known, planned=planned)
        active = self._runs.setdefault(run_id, active)
        if len(self._runs) > RUNS_REMEMBERED_MAX:
            self._runs.popitem(last=False)
        return active

    def update(self, run: Progress) -> None:
        """Store the state of a run, if this process works on it; forget one that has ended."""
        if run.id in self._runs:
            self._runs[run.id].update(run)
            if run.finished_at is not None:
                del self._runs[run.id]

    def leave(self, active: ActiveRun) -> None:
        """Remove a run after its planned files were replaced: other processes work on it."""
        if self._runs.get(active.run_id) is active:
            del self._runs[active.run_id]

    def reset(self) -> None:
        """Remove all runs, until they are read from the catalog again."""
        self._runs.clear()

    @property
    def known(self) -> frozenset[UUID]:
        """The runs of which this process has the revisions, except those it has seen end."""
        return frozenset(run.run_id for run in self._runs.values() if run.is_known)

    def catalog_lost(self) -> None:
        """Restart the time limits of unknown runs: no process could write a heartbeat."""
        self._unknown.clear()

    async def of(self, run: Progress, catalog: Catalog, *, read_at: float) -> ActiveRun | None:
        """Return the active run, or None if this process does not have its revisions.

        *read_at* is when the read of *run* began, by the monotonic clock.

        An older release, or a process that is configured without the user's revisions, would find
        every tenant at its own head and record a success. So it leaves the run to other processes.
        If no process with the revisions had a heartbeat for `Pace.orphaned_seconds`, the run is
        stopped. A run that needs files is held instead, until a process has exactly these: see
        `files_of`.

        Raises:
            DatabaseUnavailable: The catalog cannot be reached.
        """
        active = self._runs.get(run.id) or await self._join(run, catalog)
        if active is not None:
            self._runs.move_to_end(run.id)
            active.update(run, read_at=read_at)
            if run.held_reason is not None and active.is_known:
                await notices.hold(catalog, catalog.subscribed, run.id, None, now=utc_now())
        return active

    async def _join(self, run: Progress, catalog: Catalog) -> ActiveRun | None:
        now = monotonic_seconds()
        first_seen, check_again_at = self._unknown.get(run.id, (now, now))
        if check_again_at > now:
            return None
        if now - check_again_at >= self._pace.orphaned_seconds:  # it was holding, and not polled
            first_seen = now
            self._unknown.pop(run.id, None)
        scripts, is_known = await asyncio.to_thread(known_scripts, run, self._streams())
        files = await files_of(catalog, run)
        if files is not None:
            is_known = await asyncio.to_thread(has_files, run, scripts, files)
        if is_known:
            return self.begin(run.id, scripts, planned=files if run.plan_id else None)
        if await is_known_to_any(catalog, run.id, within_seconds=self._pace.orphaned_seconds):
            first_seen = now
        if files is not None:
            if run.id in self._unknown:  # the process that began it may not have said so before
                await _hold(catalog, run, scripts, files)
        elif now - first_seen >= self._pace.orphaned_seconds:
            await _stop_orphan(catalog, run.id)
            return self.begin(run.id, scripts, is_known=False)
        self._unknown[run.id] = first_seen, now + self._pace.unknown_seconds
        if len(self._unknown) > RUNS_REMEMBERED_MAX:
            self._unknown.popitem(last=False)
        return None


async def files_of(catalog: Catalog, run: MigrationRun) -> Mapping[str, str] | None:
    """Return the hash of each file that a process needs to join a run; None if its head is enough.

    These are the files of its plan, or, if it holds, the revisions with which it began: else the
    tenants that waited would get another one than those of the first wave. A run that is stopped
    needs none.

    Raises:
        DatabaseUnavailable: The catalog cannot be reached.
    """
    if run.stop_reason is not None:
        return None
    if run.plan_id is None:
        return await runs.revision_hashes(catalog, run.id) if run.holds else None
    try:
        return (await stored_plans.get(catalog, run.plan_id)).hashes
    except PlanNotFound:
        return {}


def has_files(run: MigrationRun, scripts: RunScripts, files: Mapping[str, str]) -> bool:
    """Return whether the *scripts* have just the *files* that a run needs; this reads them."""
    if run.plan_id is not None:
        return scripts.has(files)
    try:
        return scripts.hashes(only_revisions=True) == files
    except BadStream:
        return False


def changes_of(run: MigrationRun, scripts: RunScripts, files: Mapping[str, str]) -> str:
    """Return how the files of the *scripts* differ from these, as a sentence; this reads them."""
    try:
        found = scripts.hashes(only_revisions=run.plan_id is None)
    except (BadStream, TooManyFiles) as error:
        return error.message
    return summary(file_changes(files, found))


async def _hold(
    catalog: Catalog, run: MigrationRun, scripts: RunScripts, files: Mapping[str, str]
) -> None:
    """Store why no process works on the run, unless one does."""
    if await is_known_to_any(catalog, run.id):
        return
    reason = f"{HELD} {await asyncio.to_thread(changes_of, run, scripts, files)}"
    async with catalog.begin() as session:
        await notices.hold(session, catalog.subscribed, run.id, reason, now=utc_now())


async def is_known_to_any(
    catalog: Catalog, run_id: UUID, *, within_seconds: float = workers.SILENCE_MS / 1000
) -> bool:
    """Return whether a process that has the revisions of the run had a heartbeat recently."""
    within_ms = int(within_seconds * 1000)
    return any(one.knows(run_id) for one in await workers.published(catalog, within_ms=within_ms))


async def _stop_orphan(catalog: Catalog, run_id: UUID) -> None:
    with contextlib.suppress(MigrationRunEnded):
        async with catalog.begin() as session:
            await run_tenants.stop(session, run_id, reason=REVISIONS_UNKNOWN)
