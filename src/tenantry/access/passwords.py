"""Hash and verify passwords (Argon2id), off the event loop."""

import asyncio
import os
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from typing import TypeVar

from argon2 import PasswordHasher, extract_parameters
from argon2.exceptions import InvalidHashError, VerificationError
from zxcvbn.frequency_lists import FREQUENCY_LISTS  # type: ignore[import-untyped]

from tenantry.kit.errors import Invalid, Unavailable
from tenantry.kit.text import canonical

Answer = TypeVar("Answer")

# OWASP Password Storage Cheat Sheet: m = 19 MiB, t = 2, p = 1.
MEMORY_KIB = 19_456
TIME_COST = 2
PARALLELISM = 1

# A stored hash that asks for more than this was not made by us, and is not computed.
MEMORY_KIB_MAX = 131_072
TIME_COST_MAX = 16
PARALLELISM_MAX = 8
STORED_CHARS_MAX = 256

PASSWORD_CHARS_MAX = 1_024
COMMON_PASSWORDS = 3_000
QUEUE_MAX = 64
NICENESS = 10


class TooManyLogins(Unavailable):
    """Too many people are logging in at this moment."""


class WrongPassword(Invalid):
    """The current password is wrong."""


class BadPassword(Invalid):
    """The new password breaks a rule; the message says which."""


class Passwords:
    """A small bounded pool of niced threads that hash, so that other requests are not held up.

    Args:
        threads: Passwords hashed at once.
        chars_min: The fewest characters of a new password.
    """

    def __init__(self, *, threads: int, chars_min: int) -> None:
        self._hasher = PasswordHasher(
            time_cost=TIME_COST, memory_cost=MEMORY_KIB, parallelism=PARALLELISM
        )
        self._chars_min = chars_min
        self._pool = ThreadPoolExecutor(threads, "passwords", initializer=_lower_priority)
        self._pending = 0
        self._decoy = self._hasher.hash(os.urandom(16))

    @property
    def pending_count(self) -> int:
        """How many passwords are being hashed, or wait for it."""
        return self._pending

    def check_new(self, password: str, *, email: str, name: str = "password") -> None:
        """Check that *password*, the value of the member *name*, may be the one of *email*.

        Raises:
            BadPassword: It may not.
        """
        if not self._chars_min <= len(password) <= PASSWORD_CHARS_MAX:
            raise BadPassword(
                f"`{name}` must have {self._chars_min} to {PASSWORD_CHARS_MAX} characters."
            )
        try:
            password.encode()
        except UnicodeEncodeError as error:
            raise BadPassword(f"`{name}` must be Unicode text.") from error
        if canonical(password) == canonical(email):
            raise BadPassword(f"`{name}` must not be the e-mail address.")
        if password.lower() in _common():
            raise BadPassword(f"`{name}` is one of the most common passwords.")

    async def hash(self, password: str) -> str:
        """Return what to store in place of *password*.

        Raises:
            TooManyLogins: The queue is full.
        """
        return await self._run(self._hasher.hash, password)

    async def verify(self, stored: str | None, password: str) -> str | None:
        """Check *password* against the *stored* hash.

        It costs the same when there is no such account (None), so that the time of the
        answer does not tell which accounts there are.

        Returns:
            What to store from now on, when the cost has risen since; else None.

        Raises:
            WrongPassword: It does not match.
            TooManyLogins: The queue is full.
        """
        usable = stored is not None and _is_sane(stored)
        matches = await self._run(
            self._matches, stored if usable and stored else self._decoy, password
        )
        if not usable or stored is None or not matches:
            raise WrongPassword
        if self._hasher.check_needs_rehash(stored):
            return await self.hash(password)
        return None

    def close(self) -> None:
        """End the threads."""
        self._pool.shutdown(cancel_futures=True)

    def _matches(self, stored: str, password: str) -> bool:
        try:
            return self._hasher.verify(stored, password)
        except (VerificationError, InvalidHashError, UnicodeEncodeError):
            return False

    async def _run(self, work: Callable[..., Answer], *arguments: str) -> Answer:
        if self._pending >= QUEUE_MAX:
            raise TooManyLogins
        self._pending += 1
        running = asyncio.get_running_loop().run_in_executor(self._pool, work, *arguments)
        # Not when the caller goes away, but when the thread has ended: that is what is bounded.
        running.add_done_callback(self._done)
        return await asyncio.shield(running)

    def _done(self, running: "asyncio.Future[Answer]") -> None:
        self._pending -= 1
        if not running.cancelled():
            running.exception()  # whoever waited has gone; it is not to be complained of


def _is_sane(stored: str) -> bool:
    if len(stored) > STORED_CHARS_MAX:
        return False
    try:
        asked = extract_parameters(stored)
    except InvalidHashError:
        return False
    return (
        asked.memory_cost <= MEMORY_KIB_MAX
        and asked.time_cost <= TIME_COST_MAX
        and asked.parallelism <= PARALLELISM_MAX
    )


@cache
def _common() -> frozenset[str]:
    return frozenset(FREQUENCY_LISTS["passwords"][:COMMON_PASSWORDS])


def _lower_priority() -> None:
    # On Linux a niceness belongs to a thread.
    os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), NICENESS)
