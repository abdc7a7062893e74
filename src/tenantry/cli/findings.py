"""The result of a check of the doctor."""

from dataclasses import dataclass
from enum import StrEnum


class State(StrEnum):
    """The severity of a finding."""

    OK = "ok"
    WARNING = "warning"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class Finding:
    """The result of a check.

    Attributes:
        advice: What to do about it, if anything.
    """

    check: str
    state: State
    detail: str
    advice: str | None = None
