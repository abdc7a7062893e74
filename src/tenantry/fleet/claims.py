"""Claim tenants of runs in the catalog, in batches, and queue them for this process.

There is a queue for each tenant server, so a slow server delays no tenant of another one.
Unfinished runs take turns, both in claims and in starts. A run with nothing queued for a server
gets a few tenants queued immediately, independent of the queues of other runs.
"""

import asyncio
import contextlib
from collections.abc import Callable, Collection
from dataclasses import dataclass
from functools import partial
from uuid import UUID

import structlog

from tenantry.catalog import holds, outbox, run_claims, run_tenants, workers
from tenantry.catalog.database import Catalog
from tenantry.catalog.pace import Pace
from tenantry.catalog.run_tenants import Recorded
from tenantry.catalog.runs import UNFINISHED_MAX, Progress, RunTenant
from tenantry.db.sessions import DatabaseUnavailable
from tenantry.fleet.active_runs import ActiveRun, ActiveRuns
from tenantry.fleet.in_flight import InFlight
from tenantry.fleet.outages import Outages
from tenantry.fleet.server_queue import CLAIM_MIN, ServerQueue
from tenantry.kit.clock import monotonic_seconds, utc_now
from tenantry.migration.errors import explain
from tenantry.work.heartbeat import Heartbeat

POLL_SECONDS = 0.5
# How long the tenants of a server that is not configured here are left to other processes, which
# need one heartbeat to publish that they work on the run.
UNKNOWN_SERVER_SECONDS = workers.SILENCE_MS / 1000
OTHER = ""
"""The queue of the tenants whose server no process that works on the run has: they fail."""

_log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Claimed:
    """A tenant of a run that this process has claimed.

    Attributes:
        item: Its row in the catalog.
        run: The run.
        was_held: Whether another worker claimed it before, and may have started it.
        withheld: Why it must not be migrated: it is read-only, or was deleted.
        lapses: Those of the heartbeat when it was claimed.
    """

    item: RunTenant
    run: ActiveRun
    was_held: bool
    lapses: int
    withheld: str | None = None


