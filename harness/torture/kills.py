"""SIGKILL at random moments of a run."""

import random
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from uuid import UUID

from harness.driver import say
from harness.finding import Finding
from harness.fleet.fleets import ENGINE_NAMES, ENGINES, NAMES, Catalog, Fleet, Run, make_fleet
from harness.fleet.runners import Runner
from harness.fleet.states import State
from harness.torture.scale import Scale
from harness.torture.trial import Trial
from harness.waiting import SHORT_POLL_SECONDS, comes_true

RESUMED_SECONDS_MAX = 15
LENGTH_SECONDS_MAX = 60.0
PROGRESS_EVERY = 10
# Kills before or after a run are not counted, and their number is limited: to so many for each
# kill, and to so many if few are wanted, because the first ones find out how long a run takes.
TRIES_MAX = 6
TRIES_OF_FEW_MAX = 30


@dataclass
class Found:
    """The results of one lane.

    Attributes:
        kills: Kills before the end of a run.
        missed: Kills after the end of a run.
        split: Kills after which some tenants were migrated and some were not.
        checks: Databases that were compared with the two states.
        runs: Runs that had to end.
        outcomes: Outcomes that were compared with the log of their tenant.
        resumed_seconds: How long the runs took to end after the restart.
        faults: Violated guarantees.
    """

    kills: int = 0
    missed: int = 0
    split: int = 0
    checks: int = 0
    runs: int = 0
    outcomes: int = 0
    resumed_seconds: list[float] = field(default_factory=list)
    faults: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Lane:
    """A fleet, and the processes that work on it."""

    name: str
    engine: str
    processes: int
    live: bool


