"""Before a login, bodies have a pool of their own, and each network has a share of it."""

import asyncio
from typing import Any

import pytest

from tenantry.api.endpoints import BODY_BYTES_MAX
from tenantry.api.request_body import HELD_BYTES_MAX, STRANGER_BYTES_MAX, UNCOUNTED_BYTES
from tests.acceptance.support import OWN_POSTS, TENANTS
from tests.conftest import HOST, PASSWORD, World

# With so many, the next one is above the share.
HELD = STRANGER_BYTES_MAX // BODY_BYTES_MAX


class Slow:
    """A login of an admin that has sent all of its body but for the last byte."""

    def __init__(self, world: World, address: str) -> None:
        self.status: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        self.is_settled = asyncio.Event()
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
        self.is_settled.set()
        return await asyncio.Event().wait()  # type: ignore[return-value]

    async def _send(self, message: Any) -> None:
        if message["type"] == "http.response.start":
            self.status.set_result(message["status"])
            self.is_settled.set()


@pytest.mark.parametrize("engine", ["sqlite"])
async def test_many_addresses_of_a_network_have_one_share(world: World) -> None:
    """A client that has one IPv6 address has a whole network of them."""
    held = [Slow(world, f"2001:db8::{number:x}") for number in range(1, HELD + 1)]
    await settled(held)

    same, other = Slow(world, "2001:db8::ffff"), Slow(world, "2001:db8:1::1")
    async with asyncio.timeout(60):
        status = await same.status
    await settled([other])

    assert status == 503
    assert not other.status.done(), "it waits for the rest of its body"
    assert not any(one.status.done() for one in held)
    await stop([*held, same, other])


@pytest.mark.parametrize("engine", ["sqlite"])
async def test_strangers_fill_no_memory_of_callers_with_a_login(world: World) -> None:
    networks = [f"198.51.100.{number}" for number in range(1, 9)]
    bodies = HELD_BYTES_MAX // BODY_BYTES_MAX // len(networks) + 1
    held = [Slow(world, network) for network in networks for _ in range(bodies)]
    await settled(held)
    text = "x" * (2 * UNCOUNTED_BYTES)

    async with await world.owner(world.acme) as owner:
        post = await owner.post(OWN_POSTS, json={"title": "Long", "content": text})
    async with await world.admin() as admin:
        created = await admin.post(
            TENANTS,
            json={
                "name": "initech",
                "owner": {
                    "email": "owner@initech.example.com",
                    "fullName": "Owner",
                    "password": PASSWORD,
                },
                "unknown": text,
            },
        )

    assert post.status_code == 201, post.text
    assert created.status_code == 201, created.text
    await stop(held)


async def settled(clients: list[Slow]) -> None:
    """Return when all that they have sent is read, or refused."""
    async with asyncio.timeout(60):
        for one in clients:
            await one.is_settled.wait()


async def stop(clients: list[Slow]) -> None:
    for one in clients:
        one.task.cancel()
    await asyncio.gather(*(one.task for one in clients), return_exceptions=True)
