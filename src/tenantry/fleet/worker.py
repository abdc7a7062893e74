"""Migrate every tenant database: plan a run, and walk over what is planned.

No transaction spans two databases. A run is a plan in the catalog (one pending row per
tenant) and a walk over it, by this process and by every other; the version row in each
tenant database stays the truth, and the catalog is the history of what was tried.

In each process one task claims rows, a few tasks migrate what was claimed, and one task
writes the outcomes. A caller of migrate-all only waits, so that a run goes on when its
caller is gone.
"""

import asyncio
import contextlib
from collections.abc import Callable, Sequence
from uuid import UUID

import structlog

from tenantry.catalog import audit, parts, plans, runs
from tenantry.catalog.database import Catalog
from tenantry.catalog.parts import Recorded
from tenantry.catalog.runs import MigrationRun, MigrationState, Outcome, TenantMigration
from tenantry.db.sessions import DatabaseUnavailable
from tenantry.fleet import outcomes, run_options
from tenantry.fleet.active_runs import ActiveRun, ActiveRuns
from tenantry.fleet.claims import POLL_SECONDS, Claimed, Claims
from tenantry.fleet.dry_run import Preview, Previewer
from tenantry.fleet.heartbeat import Heartbeat
from tenantry.fleet.outcomes import OutcomeWriter
from tenantry.fleet.run_options import EVERY_ACTIVE_TENANT, RunOptions
from tenantry.kit.clock import utc_now
from tenantry.kit.context import OperationContext
from tenantry.kit.errors import Unavailable
from tenantry.kit.ids import new_id
from tenantry.kit.metrics import FAILED, SUCCESS, Metrics
from tenantry.migration.migrator import MigrationResult, Migrator
from tenantry.migration.run_scripts import RunScripts
from tenantry.migration.streams import BadStream, Streams
from tenantry.tenant.databases import TenantDatabases

# How long a process that stops waits for the catalog to take its last outcomes.
# Each opens as many connections as a run does, beside the budget; the others wait.
PREVIEWS_MAX = 1
LAST_OUTCOMES_SECONDS_MAX = 20.0

_log = structlog.get_logger(__name__)


class RunGoesOn(Unavailable):
    """This process is stopping; the run goes on, and is in the migration history."""


