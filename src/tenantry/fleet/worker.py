"""Migrate the tenants of migration runs in this process, together with other processes.

One task claims rows in the catalog, a few tasks for each tenant server migrate what was claimed,
and one task writes the outcomes. `InFlight` counts what lies between the claim and the written
outcome.
"""

import asyncio
import contextlib
import os
import socket
from collections.abc import Callable, Mapping
from datetime import datetime
from uuid import UUID

import structlog

from tenantry.catalog import notices, outbox, run_claims, run_results, workers
from tenantry.catalog.database import Catalog
from tenantry.catalog.pace import PACE, Pace
from tenantry.catalog.run_claims import Returned
from tenantry.catalog.run_tenants import Recorded
from tenantry.catalog.runs import NOT_ATTEMPTED, MigrationState, Outcome, RunTenant
from tenantry.catalog.workers import Report
from tenantry.db.sessions import DatabaseUnavailable
from tenantry.fleet import outcomes
from tenantry.fleet.active_runs import ActiveRun, ActiveRuns
from tenantry.fleet.claims import OTHER, POLL_SECONDS, Claimed, Claims
from tenantry.fleet.in_flight import InFlight
from tenantry.fleet.outages import Outages, Verdict
from tenantry.fleet.outcomes import OutcomeWriter
from tenantry.kit.clock import utc_now
from tenantry.kit.metrics import FAILED, SUCCESS, Metrics
from tenantry.kit.release import VERSION
from tenantry.kit.tracing import span
from tenantry.migration.errors import explain
from tenantry.migration.lock_retries import NOT_READ, FilesReplaced
from tenantry.migration.migrator import Migrator
from tenantry.migration.run_scripts import RunScripts
from tenantry.migration.schema_state import SchemaState
from tenantry.migration.streams import Streams
from tenantry.migration.undo import MovedOn
from tenantry.tenant.databases import TenantDatabases
from tenantry.work.heartbeat import Heartbeat

PROGRAM = f"{socket.gethostname()}, process {os.getpid()}, release {VERSION}"
# Processes find out within this time that a server is away.
FOUND_WITHIN_MS = 10_000

_log = structlog.get_logger(__name__)


