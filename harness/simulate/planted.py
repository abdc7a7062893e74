"""Faults that the simulator must find: each replaces one function or statement of the product."""

import contextlib
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

import msgspec
import sqlalchemy as sa

from tenantry.backup import move_undo
from tenantry.catalog import (
    job_queue,
    job_states,
    jobs,
    outbox,
    owned_databases,
    run_claims,
    run_progress,
    run_tenants,
)
from tenantry.catalog.job_states import Event
from tenantry.catalog.runs import MigrationRun, Progress
from tenantry.db.statements import Statement
from tenantry.fleet import active_runs
from tenantry.fleet.active_runs import ActiveRun
from tenantry.fleet.claims import Claims
from tenantry.migration.run_scripts import RunScripts
from tenantry.migration.streams import Streams
from tenantry.work import undoing
from tenantry.work.heartbeat import Heartbeat


class Fault(NamedTuple):
    """A fault: where it is, and what replaces what is there."""

    place: Any
    name: str
    value: Any


@contextlib.contextmanager
def planted(name: str) -> Iterator[None]:
    """Plant a fault of `FAULTS` while the block runs."""
    fault = FAULTS[name]()
    before = vars(fault.place)[fault.name]
    setattr(fault.place, fault.name, fault.value)
    try:
        yield
    finally:
        setattr(fault.place, fault.name, before)


def _everyone_is_lost() -> Fault:
    """A process takes over from those that have a heartbeat, too."""
    statement = run_claims._claim_of(
        run_claims._on_server, run_claims._item.worker_id != run_claims._worker
    )
    return Fault(run_claims, "_TAKE_OVER", statement)


def _claims_go_on() -> Fault:
    """A process claims tenants of a run that was stopped."""
    statement = run_claims._claim_of(run_claims._on_server, run_claims._item.worker_id.is_(None))
    return Fault(run_claims, "_CLAIM", statement)


def _anyone_ends() -> Fault:
    """A process writes the outcome of a tenant that another one holds."""
    return _ending(run_tenants._item.worker_id.is_not(None), run_tenants.is_open)


def _outcomes_change() -> Fault:
    """A process that lost a tenant, and comes back, writes its outcome again."""
    is_own = run_tenants._item.worker_id == run_tenants._worker
    return _ending(sa.or_(is_own, ~run_tenants.is_open))


def _ending(*conditions: sa.ColumnElement[bool]) -> Fault:
    values = run_tenants.parameters(*run_tenants._ENDED)
    of_tenant = run_tenants._item.tenant_id == sa.bindparam("tenant")
    statement = Statement[Any](
        sa.update(run_tenants.tenant_migration)
        .values(sequence=sa.bindparam("number"), **values)
        .where(run_tenants.of_run, of_tenant, *conditions)
    )
    return Fault(run_tenants, "_END", statement)


def _budget_is_off_by_one() -> Fault:
    """A run allows one failure more than its budget."""
    original = run_progress._too_many

    def too_many(before: Progress, failed_count: int) -> str | None:
        return original(before, failed_count - 1)

    return Fault(run_progress, "_too_many", too_many)


def _wave_begins_early() -> Fault:
    """A wave begins when all but one of the one before have ended."""
    original = run_progress.advance

    def advance(before: Progress, **ended: Any) -> Progress:
        after = original(before, **ended)
        is_near = before.waves is not None and after.ended_count + 1 in before.waves[:-1]
        if is_near and after.stop_reason is None and after.unopened_count == 0:
            return msgspec.structs.replace(after, unopened_count=1)
        return after

    return Fault(run_progress, "advance", advance)


def _hold_opens() -> Fault:
    """A run that holds opens its next wave all the same."""
    original = run_progress.advance

    def advance(before: Progress, **ended: Any) -> Progress:
        after = original(before, **ended)
        if after.holding_wave is not None and before.holding_wave is None:
            opened = run_progress.resume(after)
            return msgspec.structs.replace(opened, holding_wave=after.holding_wave)
        return after

    return Fault(run_progress, "advance", advance)


