"""Migrate the tenants of migration runs in this process, together with other processes.

One task claims rows in the catalog, a few tasks migrate what was claimed, and one task writes
the outcomes. `InFlight` counts what lies between the claim and the written outcome.
"""

import asyncio
import contextlib
import os
import socket
from collections.abc import Callable
from datetime import datetime
from uuid import UUID

import structlog

from tenantry.catalog.database import Catalog
from tenantry.catalog.run_tenants import Recorded
from tenantry.catalog.runs import MigrationState, Outcome, RunTenant
from tenantry.catalog.waiting import Returned
from tenantry.catalog.workers import Report
from tenantry.db.sessions import DatabaseUnavailable
from tenantry.fleet import outcomes
from tenantry.fleet.active_runs import ActiveRun, ActiveRuns
from tenantry.fleet.claims import POLL_SECONDS, Claimed, Claims
from tenantry.fleet.heartbeat import Heartbeat
from tenantry.fleet.in_flight import InFlight
from tenantry.fleet.outages import Outages, Verdict
from tenantry.fleet.outcomes import OutcomeWriter
from tenantry.kit.clock import utc_now
from tenantry.kit.metrics import FAILED, SUCCESS, Metrics
from tenantry.kit.release import VERSION
from tenantry.migration.migrator import MigrationResult, Migrator
from tenantry.migration.run_scripts import RunScripts
from tenantry.migration.streams import Streams
from tenantry.tenant.databases import TenantDatabases

# How long a process that stops waits until the catalog has stored its last outcomes.
LAST_OUTCOMES_SECONDS_MAX = 20.0

PROGRAM = f"{socket.gethostname()}, process {os.getpid()}, release {VERSION}"

_log = structlog.get_logger(__name__)


