"""What must hold after each transaction, and at the end of a history."""

from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple
from uuid import UUID

from harness.simulate.clock import CLOCK
from harness.simulate.engine import Engine
from harness.simulate.process import Process
from harness.simulate.store import Store
from harness.simulate.world import FENCED, MISSING, Entry, World, applied_by, in_effect
from tenantry.catalog.job_states import INTERRUPTED
from tenantry.catalog.workers import NO_WORKER, SILENCE_MS
from tenantry.fleet.active_runs import STATE_SECONDS_MAX
from tenantry.kit.hook_events import RUN_ENDED, RUN_STARTED

START_DELAYS_MAX = 10
"""A process that has read no stop of a run may begin a tenant for so many delays more."""
ENDED = {"done", "failed", "kept"}
_NO_WORKER = NO_WORKER.hex


class Violated(AssertionError):
    """Something that must hold does not."""


class Run(NamedTuple):
    """A row of `migration_run`."""

    id: str
    total: int
    successes: int
    failures: int
    finished_at: str | None
    stop_reason: str | None
    waves: str | None
    max_failures: int | None
    wave_failed_max: int | None
    holding_wave: int | None
    unopened: int
    planner: str | None
    undoes: str | None


class Item(NamedTuple):
    """A row of `tenant_migration`."""

    run: str
    tenant: str
    state: str
    worker: str | None
    finished_at: str | None
    applied: str | None
    error: str | None
    database: str


class Job(NamedTuple):
    """A row of `job`."""

    id: str
    kind: str
    state: str
    worker: str | None
    database: str | None
    error: str | None
    finished_at: str | None
    has_suspended: bool
    source: str | None


class Message(NamedTuple):
    """A row of `notification`."""

    id: str
    event: str
    run: str | None
    state: str
    next_at_ms: int

    def waits(self, now_ms: int) -> bool:
        """Return whether it must be delivered: not if the database's clock was set back since."""
        return self.state == QUEUED and self.next_at_ms - now_ms < REDELIVERY_MS_MAX


class Rows(NamedTuple):
    """The rows that are checked, by their keys, and the last heartbeats."""

    runs: Mapping[str, Run]
    items: Mapping[tuple[str, str], Item]
    jobs: Mapping[str, Job]
    seen_ms: Mapping[str, int]
    messages: Mapping[str, Message]


_RUNS = (
    "SELECT id, total_count, success_count, failed_count, finished_at, stop_reason, waves,"
    " max_failures, wave_failed_max, holding_wave, unopened_count, planner_id, undoes"
    " FROM migration_run"
)
_ITEMS = (
    "SELECT run_id, tenant_id, state, worker_id, finished_at, applied, error, database_name"
    " FROM tenant_migration"
)
_JOBS = (
    "SELECT id, kind, state, worker_id, database_name, error, finished_at, has_suspended,"
    " source_database_name FROM job"
)
_MESSAGES = (
    "SELECT id, event, replace(json_extract(payload, '$.data.runId'), '-', ''), state,"
    " next_at_ms"
    " FROM notification"
)
_WORKERS = "SELECT id, seen_at_ms FROM worker"
_TENANTS = "SELECT id, database_name, is_read_only FROM tenant"


NOTHING = Rows({}, {}, {}, {}, {})


def read(engine: Engine, before: Rows, since: int) -> Rows:
    """Return the rows as they are now: those of *before* if their table has not changed *since*."""
    runs, items, jobs, seen_ms, messages = before
    if engine.has_changed("migration_run", since):
        runs = {one.id: one for one in map(Run._make, engine.read(_RUNS))}
    if engine.has_changed("tenant_migration", since):
        items = {(one.run, one.tenant): one for one in map(Item._make, engine.read(_ITEMS))}
    if engine.has_changed("job", since):
        jobs = {one.id: one for one in map(Job._make, engine.read(_JOBS))}
    if engine.has_changed("worker", since):
        seen_ms = dict(engine.read(_WORKERS))
    if engine.has_changed("notification", since):
        messages = {one.id: one for one in map(Message._make, engine.read(_MESSAGES))}
    return Rows(runs, items, jobs, seen_ms, messages)


