"""Identifiers."""

import re
from uuid import UUID

import uuid_utils
import uuid_utils.compat

_HYPHENATED = re.compile(r"[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")


def new_id() -> UUID:
    """Return a new UUIDv7: unique, and ordered by the time of its making."""
    return uuid_utils.compat.uuid7()


def new_request_id() -> str:
    """Return a new UUIDv7 as text: on the way of every request, so the short way."""
    return str(uuid_utils.uuid7())


def parse_id(text: str) -> UUID | None:
    """Return the id that *text* spells, hyphenated and in any case, or None if it spells none."""
    return UUID(text) if _HYPHENATED.fullmatch(text) else None
