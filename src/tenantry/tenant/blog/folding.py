"""Fold the texts of posts for the search, off the event loop.

Folding holds the interpreter lock for a part of the text at a time, so two threads that fold delay
every request of the process. One thread does it, in turn for the tenants.
"""

from concurrent.futures import ThreadPoolExecutor
from functools import partial
from uuid import UUID

from tenantry.access.queue import FairQueue
from tenantry.tenant.blog.searching import PART_CHARS, Folded, fold

THREADS = 1
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

        A long text takes up to 3 s, so call it before a transaction begins. `api.fair_share` limits
        how many texts of a tenant wait.

        Raises:
            BadText: See `searching.fold`.
        """
        if len(title or "") + len(content or "") <= SHORT_CHARS:
            return fold(title, content)
        return await self._queue.run(tenant_id.hex, partial(fold, title, content))

    def close(self) -> None:
        """End the thread, after the text that it folds."""
        self._pool.shutdown(wait=False, cancel_futures=True)
