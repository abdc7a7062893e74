"""What a check of the doctor returns."""

from dataclasses import dataclass
from enum import StrEnum


class State(StrEnum):
    """How well a thing is."""

    OK = "ok"
    WARNING = "warning"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class Finding:
    """What a check has found.

    Attributes:
        advice: What to do about it, if there is something to do.
    """

    check: str
    state: State
    detail: str
    advice: str | None = None
