"""Lets each call of an operation fail, and checks what is left."""

import random
import time
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

from harness.driver import say
from harness.faults.operations import Operation, posts_faults
from harness.faults.preloaded import POSTING
from harness.faults.programs import Outcome, preloaded
from harness.faults.shim import ERRORS, KINDS, Failing
from harness.faults.stage import Stage, make_stage
from testkit.postgres import own_server

# A worker is dead after 5 s without a heartbeat; then any command cleans up.
SILENCE_SECONDS = 5.5
CLEANING = ("backup", "prune")
CALLS_MAX = 5_000
PROGRESS_TRIALS = 25
MESSAGE_LINES_MAX = 6
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
        call: The kind and the number of the only call, as in ``pwrite 17``.
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
            if kind in {"open", "write", PAGES}:
                errors.append((ERRORS[kind][0], True))
            first = chance.randrange(len(errors))
            for at, number in enumerate(self._numbers(kind, counts[kind], chance)):
                turn = [errors[(first + at) % len(errors)]]
                for error, lasts in errors if self.every or self.call else turn:
                    yield Failing(kind, number, error, lasts)

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
        calls: How many it makes when none fails.
        trials: Calls that have failed, one in each trial.
        errors: Trials after which the program ended with an error.
        repeated: Times that it succeeded when it was repeated.
        messages: What was said, and how often.
        faults: What did not hold.
    """

    name: str
    calls: int = 0
    trials: int = 0
    errors: int = 0
    repeated: int = 0
    messages: dict[str, int] = field(default_factory=dict)
    faults: list[str] = field(default_factory=list)


def sweep(operation: Operation, folder: Path, choice: Choice) -> Swept:
    """Let the calls of *choice* fail, one after the other; *folder* is for the files."""
    with ExitStack() as stack:
        server = stack.enter_context(own_server()).url if operation.needs_postgres else ""
        programs = stack.enter_context(preloaded(folder / "programs"))
        stage = make_stage(folder / "stage", programs, server)
        operation.prepare(stage)
        stage.save()
        swept = Swept(operation.name)
        counts = _count(stage, operation)
        swept.calls = sum(counts.values())
        began = time.monotonic()
        for failing in choice.failings(operation.name, counts):
            for text in _try(stage, operation, failing, swept):
                swept.faults.append(f"{failing}: {text}")
                say(f"  {operation.name}: FAULT: {failing}: {text}")
            if swept.trials % PROGRESS_TRIALS == 0:
                took = f"{swept.trials} calls tried in {time.monotonic() - began:.0f} s"
                say(f"{operation.name}, {failing}: {took}, faults {len(swept.faults)}")
        return swept


def _count(stage: Stage, operation: Operation) -> dict[str, int]:
    """Return how many calls the operation makes when none fails."""
    outcome = stage.run(*operation.words(stage))
    assert outcome.status == 0, (outcome.output, outcome.errors)
    wrong = operation.always(stage) + operation.done(stage)
    assert not wrong, wrong
    shown = ", ".join(f"{count} {kind}" for kind, count in outcome.record.counts.items() if count)
    say(f"{operation.name}: {shown}")
    return outcome.record.counts


def _try(stage: Stage, operation: Operation, failing: Failing, swept: Swept) -> list[str]:
    """Let a call fail; return what does not hold."""
    stage.reset()
    words = operation.words(stage)
    outcome = stage.run(*words, failing=failing)
    if not outcome.record.failed:
        return []  # it made fewer calls this time
    swept.trials += 1
    found = _checked(stage, operation, outcome)
    if outcome.status == 0:
        found += operation.done(stage)
    else:
        swept.errors += 1
        found += _explained(outcome, swept) + operation.failed(stage)
        if not operation.is_done(stage):
            found += _repeated(stage, operation, swept)
    found += _left(stage, operation)
    return [f"{outcome.record.path}: {one}" for one in found]


def _checked(stage: Stage, operation: Operation, outcome: Outcome) -> list[str]:
    try:
        found = operation.always(stage)
        if operation.words(stage)[0] == POSTING:
            found += posts_faults(stage, outcome)
    except Exception as error:  # noqa: BLE001 - whatever it is
        return [f"the check failed: {error!r}"]
    return found


def _explained(outcome: Outcome, swept: Swept) -> list[str]:
    """Return what is wrong with the error: one line that a person understands."""
    lines = [
        one
        for one in outcome.errors.splitlines()
        if one and not one.startswith("{") and " tenants, " not in one  # the progress of a run
    ]
    text = " / ".join(lines) or outcome.output.strip()
    swept.messages[text] = swept.messages.get(text, 0) + 1
    if outcome.status < 0 or not text:
        return [f"ended with {outcome.status}: {text}"]
    if "Traceback" in outcome.errors or len(lines) > MESSAGE_LINES_MAX:
        return [f"a traceback, or too many lines: {outcome.errors[-900:]}"]
    return []


def _repeated(stage: Stage, operation: Operation, swept: Swept) -> list[str]:
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
    swept.repeated += 1
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
