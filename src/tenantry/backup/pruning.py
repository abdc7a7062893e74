"""Remove old archives from a target."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial

from tenantry.backup import targets
from tenantry.backup.archive import Keys
from tenantry.backup.copying import Copying
from tenantry.backup.targets import Stored, Target
from tenantry.catalog.job_queue import PRUNE, JobOptions
from tenantry.catalog.job_states import Job
from tenantry.db import audit_log
from tenantry.kit.context import OperationContext
from tenantry.kit.stopping import Stop, run_in_thread
from tenantry.work.ledger import finish_audited, new_job
from tenantry.work.progress import Progress
from tenantry.work.running import running


@dataclass(frozen=True, kw_only=True)
class Pruned:
    """The archives that were removed, and how many there were before."""

    removed: list[Stored]
    total_count: int


async def run(
    copying: Copying, ctx: OperationContext, _job: Job, options: JobOptions, progress: Progress
) -> None:
    """Remove the old archives of the target, by the rule of a queued job."""
    assert options.keep_days is not None
    assert options.keep_last is not None
    await prune(
        ctx,
        copying,
        await copying.archives.target(),
        keep_days=options.keep_days,
        keep_last=options.keep_last,
        progress=progress,
    )


async def prune(
    ctx: OperationContext,
    copying: Copying,
    target: Target,
    *,
    keep_days: int,
    keep_last: int,
    progress: Progress,
) -> Pruned:
    """Remove old archives, and incomplete ones of processes that were killed, as a job.

    Every archive of the last *keep_days* days is kept, and so are the newest *keep_last* archives
    of each tenant, and of the catalog. *progress* counts the bytes of the removed archives.

    Raises:
        S3Missing, S3Unavailable, OSError: The target cannot be used.
    """
    job = new_job(ctx, PRUNE, progress)
    rule = {"keep_days": keep_days, "keep_last": keep_last}
    async with running(copying.ledger, job, progress):
        pruned = await run_in_thread(
            lambda _stop: find_old(target, copying.keys, now=ctx.now, **rule)
        )
        await run_in_thread(partial(_remove, target, pruned, progress))
        left = pruned.total_count - len(pruned.removed)
        changes: audit_log.Changes = [{"field": "archives", "old": pruned.total_count, "new": left}]
        await finish_audited(ctx, copying.ledger, job, progress, "backup.prune", changes=changes)
    return pruned


def find_old(
    target: Target, keys: Keys, *, now: datetime, keep_days: int, keep_last: int
) -> Pruned:
    """Return what `prune` removes, without removing it. Blocks: call it in a thread."""
    found = targets.stored(target, keys)
    before = now - timedelta(days=keep_days)
    return Pruned(
        removed=targets.expired(found, before=before, keep_last=keep_last), total_count=len(found)
    )


def _remove(target: Target, old: Pruned, progress: Progress, stop: Stop) -> None:
    for one in old.removed:
        stop.check()
        target.remove(one.name)
        progress.add(one.size)
    target.remove_partial()
