"""SIGKILL at random moments of `fleet migrate`, and two people who start it at the same time."""

import random
import time
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

from harness.driver import say
from harness.finding import Finding
from harness.fleet.attached import Attached, make_attached
from harness.fleet.fleets import ENGINE_NAMES
from harness.torture.commands import end_command, next_length, run_command, start_command
from harness.torture.trial import Trial
from tenantry.catalog.workers import SILENCE_MS

REVISIONS_EACH = 3
# Of the revisions of a project: then there is a new one, with new databases and a new state.
ROUNDS_OF_A_FLEET = 8
# Of kills that come after the end of the command.
TRIES_MAX = 10
AGAIN = 0.25
"""How often the next command is killed, too."""
TAKEOVER_SECONDS = SILENCE_MS / 1000 + 1
"""After this time, the next command takes over what a killed one held."""
PROGRESS_EVERY = 10
ENVIRONMENT: Mapping[str, str] = {}


@dataclass
class Found:
    """The results of one lane.

    Attributes:
        kills: That hit a command before its end.
        tries: Commands that were to be killed.
        split: Kills after which some databases were migrated and some were not.
        checked: Databases that were read.
        pairs: Rounds that two commands have ended, started at the same time.
        slowest: The longest time from the last kill to the end of the next command, in seconds.
        faults: Violated guarantees.
    """

    kills: int = 0
    tries: int = 0
    split: int = 0
    checked: int = 0
    pairs: int = 0
    slowest: float = 0.0
    faults: list[str] = field(default_factory=list)


def check(trial: Trial) -> list[Finding]:
    """Kill, check, repeat, check again: on both engines, in several fleets at the same time."""
    return trial.on_both(_check)


def _check(trial: Trial, engine: str) -> Finding:
    scale = trial.scale
    wanted = scale.fleet_kills // scale.lanes
    chances = [trial.with_chance(f"{trial.chance.random()} {n}").chance for n in range(scale.lanes)]

    def run(number: int) -> Found:
        lane = _Lane(trial, engine, trial.folder / f"{engine}-{number}", chances[number])
        return lane.run(wanted)

    with ThreadPoolExecutor(scale.lanes) as threads:
        found = list(threads.map(run, range(scale.lanes)))
    return _finding(engine, found, wanted * scale.lanes, scale.fleet_databases)


@dataclass
class _Lane:
    trial: Trial
    engine: str
    folder: Path
    chance: random.Random
    length: float = 0.0
    rounds: int = 0
    found: Found = field(default_factory=Found)

    def run(self, wanted: int) -> Found:
        self.folder.mkdir()
        fleet = self._new_fleet()
        # After a fault, the next rounds would find it again.
        while self.found.kills < wanted and self.found.tries < TRIES_MAX * wanted:
            if self.found.faults:
                break
            if self.rounds % ROUNDS_OF_A_FLEET == 0 and self.rounds:
                self._end(fleet)
                fleet = self._new_fleet()
            self._round(fleet)
            self.rounds += 1
            if self.rounds % PROGRESS_EVERY == 0:
                say(f"fleet kills, {self.folder.name}: {self.found.kills} of {wanted}")
        self._end(fleet)
        return self.found

    def _end(self, fleet: Attached) -> None:
        """Let one more command end the runs of killed ones, and check the history."""
        time.sleep(TAKEOVER_SECONDS)
        self._must(run_command(ENVIRONMENT, fleet.folder, fleet.arguments), "the last command")
        self._note([*fleet.faults(is_done=True), *fleet.faults_of_history()])

    def _new_fleet(self) -> Attached:
        """Return a new fleet, and measure a run that is not disturbed."""
        fleet = make_attached(
            self.folder / f"fleet-{self.rounds}",
            self.engine,
            self.trial.scale.fleet_databases,
            server_url=self.trial.server_url,
        )
        fleet.grow(REVISIONS_EACH)
        began = time.monotonic()
        self._must(run_command(ENVIRONMENT, fleet.folder, fleet.arguments), "the first run")
        self.length = time.monotonic() - began
        self._note(fleet.faults(is_done=True))
        return fleet

    def _round(self, fleet: Attached) -> None:
        """Add revisions, kill what migrates to them, and repeat it until it is done."""
        fleet.grow(REVISIONS_EACH)
        while self._kill(fleet, self.chance.uniform(0, self.length)):
            if self.chance.random() > AGAIN:
                break
        began = time.monotonic()
        if self.chance.random() < 0.5:
            self._must(run_command(ENVIRONMENT, fleet.folder, fleet.arguments), "the next command")
        else:
            both = [start_command(ENVIRONMENT, fleet.folder, fleet.arguments) for _ in range(2)]
            for number, one in enumerate(both):
                self._must(end_command(one), f"command {number + 1} of two at the same time")
            self.found.pairs += 1
        self.found.slowest = max(self.found.slowest, time.monotonic() - began)
        self._note(fleet.faults(is_done=True))

    def _kill(self, fleet: Attached, seconds: float) -> bool:
        began = time.monotonic()
        status = run_command(ENVIRONMENT, fleet.folder, fleet.arguments, kill_after=seconds)
        self.found.tries += 1
        took = None if status is None else time.monotonic() - began
        self.length = next_length(self.length, took)
        if status is not None:
            self._must(status, "a command that was to be killed")
            return False
        self.found.kills += 1
        steps = fleet.steps()
        versions = {one.version for one in steps.values()}
        self.found.split += len(versions) > 1
        self._note(fleet.faults(is_done=False))
        return True

    def _must(self, status: int | None, what: str) -> None:
        if status != 0:
            self._note([f"{what} ended with {status}"])

    def _note(self, faults: list[str]) -> None:
        self.found.checked += self.trial.scale.fleet_databases
        self.found.faults += [
            f"{self.folder.name}, kill {self.found.kills}: {fault}" for fault in faults
        ]


def _finding(engine: str, lanes: list[Found], wanted: int, databases: int) -> Finding:
    kills = sum(one.kills for one in lanes)
    faults = [fault for one in lanes for fault in one.faults]
    if kills < wanted and not faults:
        faults.append(f"only {kills} of {wanted} kills hit a command before its end")
    name = ENGINE_NAMES[engine]
    return Finding(
        name=f"fleet kills, {name}",
        check=f"{name}: {kills} SIGKILLs of `fleet migrate` over {databases} databases",
        must="each revision applied once, none half; the version, the log and the history say so; "
        "the state is whole; the next command, or two at once, ends it",
        found=f"{len(faults)} faults; {sum(one.checked for one in lanes):,} databases checked, "
        f"{sum(one.split for one in lanes)} kills left some moved and some not; "
        f"{sum(one.pairs for one in lanes)} times two commands ended it; at the latest "
        f"{max(one.slowest for one in lanes):.1f} s after the kill",
        faults=faults,
    )