def _any_wave_resumes() -> Fault:
    """A person continues a wave that has been continued before."""

    async def resume(session: Any, run_id: Any, *, wave: int, limit: int = 2_000) -> None:
        before = await run_tenants._lock(session, run_id)
        if before.stop_reason is None and before.finished_at is None:
            after = run_progress.resume(before)
            await run_tenants._move(session, await run_tenants._open_batch(session, after, limit))

    return Fault(run_tenants, "resume", resume)


def _stop_is_not_read() -> Fault:
    """A process does not read whether a run was stopped before it starts a tenant."""

    async def is_clear(self: ActiveRun, _catalog: Any) -> bool:
        return True

    return Fault(ActiveRun, "is_clear", is_clear)


def _lost_tenants_start() -> Fault:
    """A process that was silent starts the tenants that others have taken over."""

    def has_lapsed_since(_self: Heartbeat, _lapses: int) -> bool:
        return False

    return Fault(Heartbeat, "has_lapsed_since", has_lapsed_since)


def _undo_goes_forward() -> Fault:
    """A process that joins the undo of a run migrates forward."""
    original = active_runs.known_scripts

    def known_scripts(run: MigrationRun, streams: Streams) -> tuple[RunScripts, bool]:
        return original(msgspec.structs.replace(run, undoes=None), streams)

    return Fault(active_runs, "known_scripts", known_scripts)


def _stop_is_undone() -> Fault:
    """The outcomes that come after a stop make the run go on."""
    original = run_progress.advance

    def advance(before: Progress, **ended: Any) -> Progress:
        after = original(before, **ended)
        return msgspec.structs.replace(after, stop_reason=None) if before.stop_reason else after

    return Fault(run_progress, "advance", advance)


def _claims_are_forgotten() -> Fault:
    """A claim whose answer was lost stays with a process that does not know of it."""

    async def abandon(self: Claims) -> None:
        return None

    return Fault(Claims, "_abandon_unconfirmed", abandon)


def _failures_count_twice() -> Fault:
    """A failure is counted twice."""
    original = run_progress.advance

    def advance(before: Progress, *, failures: int, **ended: Any) -> Progress:
        return original(before, failures=failures + (1 if failures > 1 else 0), **ended)

    return Fault(run_progress, "advance", advance)


def _jobs_of_the_living_are_taken() -> Fault:
    """A process cleans up jobs that another one runs."""
    is_lost = sa.and_(jobs.is_open, jobs.job.c.worker_id.is_not(None))
    return Fault(jobs, "_LOST", Statement(sa.select(jobs.job.c.id).where(is_lost), jobs.RowId))


def _busy_is_ignored() -> Fault:
    """A process cleans up the jobs that it runs itself."""
    original = jobs.take_lost

    async def take_lost(session: Any, *, worker_id: Any, busy: Any) -> Any:
        return await original(session, worker_id=worker_id, busy=frozenset())

    return Fault(jobs, "take_lost", take_lost)


def _anyone_finishes() -> Fault:
    """A process ends a job that another one holds by now."""
    original = jobs.apply

    async def apply(session: Any, job_id: Any, event: Event, *, worker_id: Any) -> Any:
        return await original(session, job_id, event, worker_id=None)

    return Fault(jobs, "apply", apply)


def _nothing_is_undone() -> Fault:
    """A job that failed is not undone."""
    original = undoing.clear

    async def clear(held: Any, job_id: Any, *, undo: Any, **options: Any) -> Any:
        return await original(held, job_id, undo=undoing.undone, **options)

    return Fault(undoing, "clear", clear)


