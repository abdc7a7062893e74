"""A key is rotated while a website uses it, and no request fails."""

import asyncio
from collections import Counter
from contextlib import ExitStack
from itertools import cycle
from pathlib import Path

import httpx
import pytest

from tenantry.settings import Settings
from testkit.programs import free_port, running, variables
from tests.acceptance.support import POSTS, TENANTS, ok, until
from tests.conftest import World

pytestmark = pytest.mark.slow

ROTATIONS = 5
READERS = 4
# As many requests as a website sends before it learns of its new key, which the service knows.
MORE = 5 * READERS


class _Website:
    """Pages that several readers ask for at once, from every process in turn."""

    def __init__(self, urls: list[str], key: str) -> None:
        self.key = key
        self.statuses: Counter[int] = Counter()
        self.deprecated = 0
        self._urls = cycle(urls)

    async def go_on(self) -> None:
        """Wait until some more requests were answered."""
        enough = self.statuses.total() + MORE
        await until(lambda: asyncio.sleep(0, self.statuses.total()), lambda count: count >= enough)

    async def learn(self) -> None:
        """Wait until another answer says that the key has been replaced."""
        known = self.deprecated
        await until(lambda: asyncio.sleep(0, self.deprecated), lambda count: count > known)

    async def read(self) -> None:
        async with httpx.AsyncClient(timeout=60) as client:
            while True:
                answer = await client.get(next(self._urls) + POSTS, headers={"x-api-key": self.key})
                self.statuses[answer.status_code] += 1
                self.deprecated += "deprecation" in answer.headers


@pytest.mark.parametrize(
    ("engine", "processes"), [("sqlite", 1), ("postgresql", 2)], indirect=["engine"]
)
class TestRotationUnderLoad:
    async def test_fails_no_request(
        self, settings: Settings, world: World, processes: int, tmp_path: Path
    ) -> None:
        """The new key is good everywhere at once, and the old one until its time is up."""
        admin = await world.admin()
        keys = f"{TENANTS}/{world.acme.tenant.id}/api-keys"
        key_id = str(world.acme.key.key.id)
        urls = [f"http://127.0.0.1:{free_port()}" for _ in range(processes)]
        website = _Website(urls, world.acme.key.secret)
        with ExitStack() as stack:
            for url in urls:
                port = url.rpartition(":")[2]
                served = stack.enter_context(
                    running(tmp_path, "serve", "--port", port, **variables(settings))
                )
                served.wait_for("^Tenantry answers")
            readers = [asyncio.create_task(website.read()) for _ in range(READERS)]
            for _ in range(ROTATIONS):
                await website.go_on()
                rotated = ok(await admin.post(f"{keys}/{key_id}/rotate"), 201)
                # A website learns of its new key later than the service: here from its answers.
                await website.go_on()
                await website.learn()
                key_id, website.key = rotated["id"], rotated["key"]
            for reader in readers:
                reader.cancel()
            await asyncio.wait(readers)

        assert set(website.statuses) == {200}
        assert website.statuses[200] > ROTATIONS * READERS
