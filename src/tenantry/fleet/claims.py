"""Claims: tenants of runs that this process takes in the catalog, a few or many at a time."""

import asyncio
import contextlib
from collections.abc import Callable
from dataclasses import dataclass
from uuid import UUID

import structlog

from tenantry.catalog import parts, runs
from tenantry.catalog.database import Catalog
from tenantry.catalog.parts import CLOSE_MAX, Recorded
from tenantry.catalog.runs import TenantMigration, UnfinishedRun
from tenantry.db.sessions import DatabaseUnavailable
from tenantry.fleet.active_runs import ActiveRun, ActiveRuns
from tenantry.fleet.heartbeat import Heartbeat
from tenantry.fleet.in_flight import InFlight
from tenantry.kit.clock import monotonic_seconds, utc_now

# A claim is a transaction, so quick tenants are claimed many at a time: as many as this
# process migrates in a moment. Other processes cannot claim them until then.
CLAIM_MIN = 8
CLAIM_MAX = 256
CLAIM_SECONDS = 0.25
POLL_SECONDS = 0.5

_log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Claimed:
    """A tenant of a run that this process has claimed.

    Attributes:
        part: Its row in the catalog.
        run: The run.
        was_held: Whether another worker claimed it before, and may have started it.
    """

    part: TenantMigration
    run: ActiveRun
    was_held: bool


class Claims:
    """Claims tenants for this process, and queues them.

    Args:
        catalog: Holds the runs.
        heartbeat: Holds the id of this process.
        active_runs: The runs that this process works on.
        in_flight: Counts what is claimed.
        closed: Called with what was ended without having been claimed.
    """

    def __init__(
        self,
        catalog: Catalog,
        heartbeat: Heartbeat,
        active_runs: ActiveRuns,
        in_flight: InFlight,
        *,
        closed: Callable[[Recorded], None],
    ) -> None:
        self._catalog = catalog
        self._heartbeat = heartbeat
        self._runs = active_runs
        self._in_flight = in_flight
        self._closed = closed
        self._size = CLAIM_MIN
        # Nothing is claimed while more than a quarter of a claim is left: that is its bound.
        self._queue: asyncio.Queue[Claimed] = asyncio.Queue()
        self._few_left = asyncio.Event()
        self._hinted = asyncio.Event()
        # A claim was sent and not answered: the catalog may have stored it.
        self._is_unconfirmed = False

    async def next(self) -> Claimed:
        """Return the next claimed tenant; wait until there is one."""
        claimed = await self._queue.get()
        if self._queue.qsize() <= self._size // 4:
            self._few_left.set()
        return claimed

    def hint(self) -> None:
        """Poll the catalog at once: there may be something to claim."""
        self._hinted.set()

    async def work(self) -> None:
        """Claim tenants, until cancelled."""
        while True:
            self._hinted.clear()
            size, began = self._size, monotonic_seconds()
            claimed = await self._claim(size)
            if not claimed:
                await self._rest()
                continue
            self._in_flight.claimed(len(claimed))
            self._few_left.clear()
            for one in claimed:
                self._queue.put_nowait(one)
            await self._few_left.wait()
            if len(claimed) == size:
                self._resize(monotonic_seconds() - began)

    def reset(self) -> None:
        """Drop the queue. The next claim first abandons in the catalog what was claimed."""
        self._queue = asyncio.Queue()
        self._is_unconfirmed = True

    async def release(self) -> None:
        """Release what is claimed and not started, if the catalog can be reached."""
        with contextlib.suppress(DatabaseUnavailable):
            await parts.release(self._catalog, self._heartbeat.worker_id)

    async def close(self, run_id: UUID) -> None:
        """End the tenants of a stopped run that no process has ever claimed.

        Raises:
            DatabaseUnavailable: Some of it may be left.
        """
        while True:
            async with self._catalog.begin() as session:
                recorded = await parts.close_some(session, run_id, now=utc_now())
            self._closed(recorded)
            if len(recorded.states) < CLOSE_MAX:
                return

    async def _rest(self) -> None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(POLL_SECONDS):
                await self._hinted.wait()

    def _resize(self, seconds: float) -> None:
        quick = seconds < CLAIM_SECONDS
        self._size = min(self._size * 2, CLAIM_MAX) if quick else max(self._size // 2, CLAIM_MIN)

    async def _claim(self, limit: int) -> list[Claimed]:
        if self._in_flight.is_stopping:
            return []
        try:
            await self._abandon_unconfirmed()
            for run in await runs.unfinished(self._catalog):
                claimed = await self._claim_of(run, limit)
                if claimed:
                    return claimed
        except DatabaseUnavailable:
            _log.warning("catalog unavailable, claiming later")
        except Exception:  # noqa: BLE001 - it must not end what this process has begun
            _log.exception("nothing claimed, claiming later")
        return []

    async def _abandon_unconfirmed(self) -> None:
        """Abandon what this process may have claimed without an answer, or has dropped.

        Its heartbeat goes on, so no other process would ever take these rows over. While
        anything is in flight, the rows of both kinds cannot be distinguished.
        """
        if self._is_unconfirmed and self._in_flight.is_idle:
            await parts.abandon(self._catalog, self._heartbeat.worker_id)
            self._is_unconfirmed = False

    async def _claim_of(self, run: UnfinishedRun, limit: int) -> list[Claimed]:
        if run.stop_reason is not None:
            await self.close(run.id)
        active = await self._runs.of(run)
        if active is None:
            return []
        was_unconfirmed, self._is_unconfirmed = self._is_unconfirmed, True
        runner_id = self._heartbeat.worker_id
        found = await parts.claim(self._catalog, run.id, runner_id, limit=limit)
        was_held = not found
        if was_held:
            found = await parts.claim_abandoned(self._catalog, run.id, runner_id, limit=limit)
        self._is_unconfirmed = was_unconfirmed
        return [Claimed(part, active, was_held=was_held) for part in found]
