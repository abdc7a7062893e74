"""Hash and verify passwords (Argon2id), off the event loop."""

import base64
import os
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import cache
from importlib.util import find_spec
from itertools import pairwise
from pathlib import Path
from runpy import run_path

from argon2 import PasswordHasher, extract_parameters
from argon2.exceptions import InvalidHashError, VerificationError
from argon2.low_level import ARGON2_VERSION

from tenantry.access.cpu_queue import FairQueue
from tenantry.kit.errors import Invalid
from tenantry.kit.text import canonical, opaque

# OWASP Password Storage Cheat Sheet: m = 19 MiB, t = 2, p = 1.
MEMORY_KIB = 19_456
TIME_COST = 2
PARALLELISM = 1
HASH_BYTES = 32
SALT_BYTES = 16

# A stored hash with higher parameters was not written by Tenantry, and is not computed.
MEMORY_KIB_MAX = 131_072
TIME_COST_MAX = 16
PARALLELISM_MAX = 8
STORED_CHARS_MAX = 256

PASSWORD_CHARS_MAX = 1_024
COMMON_PASSWORDS = 3_000
CHARACTERS_MIN = 3
"""Different ones in a password."""
NICENESS = 10
# The address of work that does not come from a login: an admin's request, a command.
NO_ADDRESS = ""


def prepared_password(password: str) -> str:
    """Return the form of *password* that is hashed.

    It takes at most 5 ms: a longer text than `PASSWORD_CHARS_MAX` is no password, and is unchanged.
    """
    return password if len(password) > PASSWORD_CHARS_MAX else opaque(password)


class WrongPassword(Invalid):
    """The current password is wrong."""


class BadPassword(Invalid):
    """The new password breaks a rule; the message says which."""


class Passwords:
    """Hashes passwords in a few low-priority threads, so that other requests are not delayed.

    Args:
        threads: How many passwords are hashed concurrently.
        chars_min: The minimum length of a new password, in characters.
    """

    def __init__(self, *, threads: int, chars_min: int) -> None:
        self._hasher = PasswordHasher(
            time_cost=TIME_COST,
            memory_cost=MEMORY_KIB,
            parallelism=PARALLELISM,
            hash_len=HASH_BYTES,
            salt_len=SALT_BYTES,
        )
        self._chars_min = chars_min
        self._pool = ThreadPoolExecutor(threads, "passwords", initializer=_lower_priority)
        self._queue = FairQueue(self._pool, threads)

    @property
    def pending_count(self) -> int:
        """How many passwords are being hashed or are queued."""
        return self._queue.count

    def check_new(self, password: str, *, email: str, name: str = "password") -> None:
        """Check that *password* is an acceptable one for the account *email*, and not that address.

        The *name* is that of the member of the request, for the message.

        Raises:
            BadPassword: It breaks a rule.
        """
        prepared = prepared_password(password)
        if len(prepared) < self._chars_min or len(password) > PASSWORD_CHARS_MAX:
            raise BadPassword(
                f"`{name}` must have {self._chars_min} to {PASSWORD_CHARS_MAX} characters."
            )
        try:
            password.encode()
        except UnicodeEncodeError as error:
            raise BadPassword(f"`{name}` must be Unicode text.") from error
        if canonical(prepared) == canonical(email):
            raise BadPassword(f"`{name}` must not be the e-mail address.")
        if _is_simple(prepared.lower()):
            raise BadPassword(
                f"`{name}` must have {CHARACTERS_MIN} or more different characters, which are no "
                "sequence such as abcdefgh."
            )
        if prepared.lower() in _COMMON:
            raise BadPassword(f"`{name}` is one of the most common passwords.")

    @contextmanager
    def place(self, address: str) -> Iterator["Place"]:
        """Hold a place in the queue for *address*, a network from `network_of`.

        Raises:
            TooManyLogins: The queue is full.
        """
        with self._queue.place(address):
            yield Place(self._queue, self._hasher, address)

    async def hash(self, password: str) -> str:
        """Hash a password as `Place.hash` does, in its own place in the queue.

        Raises:
            TooManyLogins: The queue is full.
        """
        with self.place(NO_ADDRESS) as place:
            return await place.hash(password)

    def close(self) -> None:
        """Stop the threads."""
        self._pool.shutdown(cancel_futures=True)


