"""One history: what happens, by a seed, and then until everything has ended."""

import asyncio
import json
import random
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import astuple, dataclass
from typing import Any
from uuid import UUID

from harness.simulate.checks import Checks, Violated
from harness.simulate.clock import CLOCK
from harness.simulate.process import Process
from harness.simulate.store import Store
from harness.simulate.world import SERVERS, TENANTS, TenantDatabase, World, database_name
from tenantry.catalog import tenants
from tenantry.catalog.job_queue import BACKUP, MOVE, REPLACE, RESTORE
from tenantry.fleet.run_options import CHECK, RunOptions
from tenantry.kit import webhooks
from tenantry.kit.errors import TenantryError
from tenantry.migration.schema_state import Applied
from tenantry.migration.streams import Streams

PROCESSES_MAX = 5
SECONDS_MAX = 20.0
"""How long things happen; then everything must end within `END_SECONDS_MAX`."""
END_SECONDS_MAX = 240.0
OPERATOR_SECONDS = 1.0
STEPS_MAX = 200_000
KEPT_SHARE = 0.5
UNDO_TRIES_MAX, UNDO_PAUSE_SECONDS = 20, 0.5
JOBS_AT_ONCE_MAX = 3
HOLDER_TRIES_MAX, HOLDER_PAUSE_SECONDS, HELD_MIN = 100, 0.05, 3

_ENDED: list[object] = []


@dataclass(frozen=True)
class Event:
    """Something that happens at a time: a function of `History`, with its choices."""

    at: float
    name: str
    seed: int

    @classmethod
    def load(cls, text: str) -> "list[Event]":
        """Return events that were kept as JSON: a list of a list of each."""
        return [cls(*one) for one in json.loads(text)]

    @staticmethod
    def dump(events: "Sequence[Event]") -> str:
        """Return events as JSON, for `load`."""
        return json.dumps([astuple(one) for one in events])

    def __str__(self) -> str:
        """Return it as it is printed."""
        return f"{self.at:7.3f} {self.name}"


@dataclass(frozen=True)
class Result:
    """What came of a history.

    Attributes:
        fault: What did not hold; None if everything did.
        steps: How many transactions have changed something.
    """

    fault: str | None
    steps: int


WEIGHTS = {
    "start_run": 6,
    "cancel_run": 5,
    "continue_run": 2,
    "undo_run": 4,
    "queue_job": 5,
    "move_tenant": 4,
    "cancel_job": 2,
    "kill": 3,
    "start_process": 3,
    "freeze": 3,
    "lose_holder": 3,
    "stop": 2,
    "catalog_out": 1,
    "cut_off": 4,
    "server_away": 2,
    "step_database_clock": 1,
    "step_process_clock": 1,
}


SPREADS = (0.1, 0.4, 1.0, 1.0)
"""Of its time, how much the events of a history take: those that meet a moment come close."""
WORK = (
    ("start_run",),
    ("queue_job",),
    ("start_run", "queue_job"),
    ("start_run", "move_tenant"),
)


def events_of(seed: str) -> list[Event]:
    """Return what happens in the history of a seed, in order of time.

    Of the kinds of events, each history has about half: so those that matter only together come
    together more often ("swarm testing": Groce et al., ISSTA 2012). For the same reason, those of
    some histories follow each other quickly.
    """
    chance = random.Random(f"events {seed}")  # noqa: S311 - no secret
    work = chance.choice(WORK)
    rest = WEIGHTS.keys() - {one for some in WORK[:3] for one in some} - set(work)
    others = [one for one in WEIGHTS if one in rest and chance.random() < KEPT_SHARE]
    kinds = [*work, *others]
    seconds = SECONDS_MAX * chance.choice(SPREADS)
    names = chance.choices(kinds, [WEIGHTS[one] for one in kinds], k=chance.randint(3, 14))
    events = [
        Event(chance.random() * seconds * chance.random(), name, chance.getrandbits(32))
        for name in [*work, *names]
    ]
    if chance.random() < KEPT_SHARE:
        events.append(Event(0.0, "slow_down", chance.getrandbits(32)))
    return sorted(events, key=lambda one: one.at)


