"""Identifiers."""

import re
from datetime import UTC, datetime, timedelta
from uuid import UUID

import uuid_utils
import uuid_utils.compat

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND = timedelta(milliseconds=1)
# A UUIDv7 is 48 bits of milliseconds and then 80 others (RFC 9562, section 5.7).
_RANDOM_BITS = 80

_HYPHENATED = re.compile(r"[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")


def new_id() -> UUID:
    """Return a new UUIDv7: unique, and ordered by the time of its creation."""
    return uuid_utils.compat.uuid7()


def new_id_at(instant: datetime) -> UUID:
    """Return a new UUIDv7 that is ordered by *instant*, to the millisecond."""
    ms = max((instant - _EPOCH) // _MILLISECOND, 0)
    return uuid_utils.compat.uuid7(nanoseconds=ms * 1_000_000)


def first_id_at(instant: datetime) -> UUID:
    """Return the smallest UUIDv7 of the millisecond of *instant*, for comparing with others.

    An instant before 1970 counts as 1970.
    """
    return UUID(int=max((instant - _EPOCH) // _MILLISECOND, 0) << _RANDOM_BITS)


def new_request_id() -> str:
    """Return a new UUIDv7 as text, fast, because every request needs one."""
    return str(uuid_utils.uuid7())


def parse_id(text: str) -> UUID | None:
    """Return the id in *text*, with hyphens and in any case; None if it is not a UUID."""
    return UUID(text) if _HYPHENATED.fullmatch(text) else None
