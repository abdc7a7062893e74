"""Limit the memory for the bodies of all current requests of one process.

A body is held while it arrives, and while its request waits for its turn. Each sender has a share,
so one that fills its own takes nothing from the others. Senders without a login have a pool of
their own, so however many they are, they take nothing from those with one.
"""

import msgspec

from tenantry.kit.errors import Unavailable

# 64 of the largest.
HELD_BYTES_MAX = 64 * 1_048_576
SENDER_BYTES_MAX = HELD_BYTES_MAX // 8
# Before a login a body has at most 65,536 bytes: this is 16 of the largest for each network.
STRANGERS_BYTES_MAX = 8 * 1_048_576
STRANGER_BYTES_MAX = STRANGERS_BYTES_MAX // 8
# Smaller bodies do not count, so no sender's large ones prevent a login. The number of connections
# limits them.
UNCOUNTED_BYTES = 4_096


class TooManyBodies(Unavailable):
    """The bodies of the current requests take too much memory; try again later."""


class BodyMemory:
    """A pool of memory: limits the bodies of all its senders, and those of each."""

    def __init__(
        self, bytes_max: int = HELD_BYTES_MAX, sender_bytes_max: int = SENDER_BYTES_MAX
    ) -> None:
        self._left = bytes_max
        self._sender_bytes_max = sender_bytes_max
        self._of_senders: dict[object, int] = {}

    def take(self, sender: object, size: int) -> None:
        """Take *size* bytes for *sender*.

        Raises:
            TooManyBodies: So much is not left, and nothing was taken.
        """
        held = self._of_senders.get(sender, 0) + size
        if size > self._left or held > self._sender_bytes_max:
            raise TooManyBodies
        self._left -= size
        self._of_senders[sender] = held

    def give_back(self, sender: object, size: int) -> None:
        """Give back *size* bytes of *sender*."""
        self._left += size
        self._of_senders[sender] -= size
        if not self._of_senders[sender]:
            del self._of_senders[sender]


class BodyReservation(msgspec.Struct):
    """What the body of one request takes of a pool, until the request ends.

    Attributes:
        pool: The pool.
        sender: Whose share of it is taken.
        taken: Bytes of the pool.
    """

    pool: BodyMemory
    sender: object
    taken: int = 0

    def grow(self, arrived: int) -> None:
        """Count the body when *arrived* bytes of it are there: more than `UNCOUNTED_BYTES`.

        Raises:
            TooManyBodies: There is no memory for them.
        """
        self.pool.take(self.sender, arrived - self.taken)
        self.taken = arrived

    def release(self) -> None:
        """Give back what was taken."""
        if self.taken:
            self.pool.give_back(self.sender, self.taken)
            self.taken = 0