class Checks:
    """Compares the rows after each transaction with those before.

    Attributes:
        steps: How many transactions have changed something.
        fault: What did not hold first. It is not raised: the product would handle the error.
        promised_runs: The runs whose start was confirmed, with the number of their tenants.
        promised_jobs: The jobs whose queueing was confirmed.
        note: Called with what each transaction has changed, if that is wanted.
    """

    def __init__(self, store: Store, world: World, processes: Mapping[str, Process]) -> None:
        self._store, self._world, self._processes = store, world, processes
        self._read_at = store.engine.now
        self._rows = read(store.engine, NOTHING, -1)
        self._tenant_of = {name: one for one, name, _ in store.engine.read(_TENANTS)}
        self._stopped_at: dict[str, float] = {}
        self._beaten_at: dict[str, float] = {}
        self._lost_at: dict[tuple[str, str, str], float] = {}
        self._started: defaultdict[tuple[str, str], set[str]] = defaultdict(set)
        self._job_databases: dict[str, str] = {}
        self.steps = 0
        self.fault: str | None = None
        self.promised_runs: dict[UUID, int] = {}
        self.promised_jobs: set[UUID] = set()
        self.note: Callable[[str], None] | None = None

    @property
    def rows(self) -> Rows:
        """The rows after the last transaction."""
        return self._rows

    def committed(self, process: str) -> None:
        """Check what a transaction of a process has changed."""
        self.steps += 1
        try:
            self._check(process)
        except Violated as fault:
            self.fault = self.fault or str(fault)

    def started(self, run_id: UUID, database: str, process: str) -> None:
        """Check that a process may begin the migration of a tenant now."""
        try:
            self._check_start(run_id, database, process)
        except Violated as fault:
            self.fault = self.fault or str(fault)

    def _check(self, process: str) -> None:
        before, after = self._rows, read(self._store.engine, self._rows, self._read_at)
        self._rows, self._read_at = after, self._store.engine.now
        if self.note is not None:
            self.note(f"{CLOCK.now:8.3f} {process}: {_changes(before, after)}")
        own = self._processes[process].worker_id.hex
        if after.seen_ms.get(own) != before.seen_ms.get(own):
            self._beaten_at[own] = CLOCK.now
        # What was checked before, and has not been read again, is as it was.
        if after.runs is not before.runs or after.items is not before.items:
            counts = self._check_items(before, after, own)
            for run in after.runs.values():
                self._check_run(before.runs.get(run.id), run, counts[run.id])
            gone = before.runs.keys() - after.runs.keys()
            _expect(gone <= _hidden(before), "a shown run is gone")
        if after.jobs is not before.jobs:
            self._check_jobs(before, after, process, own)
        if after.messages is not before.messages:
            self._check_messages(before, after)

    def _check_start(self, run_id: UUID, database: str, process: str) -> None:
        run = self._rows.runs.get(run_id.hex)
        tenant = self._tenant_of[self._world.origins.get(database, database)]
        found = self._rows.items.get((run_id.hex, tenant))
        _expect(run is not None and found is not None, "a tenant of no run is migrated")
        assert run is not None
        assert found is not None
        _expect(run.planner is None, "a tenant of a run that is being planned is migrated")
        _expect(found.state != "Waiting", "a tenant that waits for its wave is migrated")
        starters = self._started[run_id.hex, tenant]
        if process not in starters:
            read_at = self._store.runs_read_at.get(process, 0.0)
            read_at += STATE_SECONDS_MAX
            self._check_recent(process, read_at, "a tenant is started without a look at its run")
            stopped_at = self._stopped_at.get(run_id.hex)
            if stopped_at is not None:
                self._check_recent(process, stopped_at, "a tenant is started after a stop")
        lost_at = self._lost_at.get((run_id.hex, tenant, self._processes[process].worker_id.hex))
        if lost_at is not None:
            self._check_recent(process, lost_at, "a tenant is started that another one holds")
        starters.add(process)

    def _check_recent(self, process: str, since: float, message: str) -> None:
        """Check that there was time for no more than some transactions, beside that of a freeze."""
        since = max(since, self._processes[process].thawed_at)
        is_late = CLOCK.now > since + START_DELAYS_MAX * self._store.delay_seconds
        _expect(not is_late, message)

    def has_ended(self) -> bool:
        """Return whether every run and every job has ended."""
        rows = self._rows
        return (
            all(run.finished_at is not None for run in rows.runs.values())
            and all(one.state in ENDED for one in rows.jobs.values())
            and not any(one.waits(_now_ms()) for one in rows.messages.values())
        )

    def at_the_end(self) -> None:
        """Check that nothing was lost, and that nothing is left."""
        rows = self._rows
        for run_id, total in self.promised_runs.items():
            found = rows.runs.get(run_id.hex)
            _expect(found is not None and found.total == total, "a confirmed run is not there")
        for run in rows.runs.values():
            sent = [one.event for one in rows.messages.values() if one.run == run.id]
            for event in (RUN_STARTED, RUN_ENDED):
                _expect(sent.count(event) == 1, f"a run has {sent.count(event)} times {event}")
        for job_id in self.promised_jobs:
            _expect(job_id.hex in rows.jobs, "a confirmed job is not there")
        tenants = list(self._store.engine.read(_TENANTS))
        places = {one: name for one, name, _ in tenants}
        _expect(set(places.values()) == self._world.tenants.keys(), "a tenant lost its database")
        for item in rows.items.values():
            self._check_outcome(item, places[item.tenant])
        done = {one.id for one in rows.jobs.values() if one.state in ("done", "kept")}
        kept = {name for job, name in self._job_databases.items() if job in done}
        moved = set(places.values()) - self._tenant_of.keys()
        world = self._world
        # A process that lost a job while it created the database drops it, unless it ends before
        # that: `doctor` names the database then.
        unowned = {one for one, process in world.late.items() if not world.is_alive(process)}
        left = world.databases - kept - moved
        _expect(kept | moved <= world.databases, "databases of jobs were lost")
        _expect(left <= unowned, "databases of jobs are left")
        read_only = [name for _, name, is_read_only in tenants if is_read_only]
        fenced = [name for name, one in self._world.tenants.items() if one.is_fenced]
        _expect(not read_only and not fenced, "a tenant is read-only after its move")
        changed = {one.id for one in rows.jobs.values() if one.kind == "replace" and one.id in done}
        _expect({one.hex for one in self._world.changed} == changed, "a job was not undone")

    def holds_move(self, process: str, database: str) -> bool:
        """Return whether a process holds a running move of a database."""
        worker_id = self._processes[process].worker_id.hex
        return any(
            (one.source, one.worker, one.state) == (database, worker_id, "running")
            for one in self.rows.jobs.values()
        )

    def _check_outcome(self, item: Item, database: str) -> None:
        error = item.error or ""
        # A process that was frozen in a move lifts its fence at once. A migration may come between.
        is_fenced = FENCED in error and item.database not in self._world.late_fences
        _expect(MISSING not in error and not is_fenced, "a tenant fails because it was moved")
        applied = applied_by(self._world, database, UUID(item.run))
        named = item.applied.split(",") if item.applied else []
        _expect(set(named) <= set(applied), "an outcome names a revision that is not applied")
        run, log = self._rows.runs[item.run], self._world.tenants[database].log
        undoes = {one.undoes for one in log if one.run.hex == run.id}
        wanted = None if run.undoes is None else UUID(run.undoes)
        _expect(undoes <= {wanted}, "an undo migrates forward, or undoes another run")
        if item.state == "Success":
            _expect(named == applied, "a success does not name what was applied")
            self._check_success(run, log)

    def _check_success(self, run: Run, log: Sequence[Entry]) -> None:
        if run.undoes is None:
            last = max((at for at, one in enumerate(log, 1) if one.run.hex == run.id), default=0)
            # Another run may have applied the rest, and an undo may have come since.
            then, full = range(last, len(log) + 1), len(self._world.revisions)
            is_there = any(len(in_effect(log[:at])) == full for at in then)
            _expect(is_there, "a tenant succeeded and is not at the head")
            return
        left = [one for one in in_effect(log) if one.run.hex == run.undoes]
        is_undone = all(one.number < self._world.own_count for one in left)
        _expect(is_undone, "an undo succeeded, and a revision of its run is applied")

    def _check_items(self, before: Rows, after: Rows, own: str) -> defaultdict[str, Counter[str]]:
        counts: defaultdict[str, Counter[str]] = defaultdict(Counter)
        for key, item in after.items.items():
            counts[item.run][item.state] += 1
            counts[item.run]["open"] += item.finished_at is None and item.state == "Pending"
            old = before.items.get(key)
            if old is None:
                _expect(item.worker is None and item.finished_at is None, "a new item has begun")
            elif old != item:
                self._check_item(before, after, old, item, own)
        gone = {key[0] for key in before.items.keys() - after.items.keys()}
        _expect(gone <= _hidden(before), "an item of a shown run is gone")
        return counts

    def _check_item(self, before: Rows, after: Rows, old: Item, item: Item, own: str) -> None:
        run = before.runs[item.run]
        _expect(old.finished_at is None, "an outcome is changed")
        if item.finished_at is not None:
            is_own = old.worker == own
            is_closed = old.worker is None and run.stop_reason is not None
            _expect(is_own or is_closed, "an outcome is written by another than its holder")
            return
        if old.state == "Waiting" and item.state == "Pending":
            now = after.runs[item.run]
            _expect(run.stop_reason is None, "an item is opened after the stop of its run")
            _expect(now.holding_wave is None, "an item is opened while its run holds")
        if old.worker != item.worker:
            self._check_holder(before, old.worker, item.worker, own)
            self._lost_at.pop((item.run, item.tenant, item.worker or ""), None)
            # Also one that seems to be silent, because the clock of the database was set, loses it.
            if CLOCK.now - self._beaten_at.get(old.worker or "", CLOCK.now) > SILENCE_MS / 1000:
                self._lost_at[item.run, item.tenant, old.worker or ""] = CLOCK.now
            if item.worker == own and old.worker is None:
                _expect(run.stop_reason is None, "an item is claimed after the stop of its run")
                _expect(item.state == "Pending", "an item is claimed before its wave")

    def _check_holder(self, before: Rows, old: str | None, new: str | None, own: str) -> None:
        """Check that work changes its holder only when that has released it, or is silent."""
        if new in (None, _NO_WORKER):
            _expect(old in (own, _NO_WORKER), "a process releases what another one holds")
            return
        _expect(new == own, "a process gives work to another one")
        if old not in (None, _NO_WORKER):
            assert old is not None
            is_silent = before.seen_ms.get(old, 0) < _now_ms() - SILENCE_MS + 1
            _expect(is_silent, "a process takes over from one that has a heartbeat")

    def _check_run(self, old: Run | None, run: Run, counts: Counter[str]) -> None:
        if run.planner is not None:
            return
        _expect(run.total == sum(counts[s] for s in _STATES), "a total does not add up")
        _expect(run.successes == counts["Success"], "the successes of a run do not add up")
        _expect(run.failures == counts["Failed"], "the failures of a run do not add up")
        ended = run.successes + run.failures
        _expect((run.finished_at is not None) == (ended == run.total), "a run ends at another time")
        if run.stop_reason is not None:
            self._stopped_at.setdefault(run.id, CLOCK.now)
        if old is not None and old.planner is None:
            if old.stop_reason is not None:
                _expect(run.stop_reason == old.stop_reason, "a run goes on after its stop")
            if old.finished_at is not None:
                _expect(run == old, "a run changes after its end")
        if run.finished_at is not None or run.stop_reason is not None:
            return
        for most in (run.max_failures, run.wave_failed_max):
            _expect(most is None or run.failures <= most, "a run passes its failure budget")
        if run.waves is not None:
            _check_waves(run, [int(size) for size in run.waves.split()], ended, counts)

    def _check_messages(self, before: Rows, after: Rows) -> None:
        for one in after.messages.values():
            old = before.messages.get(one.id)
            if old is None or old.state == one.state:
                continue
            _expect(old.state == QUEUED, "a notification changes after its end")
            _expect(one.state == DELIVERED, f"a notification is {one.state}")
            _expect(one.id in self._world.received, "a notification is delivered to no one")
        _expect(before.messages.keys() <= after.messages.keys(), "a notification is gone")

    def _check_jobs(self, before: Rows, after: Rows, process: str, own: str) -> None:
        for job in after.jobs.values():
            old = before.jobs.get(job.id)
            if old is None or old == job:
                continue
            if job.has_suspended and not old.has_suspended:
                self._world.changed.add(UUID(job.id))
            if job.database is not None and job.kind not in ("move", "replace"):
                self._job_databases[job.id] = job.database
            if job.error == INTERRUPTED and old.error is None and old.worker == own:
                is_run = UUID(job.id) in self._processes[process].ledger.busy
                _expect(not is_run, "a process takes a job for lost that it runs itself")
            _expect(old.state not in ENDED, "a job changes after its end")
            _expect(job.state in _NEXT[old.state], f"a job is {job.state} after {old.state}")
            if job.worker not in (old.worker, None):
                if old.worker is not None:
                    self._check_holder(before, old.worker, job.worker, own)
                _expect(job.worker == own, "a process gives a job to another one")
            elif old.worker is not None and job.state != old.state:
                _expect(old.worker == own, "a job is ended by another than its holder")
        _expect(before.jobs.keys() <= after.jobs.keys(), "a job is gone")


