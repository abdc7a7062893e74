"""The memory for bodies that have arrived in part is limited."""

import asyncio

import pytest

from tenantry.api.envelope import ClientDisconnected
from tenantry.api.exchange import Scope
from tenantry.api.requests import HeldBodies, TooManyBodies, read_body
from tenantry.api.routes.tenant_auth import update_profile

JSON = [(b"content-type", b"application/json")]
PART = b"x" * 10


class Client:
    """Sends a body in parts, each when `go_on` is called."""

    def __init__(self, held: HeldBodies) -> None:
        self._parts: asyncio.Queue[Scope] = asyncio.Queue()
        self.answer = asyncio.create_task(read_body(update_profile, JSON, self._parts.get, held))

    async def send(self, *, is_last: bool = False) -> None:
        part = {"type": "http.request", "body": PART, "more_body": not is_last}
        self._parts.put_nowait(part)
        await asyncio.sleep(0.01)

    async def hang_up(self) -> None:
        self._parts.put_nowait({"type": "http.disconnect"})
        await asyncio.sleep(0.01)


async def test_a_body_above_the_limit_of_all_is_refused():
    held = HeldBodies(bytes_max=2 * len(PART))
    first, second = Client(held), Client(held)
    await first.send()
    await first.send()

    await second.send()

    with pytest.raises(TooManyBodies):
        await second.answer
    await first.hang_up()
    with pytest.raises(ClientDisconnected):
        await first.answer


@pytest.mark.parametrize("how", ["complete", "interrupted", "cancelled"])
async def test_a_body_that_has_ended_no_longer_counts(how: str):
    held = HeldBodies(bytes_max=2 * len(PART))
    first = Client(held)
    await first.send()
    if how == "complete":
        await first.send(is_last=True)
        assert await first.answer == 2 * PART
    else:
        if how == "cancelled":
            first.answer.cancel()
        else:
            await first.hang_up()
        with pytest.raises((ClientDisconnected, asyncio.CancelledError)):
            await first.answer

    second = Client(held)
    await second.send()
    await second.send(is_last=True)

    assert await second.answer == 2 * PART
