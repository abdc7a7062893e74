"""A client of Server-Sent Events, by the rules of the HTML standard."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import httpx

READ_SECONDS_MAX = 60.0


@dataclass(frozen=True)
class Event:
    """One event."""

    id: str
    name: str
    data: Any


class Stream:
    """What is read of a stream: its events, one after the other, and its comments."""

    def __init__(self, answer: httpx.Response) -> None:
        self.answer = answer
        self.comments = 0
        self._lines = answer.aiter_lines()

    async def next(self) -> Event | None:
        """Return the next event; None when the stream has ended."""
        fields: dict[str, str] = {}
        async with asyncio.timeout(READ_SECONDS_MAX):
            async for line in self._lines:
                if not line and fields:
                    data = json.loads(fields["data"])
                    return Event(fields["id"], fields["event"], data)
                if line.startswith(":"):
                    self.comments += 1
                elif line:
                    name, _, value = line.partition(": ")
                    assert name not in fields
                    fields[name] = value
        assert not fields
        return None

    async def rest(self) -> list[Event]:
        """Return all events that are still to come."""
        events = []
        while (event := await self.next()) is not None:
            events.append(event)
        return events

    async def wait_for_comments(self, count: int) -> None:
        """Read until there were as many comments."""
        async with asyncio.timeout(READ_SECONDS_MAX):
            while self.comments < count:
                line = await anext(self._lines)
                self.comments += line.startswith(":")


@asynccontextmanager
async def watching(client: httpx.AsyncClient, path: str, **headers: str) -> AsyncIterator[Stream]:
    """Yield a stream that is open."""
    sent = {name.replace("_", "-"): value for name, value in headers.items()}
    async with client.stream("GET", path, headers=sent) as answer:
        assert answer.status_code == 200, await answer.aread()
        yield Stream(answer)
