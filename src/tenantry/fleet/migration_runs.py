"""Migrate every tenant database: plan a run, preview it, cancel it, and wait for its end.

No transaction spans two databases. A run is a plan in the catalog, with one pending row for each
tenant, which the workers of all processes claim. The version row in each tenant database is
authoritative; the catalog holds the history of attempts. A caller of migrate-all only waits, so a
run continues if its caller disconnects.
"""

import asyncio
import contextlib
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import replace
from uuid import UUID

from msgspec import structs, to_builtins

from tenantry.catalog import (
    audit,
    durations,
    holds,
    notices,
    plans,
    run_tenants,
    runs,
    stored_plans,
    waves,
)
from tenantry.catalog.database import Catalog
from tenantry.catalog.pace import PACE, Pace
from tenantry.catalog.runs import MigrationRun, Progress, RunContinues
from tenantry.catalog.session import CatalogSession
from tenantry.catalog.waves import LARGEST, SIZE, Wave
from tenantry.db.sessions import DatabaseUnavailable
from tenantry.fleet import run_options, run_undo
from tenantry.fleet.approval import PlanChanged, Rules
from tenantry.fleet.approvals import Approvals, RunDraft, known_files
from tenantry.fleet.claims import POLL_SECONDS
from tenantry.fleet.dry_run import Preview, Previewer
from tenantry.fleet.run_options import (
    CHECK,
    EVERY_ACTIVE_TENANT,
    PREVIEWED_MAX,
    TOO_MANY_PREVIEWED,
    BadRunOptions,
    RunOptions,
)
from tenantry.fleet.sizes import SIZED_MAX, sort_keys, with_keys
from tenantry.fleet.worker import Worker
from tenantry.kit.clock import monotonic_seconds
from tenantry.kit.context import OperationContext
from tenantry.kit.metrics import SUCCESS, Metrics
from tenantry.migration.streams import Streams

# A preview opens as many connections as a run, outside the budget. Further previews wait.
PREVIEWS_MAX = 1
# How long a caller who waits for a run waits for the catalog: Patroni's default `ttl`.
CATALOG_PATIENCE_SECONDS = 30.0


