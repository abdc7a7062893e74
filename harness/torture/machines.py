"""Three machines that share the state of a fleet: one is killed, or cut off and connected again.

They are network namespaces if this process is root, and else processes, of which none is cut off.
"""

import random
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from multiprocessing.context import ForkServerProcess
from pathlib import Path

from harness.driver import say
from harness.finding import Finding
from harness.fleet.attached import Attached, make_attached
from harness.networks import Networks, can_make, networks
from harness.torture.attached import TAKEOVER_SECONDS
from harness.torture.commands import end_command, next_length, run_command, start_command
from harness.torture.trial import Trial
from testkit.postgres import SETTINGS, connected, own_server

MACHINES = 3
REVISIONS_EACH = 3
ROUNDS_OF_A_FLEET = 10
# Shorter and longer than the silence after which the others take over.
CUT_SECONDS = (0.5, 9.0)
END_SECONDS_MAX = 90.0
KILLED, CUT_OFF, ENDED = "killed", "cut off", "ended before"
# Of databases that the machine that was cut off has locked; and of that machine itself.
FAILED, NOT_REACHED = 1, 3
PROGRESS_EVERY = 5


@dataclass
class _Stage:
    trial: Trial
    server_url: str
    cut: Networks | None
    length: float = 0.0
    rounds: int = 0
    checked: int = 0
    hit: Counter[str] = field(default_factory=Counter)
    ended: Counter[str] = field(default_factory=Counter)
    faults: list[str] = field(default_factory=list)

    @property
    def losses(self) -> int:
        """How often a machine was killed or cut off before its command had ended."""
        return self.hit[KILLED] + self.hit[CUT_OFF]

    @property
    def chance(self) -> random.Random:
        return self.trial.chance

    def note(self, *faults: str) -> None:
        self.faults += [f"round {self.rounds}: {fault}" for fault in faults]


def check(trial: Trial) -> list[Finding]:
    """Start three machines again and again, and stop one of them at a random moment."""
    with _stage(trial) as stage:
        fleet = _new_fleet(stage)
        # After a fault, the next rounds would find it again.
        while stage.losses < trial.scale.machines and not stage.faults:
            if stage.rounds % ROUNDS_OF_A_FLEET == 0 and stage.rounds:
                _end(stage, fleet)
                fleet = _new_fleet(stage)
            _round(stage, fleet)
            stage.rounds += 1
            if stage.rounds % PROGRESS_EVERY == 0:
                say(f"fleet machines: {stage.losses} of {trial.scale.machines}")
        _end(stage, fleet)
        return [_finding(stage)]


@contextmanager
def _stage(trial: Trial) -> Iterator[_Stage]:
    if not can_make():
        yield _Stage(trial, trial.server_url, None)
        return
    with (
        networks(MACHINES) as made,
        own_server(settings=f"{SETTINGS}listen_addresses = '*'\n") as s,
    ):
        with (s.data / "pg_hba.conf").open("a") as file:
            file.write(f"host all all {made.subnet} trust\n")
        with connected(s.url) as connection:
            connection.execute("SELECT pg_reload_conf()")
        yield _Stage(trial, s.url.replace("127.0.0.1", made.address), made)


def _new_fleet(stage: _Stage) -> Attached:
    """Return a new fleet, and measure a run that is not disturbed."""
    fleet = make_attached(
        stage.trial.folder / f"fleet-{stage.rounds}",
        "postgresql",
        stage.trial.scale.fleet_databases,
        server_url=stage.server_url,
        shares=True,
    )
    fleet.grow(REVISIONS_EACH)
    began = time.monotonic()
    _end_all(stage, _start_all(stage, fleet), allowed={0})
    stage.length = time.monotonic() - began
    _check(stage, fleet)
    return fleet


def _round(stage: _Stage, fleet: Attached) -> None:
    fleet.grow(REVISIONS_EACH)
    victim = stage.chance.randrange(MACHINES)
    running = _start_all(stage, fleet)
    moment = stage.chance.uniform(0, stage.length)
    time.sleep(moment)
    has_ended = running[victim].exitcode is not None
    stage.length = next_length(stage.length, moment if has_ended else None)
    if has_ended:
        stage.hit[ENDED] += 1
        _end_all(stage, running, allowed={0})
    elif stage.cut is not None and stage.chance.random() < 0.5:
        stage.hit[CUT_OFF] += 1
        stage.cut.cut(victim)
        time.sleep(stage.chance.uniform(*CUT_SECONDS))
        stage.cut.heal(victim)
        _end_all(stage, [running.pop(victim)], allowed={0, FAILED, NOT_REACHED})
        _end_all(stage, running, allowed={0, FAILED})
    else:
        stage.hit[KILLED] += 1
        killed = running.pop(victim)
        killed.kill()
        killed.join()
        _end_all(stage, running, allowed={0})
    status = run_command({}, fleet.folder, fleet.arguments)
    if status != 0:
        stage.note(f"the next command ended with {status}")
    _check(stage, fleet)


def _end(stage: _Stage, fleet: Attached) -> None:
    """Let one more command end the runs of killed ones, and check the history."""
    time.sleep(TAKEOVER_SECONDS)
    if (status := run_command({}, fleet.folder, fleet.arguments)) != 0:
        stage.note(f"the last command ended with {status}")
    _check(stage, fleet)
    stage.note(*fleet.faults_of_history())


def _start_all(stage: _Stage, fleet: Attached) -> list[ForkServerProcess]:
    files: list[Path | None] = [*stage.cut.files] if stage.cut else [None] * MACHINES
    return [start_command({}, fleet.folder, fleet.arguments, network=one) for one in files]


def _end_all(stage: _Stage, running: list[ForkServerProcess], *, allowed: set[int]) -> None:
    statuses = [end_command(one, END_SECONDS_MAX) for one in running]
    stage.ended.update(map(str, statuses))
    if not allowed.issuperset(statuses):
        stage.note(f"the machines ended with {statuses}")


def _check(stage: _Stage, fleet: Attached) -> None:
    stage.checked += len(fleet.urls)
    stage.note(*fleet.faults(is_done=True))


def _finding(stage: _Stage) -> Finding:
    what = "network namespaces" if stage.cut else "processes (no root, so none was cut off)"
    hit = ", ".join(f"{count} {name}" for name, count in sorted(stage.hit.items()))
    ended = ", ".join(f"{name}: {count}" for name, count in sorted(stage.ended.items()))
    return Finding(
        name="fleet machines",
        check=f"PostgreSQL: {MACHINES} machines start `fleet migrate` with one state, "
        f"{stage.rounds} times; one of them: {hit}. They are {what}",
        must="each revision applied once, none half; the version, the log and the history say so; "
        "the others end the run",
        found=f"{len(stage.faults)} faults; {stage.checked:,} databases checked; "
        f"exit statuses {ended}",
        faults=stage.faults,
    )
