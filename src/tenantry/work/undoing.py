"""Undo a job that has failed, and drop its database: of this process, or of one that has died.

A job that no living process holds is cleaned up by any process, from its row alone: see `reap`.
"""

import contextlib
from collections.abc import Iterable, Mapping
from uuid import UUID

import asyncpg
import structlog

from tenantry.catalog import job_queue, job_states, jobs, owned_databases, tenants
from tenantry.catalog.job_queue import WAVE
from tenantry.catalog.job_states import INTERRUPTED, Job
from tenantry.catalog.jobs import ADOPT, PURGE
from tenantry.catalog.tenants import Tenant, TenantState
from tenantry.db.sessions import DatabaseUnavailable
from tenantry.kit.clock import utc_now
from tenantry.kit.context import HOUSEKEEPING, system_context
from tenantry.kit.errors import Unavailable
from tenantry.work.job_functions import Kind, Undo, undone
from tenantry.work.ledger import Ledger, new_job

REPEATED_WHEN_LOST = {WAVE}
"""Jobs that are queued again also when their process has died: a run waits for them."""
STOPPED = "The process was stopped. What the job had begun was removed."
INTERRUPTIONS = {STOPPED, INTERRUPTED}
LEFT_MAX = 1_000
"""Databases that a process remembers because it could not drop them."""

_log = structlog.get_logger(__name__)


async def reap(ledger: Ledger, kinds: Mapping[str, Kind]) -> None:
    """Clean up the jobs that no living process runs.

    First every job is undone, because tenants wait for that, and then the databases are dropped.
    After a failure, the other jobs of that server wait for the next call: each of them could wait
    for a connection that times out, and the rest of the housekeeping with it.

    Raises:
        DatabaseUnavailable: The catalog cannot be reached.
    """
    worker_id, busy = ledger.worker_id, ledger.busy
    async with ledger.claiming:
        await ledger.heartbeat.renew()
        async with ledger.catalog.begin() as session:
            await job_queue.give_back(session, worker_id=worker_id, running=busy)
            for tenant in await tenants.take_abandoned(session, worker_id=worker_id):
                await jobs.add(session, _cleanup_of(tenant), worker_id=worker_id)
            taken = await jobs.take_lost(session, worker_id=worker_id, busy=busy)
        # After the COMMIT: if its answer is lost, the next call takes them.
        busy.update(job.id for job in taken)
    ledger.failed.intersection_update(job.id for job in taken)
    if len(ledger.failed) == len(taken):
        ledger.failed.clear()
    taken.sort(key=lambda job: job.id in ledger.failed)  # then another one of a server is tried
    failing: set[str] = set()
    for drops in (False, True):
        for job in taken:
            server_name = job.server_name if drops else job.source_server_name or job.server_name
            if server_name in failing:
                await _release(ledger, job.id)
                continue
            undo = kinds[job.kind].undo if job.kind in kinds else undone
            again = job.kind in REPEATED_WHEN_LOST and job.error in INTERRUPTIONS
            error = await clear(ledger, job.id, undo=undo, again=again, drops=drops)
            # If the server answers, only this database cannot be dropped.
            is_away = error is not None and not isinstance(error.__cause__, asyncpg.PostgresError)
            if is_away and server_name is not None:
                failing.add(server_name)
                ledger.failed.add(job.id)
    await _drop_all_left(ledger, failing)


async def _drop_all_left(ledger: Ledger, failing: set[str]) -> None:
    """Drop what is left on the servers that are not *failing*, as `_drop_left` does."""
    for server_name, name in tuple(ledger.left):
        if server_name not in failing:
            try:
                await _drop_left(ledger, server_name, name)
            except (Unavailable, OSError):
                failing.add(server_name)


async def drop_old(ledger: Ledger, taken: Iterable[Job]) -> int:
    """Drop the old databases of *taken* jobs, which this process holds; return how many it did."""
    return sum([await clear(ledger, job.id, undo=undone) is None for job in taken])


