"""The checks of a wave (error rate, operator's check) as a job, repeated if its process dies."""

import contextlib
from functools import partial

from tenantry.backup.copying import Copying
from tenantry.catalog import holds, runs
from tenantry.catalog.job_queue import JobOptions
from tenantry.catalog.job_states import Job
from tenantry.catalog.pace import PACE
from tenantry.catalog.run_tenants import RunNotHolding
from tenantry.fleet import error_rate
from tenantry.fleet.migration_runs import resume
from tenantry.kit.clock import utc_now
from tenantry.kit.context import OperationContext
from tenantry.work.ledger import finish
from tenantry.work.progress import Progress
from tenantry.work.running import running
from tenantry.work.undoing import INTERRUPTIONS


async def run(
    copying: Copying, ctx: OperationContext, job: Job, options: JobOptions, progress: Progress
) -> None:
    """Check a wave, and continue the run if the check succeeds and no person has decided."""
    assert options.run_id is not None
    assert options.wave is not None
    run_id, wave = options.run_id, options.wave
    async with running(copying.ledger, job, progress, undo=partial(undo, copying)):
        found = await runs.get(copying.catalog, run_id)
        if found.holding_wave == wave:
            if found.max_error_rate is not None:
                await error_rate.check(
                    copying.catalog, found, wait_seconds=copying.error_rate_seconds
                )
            if found.has_check:
                await copying.check_wave(found)
        async with copying.catalog.begin() as session:
            await finish(session, copying.ledger, job)
            with contextlib.suppress(RunNotHolding):
                now = ctx.at(utc_now())
                await resume(now, session, run_id, wave=wave, limit=PACE.opened_max)


async def undo(copying: Copying, job: Job) -> None:
    """Let the run show why its check has failed. It holds until a person decides."""
    if job.error not in INTERRUPTIONS:  # else the check is repeated
        async with copying.catalog.begin() as session:
            await holds.check_failed(session, copying.catalog.subscribed, job)