class Place:
    """A place in the queue; valid inside the block of `Passwords.place`."""

    def __init__(self, queue: FairQueue, hasher: PasswordHasher, address: str) -> None:
        self._queue = queue
        self._hasher = hasher
        self._address = address

    async def hash(self, password: str) -> str:
        """Return the hash of *password* in its prepared form, to be stored.

        Raises:
            TooManyLogins: The place was given to another address.
        """
        return await self._queue.run(self._address, self._hasher.hash, prepared_password(password))

    async def verify(self, stored: str | None, password: str) -> str | None:
        """Check *password* against the *stored* hash.

        If *stored* is None, another hash is verified, so that the response time does not reveal
        which accounts exist. A password that is entered in another form than the prepared one is
        then tried as entered, because older hashes are of that: two hashes, for every account.

        Returns:
            The hash to store instead, if the cost parameters have been raised or it is not of the
            prepared form; else None.

        Raises:
            WrongPassword: It does not match.
            TooManyLogins: The place was given to another address.
        """
        usable = stored if stored is not None and _is_sane(stored) else None
        prepared = prepared_password(password)
        matches = await self._is_of(usable, prepared)
        is_older_form = not matches and prepared != password
        if is_older_form:
            matches = await self._is_of(usable, password)
        if usable is None or not matches:
            raise WrongPassword
        if is_older_form or self._hasher.check_needs_rehash(usable):
            return await self.hash(password)
        return None

    async def _is_of(self, stored: str | None, password: str) -> bool:
        return await self._queue.run(self._address, self._matches, stored or _decoy(), password)

    def _matches(self, stored: str, password: str) -> bool:
        try:
            return self._hasher.verify(stored, password)
        except (VerificationError, InvalidHashError, UnicodeEncodeError):
            return False


@cache
def _decoy() -> str:
    """Return a hash of no known password; verifying it costs as much as any other."""
    salt, digest = (_base64(os.urandom(size)) for size in (SALT_BYTES, HASH_BYTES))
    return (
        f"$argon2id$v={ARGON2_VERSION}$m={MEMORY_KIB},t={TIME_COST},p={PARALLELISM}${salt}${digest}"
    )


def _base64(value: bytes) -> str:
    return base64.b64encode(value).decode().rstrip("=")


def _is_sane(stored: str) -> bool:
    if len(stored) > STORED_CHARS_MAX:
        return False
    try:
        parameters = extract_parameters(stored)
    except InvalidHashError:
        return False
    return (
        parameters.memory_cost <= MEMORY_KIB_MAX
        and parameters.time_cost <= TIME_COST_MAX
        and parameters.parallelism <= PARALLELISM_MAX
    )


def _is_simple(text: str) -> bool:
    """Return whether *text* repeats one or two characters, or is a sequence (NIST SP 800-63B)."""
    steps = {ord(after) - ord(before) for before, after in pairwise(text)}
    return len(set(text)) < CHARACTERS_MIN or steps in ({1}, {-1})


def _read_common() -> frozenset[str]:
    """Return the most common passwords, which one module of zxcvbn has.

    Only that module is executed, and not kept: with its other lists, the package takes 10 MB.
    """
    package = find_spec("zxcvbn")
    assert package is not None
    assert package.origin is not None
    path = Path(package.origin).with_name("frequency_lists.py")
    lists: list[str] = run_path(str(path))["FREQUENCY_LISTS"]["passwords"]
    return frozenset(lists[:COMMON_PASSWORDS])


_COMMON = _read_common()


def _lower_priority() -> None:
    # On Linux, niceness is a property of a thread.
    os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), NICENESS)
