"""The verdicts: as lines, and as the table of ``docs/trust.md``."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from harness.driver import Target
from harness.machine import describe
from harness.processes import ROOT
from harness.prove.promise import Promise
from harness.report import page, put_into
from tenantry.kit.clock import utc_now

DOCUMENT = ROOT / "docs" / "trust.md"
HELD, NOT_HELD, NOT_SHOWN = "held", "NOT HELD", "not shown here"
COLUMNS = ["", "promise", "what was done", "figure", "verdict", "date", "took"]
PACKAGES = ("uvicorn", "asyncpg", "argon2-cffi", "pyjwt")
COMMAND = "make prove PROVE=--record"
VARIABLES = {"only": "PROMISE", "short": "SHORT", "plant": "PLANT", "seed": "SEED"}
TARGET = Target("prove", DOCUMENT, VARIABLES, "PROVE", records_parts=True)


@dataclass(frozen=True)
class Row:
    """The result of one promise."""

    promise: Promise
    done: str
    found: str
    verdict: str
    seconds: float

    @property
    def line(self) -> str:
        """For people, on one line."""
        parts = [self.promise.sentence, self.done, self.found]
        text = " | ".join(part for part in parts if part).replace("\n", " ")
        return f"{self.promise.name:4}{self.verdict}: {text} ({self.seconds:.0f} s)"

    @property
    def cells(self) -> list[str]:
        """For the table."""
        found = [self.promise.name, self.promise.sentence, self.done, self.found, self.verdict]
        found += [f"{utc_now():%Y-%m-%d %H:%M}", f"{self.seconds:.0f} s"]
        return [re.sub(r"\s+", " ", one).replace("|", "/") for one in found]


def machine() -> list[str]:
    """Return what one has to know of this machine: call it before anything is measured."""
    return describe(ROOT, PACKAGES)


def put(rows: Sequence[Row], about: Sequence[str], document: Path = DOCUMENT) -> None:
    """Put *rows* into *document*; the rows of other promises stay as they are.

    Args:
        rows: The rows.
        about: The machine, before they were measured.
        document: The document.
    """
    found = {cells[0]: cells for cells in _recorded(document)}
    found |= {row.promise.name: row.cells for row in rows}
    ordered = [found[name] for name in sorted(found, key=lambda name: int(name[1:]))]
    about = [f"last recorded {utc_now():%Y-%m-%d %H:%M} UTC, `{COMMAND}`", *about]
    put_into(document, TARGET.name, page(about, COLUMNS, ordered))


def _recorded(document: Path) -> list[list[str]]:
    lines = re.findall(r"^\| (P\d+ .*) \|$", document.read_text(), re.MULTILINE)
    return [[cell.strip() for cell in line.split(" | ")] for line in lines]