class Claims:
    """Claims tenants for this process, and queues them.

    Args:
        active_runs: The runs that this process works on.
        outages: The servers that are away; their tenants are not claimed.
        in_flight: Counts the claimed tenants.
        closed: Called with tenants that were ended without a claim.
        pace: How many items one transaction opens, or ends.

    Attributes:
        unknown_servers: The servers of pending tenants that are not configured here.
    """

    def __init__(
        self,
        catalog: Catalog,
        heartbeat: Heartbeat,
        active_runs: ActiveRuns,
        outages: Outages,
        in_flight: InFlight,
        *,
        server_names: Collection[str],
        closed: Callable[[Recorded], None],
        pace: Pace,
    ) -> None:
        self._catalog = catalog
        self._heartbeat = heartbeat
        self._runs = active_runs
        self._outages = outages
        self._in_flight = in_flight
        self._closed = closed
        self._pace = pace
        self._queues: dict[str, ServerQueue[Claimed]] = {
            name: ServerQueue() for name in (*server_names, OTHER)
        }
        self.unknown_servers: frozenset[str] = frozenset()
        self._hinted = asyncio.Event()
        # Whether the catalog may have rows claimed by this process that it does not have in flight.
        self._is_unconfirmed = False
        # Whether this process may hold rows that another worker has started.
        self._has_taken_over = False

    async def next(self, server_name: str) -> Claimed:
        """Return the next claimed tenant of a server, or of `OTHER`: of another run if possible."""
        queue = self._queues[server_name]
        claimed = await queue.get()
        if len(queue) == queue.size // 4:
            self.hint()
        return claimed

    def hint(self) -> None:
        """Poll the catalog immediately: there may be something to claim."""
        self._hinted.set()

    async def work(self) -> None:
        """Claim tenants, until cancelled.

        It begins after `POLL_SECONDS`, or with the first hint: a command that is refused at once
        works on no run.
        """
        await self._rest()
        while True:
            self._hinted.clear()
            count = await self._claim()
            if not count or not any(queue.is_short for queue in self._queues.values()):
                await self._rest()

    def reset(self) -> None:
        """Drop the queues. Before the next claim, the claimed rows are abandoned in the catalog."""
        self._queues = {name: ServerQueue() for name in self._queues}
        self._is_unconfirmed = True

    async def release(self) -> None:
        """Release the tenants that are claimed and not started, if the catalog is reachable.

        If another worker may have started one, all are abandoned: the next worker reads their logs.
        """
        may_have_started = self._is_unconfirmed or self._has_taken_over
        with contextlib.suppress(DatabaseUnavailable):
            await run_claims.give_up(
                self._catalog, self._heartbeat.worker_id, may_have_started=may_have_started
            )

    async def close(self, run_id: UUID) -> bool:
        """End some tenants of a stopped run that no process has ever claimed; soon some more.

        Returns:
            Whether there may be more.

        Raises:
            DatabaseUnavailable: Some tenants may not have been ended.
        """
        catalog, limit, now = self._catalog, self._pace.closed_max, utc_now()
        async with catalog.begin() as session:
            recorded = await run_tenants.close_batch(session, run_id, now=now, limit=limit)
            await outbox.add(session, catalog.subscribed, recorded.notices, now=now)
        self._closed(recorded)
        has_more = len(recorded.states) == limit
        if has_more:
            self.hint()
        return has_more

    async def _open(self, run_id: UUID) -> None:
        """Open some more tenants of a wave; soon some more."""
        async with self._catalog.begin() as session:
            await run_tenants.open_batch(session, run_id, limit=self._pace.opened_max)
        await asyncio.sleep(self._pace.pause_seconds)
        self.hint()

    def _queue_of(self, server_name: str) -> ServerQueue[Claimed]:
        return self._queues[server_name if server_name in self._queues else OTHER]

    async def _rest(self) -> None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(POLL_SECONDS):
                await self._hinted.wait()

    async def _claim(self) -> int:
        """Claim tenants of the servers with short queues; return how many."""
        count = 0
        if self._in_flight.is_stopping:
            return count
        try:
            await self._abandon_unconfirmed()
            read_at = monotonic_seconds()
            unfinished = await holds.workable(self._catalog, limit=UNFINISHED_MAX)
            pending = await self._pending_by_server(unfinished, read_at)
            if pending:
                await self._heartbeat.renew()
            for server_name, runs_of in pending.items():
                count += await self._claim_on(server_name, runs_of)
            if unfinished and not count and self._in_flight.is_idle:
                self._is_unconfirmed = True
        except DatabaseUnavailable as error:
            self._runs.catalog_lost()
            _log.warning("catalog unavailable, claiming later", cause=explain(error))
        except Exception:  # noqa: BLE001 - an error here must not stop started migrations
            _log.exception("nothing claimed, claiming later")
        return count

    async def _pending_by_server(
        self, unfinished: list[Progress], read_at: float
    ) -> dict[str, list[tuple[Progress, ActiveRun]]]:
        """Return the runs that have pending tenants on each server that is not away."""
        found: dict[str, list[tuple[Progress, ActiveRun]]] = {}
        unknown: set[str] = set()
        for run in unfinished:
            if run.stop_reason is not None:
                await self.close(run.id)
                await asyncio.sleep(self._pace.pause_seconds)
            elif run.unopened_count:
                await self._open(run.id)
            active = await self._runs.of(run, self._catalog, read_at=read_at)
            if active is None:
                continue
            names = await run_claims.pending_servers(self._catalog, run.id)
            unknown.update(name for name in names if name not in self._queues)
            left_out = await self._servers_left_out(run, active, unknown.intersection(names))
            for name in names:
                if name not in left_out:
                    found.setdefault(name, []).append((run, active))
        self.unknown_servers = frozenset(unknown)
        return found

    async def _claim_on(self, server_name: str, runs_of: list[tuple[Progress, ActiveRun]]) -> int:
        """Claim tenants of a server: of the next run, in turn; or a few of each new run."""
        queue = self._queue_of(server_name)
        if not queue.is_short:
            queued = queue.runs
            new = [one for one in runs_of if one[0].id not in queued]
            return sum([await self._claim_of(*one, server_name, CLAIM_MIN) for one in new])
        queue.resize()
        size, began = queue.size, monotonic_seconds()
        count = 0
        # The runs after the last one come first.
        for run, active in sorted(runs_of, key=lambda one: one[0].id <= queue.last_run):
            count = await self._claim_of(run, active, server_name, size)
            if count:
                break
        queue.claimed(count, began)
        return count

    async def _abandon_unconfirmed(self) -> None:
        """Abandon rows that the catalog assigns to this process and it does not have in flight.

        Such rows remain after a claim without a response, after `reset`, and after a failover to a
        standby without the last outcomes. No other process takes them over, because this process
        still has a heartbeat. They are abandoned only when nothing is in flight, because they
        cannot be distinguished from rows in flight.
        """
        if self._is_unconfirmed and self._in_flight.is_idle:
            await run_claims.give_up(
                self._catalog, self._heartbeat.worker_id, may_have_started=True
            )
            self._is_unconfirmed = False

    async def _claim_of(
        self, run: Progress, active: ActiveRun, server_name: str, limit: int
    ) -> int:
        was_unconfirmed, self._is_unconfirmed = self._is_unconfirmed, True
        holder, lapses = self._heartbeat.worker_id, self._heartbeat.lapses
        on_server = partial(
            run_claims.claim,
            server_name=server_name,
            limit=limit,
            busy=self._in_flight.tenants_of(run.id),
        )
        for was_held in (False, True):
            found = await on_server(self._catalog, run.id, holder, were_held=was_held)
            if found:
                break
        self._has_taken_over |= was_held and bool(found)
        # After the claim: if a tenant is made read-only and has no claim then, none of its
        # migrations starts later.
        ids = [item.tenant_id for item in found]
        withheld = await run_claims.withheld(self._catalog, run.id, ids) if found else {}
        moved = [one for one, reason in withheld.items() if reason is run_claims.MOVED]
        if moved:
            await run_claims.follow(self._catalog, run.id, moved, holder)
            found = [item for item in found if item.tenant_id not in moved]
        self._is_unconfirmed = was_unconfirmed
        queue = self._queue_of(server_name)
        if found:
            queue.last_run = run.id
        self._in_flight.claimed(found)
        for item in found:
            reason = withheld.get(item.tenant_id)
            claimed = Claimed(item, active, was_held=was_held, lapses=lapses, withheld=reason)
            queue.put(run.id, claimed)
        return len(found)

    async def _servers_left_out(
        self, run: Progress, active: ActiveRun, unknown: set[str]
    ) -> Collection[str]:
        """Return the servers of which no tenants are claimed.

        Tenants of a server that this process has given up are claimed, and fail, unless another
        process that works on the run reaches the server; those of a server that is *unknown* here,
        unless another process knows it, which decides.
        """
        away = self._outages.seconds_away.keys() | unknown
        given_up = {name for name in away if self._outages.is_given_up(name)}
        if monotonic_seconds() - active.since >= UNKNOWN_SERVER_SECONDS:
            given_up |= unknown
        if run.stop_reason is not None:
            return []  # they are not attempted
        if not given_up:
            return away
        others = [
            one
            for one in await workers.published(self._catalog)
            if one.knows(run.id) and one.id != self._heartbeat.worker_id
        ]
        failing = {
            name
            for name in given_up
            if all(name in (one.unknown if name in unknown else one.unreachable) for one in others)
        }
        return away - {
            name
            for name in failing
            if name in unknown or not await self._outages.has_returned(name)
        }
