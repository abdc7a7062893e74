"""The pause before work is tried again."""

import math
import random

DOUBLINGS_MAX = 64
"""A longer pause would be no number."""


def backoff_seconds(
    first: float, tries: int = 1, *, longest: float = math.inf, jitter: float = 0.5
) -> float:
    """Return how long to wait after this many failed *tries*: exponential backoff with jitter.

    Args:
        first: The pause after the first try, at most, in seconds. It doubles with each further one.
        tries: How often it was tried.
        longest: The limit of the pause, in seconds.
        jitter: The random part of the pause. With 1, tasks that collide are spread most.
    """
    pause = min(first * 2.0 ** min(tries - 1, DOUBLINGS_MAX), longest)
    return pause * random.uniform(1 - jitter, 1)  # noqa: S311 - no secret
