"""Before a login, the bodies of one network have a share of the memory."""

import asyncio
from typing import Any

import pytest

from tenantry.api.endpoints import BODY_BYTES_MAX
from tenantry.api.held_bodies import SENDER_BYTES_MAX
from tests.conftest import HOST, World

# With so many, the next one is above the share.
HELD = SENDER_BYTES_MAX // BODY_BYTES_MAX


class Slow:
    """A login of an admin that has sent all of its body but for the last byte."""

    def __init__(self, world: World, address: str) -> None:
        self.status: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        self._parts = [{"type": "http.request", "body": b"x" * BODY_BYTES_MAX, "more_body": True}]
        scope = {
            "type": "http",
            "method": "POST",
            "path": "/api/admin/auth/login",
            "raw_path": b"/api/admin/auth/login",
            "query_string": b"",
            "headers": [(b"host", HOST.encode()), (b"content-type", b"application/json")],
            "client": (address, 4711),
        }
        self.task = asyncio.create_task(world.app(scope, self._receive, self._send))  # type: ignore[arg-type]

    async def _receive(self) -> dict[str, Any]:
        if self._parts:
            return self._parts.pop()
        return await asyncio.Event().wait()  # type: ignore[return-value]

    async def _send(self, message: Any) -> None:
        if message["type"] == "http.response.start":
            self.status.set_result(message["status"])


@pytest.mark.parametrize("engine", ["sqlite"])
async def test_many_addresses_of_a_network_have_one_share(world: World) -> None:
    """A client that has one IPv6 address has a whole network of them."""
    held = [Slow(world, f"2001:db8::{number:x}") for number in range(1, HELD + 1)]
    await asyncio.sleep(0.3)

    same, other = Slow(world, "2001:db8::ffff"), Slow(world, "2001:db8:1::1")
    async with asyncio.timeout(5):
        status = await same.status
    await asyncio.sleep(0.1)

    assert status == 503
    assert not other.status.done(), "it waits for the rest of its body"
    assert not any(one.status.done() for one in held)
    for one in (*held, same, other):
        one.task.cancel()
    await asyncio.gather(*(one.task for one in (*held, same, other)), return_exceptions=True)
