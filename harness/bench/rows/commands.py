"""How long the command line takes, beside a Python that does nothing."""

import os
import statistics
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from harness.bench.bench import Bench
from harness.bench.figures import Bound, Figure

WARM = 1
TENANTRY = Path(sys.executable).with_name("tenantry")
TAB = {
    "_TENANTRY_COMPLETE": "complete_bash",
    "COMP_WORDS": "tenantry tenant l",
    "COMP_CWORD": "2",
}


@dataclass(frozen=True)
class Command:
    """A command, the variables that the shell sets for it, and the seconds that are accepted."""

    name: str
    arguments: Sequence[str]
    seconds_max: float
    variables: Mapping[str, str] = field(default_factory=dict)


COMMANDS = (
    Command("`tenant list --help`", ("tenant", "list", "--help"), 0.4),
    Command("one Tab", (), 0.4, TAB),
    Command("`tenant list`, SQLite", ("tenant", "list"), 1.0),
)


def on_sqlite(bench: Bench) -> list[Figure]:
    """Measure help, completion and a list in turn with ``python -c pass``."""
    return [_measure(bench, bench.on_sqlite.environment, command) for command in COMMANDS]


def _measure(bench: Bench, environment: Mapping[str, str], command: Command) -> Figure:
    bare, ours = [], []
    for _ in range(bench.plan.provisioned + WARM):
        bare.append(_seconds([sys.executable, "-c", "pass"], environment))
        ours.append(
            _seconds([str(TENANTRY), *command.arguments], {**environment, **command.variables})
        )
    base, whole = statistics.median(bare[WARM:]), statistics.median(ours[WARM:])
    return Figure(
        work=f"{command.name}, from start to end",
        value=whole,
        shown=f"{whole:.2f} s",
        rate=f"`python -c pass` {base:.3f} s",
        bound=Bound(command.seconds_max, at_least=False, unit=" s"),
        notes=[f"{min(ours[WARM:]):.2f} to {max(ours[WARM:]):.2f} s, {len(ours) - WARM} in turn"],
    )


def _seconds(command: Sequence[str], environment: Mapping[str, str]) -> float:
    began = time.perf_counter()
    subprocess.run(
        command, env={**os.environ, **environment}, check=True, stdout=subprocess.DEVNULL
    )
    return time.perf_counter() - began
