"""The rows of a target, measured one after the other, printed, written as JSON, and recorded."""

import argparse
import json
import time
import traceback
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TypeVar

from harness.bench.figures import Figure
from harness.driver import Target, say
from harness.processes import ROOT
from harness.report import page, put_into

DOCUMENT = ROOT / "docs" / "benchmarks.md"
COLUMNS = ["work", "measured", "accept", "aim", "", "details"]

Stage = TypeVar("Stage")


def parser_of(
    target: Target, description: str | None, names: Sequence[str]
) -> argparse.ArgumentParser:
    """Return a parser of the options of both targets."""
    parser = target.parser(description, names)
    parser.add_argument("--rounds", type=int, help="of every contender")
    parser.add_argument("--tenants", type=int, help="of the rows that measure many")
    parser.add_argument("--scratch", type=Path, help="a folder on a disk, for the databases")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures there too")
    return parser


def measure(
    target: Target,
    options: argparse.Namespace,
    rows: Mapping[str, Callable[[Stage], list[Figure]]],
    stage: Stage,
    machine: Sequence[str],
) -> int:
    """Measure *rows*, and return the exit status: 1 if a figure is not accepted.

    Args:
        target: Of `make`.
        options: Of the command.
        rows: The chosen ones.
        stage: What the rows share.
        machine: Where.
    """
    figures: dict[str, Sequence[Figure]] = {}
    for row, run in rows.items():
        began = time.monotonic()
        try:
            figures[row] = run(stage)
        except Exception as error:  # noqa: BLE001 - the other rows are still worth their hour
            say(traceback.format_exc())
            figures[row] = [Figure.of_end(row, repr(error))]
        shown = "; ".join(f"{one.work}: {one.shown} {one.mark}" for one in figures[row])
        say(f"{row} ({time.monotonic() - began:.0f} s): {shown}")
    about = [target.about(options), *machine]
    found = [one for many in figures.values() for one in many]
    notes = [
        f"{row}: {note}" for row, many in figures.items() for one in many for note in one.notes
    ]
    text = page(about, COLUMNS, [one.cells for one in found], notes)
    print(text)
    if options.json:
        listed = {row: [one.as_json() for one in many] for row, many in figures.items()}
        written = {"about": about, "rows": listed}
        options.json.write_text(json.dumps(written, indent=2, ensure_ascii=False) + "\n")
    if options.record:
        put_into(DOCUMENT, target.name, text)
    return 1 if any(one.is_refused for one in found) else 0
