"""Runs take turns in the queue of a process."""

import asyncio

from tenantry.fleet.server_queue import ServerQueue
from tenantry.kit.ids import new_id


class TestGet:
    async def test_returns_items_of_another_run_each_time(self):
        queue: ServerQueue[str] = ServerQueue()
        large, urgent = new_id(), new_id()
        for item in ("a1", "a2", "a3"):
            queue.put(large, item)
        queue.put(urgent, "b1")

        assert [await queue.get() for _ in range(4)] == ["a1", "b1", "a2", "a3"]
        assert (len(queue), set(queue.runs)) == (0, set())

    async def test_waits_for_an_item(self):
        queue: ServerQueue[str] = ServerQueue()
        waiting = [asyncio.create_task(queue.get()) for _ in range(2)]
        await asyncio.sleep(0)

        for item in ("a1", "a2"):
            queue.put(new_id(), item)

        assert await asyncio.gather(*waiting) == ["a1", "a2"]
