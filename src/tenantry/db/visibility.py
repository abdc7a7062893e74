"""Which transactions of a PostgreSQL server a snapshot contains."""

from dataclasses import dataclass
from typing import Self

# A transaction has 64 bits; most of the server's output has the lower half only.
_HALF = 2**32

CURRENT = "SELECT pg_current_snapshot()::text"


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A snapshot, as `pg_current_snapshot` returns it.

    Attributes:
        first_running: All earlier transactions had ended.
        next_id: This transaction, and all later ones, had not begun.
        running: Those between the two that had not ended.
    """

    first_running: int
    next_id: int
    running: frozenset[int]

    @classmethod
    def parse(cls, text: str) -> Self:
        """Return the snapshot with the text form *text*."""
        first, after, running = text.split(":")
        return cls(int(first), int(after), frozenset(int(one) for one in running.split(",") if one))

    def contains(self, xid: int) -> bool:
        """Return whether a transaction that was committed is visible in the snapshot.

        Args:
            xid: The lower 32 bits of its number; it is less than 2^31 transactions away.
        """
        distance = (xid - self.next_id + _HALF // 2) % _HALF - _HALF // 2
        full = self.next_id + distance
        return full < self.next_id and full not in self.running
