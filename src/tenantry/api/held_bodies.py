"""Limit the memory for the bodies of all current requests of one process.

A body is held while it arrives, and while its request waits for its turn. Each sender has a share,
so one that fills its own takes nothing from the others.
"""

from tenantry.kit.errors import Unavailable

# 64 of the largest.
HELD_BYTES_MAX = 64 * 1_048_576
SENDER_BYTES_MAX = HELD_BYTES_MAX // 8
# Smaller bodies do not count, so no sender's large ones prevent a login. The number of connections
# limits them.
UNCOUNTED_BYTES = 4_096


class TooManyBodies(Unavailable):
    """The bodies of the current requests take too much memory; try again later."""


class HeldBodies:
    """Limits the memory for the bodies of all current requests, and for those of each sender."""

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


class HeldBody:
    """What the body of one request takes of `HeldBodies`, until the request ends.

    Attributes:
        sender: Whose share it takes; set before the body is read.
    """

    __slots__ = ("_all", "_arrived", "_taken", "sender")

    def __init__(self, all_bodies: HeldBodies) -> None:
        self.sender: object = None
        self._all = all_bodies
        self._arrived = 0
        self._taken = 0

    def grow(self, size: int) -> None:
        """Count *size* bytes that have arrived.

        Raises:
            TooManyBodies: There is no memory for them.
        """
        self._arrived += size
        if self._arrived > UNCOUNTED_BYTES:
            self._all.take(self.sender, self._arrived - self._taken)
            self._taken = self._arrived

    def release(self) -> None:
        """Give back what was taken."""
        if self._taken:
            self._all.give_back(self.sender, self._taken)
            self._taken = 0
