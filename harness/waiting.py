"""Waiting for a state of other processes."""

import time
from collections.abc import Callable

POLL_SECONDS = 0.05
# For what may be over after some tenths of a second.
SHORT_POLL_SECONDS = 0.005


def comes_true(
    holds: Callable[[], object], seconds: float, *, poll_seconds: float = POLL_SECONDS
) -> bool:
    """Return whether *holds* returns something true within *seconds*, as soon as it does."""
    ends = time.monotonic() + seconds
    while not holds():
        if time.monotonic() > ends:
            return False
        time.sleep(poll_seconds)
    return True
