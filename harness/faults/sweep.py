"""Lets each call of an operation fail, and checks what is left."""

import random
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from dataclasses import dataclass, field
from functools import partial
from queue import SimpleQueue

from harness.driver import say
from harness.faults.creation import CREATION, SLOW, slow_creation
from harness.faults.lanes import Lane
from harness.faults.operations import Operation, posts_faults
from harness.faults.preloaded import POSTING
from harness.faults.programs import Outcome
from harness.faults.shim import ERRORS, KINDS, Failing
from harness.faults.stage import Stage

# A worker is dead after 5 s without a heartbeat; then any command cleans up.
SILENCE_SECONDS = 5.5
CLEANING = ("backup", "prune")
CALLS_MAX = 5_000
PROGRESS_TRIALS = 25
MESSAGE_LINES_MAX = 6
# One more lane for each so many trials: its installation is made first.
LANE_TRIALS_MIN = 8
# Writes of SQLite, in which most operations differ only by a page.
PAGES = "pwrite"


@dataclass(frozen=True)
class Choice:
    """Which calls fail.

    Attributes:
        seed: Of what is left to chance.
        every: Whether each call fails with each of its errors, instead of one of them in turn.
        sample: So many calls of each kind, chosen by chance, instead of all.
        stride: Only each so many of the writes of SQLite.
        call: The kind and the number of the only call, as in ``pwrite 17``; or `CREATION`.
    """

    seed: str
    every: bool = False
    sample: int | None = None
    stride: int = 1
    call: str = ""

    def failings(self, name: str, counts: dict[str, int]) -> Iterator[Failing]:
        """Yield what fails, of the *counts* of calls of an operation."""
        chance = random.Random(f"{self.seed} {name}")  # noqa: S311 - it chooses calls
        for kind in KINDS:
            errors = [(one, False) for one in ERRORS[kind]]
            if kind in {"open", "write", PAGES, "send"}:
                errors.append((ERRORS[kind][0], True))
            first = chance.randrange(len(errors))
            for at, number in enumerate(self._numbers(kind, counts[kind], chance)):
                turn = [errors[(first + at) % len(errors)]]
                for error, lasts in errors if self.every or self.call else turn:
                    yield Failing(kind, number, error, lasts)
        if CREATION in counts and self.call in {"", CREATION}:
            yield SLOW

    def _numbers(self, kind: str, count: int, chance: random.Random) -> list[int]:
        if self.call:
            chosen, _, number = self.call.partition(" ")
            return [int(number)] if chosen == kind else []
        step = self.stride if kind == PAGES else 1
        numbers = range(chance.randint(1, step), min(count, CALLS_MAX) + 1, step)
        if self.sample is None:
            return list(numbers)
        return sorted(chance.sample(numbers, min(self.sample, len(numbers))))


@dataclass
class Swept:
    """What was found in one operation.

    Attributes:
        name: Of the operation.
        calls: How many it makes when none fails, and the databases that it creates.
        trials: Calls that have failed, one in each trial.
        missed: Calls that a trial did not reach: it made fewer.
        errors: Trials after which the program ended with an error.
        repeated: Times that it succeeded when it was repeated.
        messages: What was said, and how often.
        faults: What did not hold.
    """

    name: str
    calls: int = 0
    trials: int = 0
    missed: int = 0
    errors: int = 0
    repeated: int = 0
    messages: Counter[str] = field(default_factory=Counter)
    faults: list[str] = field(default_factory=list)

    def add(self, one: "Swept") -> None:
        """Add what was found in a trial."""
        self.trials += one.trials
        self.missed += one.missed
        self.errors += one.errors
        self.repeated += one.repeated
        self.messages += one.messages
        self.faults += one.faults


