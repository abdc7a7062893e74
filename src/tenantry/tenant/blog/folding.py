"""Fold the texts of posts for the search, off the event loop.

Folding holds the interpreter lock for a part of the text at a time, so two threads that fold delay
every request of the process. One thread does it, in short turns for the tenants: a long text of one
tenant does not delay the short ones of the others.
"""

from concurrent.futures import ThreadPoolExecutor
from functools import partial
from uuid import UUID

from tenantry.access.cpu_queue import FairQueue
from tenantry.kit.clock import monotonic_seconds
from tenantry.tenant.blog.searching import PART_CHARS, Folded, Steps, fold, fold_in_steps

THREADS = 1
# The slowest part takes 8 ms, and passing the thread on a tenth of a millisecond.
TURN_SECONDS = 0.02
# Folded at once: a few milliseconds for the slowest text, and most posts are no longer.
SHORT_CHARS = PART_CHARS


class Folding:
    """Folds long texts in one thread. It must be closed."""

    def __init__(self) -> None:
        # Not of low priority: the event loop would wait for the interpreter lock of a thread that
        # waits for a core.
        self._pool = ThreadPoolExecutor(THREADS, "folding")
        self._queue = FairQueue(self._pool, THREADS)

    async def fold(self, tenant_id: UUID, title: str | None, content: str | None) -> Folded:
        """Return the folded title and content of a post of a tenant.

        A long text takes up to 3 s, so call it before a transaction begins. `FairShare` limits
        how many texts of a tenant wait.

        Raises:
            BadText: See `searching.fold`.
        """
        if len(title or "") + len(content or "") <= SHORT_CHARS:
            return fold(title, content)
        steps = fold_in_steps(title, content)
        folded: Folded | None = None
        while folded is None:
            folded = await self._queue.run(tenant_id.hex, partial(_take_turn, steps))
        return folded

    def close(self) -> None:
        """End the thread, after its turn."""
        self._pool.shutdown(wait=False, cancel_futures=True)


def _take_turn(steps: Steps[Folded]) -> Folded | None:
    """Take some of the steps; return the result after the last one."""
    ends = monotonic_seconds() + TURN_SECONDS
    while monotonic_seconds() < ends:
        try:
            next(steps)
        except StopIteration as end:
            folded: Folded = end.value
            return folded
    return None
