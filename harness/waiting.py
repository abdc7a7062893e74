"""Waiting for a state of other processes."""

import time
from collections.abc import Callable

POLL_SECONDS = 0.05


def comes_true(holds: Callable[[], object], seconds: float) -> bool:
    """Return whether *holds* returns something true within *seconds*, as soon as it does."""
    ends = time.monotonic() + seconds
    while not holds():
        if time.monotonic() > ends:
            return False
        time.sleep(POLL_SECONDS)
    return True
