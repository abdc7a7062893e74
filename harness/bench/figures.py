"""Figures, and what they are to be."""

from dataclasses import asdict, dataclass, field

FAIL = "FAIL"


@dataclass(frozen=True)
class Bound:
    """What a figure is to be.

    Attributes:
        accept: At the worst.
        aim: What is wanted.
        at_least: Whether more is better.
        unit: Of all three.
        base: What the figure is measured from, when that is part of the bound's text.
    """

    accept: float
    aim: float | None = None
    at_least: bool = True
    unit: str = ""
    base: str = ""

    def mark(self, value: float) -> str:
        """Return how *value* compares."""
        if not self._holds(value, self.accept):
            return FAIL
        return "pass, aim" if self.aim is not None and self._holds(value, self.aim) else "pass"

    def text(self, value: float | None) -> str:
        """Return one of the two, for people."""
        if value is None:
            return ""
        return f"{'≥' if self.at_least else '≤'} {self.base}{value:g}{self.unit}"

    def _holds(self, value: float, bound: float) -> bool:
        return value >= bound if self.at_least else value <= bound


@dataclass(frozen=True, kw_only=True)
class Figure:
    """A line of the table.

    Attributes:
        work: What is measured.
        value: The figure; None when there is more than one number to it.
        shown: The figure, for people.
        rate: The throughput, for people.
        bound: What it is to be.
        notes: All that was seen.
        is_disturbed: Whether something else used the machine: then it is to be measured again.
    """

    work: str
    value: float | None
    shown: str
    rate: str = ""
    bound: Bound | None = None
    notes: list[str] = field(default_factory=list)
    is_disturbed: bool = False

    @classmethod
    def of_end(cls, row: str, cause: str) -> "Figure":
        """Return the figure of a row that an error has ended: it is not accepted."""
        work = f"`{row}`: ended by an error"
        return cls(work=work, value=0, shown="nothing", bound=Bound(1), notes=[cause])

    @property
    def mark(self) -> str:
        """How the figure compares with its bound."""
        bound = self.bound
        mark = "printed" if bound is None or self.value is None else bound.mark(self.value)
        return f"{mark}, but disturbed" if self.is_disturbed else mark

    @property
    def is_refused(self) -> bool:
        """Whether it is not what it must be."""
        return self.mark.startswith(FAIL)

    @property
    def cells(self) -> list[str]:
        """The line, for people."""
        bound = self.bound
        return [
            self.work,
            self.shown,
            "" if bound is None else bound.text(bound.accept),
            "" if bound is None else bound.text(bound.aim),
            self.mark,
            self.rate,
        ]

    def as_json(self) -> dict[str, object]:
        """Return everything, for machines."""
        return asdict(self) | {"mark": self.mark}
