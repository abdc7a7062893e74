"""The result of a check of the doctor."""

from enum import StrEnum

from tenantry.schemas.base import Schema


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
