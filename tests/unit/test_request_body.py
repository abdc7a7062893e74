"""The memory for bodies that have arrived in part is limited."""

import asyncio

import pytest

from tenantry.api.error_responses import ClientDisconnected
from tenantry.api.request_body import (
    UNCOUNTED_BYTES,
    BodyMemory,
    BodyReservation,
    TooManyBodies,
    read_body,
)
from tenantry.api.requests import Scope
from tenantry.api.routes.tenant_auth import update_profile

JSON = {b"content-type": b"application/json"}
PART = b"x" * (UNCOUNTED_BYTES + 1)


class Client:
    """Sends a body in parts, each when `go_on` is called."""

    def __init__(self, held: BodyMemory, sender: str = "acme") -> None:
        self._parts: asyncio.Queue[Scope] = asyncio.Queue()
        self.body = BodyReservation(held, sender)
        reading = read_body(update_profile, JSON, self._parts.get, self.body)
        self.answer = asyncio.create_task(reading)

    async def send(self, content: bytes = PART, *, is_last: bool = False) -> None:
        part = {"type": "http.request", "body": content, "more_body": not is_last}
        self._parts.put_nowait(part)
        await asyncio.sleep(0.01)

    async def hang_up(self) -> None:
        self._parts.put_nowait({"type": "http.disconnect"})
        await asyncio.sleep(0.01)


async def test_a_body_above_the_limit_of_all_is_refused():
    held = BodyMemory(bytes_max=2 * len(PART))
    first, second = Client(held), Client(held)
    await first.send()
    await first.send()

    await second.send()

    with pytest.raises(TooManyBodies):
        await second.answer
    await first.hang_up()
    with pytest.raises(ClientDisconnected):
        await first.answer


async def test_a_body_counts_until_its_request_ends():
    held = BodyMemory(bytes_max=2 * len(PART))
    first = Client(held)
    await first.send()
    await first.send(is_last=True)
    assert await first.answer == 2 * PART

    second = Client(held)
    await second.send()
    with pytest.raises(TooManyBodies):
        await second.answer
    first.body.release()
    third = Client(held)
    await third.send(is_last=True)

    assert await third.answer == PART


async def test_a_sender_fills_its_own_share_alone():
    held = BodyMemory(bytes_max=10 * len(PART), sender_bytes_max=len(PART))
    first, second, other = Client(held), Client(held), Client(held, "globex")
    await first.send()

    await second.send()
    await other.send(is_last=True)

    with pytest.raises(TooManyBodies):
        await second.answer
    assert await other.answer == PART
    await first.hang_up()
    with pytest.raises(ClientDisconnected):
        await first.answer


async def test_a_short_body_needs_no_share():
    """The body of a login, for example."""
    held = BodyMemory(bytes_max=0)
    client = Client(held)

    await client.send(b"{}", is_last=True)

    assert await client.answer == b"{}"