class Worker:
    """Migrates the tenants of every unfinished run, until it is stopped.

    Args:
        metrics: Counts finished tenants and runs.
        concurrency: How many tenants are migrated concurrently on each server, by its name.
        patience_seconds: How long the tenants of a server that is away wait.
        pace: How often it writes to the catalog, and how much at once.

    Attributes:
        written: Set when this process next writes outcomes to the catalog, and then replaced.
        run_ended: Set when this process next ends a run, or has stopped, and then replaced.
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
        concurrency: Mapping[str, int],
        patience_seconds: float,
        pace: Pace = PACE,
    ) -> None:
        self.heartbeat = heartbeat
        self._catalog = catalog
        self._databases = databases
        self._migrator = migrator
        self._metrics = metrics
        self._concurrency = concurrency
        self._pace = pace
        self._in_flight = InFlight()
        self._runs = ActiveRuns(streams, self._in_flight, pace)
        self._outages = Outages(
            databases,
            patience_seconds=patience_seconds,
            returned=lambda: self._claims.hint(),  # noqa: PLW0108 - they are created below
            announce=self._announce,
        )
        self._claims = Claims(
            catalog,
            heartbeat,
            self._runs,
            self._outages,
            self._in_flight,
            server_names=concurrency.keys(),
            closed=self._follow_up,
            pace=pace,
        )
        self._writer = OutcomeWriter(
            catalog, heartbeat, self._in_flight, written=self._outcomes_written, pace=pace
        )
        self.run_ended = asyncio.Event()
        self.written = asyncio.Event()

    @property
    def is_idle(self) -> bool:
        """Whether nothing is in flight in this process."""
        return self._in_flight.is_idle

    @property
    def is_stopping(self) -> bool:
        """Whether this process claims no more tenants."""
        return self._in_flight.is_stopping

    def report(self) -> Report:
        """Return what this process publishes to the others with its heartbeat."""
        return Report(
            self._runs.known,
            self._outages.seconds_away,
            self._outages.causes,
            self._claims.unknown_servers,
            self._in_flight.in_work,
            PROGRAM,
        )

    def begin(
        self, run_id: UUID, scripts: RunScripts, planned: Mapping[str, str] | None = None
    ) -> None:
        """Start to claim tenants of a new run, and migrate them with these scripts.

        *planned* are the hashes of the files of its plan, if it has one.
        """
        self._runs.begin(run_id, scripts, planned=planned)
        self._claims.hint()

    def hint(self) -> None:
        """Claim at once: a run was continued."""
        self._claims.hint()

    async def close(self, run_id: UUID) -> bool:
        """End some tenants of a stopped run that no process has ever claimed.

        This process and others end the rest, in batches. Return whether there may be a rest.

        If the catalog cannot be reached, the next process that polls the run ends them.
        """
        has_more = False
        with contextlib.suppress(DatabaseUnavailable):
            has_more = await self._claims.close(run_id)
        self._claims.hint()
        return has_more

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
                for name, count in {**self._concurrency, OTHER: 1}.items():
                    for _ in range(count):
                        group.create_task(self._migrate_claimed(name))
                await self._claims.work()
        finally:
            self._writer.reset()
            self._runs.reset()
            self._claims.reset()
            self._in_flight.reset()

    async def stop(self) -> None:
        """Claim no more tenants, finish the started ones, and release the others.

        If the catalog does not store the last outcomes within `Pace.last_outcomes_seconds`,
        other processes read them from the tenants' own databases.
        """
        self._in_flight.stop()
        while not self._in_flight.is_idle:
            if self._writer.is_blocked_for(self._pace.last_outcomes_seconds):
                _log.error("outcomes not written", outcomes=self._in_flight.count)
                break
            await asyncio.sleep(POLL_SECONDS / 10)
        else:
            await self._claims.release()
        self._set_run_ended()

    async def _migrate_claimed(self, server_name: str) -> None:
        while True:
            claimed = await self._claims.next(server_name)
            stop_reason = claimed.withheld or await self._stop_reason(claimed.run)
            if self._in_flight.is_stopping:
                self._in_flight.released(claimed.item)  # `stop` releases it in the catalog
                continue
            self._in_flight.started(claimed.item)
            outcome = await self._outcome(claimed, stop_reason)
            self._in_flight.finished(outcome)
            self._writer.put(outcome)

    async def _outcome(self, claimed: Claimed, stop_reason: str | None) -> Outcome | Returned:
        run = claimed.run
        if stop_reason is not None:
            return await self._skip(claimed, stop_reason)
        if run.is_planned and not await asyncio.to_thread(run.has_planned_files):
            return self._leave(claimed, may_have_started=claimed.was_held)
        with span(
            "migrate tenant",
            run_id=str(claimed.item.run_id),
            tenant_id=str(claimed.item.tenant_id),
            server=claimed.item.server_name,
        ) as traced:
            outcome = await self._migrate(claimed)
            if traced is not None and isinstance(outcome, Outcome) and outcome.item.error:
                traced.fail("MigrationFailed")
            return outcome

    def _leave(self, claimed: Claimed, *, may_have_started: bool) -> Returned:
        self._runs.leave(claimed.run)
        return Returned(claimed.item, may_have_started=may_have_started)

    async def _stop_reason(self, run: ActiveRun) -> str | None:
        while not self._in_flight.is_stopping:
            try:
                if await run.is_clear(self._catalog):
                    return run.stop_reason
            except DatabaseUnavailable as error:
                _log.warning("catalog unavailable, starting later", cause=explain(error))
                await asyncio.sleep(POLL_SECONDS)
        return None

    async def _migrate(self, claimed: Claimed) -> Outcome | Returned:
        """Migrate a tenant, or return it to the queue if a server is away, or it was moved."""
        item, outages = claimed.item, self._outages
        started_at, is_first = utc_now(), not claimed.was_held
        while True:
            if outages.is_given_up(item.server_name):
                return outcomes.failed(item, outages.error(item.server_name), started_at=started_at)
            if outages.is_away(item.server_name):
                return Returned(item, may_have_started=not is_first)
            state: SchemaState | None = None
            try:
                attempt = await self._attempt(claimed, is_first=is_first)
                if isinstance(attempt, Returned):
                    return attempt
                state, error = attempt, attempt.error
            except Exception as failed:  # noqa: BLE001 - one bad tenant must not stop the others
                error = failed
            if isinstance(error, FilesReplaced):
                return self._leave(claimed, may_have_started=True)
            if error is not None and await self._is_lost(item):
                return Returned(item, may_have_started=True)
            if error is None or await outages.judge(item, error) is Verdict.FAILED:
                return _outcome_of(claimed, state, error, started_at)
            is_first = False

    async def _attempt(self, claimed: Claimed, *, is_first: bool) -> SchemaState | Returned:
        """Migrate a tenant once, or return it if it is lost, or the catalog does not answer.

        It does not wait for the catalog: until that answers, the run may be stopped.
        """
        item, run, catalog = claimed.item, claimed.run, self._catalog
        try:
            place = await self._databases.place_of(item)
            scripts = run.scripts.of(is_attached=place.is_attached)
            # What the catalog knows and the log does not was replaced: it is not undone.
            must_be_logged = scripts.undo is not None and await run_results.has_applied(
                catalog, scripts.undo.run_id, item.tenant_id
            )
            if self.heartbeat.has_lapsed_since(claimed.lapses) and await run_claims.is_lost(
                catalog, item, worker_id=self.heartbeat.worker_id
            ):
                return Returned(item, may_have_started=True)
        except DatabaseUnavailable:
            await asyncio.sleep(POLL_SECONDS)
            return Returned(item, may_have_started=not is_first)
        return await self._migrator.migrate(
            place.url,
            scripts,
            run_id=item.run_id,
            is_first=is_first,
            planned_from=(item.planned_from or NOT_READ) if run.is_planned else None,
            has_files=run.has_planned_files,
            must_be_logged=must_be_logged,
        )

    async def _is_lost(self, item: RunTenant) -> bool:
        """Return whether the error of a tenant can be that of a move, which waits for no claim.

        Also whether another process has it by now: its run may have ended, and been undone.
        """
        while True:
            try:
                worker_id = self.heartbeat.worker_id
                return await run_claims.is_lost(self._catalog, item, worker_id=worker_id)
            except DatabaseUnavailable:
                if self._in_flight.is_stopping:
                    return True  # the next worker finds out
            await asyncio.sleep(POLL_SECONDS)

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
            place = await self._databases.place_of(item)
            scripts = run.scripts.of(is_attached=place.is_attached)
            found = await self._migrator.read_state(
                place.url, scripts.streams, run_id=item.run_id, undo=scripts.undo
            )
            is_done = bool(found.applied) and await asyncio.to_thread(scripts.is_done, found)
        except Exception:  # noqa: BLE001 - the outcome is then that it was not attempted
            _log.info("tenant not inspected", tenant=str(item.tenant_id), exc_info=True)
            return outcomes.not_attempted(item, stop_reason)
        if is_done:
            return _outcome_of(claimed, found, None, started_at)
        applied, position = _names(found, run), str(found.revision)
        return outcomes.not_attempted(item, stop_reason, applied=applied, position=position)

    async def _announce(self, server_name: str, *, is_away: bool) -> None:
        """Queue that a server is away, or back to all processes, unless another one has done so.

        The first process to find it away queues that, and the last one to reach it that it is back:
        it is the last one that publishes this, and then reads what the others have published.
        """
        catalog, own = self._catalog, self.heartbeat.worker_id
        if not catalog.subscribed:
            return
        try:
            if not is_away:
                await self.heartbeat.beat(self.report())
            async with catalog.begin() as session:
                now_ms = await workers.now_ms(session)
                since_ms = [
                    one.away_since_ms[server_name]
                    for one in await workers.published(session)
                    if one.id != own and server_name in one.away_since_ms
                ]
                # Those that find it away at the same time queue it with the same key.
                if not any(not is_away or ms < now_ms - FOUND_WITHIN_MS for ms in since_ms):
                    notice = notices.of_server(server_name, is_away=is_away, at_ms=now_ms)
                    await outbox.add(session, catalog.subscribed, [notice], now=utc_now())
        except DatabaseUnavailable as error:
            _log.warning("server not announced", server=server_name, cause=explain(error))

    def _outcomes_written(self, recorded: Recorded) -> None:
        self._follow_up(recorded)
        written, self.written = self.written, asyncio.Event()
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

    def _set_run_ended(self) -> None:
        ended, self.run_ended = self.run_ended, asyncio.Event()
        ended.set()


def _outcome_of(
    claimed: Claimed, state: SchemaState | None, error: Exception | None, started_at: datetime
) -> Outcome:
    item = claimed.item
    applied = _names(state, claimed.run) if state else []
    position = str(state.revision) if state else None
    if isinstance(error, MovedOn) and not applied:
        return outcomes.not_attempted(item, f"{NOT_ATTEMPTED}{error.message}")
    if error is not None:
        return outcomes.failed(
            item, error, started_at=started_at, applied=applied, position=position
        )
    return outcomes.succeeded(item, started_at=started_at, applied=applied, position=position)


def _names(state: SchemaState, run: ActiveRun) -> list[str]:
    return [run.scripts.streams.display(one) for one in state.applied]
