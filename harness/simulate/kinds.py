"""Kinds of jobs for the simulator: a new database, a change of a tenant, a move, a check, none."""

import asyncio
from collections.abc import Mapping
from functools import partial
from types import SimpleNamespace
from typing import Any
from uuid import UUID

from harness.simulate.world import SERVERS, World, database_name
from tenantry.backup import move_undo, moving, wave_checking
from tenantry.catalog import job_states, tenants
from tenantry.catalog.job_queue import BACKUP, MOVE, REPLACE, RESTORE, WAVE, JobOptions
from tenantry.catalog.job_states import Job
from tenantry.catalog.runs import MigrationRun
from tenantry.fleet.wave_check import WaveCheckFailed
from tenantry.kit.context import OperationContext
from tenantry.kit.errors import Conflict
from tenantry.work.job_functions import Kind, Run
from tenantry.work.ledger import Ledger, finish, new_job, note_event
from tenantry.work.progress import Progress
from tenantry.work.running import running

STEP_SECONDS_MAX = 2.0
FAILED_SHARE = 0.15
REFUSED_SHARE = 0.3
FENCE_SECONDS = 5.0
"""How long a move waits for the transactions of its tenant."""


class JobBroken(Conflict):
    """A simulated job fails."""


def kinds_of(held: Ledger, world: World, in_work: set[UUID]) -> Mapping[str, Kind]:
    """Return the kinds, by the names of those of the product that leave the same.

    *in_work* has the jobs that this process runs, also when another one has ended them: until it
    has removed what it had begun.
    """

    def counted(run: Run) -> Run:
        async def work(
            ctx: OperationContext, job: Job, options: JobOptions, progress: Progress
        ) -> Job | None:
            in_work.add(job.id)
            try:
                return await run(ctx, job, options, progress)
            finally:
                in_work.discard(job.id)

        return work

    async def check_wave(_run: MigrationRun) -> None:
        await asyncio.sleep(world.chance.random() * STEP_SECONDS_MAX)
        if world.chance.random() < REFUSED_SHARE:
            raise WaveCheckFailed("It was refused.")

    copying: Any = SimpleNamespace(
        ledger=held,
        catalog=held.catalog,
        databases=held.databases,
        check_wave=check_wave,
        error_rate_seconds=1.0,
    )
    return {
        BACKUP: Kind(run=counted(partial(_run_plain, held, world))),
        RESTORE: Kind(run=counted(partial(_run_new, held, world))),
        REPLACE: Kind(
            run=counted(partial(_run_change, held, world)), undo=partial(_undo_change, world)
        ),
        MOVE: Kind(
            check=partial(moving.check, copying),
            run=counted(partial(_run_move, copying, world)),
            undo=partial(move_undo.undo, copying),
            end=partial(moving.drop_when_known, copying),
        ),
        WAVE: Kind(
            run=counted(partial(wave_checking.run, copying)),
            undo=partial(wave_checking.undo, copying),
        ),
    }


async def _run_plain(
    held: Ledger,
    world: World,
    ctx: OperationContext,
    _job: Job,
    _options: JobOptions,
    progress: Progress,
) -> None:
    """Leave nothing, as a backup does in the catalog."""
    new = new_job(ctx, BACKUP, progress)
    async with running(held, new, progress):
        await _step(world)
        await _finish(held, new)


async def _run_new(
    held: Ledger,
    world: World,
    ctx: OperationContext,
    _job: Job,
    _options: JobOptions,
    progress: Progress,
) -> None:
    """Fill a new database, as a restore does; a failed one is dropped."""
    name = database_name(world.chance.getrandbits(64) + 1_000_000)
    server = world.chance.choice(SERVERS)
    new = new_job(ctx, RESTORE, progress, database=(server, name))
    async with running(held, new, progress):
        await held.databases.server(server).create(name)
        await _step(world)
        async with held.catalog.begin() as session:
            await finish(session, held, new, kept=(server, name))


async def _run_change(
    held: Ledger,
    world: World,
    ctx: OperationContext,
    _job: Job,
    _options: JobOptions,
    progress: Progress,
) -> None:
    """Change a tenant, as a replacement does that suspends it; a failure undoes that."""
    # As the product's, it has a database from its beginning: so it is never queued again.
    place = (world.chance.choice(SERVERS), database_name(world.chance.getrandbits(64) + 10**6))
    new = new_job(ctx, REPLACE, progress, database=place)
    async with running(held, new, progress, undo=partial(_undo_change, world)):
        await _step(world)
        async with held.catalog.begin() as session:
            await note_event(session, held, new, job_states.SUSPENDED)
        await _step(world)
        await _finish(held, new)


async def _run_move(  # noqa: PLR0917 - as the others
    copying: Any,
    world: World,
    ctx: OperationContext,
    job: Job,
    options: JobOptions,
    progress: Progress,
) -> Job:
    """Move a tenant as `moving.carry` does, with a copy that takes a moment."""
    assert job.tenant_id is not None
    tenant = await tenants.get(copying.catalog, job.tenant_id)
    server, name = options.server_name or "", database_name(world.chance.getrandbits(64) + 10**6)
    old = (tenant.server_name, tenant.database_name)
    of = (tenant.id, tenant.name)
    new = new_job(ctx, MOVE, progress, tenant=of, database=(server, name), source=old)
    undo = partial(move_undo.undo, copying)
    async with running(copying.ledger, new, progress, undo=undo):
        await copying.databases.server(server).create(name)
        await _step(world)
        if not tenant.is_read_only:
            await moving._freeze(ctx, copying, new, tenant)
        await moving._fence(copying, new, tenant, wait_seconds=FENCE_SECONDS)
        await _step(world)
        world.copy(tenant.database_name, name)
        progress.is_final = True
        held, _ = await moving._cut_over(ctx, copying, new, tenant)
    copying.ledger.busy.add(held.id)
    return held


async def _undo_change(world: World, job: Job) -> None:
    await asyncio.sleep(world.chance.random())
    world.changed.discard(job.id)


async def _step(world: World) -> None:
    await asyncio.sleep(world.chance.random() * STEP_SECONDS_MAX)
    if world.chance.random() < FAILED_SHARE:
        raise JobBroken("It is broken.")


async def _finish(held: Ledger, job: Job) -> None:
    async with held.catalog.begin() as session:
        await finish(session, held, job)
