"""Claims: the parts of runs that this process holds, taken a few or many at a time."""

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
from tenantry.kit.clock import monotonic_seconds, utc_now

# A claim is a transaction, so quick tenants are claimed many at a time: as many as this
# process gets through in a moment. Others cannot have them meanwhile.
CLAIM_MIN = 8
CLAIM_MAX = 256
CLAIM_SECONDS = 0.25
POLL_SECONDS = 0.5

_log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Claimed:
    """A part that this process holds.

    Attributes:
        was_held: Whether it was somebody's, who may have started it.
    """

    part: TenantMigration
    run: ActiveRun
    was_held: bool


class Claims:
    """Claims parts for this process.

    Args:
        catalog: Holds the runs.
        runner: This process.
        active_runs: How it takes part in them.
        closed: Told what was ended without having been claimed.

    Attributes:
        held_count: The parts that were claimed, and neither written down nor given up.
        is_stopping: Whether no more are to be claimed.
    """

    def __init__(
        self,
        catalog: Catalog,
        heartbeat: Heartbeat,
        active_runs: ActiveRuns,
        *,
        closed: Callable[[Recorded], None],
    ) -> None:
        self._catalog = catalog
        self._heartbeat = heartbeat
        self._runs = active_runs
        self._closed = closed
        self._size = CLAIM_MIN
        # Nothing is claimed while more than a quarter of a claim is left: that is its bound.
        self._queue: asyncio.Queue[Claimed] = asyncio.Queue()
        self._few_left = asyncio.Event()
        self._hinted = asyncio.Event()
        # A claim was sent, and nobody heard what came of it.
        self._is_unheard = False
        self.held_count = 0
        self.is_stopping = False

    async def next(self) -> Claimed:
        """Return a part to begin with."""
        claimed = await self._queue.get()
        if self._queue.qsize() <= self._size // 4:
            self._few_left.set()
        return claimed

    def hint(self) -> None:
        """Say that there may be something to claim, so that it is looked for at once."""
        self._hinted.set()

    async def work(self) -> None:
        """Claim what there is, for ever."""
        while True:
            self._hinted.clear()
            size, began = self._size, monotonic_seconds()
            claimed = await self._claim(size)
            if not claimed:
                await self._rest()
                continue
            self.held_count += len(claimed)
            self._few_left.clear()
            for one in claimed:
                self._queue.put_nowait(one)
            await self._few_left.wait()
            if len(claimed) == size:
                self._resize(monotonic_seconds() - began)

    def forget(self) -> None:
        """Hold nothing any more; the catalog hears of it before the next claim."""
        self._queue = asyncio.Queue()
        self.held_count = 0
        self._is_unheard = True

    async def release(self) -> None:
        """Let others have what this process holds and has not started, if they can be told."""
        with contextlib.suppress(DatabaseUnavailable):
            await parts.release(self._catalog, self._heartbeat.worker_id)

    async def close(self, run_id: UUID) -> None:
        """End what nobody has ever claimed of a stopped run.

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
        if self.is_stopping:
            return []
        try:
            await self._release_unheard()
            for run in await runs.unfinished(self._catalog):
                claimed = await self._claim_of(run, limit)
                if claimed:
                    return claimed
        except DatabaseUnavailable:
            _log.warning("catalog unavailable, claiming later")
        except Exception:  # noqa: BLE001 - it must not end what this process has begun
            _log.exception("nothing claimed, claiming later")
        return []

    async def _release_unheard(self) -> None:
        """Let go of what this process may have claimed without hearing so, or has lost.

        It lives, so nobody else would ever take that over. As long as it holds something that
        it knows of, the two cannot be told apart.
        """
        if self._is_unheard and self.held_count == 0:
            await parts.abandon(self._catalog, self._heartbeat.worker_id)
            self._is_unheard = False

    async def _claim_of(self, run: UnfinishedRun, limit: int) -> list[Claimed]:
        if run.stop_reason is not None:
            await self.close(run.id)
        active = await self._runs.of(run)
        if active is None:
            return []
        was_unheard, self._is_unheard = self._is_unheard, True
        runner_id = self._heartbeat.worker_id
        found = await parts.claim(self._catalog, run.id, runner_id, limit=limit)
        was_held = not found
        if was_held:
            found = await parts.claim_abandoned(self._catalog, run.id, runner_id, limit=limit)
        self._is_unheard = was_unheard
        return [Claimed(part, active, was_held=was_held) for part in found]