QUEUED, DELIVERED = "queued", "delivered"
REDELIVERY_MS_MAX = 600_000
"""More than a pause between two deliveries here, and less than a step of the database's clock."""
_STATES = ("Waiting", "Pending", "Success", "Failed")
_NEXT = {
    "queued": {"queued", "running", "failed"},
    "running": {"running", "done", "kept", "dropping", "queued"},
    "dropping": {"dropping", "done", "failed", "queued"},
}


def _check_waves(run: Run, sizes: list[int], ended: int, counts: Counter[str]) -> None:
    begun = run.total - counts["Waiting"]
    if run.holding_wave is not None:
        _expect(not counts["open"], "a run holds, and a tenant of it may start")
        _expect(begun == sizes[run.holding_wave - 1], "a run holds after another wave")
        return
    opened = next((size for size in sizes if size > ended), run.total)
    _expect(begun + run.unopened == opened, "a wave begins before the one before has ended")


def _now_ms() -> int:
    """Return the time of the database, in ms since 1970."""
    return int((CLOCK.julian_day("now") - 2_440_587.5) * 86_400_000)


def _hidden(rows: Rows) -> set[str]:
    return {run.id for run in rows.runs.values() if run.planner is not None}


def _changes(before: Rows, after: Rows) -> str:
    """Return what differs, as one line."""
    parts: list[str] = []
    for name in ("runs", "items", "jobs"):
        old: Mapping[Any, Any] = getattr(before, name)
        new: Mapping[Any, Any] = getattr(after, name)
        keys = [key for key in {**old, **new} if old.get(key) != new.get(key)]
        parts += [f"{old.get(key)} -> {new.get(key)}" for key in keys]
    return "; ".join(parts) or "a heartbeat"


def _expect(holds: bool, message: str) -> None:  # noqa: FBT001 - as `assert`
    if not holds:
        raise Violated(message)