class Fleet:
    """Migrates the tenants of a catalog, together with any other process.

    Args:
        catalog: Holds the runs.
        databases: Knows where tenants' databases are.
        migrator: Migrates one database.
        runner: This process.
        streams: Reads the revisions as they are now.
        metrics: Count what this process has ended.
        concurrency: How many tenants this process migrates at once.
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
    ) -> None:
        self._catalog = catalog
        self._databases = databases
        self._migrator = migrator
        self._streams = streams
        self._metrics = metrics
        self._concurrency = concurrency
        self._runs = ActiveRuns(streams)
        self._claims = Claims(catalog, heartbeat, self._runs, closed=self._note)
        self._writer = OutcomeWriter(
            catalog,
            heartbeat,
            held_count=lambda: self._claims.held_count,
            written=self._note_written,
        )
        self._ended = asyncio.Event()
        self._previews = asyncio.Semaphore(PREVIEWS_MAX)
        self._written = asyncio.Event()

    async def plan(
        self, ctx: OperationContext, *, triggered_by: str, options: RunOptions = EVERY_ACTIVE_TENANT
    ) -> UUID:
        """Record a run, before the first of its tenants is touched, and return its id.

        Args:
            ctx: Who asks.
            triggered_by: Whose run it is, as the history tells it for ever.
            options: Which tenants it is for, and how it is to go. A run for none has ended.

        Raises:
            BadOrder, BadText: An option breaks a rule.
            MigrationRunNotFound: There is no run with the id in ``options.retry_of``.
        """
        options.check()
        run_id = new_id()
        scripts = RunScripts(self._streams())
        try:
            head = str(await scripts.head())
        except BadStream:
            head = None  # then every tenant fails, and says so
        async with self._catalog.begin() as session:
            selection = await run_options.select(session, options)
            total = await plans.add(
                session,
                run_id,
                now=ctx.now,
                triggered_by=triggered_by,
                head=head,
                label=options.label,
                selection=selection,
                waits=options.waves is not None,
            )
            waves = options.wave_sizes(total)
            await plans.begin(
                session,
                run_id,
                now=ctx.now,
                total=total,
                waves=waves,
                max_failures=options.failures_max(total),
            )
            await parts.open_wave(session, run_id, count=waves[0] if waves else 0)
            target = f"{run_id} {options.label}" if options.label else str(run_id)
            await audit.LOG.add(session, ctx, "migration-run.start", target)
        self._runs.begin(run_id, scripts)
        if not total:
            self._metrics.count_run(SUCCESS)
        self._claims.hint()
        return run_id

    async def preview(
        self, ctx: OperationContext, options: RunOptions = EVERY_ACTIVE_TENANT, *, rehearse: bool
    ) -> Preview:
        """Tell what a run with these options would find; nothing is changed, there is no run.

        Every selected tenant's database is opened, a few at once.

        Args:
            ctx: Who asks; a rehearsal is audited.
            options: Of the run that would be. Its waves and failures are checked alone.
            rehearse: Whether what is pending is run, and rolled back: it takes the same locks.

        Raises:
            BadOrder, BadText: An option breaks a rule.
            MigrationRunNotFound: There is no run with the id in ``options.retry_of``.
        """
        options.check()
        async with self._catalog.begin() as session:
            selection = await run_options.select(session, options)
            selected = await plans.selected(session, selection)
            options.wave_sizes(len(selected))
            if rehearse:
                target = options.label or f"{len(selected)} tenants"
                await audit.LOG.add(session, ctx, "migration-run.rehearse", target)
        previewer = Previewer(
            databases=self._databases, migrator=self._migrator, concurrency=self._concurrency
        )
        async with self._previews:
            return await previewer.preview(selected, RunScripts(self._streams()), rehearse=rehearse)

    async def cancel(self, ctx: OperationContext, run_id: UUID) -> None:
        """Let nothing more of a run start, whoever works on it. What is in work is ended.

        What has not started ends as failed, "not attempted: run cancelled": most of it
        before this returns, the rest by those who hold it. To cancel again changes nothing.

        Raises:
            MigrationRunNotFound: There is no run with this id.
            MigrationRunEnded: It has ended.
            DatabaseUnavailable: The catalog cannot be reached; the run goes on.
        """
        async with self._catalog.begin() as session:
            if await parts.stop(session, run_id):
                await audit.LOG.add(session, ctx, "migration-run.cancel", run_id)
        with contextlib.suppress(DatabaseUnavailable):  # then whoever comes upon it closes them
            await self._claims.close(run_id)
        self._claims.hint()

    async def wait(self, run_id: UUID) -> MigrationRun:
        """Return the run when it has ended, whoever ends it.

        Raises:
            RunGoesOn: This process is stopping, and the run has not ended.
        """
        while True:
            ended = self._ended
            run = await runs.get(self._catalog, run_id)
            if run.finished_at is not None:
                return run
            if self.is_stopping and self.is_idle:
                raise RunGoesOn
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(POLL_SECONDS):
                    await ended.wait()

    @property
    def is_idle(self) -> bool:
        """Whether this process holds nothing that it has still to end."""
        return self._claims.held_count == 0

    @property
    def is_stopping(self) -> bool:
        """Whether this process claims no more."""
        return self._claims.is_stopping

    @property
    def written(self) -> asyncio.Event:
        """Set when this process has next written down what became of a tenant."""
        return self._written

    async def work(self) -> None:
        """Take part in every run, until cancelled.

        If that breaks, this process holds nothing any more: what it had in hand is claimed
        again, by itself or by others, and read in the tenants' own logs.
        """
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self._writer.work())
                for _ in range(self._concurrency):
                    group.create_task(self._walk())
                await self._claims.work()
        except Exception:
            self._writer.forget()
            self._runs.forget()
            self._claims.forget()
            raise

    async def stop(self) -> None:
        """Claim no more, end the tenants in work, and let others have the rest.

        If the catalog does not take the last outcomes within `LAST_OUTCOMES_SECONDS_MAX`,
        others read them in the tenants' own databases.
        """
        self._claims.is_stopping = True
        while not self.is_idle:
            if self._writer.all_wait_since(LAST_OUTCOMES_SECONDS_MAX):
                _log.error("outcomes not written", outcomes=self._claims.held_count)
                break
            await asyncio.sleep(POLL_SECONDS / 10)
        else:
            await self._claims.release()
        self._pulse()

    async def _walk(self) -> None:
        while True:
            claimed = await self._claims.next()
            reason = await self._stop_reason(claimed.run)
            if self.is_stopping:
                self._claims.held_count -= 1  # released by `stop`
            elif reason is None:
                self._put(claimed, await self._migrate(claimed))
            else:
                self._put(claimed, await self._leave(claimed, reason))

    async def _stop_reason(self, run: ActiveRun) -> str | None:
        while not self.is_stopping:
            try:
                if await run.is_clear(self._catalog):
                    return run.stop_reason
            except DatabaseUnavailable:
                _log.warning("catalog unavailable, starting later")
                await asyncio.sleep(POLL_SECONDS)
        return None

    async def _migrate(self, claimed: Claimed) -> Outcome:
        part, run = claimed.part, claimed.run
        started_at = utc_now()
        try:
            migrated = await self._migrator.migrate(
                self._url(part),
                run.scripts,
                run_id=part.run_id,
                now=utc_now,
                is_first=not claimed.was_held,
            )
        except Exception as error:  # noqa: BLE001 - one bad tenant must not stop the others
            return outcomes.failed(part, error, started_at=started_at)
        applied, position = _names(migrated, run), str(migrated.revision)
        if migrated.error is not None:
            return outcomes.failed(
                part, migrated.error, started_at=started_at, applied=applied, position=position
            )
        return outcomes.succeeded(part, started_at=started_at, applied=applied, position=position)

    async def _leave(self, claimed: Claimed, reason: str) -> Outcome:
        """End a part that must not start any more.

        Who held it before may have migrated the tenant, and died before it could say so: then
        what counts is what the tenant's own log says.
        """
        part, run = claimed.part, claimed.run
        if not claimed.was_held:
            return outcomes.not_attempted(part, reason)
        started_at = utc_now()
        try:
            found = await self._migrator.read_result(
                self._url(part), run.scripts, run_id=part.run_id
            )
            is_done = bool(found.applied) and found.revision == await run.scripts.head()
        except Exception:  # noqa: BLE001 - whatever it is, this run has not come there
            _log.info("tenant not looked at", tenant=str(part.tenant_id), exc_info=True)
            return outcomes.not_attempted(part, reason)
        applied, position = _names(found, run), str(found.revision)
        if is_done:
            return outcomes.succeeded(
                part, started_at=started_at, applied=applied, position=position
            )
        return outcomes.not_attempted(part, reason, applied=applied, position=position)

    def _url(self, part: TenantMigration) -> str:
        return self._databases.server(part.server_name).url(part.database_name)

    def _put(self, claimed: Claimed, outcome: Outcome) -> None:
        if outcome.part.state == MigrationState.FAILED.value:
            claimed.run.failures_unwritten += 1
        self._writer.put(outcome)

    def _note_written(self, written: Sequence[Outcome], recorded: Recorded) -> None:
        self._claims.held_count -= len(written)
        for one in written:
            if one.part.state == MigrationState.FAILED.value:
                self._runs.forget_failure(one.part.run_id)
        self._note(recorded)
        news, self._written = self._written, asyncio.Event()
        news.set()

    def _note(self, recorded: Recorded) -> None:
        for run in recorded.runs:
            self._runs.see(run)
        for state in recorded.states:
            self._metrics.count_tenant(SUCCESS if state == MigrationState.SUCCESS else FAILED)
        for run in recorded.ended:
            self._metrics.count_run(FAILED if run.failed_count else SUCCESS)
        if recorded.ended:
            self._pulse()
        elif self.is_idle:
            self._claims.hint()  # the next wave may have begun, or there is something to close

    def _pulse(self) -> None:
        ended, self._ended = self._ended, asyncio.Event()
        ended.set()


def _names(migrated: MigrationResult, run: ActiveRun) -> list[str]:
    return [run.scripts.streams.display(one) for one in migrated.applied]
