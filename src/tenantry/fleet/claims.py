"""Claim tenants of runs in the catalog, in batches, and queue them for this process.

Unfinished runs take turns, both in claims and in starts. A run with nothing queued here gets a
few tenants queued immediately, independent of the queues of other runs.
"""

import asyncio
import contextlib
from collections.abc import Callable, Collection
from dataclasses import dataclass
from uuid import UUID

import structlog

from tenantry.catalog import plans, run_tenants, runs, workers
from tenantry.catalog.database import Catalog
from tenantry.catalog.run_tenants import CLOSE_MAX, Recorded
from tenantry.catalog.runs import RunTenant, UnfinishedRun
from tenantry.db.sessions import DatabaseUnavailable
from tenantry.fleet.active_runs import ActiveRun, ActiveRuns
from tenantry.fleet.heartbeat import Heartbeat
from tenantry.fleet.in_flight import InFlight
from tenantry.fleet.outages import Outages
from tenantry.fleet.run_queue import RunQueue
from tenantry.kit.clock import monotonic_seconds, utc_now

# A claim is a transaction, so tenants that migrate fast are claimed in large batches: as many as
# this process migrates in `CLAIM_SECONDS`. Other processes cannot claim them in that time.
CLAIM_MIN = 8
CLAIM_MAX = 256
CLAIM_SECONDS = 0.25
POLL_SECONDS = 0.5

_log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Claimed:
    """A tenant of a run that this process has claimed.

    Attributes:
        item: Its row in the catalog.
        run: The run.
        was_held: Whether another worker claimed it before, and may have started it.
        withheld: Why it must not be migrated: it is read-only, or was deleted.
    """

    item: RunTenant
    run: ActiveRun
    was_held: bool
    withheld: str | None = None


