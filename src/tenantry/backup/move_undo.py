"""Undo what a failed move has done to its tenant."""

import asyncio
import contextlib
from functools import partial

import msgspec
import structlog

from tenantry.backup.copying import Copying
from tenantry.catalog import job_states, jobs, moves
from tenantry.catalog.database import Unchanged
from tenantry.catalog.job_states import Job
from tenantry.catalog.jobs import TenantMoving
from tenantry.db.copying import replication
from tenantry.db.sessions import DatabaseUnavailable
from tenantry.kit.context import HOUSEKEEPING, system_context
from tenantry.kit.ids import new_id
from tenantry.work.ledger import JobLost
from tenantry.work.undoing import clear

LIFTING = "Lifts the write fence of a move that another process had ended before."
LIFT_PAUSE_SECONDS = 0.5
LIFT_TRIES_MAX = 600
"""How often a fence is tried to be lifted while another process ends the job that was lost."""
MADE_WRITABLE = [{"field": "isReadOnly", "old": True, "new": False}]
"""The change in the audit log."""

_log = structlog.get_logger(__name__)


async def undo(copying: Copying, job: Job) -> None:
    """Let the tenant of a failed move be writable, as it was before.

    Last the slot of the move is dropped, for which no tenant waits.
    """
    server_name, database_name = job.source_server_name, job.source_database_name
    if server_name is None or database_name is None:
        await _make_writable(copying, job)
        return
    source = copying.databases.server(server_name)
    await source.accept_writes(database_name)
    await _make_writable(copying, job)
    await source.stop_following(database_name, replication.name_of(job.id))


async def lift_if_lost(copying: Copying, job: Job) -> bool:
    """Lift the write fence that a move has just set, if this process does not hold its job.

    The process that ends the job may have lifted it before, so nothing else would. A job of its
    own does, when the lost one has ended, unless the tenant is moved again: that move needs the
    fence. While a job is held when its fence is set, the process that ends it lifts the fence. If
    no living process holds it, this one ends it: it never takes over what it has in work.
    Return whether the job was lost.

    Raises:
        DatabaseUnavailable: The catalog cannot be reached. The fence is lifted.
    """
    assert job.source_server_name is not None
    assert job.source_database_name is not None
    try:
        held = await jobs.lock(copying.catalog, job.id, worker_id=copying.ledger.worker_id)
        if held is not None and held.state == job_states.JobState.RUNNING:
            return False
        lifting = msgspec.structs.replace(
            job, id=new_id(), server_name=None, database_name=None, note=LIFTING, options=None
        )
        worker_id, undoing = copying.ledger.worker_id, partial(undo, copying)
        for _ in range(LIFT_TRIES_MAX):
            is_open = (await jobs.get(copying.catalog, job.id)).state in job_states.OPEN
            await copying.ledger.heartbeat.renew()
            async with copying.catalog.begin() as session:
                is_own = await jobs.take_if_lost(session, job.id, worker_id=worker_id)
                if is_own:
                    event = job_states.fenced_late(job)
                    await jobs.apply(session, job.id, event, worker_id=worker_id)
            if is_own:
                await clear(copying.ledger, job.id, undo=undoing)
                break
            with contextlib.suppress(TenantMoving):
                await jobs.add(copying.catalog, lifting, worker_id=worker_id)
                error = JobLost().message
                await clear(copying.ledger, lifting.id, undo=undoing, error=error)
                break
            if not is_open:
                break
            await asyncio.sleep(LIFT_PAUSE_SECONDS)
        else:
            _log.warning("write fence not lifted", tenant=str(job.tenant_id), job=str(job.id))
    except DatabaseUnavailable:
        source = copying.databases.server(job.source_server_name)
        await source.accept_writes(job.source_database_name)
        raise
    return True


async def _make_writable(copying: Copying, job: Job) -> None:
    tenant_id = job.tenant_id
    if tenant_id is None or not job.has_made_read_only:
        return
    ctx = system_context(HOUSEKEEPING)
    async with copying.catalog.change(
        ctx, "tenant.update", tenant_id, tenant_id=tenant_id, changes=MADE_WRITABLE
    ) as session:
        # First, because an admin's change locks the job first, too.
        held = await jobs.lock(session, job.id, worker_id=copying.ledger.worker_id)
        if held is None or not held.has_made_read_only:
            raise Unchanged
        if await moves.unfreeze(session, tenant_id) is None:
            raise Unchanged  # it is writable, or was purged