def _nothing_is_dropped() -> Fault:
    """A job that failed leaves its database."""

    async def drop(held: Any, job: Any, *, again: bool) -> None:
        event = job_states.cleaned(undoing.utc_now())
        async with held.catalog.begin() as session:
            await jobs.apply(session, job.id, event, worker_id=held.worker_id)

    return Fault(undoing, "_drop", drop)


def _done_is_dropped() -> Fault:
    """A job that is done, and whose answer was lost, loses its database."""

    async def owner_state(_session: Any, _server_name: str, _name: str) -> None:
        return None

    return Fault(owned_databases, "owner_state", owner_state)


def _released_are_forgotten() -> Fault:
    """A job that is to be cleaned up, and was released, is taken over by no process."""
    statement = jobs._LOST
    clause = sa.select(jobs.job.c.id).where(jobs._is_lost, jobs.is_running).order_by(jobs.job.c.id)
    return Fault(jobs, "_LOST", Statement(clause, statement.row))


def _busy_is_kept() -> Fault:
    """A process that could not take jobs over believes that it has."""
    original = jobs.take_lost

    async def take_lost(session: Any, *, worker_id: Any, busy: Any) -> Any:
        taken = await original(session, worker_id=worker_id, busy=busy)
        busy.update(one.id for one in taken)
        return taken

    return Fault(jobs, "take_lost", take_lost)


def _lost_job_leaves_its_database() -> Fault:
    """A process that was frozen leaves the database of a job that another one has ended."""

    async def fail(held: Any, job: Any, *, undo: Any, error: str, again: bool) -> None:
        await undoing.clear(held, job.id, undo=undo, error=error, again=again)

    return Fault(undoing, "fail", fail)


def _jobs_are_not_stored() -> Fault:
    """A job is confirmed before it is stored."""

    async def add(_session: Any, _queued: Any) -> None:
        return None

    return Fault(job_queue, "add", add)


def _moved_tenants_fail() -> Fault:
    """A tenant that is moved after a process has claimed it fails in its run."""

    async def is_lost(_session: Any, _item: Any, **_options: Any) -> bool:
        return False

    return Fault(run_claims, "is_lost", is_lost)


def _moves_stay_read_only() -> Fault:
    """A tenant stays read-only when its move has failed."""

    async def make_writable(_copying: Any, _job: Any) -> None:
        return None

    return Fault(move_undo, "_make_writable", make_writable)


def _sent_by_the_dead() -> Fault:
    """A notification that a process was sending when it was killed is sent by no other."""
    is_abandoned = outbox.is_abandoned(outbox._row.worker_id, outbox._worker)
    only_free = sa.select(outbox._row.id).where(outbox._is_due, ~is_abandoned)
    due = only_free.order_by(outbox._row.id).limit(1)
    return Fault(outbox, "_DUE", Statement(due, outbox.RowId))


OF_RUNS: Mapping[str, Callable[[], Fault]] = {
    one.__name__.lstrip("_"): one
    for one in (
        _everyone_is_lost,
        _claims_go_on,
        _anyone_ends,
        _outcomes_change,
        _budget_is_off_by_one,
        _wave_begins_early,
        _hold_opens,
        _any_wave_resumes,
        _stop_is_not_read,
        _stop_is_undone,
        _lost_tenants_start,
        _claims_are_forgotten,
        _failures_count_twice,
        _undo_goes_forward,
        _sent_by_the_dead,
        _moved_tenants_fail,
    )
}
OF_THE_LEDGER: Mapping[str, Callable[[], Fault]] = {
    one.__name__.lstrip("_"): one
    for one in (
        _jobs_of_the_living_are_taken,
        _busy_is_ignored,
        _anyone_finishes,
        _nothing_is_undone,
        _nothing_is_dropped,
        _done_is_dropped,
        _busy_is_kept,
        _lost_job_leaves_its_database,
        _released_are_forgotten,
        _jobs_are_not_stored,
        _moves_stay_read_only,
    )
}
FAULTS = {**OF_RUNS, **OF_THE_LEDGER}