class Fleet:
    """Plans, previews and cancels migration runs, and waits for their end.

    Args:
        metrics: Counts runs without tenants, which end immediately.
        rules: What the settings say about plans.
        has_check: Whether they name a check of waves.
        pace: How many items one transaction adds.
    """

    def __init__(
        self,
        catalog: Catalog,
        worker: Worker,
        previewer: Previewer,
        streams: Callable[[], Streams],
        *,
        metrics: Metrics,
        rules: Rules,
        has_check: bool = False,
        pace: Pace = PACE,
    ) -> None:
        self._catalog = catalog
        self._has_check = has_check
        self._worker = worker
        self._previewer = previewer
        self._streams = streams
        self._metrics = metrics
        self._approvals = Approvals(catalog, previewer, rules, pace)
        self._pace = pace
        self._planning: set[UUID] = set()
        self._previews = asyncio.Semaphore(PREVIEWS_MAX)
        self._checks = asyncio.Semaphore(PREVIEWS_MAX)

    async def plan(
        self,
        ctx: OperationContext,
        *,
        triggered_by: str,
        options: RunOptions = EVERY_ACTIVE_TENANT,
        plan_id: UUID | None = None,
        passed_only: bool = False,
    ) -> UUID:
        """Record a run in the catalog, before any tenant is migrated, and return its id.

        *triggered_by* is the caller in the migration history. A run without tenants has ended.

        With *plan_id*, it is a run of exactly this stored plan. The database of each of its tenants
        is read before. With *passed_only*, the run has only the tenants that its rehearsal passed.

        Raises:
            BadRunOptions, BadText: An option breaks a rule, or is not that of the plan.
            MigrationRunNotFound: There is no run with the id in ``options.retry_of``.
            PlanLost: This process was silent for too long.
            PlanNotFound, PlanExpired, PlanUsed, PlanChanged: The plan cannot be started.
            PlanRequired, OwnPlan: The settings demand a plan, or that of another person.
            BadStream: It may hold, and its revisions cannot be read.
            TenantsHeld: A tenant waits in another run, which holds, or goes the other direction.
            NothingToRetry: The run in ``options.retry_of`` has not ended.
            RunUnfinished, UndoOfUndo, NothingToUndo, NoDowngrade, RevisionLost: The run in
                ``options.undoes`` cannot be undone.
        """
        self._check(options)
        options = await run_undo.with_undo(self._catalog, options)
        if plan_id is None:
            self._approvals.rules.check(ctx, None)
            if passed_only:
                raise BadRunOptions("`passedOnly` needs `plan`.")
            scripts = await run_undo.scripts_of(self._catalog, self._streams(), options)
            head = await run_undo.head_of(self._catalog, scripts)
            keys = await self._sort_keys(options, head)
            kept = None
            if options.hold or options.max_error_rate is not None:  # for the later waves
                kept = await asyncio.to_thread(scripts.hashes, only_revisions=True)
            draft = RunDraft(options, scripts, head, revision_hashes=kept, sort_keys=keys)
        else:
            async with self._checks:
                draft = await self._approvals.check(
                    ctx, plan_id, options, self._streams(), passed_only=passed_only
                )
            self._check(draft.options)
        self._planning.add(draft.run_id)
        try:
            total = await self._plan(ctx, draft, triggered_by)
        finally:
            self._planning.discard(draft.run_id)
        if not total:
            self._metrics.count_run(SUCCESS)
        self._worker.begin(draft.run_id, draft.scripts, draft.files)
        return draft.run_id

    def _check(self, options: RunOptions) -> None:
        options.check()
        if options.hold == CHECK and not self._has_check:
            raise BadRunOptions("`hold` needs a check: the operator sets TENANTRY_WAVE_CHECK.")
        if options.max_error_rate is not None and self._streams().is_attached:
            raise BadRunOptions("`maxErrorRate` is of requests, which attached databases have not.")

    async def _plan(self, ctx: OperationContext, draft: RunDraft, triggered_by: str) -> int:
        run_id, options = draft.run_id, draft.options
        waits, limit = options.waves is not None, self._pace.added_max
        run = Progress(
            id=run_id,
            started_at=ctx.now,
            triggered_by=triggered_by,
            head=draft.head,
            label=options.label,
            retry_of=options.retry_of,
            plan_id=draft.plan_id,
            undoes=options.undoes,
            has_log=draft.scripts.streams.has_log,
        )
        total, after, heartbeat = 0, None, self._worker.heartbeat
        while True:
            await heartbeat.renew()
            async with self._catalog.begin() as session:
                if after is None:
                    selection = draft.selection or await run_options.select(
                        session, options, head=draft.head
                    )
                    await plans.add(session, run, planner_id=heartbeat.worker_id)
                else:
                    await plans.hold(session, run_id, heartbeat.worker_id)
                added = await plans.add_items(
                    session, run_id, selection, after=after, waits=waits, limit=limit
                )
                keys = {one: draft.sort_keys[one] for one in added if one in draft.sort_keys}
                await waves.set_sort_keys(session, run_id, keys)
                total += len(added)
                if len(added) < limit:
                    await self._begin(ctx, session, draft, structs.replace(run, total_count=total))
                    return total
            after = added[-1]
            await asyncio.sleep(self._pace.pause_seconds)

    async def _begin(
        self, ctx: OperationContext, session: CatalogSession, draft: RunDraft, run: Progress
    ) -> None:
        run_id, options, total = run.id, draft.options, run.total_count
        target = str(run_id)
        if options.undoes is not None:
            target = f"{target} undo {options.undoes}"
        if draft.plan_id is not None:
            target = f"{target} plan {draft.plan_id}"  # before the label, which is any text
            await stored_plans.take(session, draft.plan_id, run_id)
            if total != draft.total:
                raise PlanChanged(
                    f"{draft.total - total} tenants of the plan would not be in the run: they were "
                    "suspended or deleted just now. Nothing was started. Make a new plan."
                )
        if options.label:
            target = f"{target} {options.label}"
        if not total:
            await run_undo.check_empty(session, options)
        sized, held = await self._waves(session, draft, total) if options.waves else ([], [])
        sizes, details = [size for size, _ in sized], [wave for _, wave in sized]
        begun = structs.replace(
            run,
            finished_at=None if total else ctx.now,
            waves=sizes or None,
            max_failures=options.failures_max(total),
            unopened_count=sizes[0] if sizes else 0,
            wave_details=to_builtins(details) if set(details) - {Wave()} else None,
            wave_failed_max=details[0].max_failures if details else None,
            holds=held or None,
            has_check=options.hold == CHECK,
            max_error_rate=options.max_error_rate,
        )
        await holds.refuse_waiting(session, begun)
        await plans.begin(session, begun, revision_hashes=draft.revision_hashes)
        if sized:
            await run_tenants.open_batch(session, run_id, limit=self._pace.opened_max)
        await audit.LOG.add(session, ctx, "migration-run.start", target)
        await notices.run_begins(session, self._catalog.subscribed, run_id, now=ctx.now)

    async def _sort_keys(self, options: RunOptions, head: str | None) -> Mapping[UUID, str]:
        """Return what orders the tenants, if that must be measured; no transaction waits for it."""
        if options.order not in (SIZE, LARGEST):
            return {}
        async with self._catalog.begin() as session:
            selection = await run_options.select(session, options, head=head)
            some = await plans.selected(session, selection, limit=SIZED_MAX + 1)
        databases = self._previewer.databases
        return await sort_keys(databases, some, largest_first=options.order == LARGEST)

    async def _waves(
        self, session: CatalogSession, draft: RunDraft, total: int
    ) -> tuple[list[tuple[int, Wave]], list[int]]:
        """Return the waves with their cumulative sizes, and those after which the run holds."""
        named = {
            at: await waves.count(session, draft.run_id, at)
            for at, _ in enumerate(draft.options.named_waves)
        }
        return draft.options.sized_waves(total, named), draft.options.holds(total, named)

    async def remove_unplanned(self) -> None:
        """Remove the runs that were not planned to the end: of this process, or of a dead one.

        Raises:
            DatabaseUnavailable: The catalog cannot be reached.
        """
        own = self._worker.heartbeat.worker_id
        for run_id in await plans.abandoned(self._catalog, own):
            is_removed = run_id in self._planning
            while not is_removed:
                async with self._catalog.begin() as session:
                    is_removed = await plans.remove_some(
                        session, run_id, own, limit=self._pace.added_max
                    )
                await asyncio.sleep(self._pace.pause_seconds)

    async def preview(
        self, ctx: OperationContext, options: RunOptions = EVERY_ACTIVE_TENANT, *, rehearse: bool
    ) -> Preview:
        """Return what a run with these options would do, and store it as a plan.

        No run is recorded. There is no plan if the files of the revisions cannot be read, or were
        replaced meanwhile.

        The database of every selected tenant is opened, a few concurrently. Waves and the limit of
        failures are only validated. With *rehearse*, pending revisions are executed and rolled
        back, with the same locks; that is audited.

        Raises:
            BadRunOptions: An option breaks a rule, or there are more than `PREVIEWED_MAX` tenants.
            BadText: The label breaks a rule.
            MigrationRunNotFound: There is no run with the id in ``options.retry_of``.
            RunUnfinished, UndoOfUndo, NothingToUndo, NoDowngrade, RevisionLost: The run in
                ``options.undoes`` cannot be undone.
        """
        self._check(options)
        options = await run_undo.with_undo(self._catalog, options)
        scripts = await run_undo.scripts_of(self._catalog, self._streams(), options)
        head = await run_undo.head_of(self._catalog, scripts) if options.only_behind else None
        keys = await self._sort_keys(options, head)
        async with self._catalog.begin() as session:
            selection = await run_options.select(session, options, head=head)
            selected = await plans.selected(session, selection, limit=PREVIEWED_MAX + 1)
            if len(selected) > PREVIEWED_MAX:
                raise BadRunOptions(TOO_MANY_PREVIEWED)
            if not selected:
                await run_undo.check_empty(session, options)
            options.sized_waves(len(selected), Counter(one.wave for one in selected))
            if rehearse:
                target = options.label or f"{len(selected)} tenants"
                await audit.LOG.add(session, ctx, "migration-run.rehearse", target)
        selected = with_keys(selected, keys)
        async with self._previews:
            before = await known_files(scripts)
            found = await self._previewer.preview(selected, scripts, rehearse=rehearse)
        if before is not None and before == await known_files(scripts):
            head = await run_undo.head_of(self._catalog, scripts)
            plan = await self._approvals.store(
                ctx, found, options, files=before, head=head, rehearsed=rehearse
            )
            found = replace(found, plan=plan)
        # How long an upgrade took says nothing about its undo.
        return found if scripts.undo is not None else await self._with_durations(found)

    async def _with_durations(self, found: Preview) -> Preview:
        """Add how long earlier tenants took, and the run by that, in this process alone."""
        paths = found.paths
        known = await durations.typical(self._catalog, [path for path, _ in paths.most_common()])
        expected = None
        if known and len(known) == len(paths):
            work = sum(one.median_ms * paths[one.pending_migrations] for one in known)
            expected = work // min(self._previewer.concurrency, paths.total())
        return replace(found, durations=known, expected_ms=expected)

    async def cancel(self, ctx: OperationContext, run_id: UUID, *, ends_all: bool = False) -> None:
        """Stop a run in every process: no more of its tenants start. Started ones finish.

        Tenants that have not started end as failed, "not attempted: run cancelled": up to
        `Pace.closed_max` of them before this returns, the others soon after, and the claimed ones
        by the workers that claimed them. With *ends_all*, it returns only when all but the claimed
        ones have ended. Cancelling again has no effect.

        Raises:
            MigrationRunNotFound: There is no run with this id.
            MigrationRunEnded: It has ended.
            DatabaseUnavailable: The catalog cannot be reached; the run continues.
        """
        async with self._catalog.begin() as session:
            if await run_tenants.stop(session, run_id):
                await audit.LOG.add(session, ctx, "migration-run.cancel", run_id)
        has_more = await self._worker.close(run_id)
        while has_more and ends_all:
            await asyncio.sleep(self._pace.pause_seconds)
            has_more = await self._worker.close(run_id)

    async def resume(self, ctx: OperationContext, run_id: UUID, *, wave: int) -> None:
        """Continue a run that holds after *wave*, in every process: the next wave starts.

        Raises:
            MigrationRunNotFound: There is no run with this id.
            RunNotHolding: It does not hold after this wave, perhaps no longer.
            DatabaseUnavailable: The catalog cannot be reached.
        """
        async with self._catalog.begin() as session:
            await resume(ctx, session, run_id, wave=wave, limit=self._pace.opened_max)
        self._worker.hint()

    async def wait(self, run_id: UUID) -> MigrationRun:
        """Wait until the run has ended, or holds after a wave, in any process, and return it.

        While a check may continue it, it is waited for.

        Raises:
            RunContinues: This process is stopping, and the run has not ended.
            DatabaseUnavailable: The catalog was away for `CATALOG_PATIENCE_SECONDS`.
        """
        read_at = monotonic_seconds()
        while True:
            ended = self._worker.run_ended
            try:
                run = await runs.get(self._catalog, run_id)
            except DatabaseUnavailable:
                if monotonic_seconds() - read_at > CATALOG_PATIENCE_SECONDS:
                    raise
            else:
                read_at = monotonic_seconds()
                if run.finished_at is not None or run.is_left_to_person:
                    return run
            if self._worker.is_stopping and self._worker.is_idle:
                raise RunContinues
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(POLL_SECONDS):
                    await ended.wait()


async def resume(
    ctx: OperationContext, session: CatalogSession, run_id: UUID, *, wave: int, limit: int
) -> None:
    """Continue a run that holds after *wave*, in a transaction; up to *limit* tenants start.

    Raises:
        MigrationRunNotFound, RunNotHolding: As for `Fleet.resume`.
    """
    await run_tenants.resume(session, run_id, wave=wave, limit=limit)
    await audit.LOG.add(session, ctx, "migration-run.continue", f"{run_id} wave {wave}")