class History:
    """Plays the events of a seed, with the product's own code.

    Args:
        note: Called with each step, as text.
    """

    def __init__(
        self,
        seed: str,
        store: Store,
        streams: Streams,
        note: Callable[[str], None] | None = None,
    ) -> None:
        CLOCK.reset(seed)
        random.seed(f"pauses {seed}")
        self._chance = random.Random(f"steps {seed}")  # noqa: S311 - no secret
        self._choose = self._chance
        self._store, self._streams, self._note = store, streams, note
        store.reset(self._chance, self._chance.choice((0.0, 0.0, 0.02, 0.1, 0.2)))
        every = tuple(Applied(one.stream, one.name) for one in streams.revisions)
        self._world = World(self._chance, every, len(streams.own.revisions))
        self._processes: dict[str, Process] = {}
        self._checks = Checks(store, self._world, self._processes)
        self._checks.note = note
        store.committed = self._checks.committed
        webhooks.post = self._world.receive  # type: ignore[assignment]
        self._world.started = self._checks.started
        self._world.is_alive = lambda name: self._processes[name].is_alive
        self._world.holds_move = self._checks.holds_move
        for number in range(TENANTS):
            failures = self._chance.choice((0, 0, 0, 1, 9))
            self._world.tenants[database_name(number)] = TenantDatabase(failures=failures)
        self._is_over = False
        for _ in range(self._chance.randint(2, 3)):
            self.start_process()

    def play(self, events: Sequence[Event]) -> Result:
        """Play *events*, and then until everything has ended."""
        try:
            self._play(events)
        except Violated as fault:
            return Result(str(fault), self._checks.steps)
        finally:
            self._forget()
        return Result(None, self._checks.steps)

    def _play(self, events: Sequence[Event]) -> None:
        for event in events:
            self._run_until(event.at)
            self._say(event.name)
            self._choose = random.Random(event.seed)  # noqa: S311 - no secret
            getattr(self, event.name)()
        self._run_until(max(SECONDS_MAX * 0.2, CLOCK.now))
        self._end_faults()
        deadline = CLOCK.now + END_SECONDS_MAX
        while not (self._checks.has_ended() and self._is_quiet()):
            if CLOCK.now > deadline:
                raise Violated("something has not ended")
            self._any()  # starts one if all were stopped
            self._decide()
            self._run_until(CLOCK.now + OPERATOR_SECONDS)
        self._checks.at_the_end()

    def _run_until(self, until: float) -> None:
        """Let the processes run, in turns by chance, until a time."""
        for _ in range(STEPS_MAX):
            first, ready = until, list[Process]()
            for one in self._processes.values():
                if not one.is_alive or (due := one.loop.due) is None:
                    continue
                at = max(due, CLOCK.now)
                if at < first:
                    first, ready = at, [one]
                elif at == first:
                    ready.append(one)
            if first >= until:
                CLOCK.now = max(CLOCK.now, until)
                return
            CLOCK.now = first
            process = ready[0] if len(ready) == 1 else self._chance.choice(ready)
            CLOCK.skew = process.skew
            process.loop.step()
            if (fault := self._checks.fault or self._store.engine.wrong) is not None:
                raise Violated(fault)
            if process.loop.failures:
                _raise(process.loop.failures)
        raise Violated("time stands still")

    def start_process(self) -> None:
        """Start one more process."""
        if len(self._living()) < PROCESSES_MAX:
            name = f"p{len(self._processes) + 1}"
            self._processes[name] = Process(name, self._store, self._world, self._streams)

    def start_run(self) -> None:
        """Start a run with some options."""
        process = self._any()
        process.run(self._start(process, self._options()))

    async def _start(self, process: Process, options: RunOptions) -> None:
        run_id = await process.fleet.plan(
            process.context(), triggered_by="operator", options=options
        )
        run = self._checks.rows.runs.get(run_id.hex)
        self._checks.promised_runs[run_id] = -1 if run is None else run.total

    def _options(self) -> RunOptions:
        chance = self._choose
        waves: Any = chance.choice((None, None, (1,), (2, 5), (1, 3, "100%"), ("50%", "100%")))
        hold: Any = False
        if waves is not None:
            hold = chance.choice((False, False, True, (1,), CHECK))
        return RunOptions(
            waves=waves,
            hold=hold,
            wave_max_failures=chance.choice((None, (0,), (1,))) if waves else None,
            max_failures=chance.choice((None, None, 0, 1, 2)),
            only_behind=chance.random() < 0.3,
        )

    def cancel_run(self) -> None:
        """Cancel a run that has not ended."""
        run_id = self._pick(
            one.id for one in self._checks.rows.runs.values() if one.finished_at is None
        )
        if run_id is not None:
            process = self._any()
            process.run(process.fleet.cancel(process.context(), run_id))

    def continue_run(self) -> None:
        """Continue a run that holds, perhaps after the wrong wave."""
        run_id = self._pick(
            one.id for one in self._checks.rows.runs.values() if one.holding_wave is not None
        )
        if run_id is not None:
            wave = self._checks.rows.runs[run_id.hex].holding_wave or 1
            process = self._any()
            process.run(
                process.fleet.resume(
                    process.context(), run_id, wave=self._choose.choice((wave, wave, 1))
                )
            )

    def undo_run(self) -> None:
        """Undo a run as soon as one has ended, perhaps one that cannot be undone."""
        process, waves = self._any(), self._choose.choice((None, None, (1, "100%")))

        async def undo() -> None:
            for _ in range(UNDO_TRIES_MAX):
                ended = [one for one in self._checks.rows.runs.values() if one.finished_at]
                if ended:
                    run_id = UUID(self._choose.choice(sorted(one.id for one in ended)))
                    await self._start(process, RunOptions(undoes=run_id, waves=waves))
                    return
                await asyncio.sleep(UNDO_PAUSE_SECONDS)

        process.run(undo())

    def queue_job(self) -> None:
        """Queue some jobs."""
        process = self._any()

        async def add(kind: str) -> None:
            job = await process.queue.add(process.context(), kind)
            self._checks.promised_jobs.add(job.id)

        for _ in range(self._choose.randint(1, JOBS_AT_ONCE_MAX)):
            process.run(add(self._choose.choice((BACKUP, RESTORE, REPLACE))))

    def move_tenant(self) -> None:
        """Move some tenants to the other server, perhaps one of them twice."""
        process = self._any()

        async def move(name: str) -> None:
            tenant = await tenants.get_by_name(process.catalog, name)
            server = next(one for one in SERVERS if one != tenant.server_name)
            job = await process.queue.add(
                process.context(), MOVE, tenant=tenant, server_name=server
            )
            self._checks.promised_jobs.add(job.id)

        for _ in range(self._choose.randint(1, JOBS_AT_ONCE_MAX)):
            process.run(move(f"Tenant {self._choose.randrange(TENANTS)}"))

    def cancel_job(self) -> None:
        """Cancel a job, or all that are queued."""
        process = self._any()
        job_id = self._pick(
            one.id for one in self._checks.rows.jobs.values() if one.finished_at is None
        )

        async def cancel() -> None:
            if job_id is None or self._choose.random() < 0.2:
                await process.queue.cancel_queued(process.context())
            else:
                await process.queue.cancel(process.context(), job_id)

        process.run(cancel())

    def kill(self) -> None:
        """Kill a process; another one starts if none is left."""
        process = self._any()
        process.kill()
        if self._store.writer is not None:
            self._store.roll_back()
        if not self._living():
            self.start_process()

    def freeze(self) -> None:
        """Stop a process for a while, as SIGSTOP and SIGCONT do."""
        process = self._any()
        seconds = self._choose.choice((0.5, 4.0, 6.0, 12.0))
        process.loop.frozen_until = process.thawed_at = CLOCK.now + seconds

    def lose_holder(self) -> None:
        """Freeze a process, or cut it off, as soon as several tenants of runs wait in it."""
        process, freezes = self._any(), self._choose.random() < 0.5
        seconds = self._choose.choice((6.0, 12.0))

        async def lose() -> None:
            for _ in range(HOLDER_TRIES_MAX):
                held = Counter(
                    one.worker for one in self._checks.rows.items.values() if not one.finished_at
                )
                holder = max(self._living(), key=lambda one: held[one.worker_id.hex])
                if held[holder.worker_id.hex] >= HELD_MIN:
                    if freezes:
                        holder.loop.frozen_until = holder.thawed_at = CLOCK.now + seconds
                    else:
                        self._store.cut_until[holder.name] = CLOCK.now + seconds
                    return
                await asyncio.sleep(HOLDER_PAUSE_SECONDS)

        process.run(lose())

    def stop(self) -> None:
        """End a process as a signal does; another one starts if none is left."""
        process = self._any()
        process.run(process.stop())
        if len(self._living()) == 1:
            self.start_process()

    def catalog_out(self) -> None:
        """Cut all processes off from the catalog for a while."""
        self._store.out_until = CLOCK.now + self._choose.choice((0.3, 3.0, 8.0))

    def cut_off(self) -> None:
        """Cut one process off from the catalog for a while; others take over from it."""
        self._store.cut_until[self._any().name] = CLOCK.now + self._choose.choice((1.0, 6.0, 12.0))

    def server_away(self) -> None:
        """Take a tenant server away for a while."""
        seconds = self._choose.choice((1.0, 5.0, 15.0))
        self._world.away_until[self._choose.choice(SERVERS)] = CLOCK.now + seconds

    def slow_down(self) -> None:
        """Let more of the migrations be slow: then many claimed tenants wait for them."""
        self._world.concurrency.update(dict.fromkeys(SERVERS, 1))
        self._world.slow_share = self._choose.choice((0.3, 1.0))
        self._world.slow_seconds = self._choose.choice((1.0, 3.0, 9.0))

    def step_database_clock(self) -> None:
        """Set the clock of the catalog's database."""
        self._store_clock(self._choose.choice((-3_600.0, -3.0, 3.0, 3_600.0)))

    def step_process_clock(self) -> None:
        """Set the wall clock of a process."""
        self._any().skew = self._choose.choice((-3_600.0, -2.0, 0.0, 2.0, 3_600.0))

    def _store_clock(self, seconds: float) -> None:
        CLOCK.database_skew = seconds

    def _end_faults(self) -> None:
        self._store.lost_share = 0.0
        self._store.out_until = 0.0
        self._store.cut_until.clear()
        self._world.away_until.clear()
        self._world.refuses = False
        if not self._living():
            self.start_process()

    def _decide(self) -> None:
        """Continue or cancel, as an operator does, what waits for a person."""
        for run in self._checks.rows.runs.values():
            if run.holding_wave is None or run.finished_at is not None:
                continue
            process, run_id = self._any(), UUID(run.id)
            process.run(process.fleet.resume(process.context(), run_id, wave=run.holding_wave))

    def _is_quiet(self) -> bool:
        return all(one.is_quiet for one in self._living())

    def _living(self) -> list[Process]:
        return [one for one in self._processes.values() if one.is_alive]

    def _any(self) -> Process:
        living = self._living()
        awake = [one for one in living if not one.worker.is_stopping]
        if not awake:
            self.start_process()
            return self._living()[-1]
        return self._choose.choice(awake)

    def _pick(self, ids: Any) -> UUID | None:
        found = sorted(ids)
        return UUID(self._choose.choice(found)) if found else None

    def _say(self, text: str) -> None:
        if self._note is not None:
            self._note(f"{CLOCK.now:8.3f} -- {text}")

    def _forget(self) -> None:
        """Keep the processes: their coroutines must not run on, as they do when they are freed.

        So the garbage of many histories must be left to the end of a process.
        """
        self._store.committed = lambda _: None
        _ENDED.append(self._processes)


def _raise(failures: list[dict[str, Any]]) -> None:
    for one in failures:
        error = one.get("exception")
        if not _is_expected(error):
            raise Violated(f"{one['message']}: {error!r}") from error
    failures.clear()


def _is_expected(error: BaseException | None) -> bool:
    if isinstance(error, BaseExceptionGroup):
        return all(map(_is_expected, error.exceptions))
    return isinstance(error, TenantryError)