class Claims:
    """Claims tenants for this process, and queues them.

    Args:
        catalog: Holds the runs.
        heartbeat: Holds the id of this process.
        active_runs: The runs that this process works on.
        outages: The servers that are away; their tenants are not claimed.
        in_flight: Counts the claimed tenants.
        closed: Called with tenants that were ended without a claim.
    """

    def __init__(
        self,
        catalog: Catalog,
        heartbeat: Heartbeat,
        active_runs: ActiveRuns,
        outages: Outages,
        in_flight: InFlight,
        *,
        closed: Callable[[Recorded], None],
    ) -> None:
        self._catalog = catalog
        self._heartbeat = heartbeat
        self._runs = active_runs
        self._outages = outages
        self._in_flight = in_flight
        self._closed = closed
        self._size = CLAIM_MIN
        # At most a claim and a quarter, and `CLAIM_MIN` more of each other unfinished run.
        self._queue: RunQueue[Claimed] = RunQueue()
        self._hinted = asyncio.Event()
        self._last_run = UUID(int=0)
        # When the last claim of full size began.
        self._began_at: float | None = None
        # Whether the catalog may have rows claimed by this process that it does not have in flight.
        self._is_unconfirmed = False

    async def next(self) -> Claimed:
        """Return the next claimed tenant, of another run than the previous one if possible."""
        claimed = await self._queue.get()
        if len(self._queue) == self._size // 4:
            self.hint()
        return claimed

    def hint(self) -> None:
        """Poll the catalog immediately: there may be something to claim."""
        self._hinted.set()

    async def work(self) -> None:
        """Claim tenants, until cancelled."""
        while True:
            self._hinted.clear()
            is_short = len(self._queue) <= self._size // 4
            claimed = await (self._claim_next() if is_short else self._claim_of_new_runs())
            self._in_flight.claimed(len(claimed))
            for one in claimed:
                self._queue.put(one.run.run_id, one)
            if not claimed or len(self._queue) > self._size // 4:
                await self._rest()

    def reset(self) -> None:
        """Drop the queue. Before the next claim, the claimed rows are abandoned in the catalog."""
        self._queue = RunQueue()
        self._is_unconfirmed = True

    async def release(self) -> None:
        """Release the tenants that are claimed and not started, if the catalog is reachable."""
        with contextlib.suppress(DatabaseUnavailable):
            await run_tenants.release(self._catalog, self._heartbeat.worker_id)

    async def close(self, run_id: UUID) -> None:
        """End the tenants of a stopped run that no process has ever claimed.

        Raises:
            DatabaseUnavailable: Some tenants may not have been ended.
        """
        while True:
            async with self._catalog.begin() as session:
                recorded = await run_tenants.close_batch(session, run_id, now=utc_now())
            self._closed(recorded)
            if len(recorded.states) < CLOSE_MAX:
                return

    async def _rest(self) -> None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(POLL_SECONDS):
                await self._hinted.wait()

    async def _claim_next(self) -> list[Claimed]:
        """Claim tenants of the next run, in turn, that has pending ones."""
        self._resize()
        size, began = self._size, monotonic_seconds()
        claimed = await self._claim(size, lambda _: True, runs_max=1)
        self._began_at = began if len(claimed) == size else None
        return claimed

    async def _claim_of_new_runs(self) -> list[Claimed]:
        """Claim a few tenants of each run with nothing queued."""
        queued = self._queue.runs
        return await self._claim(CLAIM_MIN, lambda run: run.id not in queued)

    def _resize(self) -> None:
        if self._began_at is None:
            return
        quick = monotonic_seconds() - self._began_at < CLAIM_SECONDS
        self._size = min(self._size * 2, CLAIM_MAX) if quick else max(self._size // 2, CLAIM_MIN)

    async def _claim(
        self,
        limit: int,
        is_wanted: Callable[[UnfinishedRun], bool],
        *,
        runs_max: int = runs.UNFINISHED_MAX,
    ) -> list[Claimed]:
        """Claim up to *limit* tenants of each of up to *runs_max* runs."""
        claimed: list[Claimed] = []
        if self._in_flight.is_stopping:
            return claimed
        try:
            await self._abandon_unconfirmed()
            unfinished = await runs.unfinished(self._catalog)
            for run in self._in_turn(unfinished):
                found = await self._claim_of(run, limit) if is_wanted(run) else []
                claimed += found
                runs_max -= bool(found)
                if not runs_max:
                    break
            if unfinished and not claimed and self._in_flight.is_idle:
                self._is_unconfirmed = True
        except DatabaseUnavailable:
            self._runs.catalog_lost()
            _log.warning("catalog unavailable, claiming later")
        except Exception:  # noqa: BLE001 - an error here must not stop started migrations
            _log.exception("nothing claimed, claiming later")
        return claimed

    def _in_turn(self, unfinished: list[UnfinishedRun]) -> list[UnfinishedRun]:
        """Return the runs in turn, starting after the one of the last claim."""
        later = [run for run in unfinished if run.id > self._last_run]
        return later + [run for run in unfinished if run.id <= self._last_run]

    async def _abandon_unconfirmed(self) -> None:
        """Abandon rows that the catalog assigns to this process and it does not have in flight.

        Such rows remain after a claim without a response, after `reset`, and after a failover to a
        standby without the last outcomes. No other process takes them over, because this process
        still has a heartbeat. They are abandoned only when nothing is in flight, because they
        cannot be distinguished from rows in flight.
        """
        if self._is_unconfirmed and self._in_flight.is_idle:
            await run_tenants.abandon(self._catalog, self._heartbeat.worker_id)
            self._is_unconfirmed = False

    async def _claim_of(self, run: UnfinishedRun, limit: int) -> list[Claimed]:
        if run.stop_reason is not None:
            await self.close(run.id)
        active = await self._runs.of(run, self._catalog)
        if active is None:
            return []
        away = await self._servers_left_out(run)
        was_unconfirmed, self._is_unconfirmed = self._is_unconfirmed, True
        worker_id = self._heartbeat.worker_id
        found = await run_tenants.claim(self._catalog, run.id, worker_id, limit=limit, away=away)
        was_held = not found
        if was_held:
            found = await run_tenants.claim_abandoned(
                self._catalog, run.id, worker_id, limit=limit, away=away
            )
        # After the claim: if a tenant is made read-only and has no claim then, none of its
        # migrations starts later.
        ids = [item.tenant_id for item in found]
        withheld = await plans.withheld(self._catalog, ids) if found else {}
        self._is_unconfirmed = was_unconfirmed
        if found:
            self._last_run = run.id
        return [
            Claimed(item, active, was_held=was_held, withheld=withheld.get(item.tenant_id))
            for item in found
        ]

    async def _servers_left_out(self, run: UnfinishedRun) -> Collection[str]:
        """Return the servers of which no tenants are claimed.

        Tenants of a server that this process has given up are claimed, and fail, unless another
        process that works on the run reaches the server.
        """
        away = self._outages.seconds_away.keys()
        given_up = {name for name in away if self._outages.is_given_up(name)}
        if run.stop_reason is not None:
            return []  # they are not attempted
        if not given_up:
            return away
        others = [
            one.away_since_ms.keys()
            for one in await workers.published(self._catalog)
            if one.knows(run.id) and one.id != self._heartbeat.worker_id
        ]
        failing = {name for name in given_up if all(name in one for one in others)}
        return away - {name for name in failing if not await self._outages.has_returned(name)}
