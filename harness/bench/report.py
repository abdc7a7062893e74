"""The table: printed, written as JSON, and put into the document."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from harness.bench.figures import Figure
from harness.processes import ROOT
from harness.report import put_into, table

DOCUMENT = ROOT / "docs" / "benchmarks.md"
COLUMNS = ["work", "measured", "accept", "aim", "", "details"]


@dataclass(frozen=True)
class Report:
    """What a run has found.

    Attributes:
        date: When it ended.
        command: What began it.
        machine: Where.
        figures: By the row that made them.
        target: The target of `make` that owns this part of the document.
    """

    date: str
    command: str
    machine: Sequence[str]
    figures: Mapping[str, Sequence[Figure]]
    target: str = "bench"

    @property
    def failed(self) -> list[Figure]:
        """The figures that are not accepted."""
        return [one for many in self.figures.values() for one in many if one.is_refused]

    def text(self) -> str:
        """Return all of it, as Markdown that can be read as it is."""
        return "\n".join(
            [
                *(f"- {line}" for line in [f"{self.date}, `{self.command}`", *self.machine]),
                "",
                *self._table(),
                "",
                *self._notes(),
            ]
        )

    def write_json(self, path: Path) -> None:
        """Write all of it for machines."""
        rows = {row: [one.as_json() for one in many] for row, many in self.figures.items()}
        about = {"date": self.date, "command": self.command, "machine": list(self.machine)}
        path.write_text(json.dumps(about | {"rows": rows}, indent=2, ensure_ascii=False) + "\n")

    def record(self) -> None:
        """Put it into the document, in place of what was there."""
        put_into(DOCUMENT, self.target, self.text())

    def _table(self) -> list[str]:
        return table(COLUMNS, [one.cells for many in self.figures.values() for one in many])

    def _notes(self) -> list[str]:
        return [
            f"- {row}: {note}"
            for row, many in self.figures.items()
            for one in many
            for note in one.notes
        ]
