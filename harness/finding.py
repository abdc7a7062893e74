"""What a check has found."""

from dataclasses import dataclass, field

FAULTS_SHOWN_MAX = 10


@dataclass(frozen=True, kw_only=True)
class Finding:
    """A line of the table.

    Attributes:
        name: Short, for the lines under the table.
        check: What was done to whom.
        must: What must hold, for people.
        found: What was seen, for people.
        faults: What did not hold; nothing, if all is well.
        notes: What else was seen.
    """

    name: str
    check: str
    must: str
    found: str
    faults: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    @property
    def mark(self) -> str:
        """Whether everything held."""
        return f"FAIL ({len(self.faults)})" if self.faults else "pass"

    @property
    def cells(self) -> list[str]:
        """The line, for people."""
        return [self.check, self.must, self.found, self.mark]

    @property
    def lines(self) -> list[str]:
        """The notes, and the first of the faults."""
        more = len(self.faults) - FAULTS_SHOWN_MAX
        return [
            *(f"{self.name}: {one}" for one in self.notes),
            *(f"{self.name}: FAULT: {one}" for one in self.faults[:FAULTS_SHOWN_MAX]),
            *([f"{self.name}: and {more} faults more"] if more > 0 else []),
        ]
