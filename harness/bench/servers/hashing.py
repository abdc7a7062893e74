"""What the hashing pool gives by itself: logins without everything else.

It prints how many passwords were verified in a second.
"""

import asyncio
import sys
import time

from tenantry.access.passwords import NO_ADDRESS, Passwords
from tenantry.settings import Settings

AT_ONCE = 16
WARM_SECONDS = 0.5


async def measure(password: str, seconds: float) -> float:
    """Return how many times in a second the pool of the default settings verifies."""
    settings = Settings(_env_file=None)  # type: ignore[call-arg]
    passwords = Passwords(threads=settings.password_threads, chars_min=settings.password_min_length)
    stored = await passwords.hash(password)
    verified = 0

    async def verify_on() -> None:
        nonlocal verified
        while True:
            with passwords.place(NO_ADDRESS) as place:
                await place.verify(stored, password)
            verified += 1

    tasks = [asyncio.create_task(verify_on()) for _ in range(AT_ONCE)]
    await asyncio.sleep(WARM_SECONDS)
    before, began = verified, time.perf_counter()
    await asyncio.sleep(seconds)
    rate = (verified - before) / (time.perf_counter() - began)
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    passwords.close()
    return rate


if __name__ == "__main__":
    print(asyncio.run(measure(sys.argv[1], float(sys.argv[2]))))
