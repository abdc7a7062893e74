"""The tenants of one server that this process has claimed and not started."""

from uuid import UUID

from tenantry.fleet.run_queue import Item, RunQueue
from tenantry.kit.clock import monotonic_seconds

# A claim is a transaction, so tenants that migrate fast are claimed in large batches: as many as
# this process migrates in `CLAIM_SECONDS`. Other processes cannot claim them in that time.
CLAIM_MIN = 8
CLAIM_MAX = 256
CLAIM_SECONDS = 0.25


class ServerQueue(RunQueue[Item]):
    """A queue of the tenants of one server, which adapts the size of claims to its speed.

    It has at most a claim and a quarter, and `CLAIM_MIN` more of each other unfinished run.

    Attributes:
        size: How many tenants the next claim is of.
        last_run: The run of the last claim; the next claim is of another one, if possible.
    """

    def __init__(self) -> None:
        super().__init__()
        self.size = CLAIM_MIN
        self.last_run = UUID(int=0)
        # When the last claim of full size began.
        self._began_at: float | None = None

    @property
    def is_short(self) -> bool:
        """Whether it is time for the next claim."""
        return len(self) <= self.size // 4

    def resize(self) -> None:
        """Set the size of the next claim, by the time since the last one of full size."""
        if self._began_at is None:
            return
        quick = monotonic_seconds() - self._began_at < CLAIM_SECONDS
        self.size = min(self.size * 2, CLAIM_MAX) if quick else max(self.size // 2, CLAIM_MIN)

    def claimed(self, count: int, began_at: float) -> None:
        """Note that a claim, begun at *began_at*, was of *count* tenants."""
        self._began_at = began_at if count == self.size else None
