"""Store the plan of a dry run, and check a plan before a run of it is recorded."""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from uuid import UUID

from tenantry.catalog import plans, stored_plans
from tenantry.catalog.database import Catalog
from tenantry.catalog.pace import Pace
from tenantry.catalog.plans import Selected, Selection
from tenantry.catalog.stored_plans import PlanUsed, StoredPlan
from tenantry.fleet import approval, run_options, run_undo
from tenantry.fleet.approval import PlanChanged, Rules
from tenantry.fleet.dry_run import Preview, Previewer
from tenantry.fleet.run_options import BadRunOptions, RunOptions
from tenantry.kit.context import OperationContext
from tenantry.kit.ids import new_id
from tenantry.migration.project_files import TooManyFiles
from tenantry.migration.run_scripts import RunScripts
from tenantry.migration.streams import BadStream, Streams


@dataclass(frozen=True, slots=True)
class RunDraft:
    """A run that is to be recorded.

    Attributes:
        options: Its options.
        scripts: Its scripts.
        head: The revision that its tenants must reach; None if it cannot be read.
        plan_id: Its plan, if it has one.
        selection: With a plan: its tenants; else the options select them.
        total: With a plan: how many tenants these are.
        files: With a plan: the hashes of its files, by name.
        revision_hashes: Without a plan, if it may hold: the hash of each revision, by name.
        sort_keys: Without a plan, by size: what orders its tenants.
    """

    options: RunOptions
    scripts: RunScripts
    head: str | None
    plan_id: UUID | None = None
    selection: Selection | None = None
    total: int = 0
    files: Mapping[str, str] | None = None
    revision_hashes: Mapping[str, str] | None = None
    sort_keys: Mapping[UUID, str] = field(default_factory=dict)
    run_id: UUID = field(default_factory=new_id)


@dataclass(frozen=True)
class Approvals:
    """Stores plans, and checks them.

    Attributes:
        previewer: Reads the databases of the tenants of a plan.
        rules: What the settings say about plans.
        pace: How many tenants one transaction adds.
    """

    catalog: Catalog
    previewer: Previewer
    rules: Rules
    pace: Pace

    async def store(
        self,
        ctx: OperationContext,
        found: Preview,
        options: RunOptions,
        *,
        files: Mapping[str, str],
        head: str | None,
        rehearsed: bool,
    ) -> StoredPlan:
        """Store the plan of a preview; see `approval.make_plan`."""
        plan, tenants = approval.make_plan(
            ctx,
            found,
            options,
            hashes=files,
            head=str(head),
            is_rehearsed=rehearsed,
            kept=self.rules.kept,
        )
        limit = self.pace.added_max
        for at in range(0, max(len(tenants), 1), limit):
            async with self.catalog.begin() as session:
                if at == 0:
                    await stored_plans.add(session, plan)
                await stored_plans.add_tenants(session, plan.id, tenants[at : at + limit])
                if at + limit >= len(tenants):
                    await stored_plans.complete(session, plan.id)
            await asyncio.sleep(self.pace.pause_seconds)
        return plan

    async def check(
        self,
        ctx: OperationContext,
        plan_id: UUID,
        given: RunOptions,
        streams: Streams,
        *,
        passed_only: bool,
    ) -> RunDraft:
        """Return the run of a plan that is what a run would do now.

        What is cheap to compare comes first; last, the database of each tenant is read.

        Raises:
            BadRunOptions: One of the *given* options is not that of the plan.
            PlanNotFound, PlanExpired, PlanUsed, PlanChanged, OwnPlan: It cannot be started.
            Conflict: The run that it undoes cannot be undone; see `run_undo.scripts_of`.
        """
        plan = await stored_plans.get(self.catalog, plan_id)
        self.rules.check(ctx, plan)
        if plan.run_id is not None:
            raise PlanUsed
        if passed_only and not plan.is_rehearsed:
            raise BadRunOptions("`passedOnly` needs the plan of a rehearsal.")
        every = {
            one.tenant_id: one async for one in stored_plans.each_tenant(self.catalog, plan_id)
        }
        options = approval.planned_options(plan, given, every)
        planned = {key: one for key, one in every.items() if one.has_passed or not passed_only}
        scripts = await run_undo.scripts_of(self.catalog, streams, options)
        head = await run_undo.head_of(self.catalog, scripts)
        await _check_files(plan, scripts, head)
        selected = await self._still_selected(options, head)
        names = {one.tenant_id: one.tenant_name for one in selected}
        approval.check_same(approval.changes_of_tenants(planned, names, passed_only=passed_only))
        chosen = [one for one in selected if one.tenant_id in planned]
        found = await self.previewer.preview(chosen, scripts, rehearse=False)
        approval.check_same(approval.changes_found(plan, planned, found))
        await _check_files(plan, scripts, head)  # recording the revisions has imported modules
        return RunDraft(
            options,
            scripts,
            head,
            plan_id=plan_id,
            selection=Selection(plan_id=plan_id, has_passed=True if passed_only else None),
            total=len(planned),
            files=plan.hashes,
        )

    async def _still_selected(self, options: RunOptions, head: str | None) -> list[Selected]:
        """Return the tenants that *options* select now, without an error for the missing ones."""
        async with self.catalog.begin() as session:
            named = options.tenant_ids
            if named is not None:
                left_out = set(await plans.left_out(session, named))
                named = [one for one in named if one not in left_out]
            still = replace(options, tenant_ids=named)
            selection = await run_options.select(session, still, head=head)
            return await plans.selected(session, selection, limit=run_options.PREVIEWED_MAX + 1)


async def known_files(scripts: RunScripts) -> dict[str, str] | None:
    """Return the hash of each file of the revisions; None if they cannot be read."""
    try:
        return await asyncio.to_thread(scripts.hashes)
    except (BadStream, TooManyFiles):
        return None


async def _check_files(plan: StoredPlan, scripts: RunScripts, head: str | None) -> None:
    try:
        files = await asyncio.to_thread(scripts.hashes)
    except (BadStream, TooManyFiles) as error:  # they are being replaced
        raise PlanChanged(f"{error.message} Nothing was started.") from error
    approval.check_same(approval.changes_of_files(plan, files, str(head)))
