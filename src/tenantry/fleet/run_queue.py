"""A queue of tenants in which runs take turns."""

import asyncio
from collections import OrderedDict, deque
from collections.abc import Collection
from typing import Generic, TypeVar
from uuid import UUID

Item = TypeVar("Item")


class RunQueue(Generic[Item]):
    """A queue that returns the items of each run in order, and takes the runs in turn.

    It is unbounded; `Claims` bounds what it adds.
    """

    def __init__(self) -> None:
        self._items: OrderedDict[UUID, deque[Item]] = OrderedDict()
        self._some = asyncio.Event()

    def __len__(self) -> int:
        """Return the number of items."""
        return sum(map(len, self._items.values()))

    @property
    def runs(self) -> Collection[UUID]:
        """The runs that have items."""
        return frozenset(self._items)

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