class Worker:
    """Migrates the tenants of every unfinished run, until it is stopped.

    Args:
        catalog: Holds the runs.
        databases: Returns the address of each tenant's database.
        migrator: Migrates one database.
        heartbeat: Holds the id of this process.
        streams: Reads the current revisions.
        metrics: Counts finished tenants and runs.
        concurrency: How many tenants are migrated concurrently.
        patience_seconds: How long the tenants of a server that is away wait.
    """

    def __init__(
        self,
        catalog: Catalog,
        databases: TenantDatabases,
        migrator: Migrator,
        heartbeat: Heartbeat,
        streams: Callable[[], Streams],
        *,
        metrics: Metrics,
        concurrency: int,
        patience_seconds: float,
    ) -> None:
        self._catalog = catalog
        self._databases = databases
        self._migrator = migrator
        self._metrics = metrics
        self._concurrency = concurrency
        self._in_flight = InFlight()
        self._runs = ActiveRuns(streams, self._in_flight)
        self._outages = Outages(
            databases, patience_seconds=patience_seconds, returned=self._poll_at_once
        )
        self._claims = Claims(
            catalog,
            heartbeat,
            self._runs,
            self._outages,
            self._in_flight,
            closed=self._follow_up,
        )
        self._writer = OutcomeWriter(
            catalog, heartbeat, self._in_flight, written=self._outcomes_written
        )
        self._run_ended = asyncio.Event()
        self._written = asyncio.Event()

    @property
    def is_idle(self) -> bool:
        """Whether nothing is in flight in this process."""
        return self._in_flight.is_idle

    @property
    def is_stopping(self) -> bool:
        """Whether this process claims no more tenants."""
        return self._in_flight.is_stopping

    @property
    def written(self) -> asyncio.Event:
        """An event that is set when this process next writes outcomes to the catalog."""
        return self._written

    @property
    def run_ended(self) -> asyncio.Event:
        """An event that is set when this process next ends a run, or has stopped."""
        return self._run_ended

    def report(self) -> Report:
        """Return what this process publishes to the others with its heartbeat."""
        return Report(
            self._runs.known, self._outages.seconds_away, self._in_flight.in_work, PROGRAM
        )

    def begin(self, run_id: UUID, scripts: RunScripts) -> None:
        """Start to claim tenants of a new run, and migrate them with these scripts."""
        self._runs.begin(run_id, scripts)
        self._claims.hint()

    async def close(self, run_id: UUID) -> None:
        """End the tenants of a stopped run that no process has ever claimed.

        If the catalog cannot be reached, the next process that polls the run ends them.
        """
        with contextlib.suppress(DatabaseUnavailable):
            await self._claims.close(run_id)
        self._claims.hint()

    async def work(self) -> None:
        """Claim, migrate and write outcomes, until cancelled.

        When it ends, for any reason, everything in flight is dropped, so that `stop` waits for
        nothing. This process or another one claims it again, and reads from the tenants' own
        logs what was applied.
        """
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self._writer.work())
                group.create_task(self._outages.work())
                for _ in range(self._concurrency):
                    group.create_task(self._migrate_claimed())
                await self._claims.work()
        finally:
            self._writer.reset()
            self._runs.reset()
            self._claims.reset()
            self._in_flight.reset()

    async def stop(self) -> None:
        """Claim no more tenants, finish the started ones, and release the others.

        If the catalog does not store the last outcomes within `LAST_OUTCOMES_SECONDS_MAX`,
        other processes read them from the tenants' own databases.
        """
        self._in_flight.stop()
        while not self._in_flight.is_idle:
            if self._writer.is_blocked_for(LAST_OUTCOMES_SECONDS_MAX):
                _log.error("outcomes not written", outcomes=self._in_flight.count)
                break
            await asyncio.sleep(POLL_SECONDS / 10)
        else:
            await self._claims.release()
        self._set_run_ended()

    async def _migrate_claimed(self) -> None:
        while True:
            claimed = await self._claims.next()
            stop_reason = claimed.withheld or await self._stop_reason(claimed.run)
            if self._in_flight.is_stopping:
                self._in_flight.released()  # `stop` releases it in the catalog
                continue
            self._in_flight.started(claimed.item)
            if stop_reason is None:
                outcome = await self._migrate(claimed)
            else:
                outcome = await self._skip(claimed, stop_reason)
            self._in_flight.finished(outcome)
            self._writer.put(outcome)

    async def _stop_reason(self, run: ActiveRun) -> str | None:
        while not self._in_flight.is_stopping:
            try:
                if await run.is_clear(self._catalog):
                    return run.stop_reason
            except DatabaseUnavailable:
                _log.warning("catalog unavailable, starting later")
                await asyncio.sleep(POLL_SECONDS)
        return None

    async def _migrate(self, claimed: Claimed) -> Outcome | Returned:
        """Migrate a tenant, or return it to the queue if its server is away."""
        item, outages = claimed.item, self._outages
        started_at, is_first = utc_now(), not claimed.was_held
        while True:
            if outages.is_given_up(item.server_name):
                return outcomes.failed(item, outages.error(item.server_name), started_at=started_at)
            if outages.is_away(item.server_name):
                return Returned(item, may_have_started=not is_first)
            migrated = await self._attempt(claimed, is_first=is_first)
            error = migrated.error if isinstance(migrated, MigrationResult) else migrated
            if error is None or await outages.judge(item, error) is Verdict.FAILED:
                return _outcome_of(claimed, migrated, started_at)
            is_first = False

    async def _attempt(self, claimed: Claimed, *, is_first: bool) -> MigrationResult | Exception:
        item = claimed.item
        try:
            return await self._migrator.migrate(
                self._url(item),
                claimed.run.scripts,
                run_id=item.run_id,
                is_first=is_first,
            )
        except Exception as error:  # noqa: BLE001 - one bad tenant must not stop the others
            return error

    async def _skip(self, claimed: Claimed, stop_reason: str) -> Outcome:
        """Return the outcome of a tenant that must not start, because the run was stopped.

        A worker that held the claim before may have migrated the tenant and died before it wrote
        the outcome. So the tenant's own log is read.
        """
        item, run = claimed.item, claimed.run
        if not claimed.was_held or self._outages.is_away(item.server_name):
            return outcomes.not_attempted(item, stop_reason)
        started_at = utc_now()
        try:
            found = await self._migrator.read_result(
                self._url(item), run.scripts, run_id=item.run_id
            )
            is_done = bool(found.applied) and found.revision == await asyncio.to_thread(
                run.scripts.head
            )
        except Exception:  # noqa: BLE001 - the outcome is then that it was not attempted
            _log.info("tenant not inspected", tenant=str(item.tenant_id), exc_info=True)
            return outcomes.not_attempted(item, stop_reason)
        applied, position = _names(found, run), str(found.revision)
        if is_done:
            return outcomes.succeeded(
                item, started_at=started_at, applied=applied, position=position
            )
        return outcomes.not_attempted(item, stop_reason, applied=applied, position=position)

    def _url(self, item: RunTenant) -> str:
        return self._databases.server(item.server_name).url(item.database_name)

    def _outcomes_written(self, recorded: Recorded) -> None:
        self._follow_up(recorded)
        written, self._written = self._written, asyncio.Event()
        written.set()

    def _follow_up(self, recorded: Recorded) -> None:
        """Update the active runs and the metrics after a write, and wake waiting tasks."""
        for run in recorded.runs:
            self._runs.update(run)
        for state in recorded.states:
            self._metrics.count_tenant(SUCCESS if state == MigrationState.SUCCESS else FAILED)
        for run in recorded.ended:
            self._metrics.count_run(FAILED if run.failed_count else SUCCESS)
        if recorded.ended:
            self._set_run_ended()
        elif self._in_flight.is_idle:
            self._claims.hint()  # the next wave may have started, or a run been stopped

    def _poll_at_once(self) -> None:
        self._claims.hint()

    def _set_run_ended(self) -> None:
        ended, self._run_ended = self._run_ended, asyncio.Event()
        ended.set()


def _outcome_of(
    claimed: Claimed, migrated: MigrationResult | Exception, started_at: datetime
) -> Outcome:
    item = claimed.item
    if not isinstance(migrated, MigrationResult):
        return outcomes.failed(item, migrated, started_at=started_at)
    applied, position = _names(migrated, claimed.run), str(migrated.revision)
    if migrated.error is None:
        return outcomes.succeeded(item, started_at=started_at, applied=applied, position=position)
    return outcomes.failed(
        item, migrated.error, started_at=started_at, applied=applied, position=position
    )


def _names(migrated: MigrationResult, run: ActiveRun) -> list[str]:
    return [run.scripts.streams.display(one) for one in migrated.applied]
