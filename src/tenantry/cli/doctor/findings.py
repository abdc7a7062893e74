"""The result of a check of the doctor."""

from collections.abc import Sequence
from enum import StrEnum

from tenantry.schemas.base import Schema

NAMES_SHOWN_MAX = 3


class State(StrEnum):
    """The severity of a finding."""

    OK = "ok"
    WARNING = "warning"
    FAILED = "failed"


class Finding(Schema, frozen=True):
    """The result of a check.

    Attributes:
        advice: What to do about it, if anything.
    """

    check: str
    state: State
    detail: str
    advice: str | None = None


def first_of(names: Sequence[str], most: int = NAMES_SHOWN_MAX) -> str:
    """Return the first of *names*, and dots if there are more than *most*."""
    return ", ".join(names[:most]) + (", …" if len(names) > most else "")
