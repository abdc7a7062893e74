"""A program: a service with clients that disconnect at every moment. It prints the threads left.

It is a process of its own, because a thread that is left would keep the tests from ending.
The settings are those of the environment.
"""

import asyncio
import os
import sys
import threading

from tenantry.services import open_services
from tenantry.settings import read_settings
from tests.conftest import make_world

CALLS = 150
STEPS_MAX = 50
STEP_SECONDS = 0.0002


async def main() -> None:
    async with open_services(read_settings()) as services:
        world = await make_world(services)
        client = world.public(world.acme)
        for number in range(CALLS):
            call = asyncio.create_task(client.get("/api/public/blog/posts"))
            for _ in range(number % STEPS_MAX):
                await asyncio.sleep(STEP_SECONDS)
            call.cancel()
            await asyncio.wait([call])
        answer = await client.get("/api/public/blog/posts")
        assert answer.status_code == 200, answer.text
    await asyncio.sleep(0.3)


if __name__ == "__main__":
    asyncio.run(main())
    main_thread = threading.main_thread()
    left = [one.name for one in threading.enumerate() if one is not main_thread]
    sys.stdout.write(f"left: {left}\n")
    sys.stdout.flush()
    os._exit(0)