def check(trial: Trial) -> list[Finding]:
    """Kill, check, restart, check again: on both engines, with one process and with two."""
    lanes = [
        Lane(f"{engine}-{number}", engine, 1 + number % 2, live=number // 2 % 2 == 1)
        for engine in ENGINES
        for number in range(trial.scale.lanes)
    ]

    def run(lane: Lane) -> Found:
        fleet = make_fleet(
            trial.folder / lane.name,
            scale.kill_tenants,
            server_url=trial.url_on(lane.engine),
            live=lane.live,
        )
        # One for each lane, so that the result does not depend on their speed.
        own_chance = trial.with_chance(f"{seed} {lane.name}").chance
        return _torture(lane, fleet, scale.kills // scale.lanes, own_chance)

    scale, seed = trial.scale, trial.chance.random()
    with ThreadPoolExecutor(len(lanes)) as threads:
        found = dict(zip(lanes, threads.map(run, lanes), strict=True))
    return [
        _finding(engine, {one: its for one, its in found.items() if one.engine == engine}, scale)
        for engine in ENGINES
    ]


def _torture(lane: Lane, fleet: Fleet, kills: int, chance: random.Random) -> Found:
    found = Found()
    with fleet.catalog() as catalog, _runners(fleet, lane.processes) as runners:
        lane_run = _LaneRun(lane, fleet, catalog, runners, chance, found)
        lane_run.measure()
        tries_max = max(TRIES_MAX * kills, TRIES_OF_FEW_MAX)
        while found.kills < kills and found.kills + found.missed < tries_max:
            lane_run.kill_once()
            if (found.kills + found.missed) % PROGRESS_EVERY == 0:
                say(f"kills, {lane.name}: {found.kills} of {kills}, {len(found.faults)} faults")
    return found


@dataclass
class _LaneRun:
    """The run of one lane.

    Attributes:
        length: How long an undisturbed run takes, in seconds.
        logged: The states of the tenants after the last runs.
    """

    lane: Lane
    fleet: Fleet
    catalog: Catalog
    runners: list[Runner]
    chance: random.Random
    found: Found
    length: float = 1.0
    logged: Mapping[UUID, State] = field(default_factory=dict)

    def measure(self) -> None:
        """Measure how long a run takes."""
        began = time.monotonic()
        self.runners[0].begin_plan()
        run_id = self.runners[0].planned()
        comes_true(
            lambda: self.catalog.run(run_id).is_finished,
            LENGTH_SECONDS_MAX,
            poll_seconds=SHORT_POLL_SECONDS,
        )
        self.length = time.monotonic() - began
        self.logged = self.fleet.read_states()

    def kill_once(self) -> None:
        """Begin a run, kill its workers, and check everything until the next has ended."""
        self.fleet.undo()
        known = {run.id for run in self.catalog.runs()}
        killed = self._choose()
        run_id = self._run_until_killed(killed)
        new = [run for run in self.catalog.runs() if run.id not in known]
        if run_id is not None and run_id not in {run.id for run in new}:
            self._fault(f"the run {run_id} is lost")
        self._check_interrupted(new)
        began = time.monotonic()
        for number in killed:
            self.runners[number] = Runner(self.fleet.environment)
        self._wait_all([run.id for run in new], began)
        self._check_ended([run.id for run in new])
        for number in killed:
            self.runners[number].wait_ready()
        self._check_next()
        if not new:  # the planner was killed before; the next run had all to do
            self.logged = self.fleet.read_states()

    def _choose(self) -> Sequence[int]:
        if self.lane.processes == 1:
            return [0]
        return self.chance.choice([[0], [1], [0, 1]])

    def _run_until_killed(self, killed: Sequence[int]) -> UUID | None:
        """Return the run, if its planner has reported it."""
        self.runners[0].begin_plan()
        time.sleep(self.chance.uniform(0, self.length))
        run_id = (
            self.runners[0].planned() if 0 not in killed else self.runners[0].planned_if_reported()
        )
        for number in killed:
            self.runners[number].kill()
        return run_id

    def _check_interrupted(self, new: Sequence[Run]) -> None:
        states = self.fleet.read_states()
        moved = sum(state.content == self.fleet.after for state in states.values())
        for tenant_id, state in states.items():
            if state.content not in {self.fleet.before, self.fleet.after}:
                self._fault(f"the tenant {tenant_id} is between two revisions")
        self.found.checks += len(states)
        self.found.split += 0 < moved < len(states)
        landed = any(not run.is_finished for run in new)
        self.found.kills += landed
        self.found.missed += not landed
        # The speed of the machine changes: kills come too late, or before the run is stored.
        self.length *= 0.7 if new and not landed else 1.05

    def _wait_all(self, run_ids: Sequence[UUID], began: float) -> None:
        self.found.runs += len(run_ids)

        def have_ended() -> bool:
            return all(self.catalog.run(run_id).is_finished for run_id in run_ids)

        if not comes_true(have_ended, RESUMED_SECONDS_MAX - (time.monotonic() - began)):
            self._fault(f"a run is unfinished {RESUMED_SECONDS_MAX} s after the restart")
            return
        self.found.resumed_seconds.append(time.monotonic() - began)

    def _check_ended(self, run_ids: Sequence[UUID]) -> None:
        states, logged = self.fleet.read_states(), self.logged
        self.logged = states
        for run_id in run_ids:
            run, items = self.catalog.run(run_id), self.catalog.items(run_id)
            if (run.total, run.success, run.failed) != (len(states), len(states), 0):
                self._fault(f"a run of {len(states)} tenants says {run}")
            if {item.tenant_id for item in items} != set(states):
                self._fault(f"the run {run_id} has not a row for each tenant")
            for item in items:
                applied = states[item.tenant_id].applied_by(run_id)
                if (item.state, item.applied) != ("Success", applied):
                    self._fault(f"the log says {applied}, and the history {item}")
            self.found.outcomes += len(items)
        for tenant_id, state in states.items() if run_ids else ():
            names = [name for _, name in state.log[len(logged[tenant_id].log) :]]
            if names != NAMES or state.content != self.fleet.after:
                self._fault(f"the tenant {tenant_id} is not at the head, its log says {names}")

    def _check_next(self) -> None:
        """Run once more: nothing fails, with any worker."""
        planner = self.chance.choice(self.runners)
        began = time.monotonic()
        planner.begin_plan()
        run_id = planner.planned()
        self._wait_all([run_id], began)
        run = self.catalog.run(run_id)
        if run.failed or run.success != len(self.fleet.urls):
            errors = {item.error for item in self.catalog.items(run_id)}
            self._fault(f"the next run says {run}: {errors}")

    def _fault(self, text: str) -> None:
        self.found.faults.append(f"{self.lane.name}, kill {self.found.kills}: {text}")


@contextmanager
def _runners(fleet: Fleet, count: int) -> Iterator[list[Runner]]:
    runners = [Runner(fleet.environment) for _ in range(count)]
    try:
        for one in runners:
            one.wait_ready()
        yield runners
    finally:
        for one in runners:
            one.kill()


def _finding(engine: str, found: Mapping[Lane, Found], scale: Scale) -> Finding:
    lanes = list(found.values())
    kills = sum(one.kills for one in lanes)
    faults = [fault for one in lanes for fault in one.faults]
    wanted = scale.kills // scale.lanes * scale.lanes
    if kills < wanted:
        faults.append(f"only {kills} of {wanted} kills hit a run before its end")
    seconds = sorted(second for one in lanes for second in one.resumed_seconds)
    return Finding(
        name=f"kills, {ENGINE_NAMES[engine]}",
        check=f"{ENGINE_NAMES[engine]}: {kills} SIGKILLs in runs of {scale.kill_tenants} tenants, "
        "one process and two",
        must="no tenant between two revisions, no run lost or unfinished 15 s after the restart, "
        "every outcome as in the tenant's log, the next run without failures",
        found=f"{len(faults)} faults; {sum(one.checks for one in lanes):,} tenants checked, "
        f"{sum(one.split for one in lanes)} kills left some moved and some not; "
        f"{sum(one.outcomes for one in lanes):,} outcomes; runs ended {seconds[-1]:.1f} s "
        "after the restart at the latest",
        faults=faults,
    )
