"""The tenants of one server that this process has claimed and not started."""

import asyncio
from collections import OrderedDict, deque
from collections.abc import Collection
from typing import Generic, TypeVar
from uuid import UUID

from tenantry.kit.clock import monotonic_seconds

# A claim is a transaction, so tenants that migrate fast are claimed in large batches: as many as
# this process migrates in `CLAIM_SECONDS`. Other processes cannot claim them in that time.
CLAIM_MIN = 8
CLAIM_MAX = 256
CLAIM_SECONDS = 0.25

Item = TypeVar("Item")


class ServerQueue(Generic[Item]):
    """A queue in which runs take turns, and which adapts the size of claims to its speed.

    It is unbounded. `Claims` adds at most a claim and a quarter, and `CLAIM_MIN` more of each other
    unfinished run.

    Attributes:
        size: How many tenants the next claim is of.
        last_run: The run of the last claim; the next claim is of another one, if possible.
    """

    def __init__(self) -> None:
        self.size = CLAIM_MIN
        self.last_run = UUID(int=0)
        self._items: OrderedDict[UUID, deque[Item]] = OrderedDict()
        self._some = asyncio.Event()
        # When the last claim of full size began.
        self._began_at: float | None = None

    def __len__(self) -> int:
        """Return the number of items."""
        return sum(map(len, self._items.values()))

    @property
    def runs(self) -> Collection[UUID]:
        """The runs that have items."""
        return frozenset(self._items)

    @property
    def is_short(self) -> bool:
        """Whether it is time for the next claim."""
        return len(self) <= self.size // 4

    def put(self, run_id: UUID, item: Item) -> None:
        """Add an item of a run."""
        self._items.setdefault(run_id, deque()).append(item)
        self._some.set()

    async def get(self) -> Item:
        """Remove and return the next item; wait until there is one."""
        while not self._items:
            self._some.clear()
            await self._some.wait()
        run_id, items = self._items.popitem(last=False)
        item = items.popleft()
        if items:
            self._items[run_id] = items  # after the other runs
        return item

    def resize(self) -> None:
        """Set the size of the next claim, by the time since the last one of full size."""
        if self._began_at is None:
            return
        quick = monotonic_seconds() - self._began_at < CLAIM_SECONDS
        self.size = min(self.size * 2, CLAIM_MAX) if quick else max(self.size // 2, CLAIM_MIN)

    def claimed(self, count: int, began_at: float) -> None:
        """Note that a claim, begun at *began_at*, was of *count* tenants."""
        self._began_at = began_at if count == self.size else None