async def clear(
    ledger: Ledger,
    job_id: UUID,
    *,
    undo: Undo,
    error: str | None = None,
    again: bool = False,
    drops: bool = True,
) -> Unavailable | OSError | None:
    """Drop the database of a job that this process holds, and end it.

    *error* is why the job has failed. With *again* it is queued again instead; without *drops* it
    is only undone.

    Returns:
        Why that failed: then any process tries again. None if nothing is left.
    """
    catalog, worker_id = ledger.catalog, ledger.worker_id
    try:
        # The database is read from the row: after a lost COMMIT it can be another one.
        async with catalog.begin() as session:
            job = await jobs.apply(
                session, job_id, job_states.condemned(error), worker_id=worker_id
            )
            unseen = None if job is None else await tenants.condemn(session, job)
        if job is None:  # it has ended
            return None
        if unseen is not None:
            await ledger.databases.forget(unseen.id)
        if job.error is not None:
            # First: the tenant must not wait for the server of the new database. And only once: if
            # that is away, another process tries again later, when an admin may have changed it.
            await undo(job)
            async with catalog.begin() as session:
                await jobs.apply(session, job_id, job_states.UNDONE, worker_id=worker_id)
        if drops:
            await _drop(ledger, job, again=again)
    except (Unavailable, OSError) as failure:
        _log.warning("job not cleaned up yet", job=str(job_id), exc_info=True)
        await _release(ledger, job_id)
        return failure
    finally:
        if drops:
            ledger.busy.discard(job_id)
    return None


async def fail(ledger: Ledger, job: Job, *, undo: Undo, error: str, again: bool) -> None:
    """Clean up a job that has failed in this process, even if another one has ended it before.

    That one has dropped the database; since then, this process may have created it again.
    """
    failure = await clear(ledger, job.id, undo=undo, error=error, again=again)
    if job.server_name is None or job.database_name is None:
        return
    place = (job.server_name, job.database_name)
    if len(ledger.left) < LEFT_MAX:
        ledger.left.add(place)
    if failure is None:
        with contextlib.suppress(Unavailable, OSError):
            await _drop_left(ledger, *place)


async def _drop_left(ledger: Ledger, server_name: str, name: str) -> None:
    """Drop a database of a job that another process has ended, and forget it.

    If it cannot, `reap` tries again: also while the job is open, because the process that ends it
    may have dropped the database before this one created it. After a kill, `doctor` names it.

    Raises:
        Unavailable, OSError: The catalog or the server cannot be reached.
    """
    state = await owned_databases.owner_state(ledger.catalog, server_name, name)
    if state is None:
        await ledger.databases.server(server_name).drop(name)
    if state not in job_states.OPEN:
        ledger.left.discard((server_name, name))


async def _drop(ledger: Ledger, job: Job, *, again: bool) -> None:
    """Drop the database of a job, and end it, with the row of a tenant that is not ready."""
    if job.server_name is not None and job.database_name is not None:
        await ledger.databases.server(job.server_name).drop(job.database_name)
    is_repeated = again and job.error is not None
    event = job_states.QUEUED_AGAIN if is_repeated else job_states.cleaned(utc_now())
    async with ledger.catalog.begin() as session:
        await jobs.apply(session, job.id, event, worker_id=ledger.worker_id)
        if job.database_name is not None:
            await tenants.remove_unseen(session, job)


async def _release(ledger: Ledger, job_id: UUID) -> None:
    """Release a job, so that any process can clean it up later."""
    try:
        with contextlib.suppress(DatabaseUnavailable):
            async with ledger.catalog.begin() as session:
                await jobs.apply(session, job_id, job_states.RELEASED, worker_id=ledger.worker_id)
    finally:
        ledger.busy.discard(job_id)


def _cleanup_of(tenant: Tenant) -> Job:
    """Return the job that removes a tenant of a dead worker, of an older release."""
    is_adopted = tenant.state == TenantState.ADOPTING.value
    place, nothing = (tenant.server_name, tenant.database_name), (None, None)
    return new_job(
        system_context(HOUSEKEEPING),
        ADOPT if is_adopted else PURGE,
        tenant=(tenant.id, tenant.name),
        database=nothing if is_adopted else place,
        source=place if is_adopted else nothing,
    )
