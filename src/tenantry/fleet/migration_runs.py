"""Migrate every tenant database: plan a run, preview it, cancel it, and wait for its end.

No transaction spans two databases. A run is a plan in the catalog (one pending row per
tenant), which the workers of all processes work off; the version row in each tenant database
stays the truth, and the catalog is the history of what was tried. A caller of migrate-all
only waits, so that a run goes on when the connection of its caller is closed.
"""

import asyncio
import contextlib
from collections.abc import Callable
from uuid import UUID

from tenantry.catalog import audit, plans, run_tenants, runs
from tenantry.catalog.database import Catalog
from tenantry.catalog.runs import MigrationRun
from tenantry.fleet import run_options
from tenantry.fleet.claims import POLL_SECONDS
from tenantry.fleet.dry_run import Preview, Previewer
from tenantry.fleet.run_options import EVERY_ACTIVE_TENANT, RunOptions
from tenantry.fleet.worker import Worker
from tenantry.kit.context import OperationContext
from tenantry.kit.errors import Unavailable
from tenantry.kit.ids import new_id
from tenantry.kit.metrics import SUCCESS, Metrics
from tenantry.migration.run_scripts import RunScripts
from tenantry.migration.streams import BadStream, Streams

# Each opens as many connections as a run does, beside the budget; the others wait.
PREVIEWS_MAX = 1


class RunGoesOn(Unavailable):
    """This process is stopping; the run goes on, and is in the migration history."""


class Fleet:
    """Plans, previews and cancels migration runs, and waits for their end.

    Args:
        catalog: Holds the runs.
        worker: Migrates tenants in this process.
        previewer: Reads what is pending in tenants' databases.
        streams: Reads the current revisions.
        metrics: Count the runs that end at once.
    """

    def __init__(
        self,
        catalog: Catalog,
        worker: Worker,
        previewer: Previewer,
        streams: Callable[[], Streams],
        *,
        metrics: Metrics,
    ) -> None:
        self._catalog = catalog
        self._worker = worker
        self._previewer = previewer
        self._streams = streams
        self._metrics = metrics
        self._previews = asyncio.Semaphore(PREVIEWS_MAX)

    async def plan(
        self, ctx: OperationContext, *, triggered_by: str, options: RunOptions = EVERY_ACTIVE_TENANT
    ) -> UUID:
        """Record a run, before the first of its tenants is touched, and return its id.

        Args:
            ctx: Of the caller.
            triggered_by: Whose run it is, as the migration history says.
            options: Which tenants it is for, and how it is to go. A run for none has ended.

        Raises:
            BadRunOptions, BadText: An option breaks a rule.
            MigrationRunNotFound: There is no run with the id in ``options.retry_of``.
        """
        options.check()
        run_id = new_id()
        scripts = RunScripts(self._streams())
        try:
            head = str(await asyncio.to_thread(scripts.head))
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
            await run_tenants.open_wave(session, run_id, count=waves[0] if waves else 0)
            target = f"{run_id} {options.label}" if options.label else str(run_id)
            await audit.LOG.add(session, ctx, "migration-run.start", target)
        if not total:
            self._metrics.count_run(SUCCESS)
        self._worker.begin(run_id, scripts)
        return run_id

    async def preview(
        self, ctx: OperationContext, options: RunOptions = EVERY_ACTIVE_TENANT, *, rehearse: bool
    ) -> Preview:
        """Return what a run with these options would find. Nothing is changed or recorded.

        Every selected tenant's database is opened, a few at once.

        Args:
            ctx: Of the caller; a rehearsal is audited.
            options: Of the run that would be. Its waves and failures are checked alone.
            rehearse: Whether pending revisions are run and rolled back, with the same locks.

        Raises:
            BadRunOptions, BadText: An option breaks a rule.
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
        async with self._previews:
            scripts = RunScripts(self._streams())
            return await self._previewer.preview(selected, scripts, rehearse=rehearse)

    async def cancel(self, ctx: OperationContext, run_id: UUID) -> None:
        """Stop a run in every process: no more of its tenants start. Started ones finish.

        Tenants that have not started end as failed, "not attempted: run cancelled": most of
        them before this returns, the claimed ones by the workers that claimed them. To cancel
        again changes nothing.

        Raises:
            MigrationRunNotFound: There is no run with this id.
            MigrationRunEnded: It has ended.
            DatabaseUnavailable: The catalog cannot be reached; the run goes on.
        """
        async with self._catalog.begin() as session:
            if await run_tenants.stop(session, run_id):
                await audit.LOG.add(session, ctx, "migration-run.cancel", run_id)
        await self._worker.close(run_id)

    async def wait(self, run_id: UUID) -> MigrationRun:
        """Return the run when it has ended, in whichever process.

        Raises:
            RunGoesOn: This process is stopping, and the run has not ended.
        """
        while True:
            ended = self._worker.run_ended
            run = await runs.get(self._catalog, run_id)
            if run.finished_at is not None:
                return run
            if self._worker.is_stopping and self._worker.is_idle:
                raise RunGoesOn
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(POLL_SECONDS):
                    await ended.wait()