def sweep(operation: Operation, lanes: Sequence[Lane], choice: Choice) -> Swept:
    """Let the calls of *choice* fail, in all *lanes* at the same time."""
    first = _begin(operation, lanes[0])
    counts = _count(first, operation)
    if operation.creates:
        counts[CREATION] = 1
    swept = Swept(operation.name, sum(counts.values()))
    failings = list(choice.failings(operation.name, counts))
    needed = min(len(lanes), 1 + len(failings) // LANE_TRIALS_MIN)
    free = SimpleQueue[Stage]()

    def attempt(failing: Failing) -> Swept:
        stage = free.get()
        try:
            return _try(stage, operation, failing)
        finally:
            free.put(stage)

    began = time.monotonic()
    with ThreadPoolExecutor(needed) as pool:
        begin = partial(_begin, operation)
        for stage in (first, *pool.map(begin, lanes[1:needed])):
            free.put(stage)
        for failing, tried in zip(failings, pool.map(attempt, failings), strict=True):
            swept.add(tried)
            for text in tried.faults:
                say(f"  {operation.name}: FAULT: {text}")
            if swept.trials % PROGRESS_TRIALS == 0:
                took = f"{swept.trials} calls tried in {time.monotonic() - began:.0f} s"
                say(f"{operation.name}, {failing}: {took}, faults {len(swept.faults)}")
    return swept


def _begin(operation: Operation, lane: Lane) -> Stage:
    stage = lane.begin(operation.engine)
    operation.prepare(stage)
    stage.save()
    return stage


def _count(stage: Stage, operation: Operation) -> dict[str, int]:
    """Return how many calls the operation makes when none fails."""
    outcome = stage.run(*operation.words(stage))
    assert outcome.status == 0, (outcome.output, outcome.errors)
    wrong = operation.always(stage) + operation.done(stage)
    assert not wrong, wrong
    shown = ", ".join(f"{count} {kind}" for kind, count in outcome.record.counts.items() if count)
    say(f"{operation.name}: {shown}")
    return outcome.record.counts


def _try(stage: Stage, operation: Operation, failing: Failing) -> Swept:
    """Let a call fail; return what was found."""
    stage.reset()
    tried = Swept(operation.name)
    words = operation.words(stage)
    with slow_creation(stage.server_url) if failing == SLOW else nullcontext():
        outcome = stage.run(*words, failing=None if failing == SLOW else failing)
    if not outcome.record.failed and failing != SLOW:
        tried.missed = 1
        return tried
    tried.trials = 1
    found = _checked(stage, operation, outcome)
    if outcome.status == 0:
        found += operation.done(stage)
    else:
        tried.errors = 1
        found += _explained(outcome, tried) + operation.failed(stage)
        if not operation.is_done(stage):
            found += _repeated(stage, operation, tried)
    found += _left(stage, operation)
    tried.faults = [f"{failing}: {outcome.record.path}: {one}" for one in found]
    return tried


def _checked(stage: Stage, operation: Operation, outcome: Outcome) -> list[str]:
    try:
        found = operation.always(stage)
        if operation.words(stage)[0] == POSTING:
            found += posts_faults(stage, outcome)
    except Exception as error:  # noqa: BLE001 - whatever it is
        return [f"the check failed: {error!r}"]
    return found


def _explained(outcome: Outcome, tried: Swept) -> list[str]:
    """Return what is wrong with the error: one line that a person understands."""
    lines = [
        one
        for one in outcome.errors.splitlines()
        if one and not one.startswith("{") and " tenants, " not in one  # the progress of a run
    ]
    text = " / ".join(lines) or outcome.output.strip()
    tried.messages[text] += 1
    if outcome.status < 0 or not text:
        return [f"ended with {outcome.status}: {text}"]
    if "Traceback" in outcome.errors or len(lines) > MESSAGE_LINES_MAX:
        return [f"a traceback, or too many lines: {outcome.errors[-900:]}"]
    return []


def _repeated(stage: Stage, operation: Operation, tried: Swept) -> list[str]:
    """Repeat the operation; return what does not hold."""
    words = operation.words(stage)
    again = stage.run(*words)
    if again.status != 0 and operation.retry:
        stage.run(*operation.retry)
        again = stage.run(*words)
    if again.status != 0:
        time.sleep(SILENCE_SECONDS)
        again = stage.run(*words)
    if again.status != 0:
        return [f"repeated, it ended with {again.status}: {again.errors[-300:]}"]
    tried.repeated = 1
    return _checked(stage, operation, again) + operation.done(stage)


def _left(stage: Stage, operation: Operation) -> list[str]:
    """Return what is left that should not be."""
    may_suspend = operation.may_suspend
    if operation.catalog_moves or not stage.leftovers(may_suspend=may_suspend):
        return []
    # What the process could not remove is removed by a later one.
    time.sleep(SILENCE_SECONDS)
    stage.must(*CLEANING)
    return stage.leftovers(may_suspend=may_suspend)
