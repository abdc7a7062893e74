"""One simulated process: the product's worker, ledger and runner of jobs, on its own loop."""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Coroutine
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from uuid import UUID

from harness.simulate.clock import CLOCK
from harness.simulate.kinds import kinds_of
from harness.simulate.loop import Loop
from harness.simulate.store import HOOK, TARGET, Store, StoreCatalog
from harness.simulate.world import (
    SERVERS,
    World,
    WorldMigrator,
    WorldServer,
    as_migrator,
    as_server,
)
from tenantry.catalog.pace import PACE
from tenantry.fleet.approval import Rules
from tenantry.fleet.migration_runs import Fleet
from tenantry.fleet.worker import Worker
from tenantry.kit.context import OperationContext
from tenantry.kit.errors import TenantryError
from tenantry.kit.ids import new_id
from tenantry.kit.metrics import Metrics
from tenantry.migration.streams import Streams
from tenantry.tenant.databases import TenantDatabases
from tenantry.work import undoing
from tenantry.work.delivery import Deliveries
from tenantry.work.heartbeat import Heartbeat
from tenantry.work.ledger import Ledger
from tenantry.work.queue import Queue
from tenantry.work.worker import JobWorker

HOUSEKEEPING_SECONDS = 5.0
RESTART_SECONDS = 1.0
JOB_CONCURRENCY = 2
PATIENCE_SECONDS = 10.0
"""How long the tenants of a server that is away wait here."""


class Process:
    """A process that shares the catalog.

    Attributes:
        skew: How far its wall clock is ahead, in seconds.
        thawed_at: When it last continued after a stop.
        is_alive: Whether it was not killed, and has not ended.
    """

    def __init__(self, name: str, store: Store, world: World, streams: Streams) -> None:
        self.name = name
        self.skew = 0.0
        self.thawed_at = 0.0
        self.is_alive = True
        self.loop = Loop()
        self._tasks: list[asyncio.Task[None]] = []
        self._jobs_in_work: set[UUID] = set()
        self._streams, self._world = streams, world
        self.catalog = StoreCatalog(store, name)
        with self.loop.entered():
            self._build()
        self.run(self._work())

    def _build(self) -> None:
        world, metrics = self._world, Metrics()
        servers = {name: as_server(WorldServer(world, name, self.name)) for name in SERVERS}
        databases = TenantDatabases(servers)
        self._heartbeat = Heartbeat(self.catalog)
        self.worker = Worker(
            self.catalog,
            databases,
            as_migrator(WorldMigrator(world, self.name)),
            self._heartbeat,
            lambda: self._streams,
            metrics=metrics,
            concurrency=world.concurrency,
            patience_seconds=PATIENCE_SECONDS,
        )
        self.ledger = Ledger(catalog=self.catalog, databases=databases, heartbeat=self._heartbeat)
        self._kinds = kinds_of(self.ledger, world, self._jobs_in_work)
        self.jobs = JobWorker(
            self.ledger, self._kinds, concurrency=JOB_CONCURRENCY, scratch=Path("nowhere")
        )
        self.queue = Queue(ledger=self.ledger, kinds=self._kinds, hint=self.jobs.hint)
        self._deliveries = Deliveries(self.catalog, self._heartbeat, {TARGET: HOOK}, pace=PACE)
        self.fleet = Fleet(
            self.catalog,
            self.worker,
            SimpleNamespace(),  # type: ignore[arg-type]
            lambda: self._streams,
            metrics=metrics,
            rules=Rules(),
            has_check=True,
        )

    @property
    def worker_id(self) -> Any:
        """The id under which it holds work."""
        return self._heartbeat.worker_id

    @property
    def is_quiet(self) -> bool:
        """Whether it does nothing, also not for work that another process has ended."""
        held = self.ledger
        return self.worker.is_idle and not (held.busy or held.left or self._jobs_in_work)

    def context(self) -> OperationContext:
        """Return the context of an operation that begins now."""
        return OperationContext(
            request_id=str(new_id()), now=CLOCK.utc_now(), actor="operator", address="local"
        )

    def run(self, work: Coroutine[Any, Any, None]) -> "asyncio.Task[None]":
        """Run *work* in this process; an error of the product that callers expect is no failure."""

        async def expected() -> None:
            with contextlib.suppress(TenantryError):
                await work

        task = self.loop.create_task(expected())
        task.add_done_callback(self._check)
        return task

    def kill(self) -> None:
        """Kill it: none of its code runs again."""
        self.is_alive = False

    async def stop(self) -> None:
        """End it as a signal does: finish what has begun, release the rest."""
        await self.worker.stop()
        for task in self._tasks:
            task.cancel()
        for task in self._tasks:
            with contextlib.suppress(asyncio.CancelledError):
                await task
        await self._heartbeat.end()
        self.is_alive = False

    def _check(self, task: "asyncio.Task[None]") -> None:
        if not task.cancelled() and task.exception() is not None:
            self.loop.failures.append({"message": "an operation", "exception": task.exception()})

    async def _work(self) -> None:
        await self._patiently(self._heartbeat.beat)
        works: list[Callable[[], Awaitable[None]]] = [
            partial(self._heartbeat.keep_beating, self.worker.report),
            self.worker.work,
            self.jobs.work,
            self._deliveries.work,
            self._keep_house,
        ]
        self._tasks += [self.loop.create_task(self._keep(one)) for one in works]

    async def _patiently(self, work: Callable[[], Awaitable[None]]) -> None:
        while True:
            with contextlib.suppress(TenantryError):
                await work()
                return
            await asyncio.sleep(RESTART_SECONDS)

    async def _keep(self, work: Callable[[], Awaitable[None]]) -> None:
        while True:
            try:
                await work()
            except Exception as error:  # noqa: BLE001 - as the service does
                self.loop.failures.append({"message": "background work", "exception": error})
            await asyncio.sleep(RESTART_SECONDS)

    async def _keep_house(self) -> None:
        while True:
            with contextlib.suppress(TenantryError):
                await undoing.reap(self.ledger, self._kinds)
                await self.fleet.remove_unplanned()
            await asyncio.sleep(HOUSEKEEPING_SECONDS)
