"""Migrate every tenant database: plan a run, and walk over what is planned.

No transaction spans two databases. A run is a plan in the catalog (one pending row per
tenant) and a walk over it, by this process and by every other; the version row in each
tenant database stays the truth, and the catalog is the history of what was tried.

In each process one task claims rows, a few tasks migrate what was claimed, and one task
writes the outcomes. A caller of migrate-all only waits, so that a run goes on when its
caller is gone.
"""

import asyncio
import contextlib
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from uuid import UUID

import msgspec
import structlog

from tenantry.catalog import audit, runs
from tenantry.catalog.database import Catalog
from tenantry.catalog.runs import (
    MigrationRun,
    MigrationState,
    Outcome,
    Recorded,
    TenantMigration,
    UnfinishedRun,
)
from tenantry.db.revisions import BadStream
from tenantry.db.scripts import Streams
from tenantry.db.sessions import DatabaseUnavailable
from tenantry.fleet.failures import explain
from tenantry.fleet.migrate import Migrated, SchemaMigrator, Scripts
from tenantry.fleet.runner import Runner
from tenantry.kit.clock import monotonic_seconds, utc_now
from tenantry.kit.context import OperationContext
from tenantry.kit.errors import Unavailable
from tenantry.kit.ids import new_id
from tenantry.kit.metrics import FAILED, SUCCESS, Metrics
from tenantry.tenant.databases import TenantDatabases

CLAIM_MAX = 8
OUTCOMES_WRITTEN_MAX = 64
POLL_SECONDS = 0.5
PLANS_REMEMBERED_MAX = 100
# How soon a run whose revisions this process does not know is looked at again, and after
# how long somebody has to say that nobody knows them.
FOREIGN_SECONDS = 5.0
ORPHANED_AFTER = timedelta(seconds=60)
UNWRITABLE = "What became of this tenant could not be written down; see the log."

_log = structlog.get_logger(__name__)


class RunGoesOn(Unavailable):
    """This process is stopping; the run goes on, and is in the migration history."""


class RevisionsUnknown(Unavailable):
    """Not attempted: no process that works knows the revisions of this run."""


@dataclass(frozen=True, slots=True)
class _Plan:
    """How this process takes part in a run.

    Attributes:
        scripts: Of the run.
        is_known: Whether they lead to where the run is to bring the tenants.
    """

    scripts: Scripts
    is_known: bool = True


class Fleet:
    """Migrates the tenants of a catalog, together with any other process.

    Args:
        catalog: Holds the runs.
        databases: Knows where tenants' databases are.
        migrator: Migrates one database.
        runner: This process.
        streams: Reads the revisions as they are now.
        metrics: Count what this process has ended.
        concurrency: How many tenants this process migrates at once.
    """

    def __init__(
        self,
        catalog: Catalog,
        databases: TenantDatabases,
        migrator: SchemaMigrator,
        runner: Runner,
        streams: Callable[[], Streams],
        *,
        metrics: Metrics,
        concurrency: int,
    ) -> None:
        self._catalog = catalog
        self._databases = databases
        self._migrator = migrator
        self._runner = runner
        self._streams = streams
        self._metrics = metrics
        self._concurrency = concurrency
        self._claimed: asyncio.Queue[tuple[TenantMigration, _Plan]] = asyncio.Queue(CLAIM_MAX)
        self._outcomes: asyncio.Queue[Outcome] = asyncio.Queue(OUTCOMES_WRITTEN_MAX)
        self._held = 0  # claimed, and neither written down nor left to others
        self._plans: OrderedDict[UUID, _Plan] = OrderedDict()
        self._foreign: OrderedDict[UUID, float] = OrderedDict()
        self._planned = asyncio.Event()
        self._written = asyncio.Event()
        self.is_stopping = False

    async def plan(self, ctx: OperationContext, *, triggered_by: str) -> UUID:
        """Record a run over the active tenants, before the first of them is touched."""
        run_id = new_id()
        scripts = Scripts(self._streams())
        try:
            head = str(await scripts.head())
        except BadStream:
            head = None  # then every tenant fails, and says so
        self._remember(run_id, _Plan(scripts))
        async with self._catalog.begin() as session:
            total = await runs.add(
                session, run_id, now=ctx.now, triggered_by=triggered_by, head=head
            )
            await audit.add(session, ctx, action="migration-run.start", target=str(run_id))
        if not total:
            self._metrics.count_run(SUCCESS)
        self._planned.set()
        return run_id

    async def wait(self, run_id: UUID) -> MigrationRun:
        """Return the run when it has ended, whoever ends it.

        Raises:
            RunGoesOn: This process is stopping, and the run has not ended.
        """
        while True:
            written = self._written
            run = await runs.get(self._catalog, run_id)
            if run.finished_at is not None:
                return run
            if self.is_stopping and self.is_idle:
                raise RunGoesOn
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(POLL_SECONDS):
                    await written.wait()

    @property
    def is_idle(self) -> bool:
        """Whether this process holds nothing that it has still to end."""
        return self._held == 0

    async def work(self) -> None:
        """Take part in every run, until cancelled."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._write_outcomes())
            for _ in range(self._concurrency):
                group.create_task(self._migrate_claimed())
            await self._claim()

    async def stop(self) -> None:
        """Claim no more, end the tenants in work, and let others have the rest."""
        self.is_stopping = True
        while not self.is_idle:  # noqa: ASYNC110 - several things at once, none of them an event
            await asyncio.sleep(POLL_SECONDS / 10)
        with contextlib.suppress(DatabaseUnavailable):
            await runs.release(self._catalog, self._runner.id)
        self._pulse()

    async def _claim(self) -> None:
        while True:
            self._planned.clear()
            claimed = await self._claim_some()
            self._held += len(claimed)
            for one in claimed:
                await self._claimed.put(one)
            if not claimed:
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(POLL_SECONDS):
                        await self._planned.wait()

    async def _claim_some(self) -> list[tuple[TenantMigration, _Plan]]:
        try:
            for run in [] if self.is_stopping else await runs.unfinished(self._catalog):
                plan = await self._plan_of(run)
                if plan is None:
                    continue
                runner_id = self._runner.id
                parts = await runs.claim(self._catalog, run.id, runner_id, limit=CLAIM_MAX)
                if parts:
                    return [(part, plan) for part in parts]
        except DatabaseUnavailable:
            _log.warning("catalog unavailable, claiming later")
        return []

    async def _plan_of(self, run: UnfinishedRun) -> _Plan | None:
        """Return how to take part in a run, or None if that is for others.

        An older release, or a process that is configured without the user's revisions,
        would find every tenant at its own head, and call that a success. What nobody has
        taken after a while is ended as failed, by whoever comes upon it.
        """
        if run.id in self._plans:
            return self._plans[run.id]
        if self._foreign.get(run.id, 0) > monotonic_seconds():
            return None
        scripts = Scripts(self._streams())
        is_known = run.head is None or await scripts.know(run.head)
        if is_known or utc_now() - run.started_at > ORPHANED_AFTER:
            return self._remember(run.id, _Plan(scripts, is_known))
        self._foreign[run.id] = monotonic_seconds() + FOREIGN_SECONDS
        if len(self._foreign) > PLANS_REMEMBERED_MAX:
            self._foreign.popitem(last=False)
        return None

    def _remember(self, run_id: UUID, plan: _Plan) -> _Plan:
        self._plans[run_id] = plan
        if len(self._plans) > PLANS_REMEMBERED_MAX:
            self._plans.popitem(last=False)
        return plan

    async def _migrate_claimed(self) -> None:
        while True:
            part, plan = await self._claimed.get()
            if self.is_stopping:
                self._held -= 1  # released by `stop`
            else:
                await self._outcomes.put(await self._migrate(part, plan))

    async def _migrate(self, part: TenantMigration, plan: _Plan) -> Outcome:
        started_at = utc_now()
        scripts = plan.scripts
        try:
            migrated = await self._attempt(part, plan)
        except Exception as error:  # noqa: BLE001 - one bad tenant must not stop the others
            return _failed(part, error, applied=[], started_at=started_at, position=None)
        applied = [scripts.streams.display(one) for one in migrated.applied]
        position = str(migrated.position)
        if migrated.error is not None:
            return _failed(
                part, migrated.error, applied=applied, started_at=started_at, position=position
            )
        return _succeeded(part, applied=applied, started_at=started_at, position=position)

    async def _attempt(self, part: TenantMigration, plan: _Plan) -> Migrated:
        if not plan.is_known:
            raise RevisionsUnknown
        url = self._databases.server(part.server_name).url(part.database_name)
        return await self._migrator.migrate(url, plan.scripts, run_id=part.run_id, now=utc_now)

    async def _write_outcomes(self) -> None:
        while True:
            outcomes = [await self._outcomes.get()]
            while len(outcomes) < OUTCOMES_WRITTEN_MAX and not self._outcomes.empty():
                outcomes.append(self._outcomes.get_nowait())
            await self._write(outcomes)
            self._held -= len(outcomes)
            self._pulse()

    async def _write(self, outcomes: list[Outcome]) -> None:
        while True:
            try:
                async with self._catalog.begin() as session:
                    recorded = await runs.record(session, outcomes, self._runner.id)
            except DatabaseUnavailable:
                _log.warning("catalog unavailable, writing later", outcomes=len(outcomes))
                await asyncio.sleep(POLL_SECONDS)
            except Exception:  # noqa: BLE001 - an outcome must not keep the others from being written
                _log.exception("outcomes not written", outcomes=len(outcomes))
                await self._write_apart(outcomes)
                return
            else:
                self._count(recorded)
                return

    def _count(self, recorded: Recorded) -> None:
        for state in recorded.tenants:
            self._metrics.count_tenant(SUCCESS if state == MigrationState.SUCCESS else FAILED)
        for run in recorded.runs:
            self._metrics.count_run(FAILED if run.failed_count else SUCCESS)

    async def _write_apart(self, outcomes: list[Outcome]) -> None:
        if len(outcomes) == 1:
            # What could not be written is replaced by what surely can.
            await asyncio.sleep(POLL_SECONDS)
            part = msgspec.structs.replace(outcomes[0].part, error=UNWRITABLE, applied="")
            outcomes = [Outcome(part, None)]
        for outcome in outcomes:
            await self._write([outcome])

    def _pulse(self) -> None:
        written, self._written = self._written, asyncio.Event()
        written.set()


def _succeeded(
    part: TenantMigration, *, applied: list[str], started_at: datetime, position: str
) -> Outcome:
    ended = msgspec.structs.replace(
        part,
        state=MigrationState.SUCCESS.value,
        applied=",".join(applied) or None,
        started_at=started_at,
        finished_at=utc_now(),
    )
    return Outcome(ended, position)


def _failed(
    part: TenantMigration,
    error: Exception,
    *,
    applied: list[str],
    started_at: datetime,
    position: str | None,
) -> Outcome:
    _log.info(
        "tenant failed",
        tenant=str(part.tenant_id),
        run=str(part.run_id),
        error=explain(error),
        exc_info=error,
    )
    ended = msgspec.structs.replace(
        part,
        state=MigrationState.FAILED.value,
        applied=",".join(applied),
        error=explain(error),
        started_at=started_at,
        finished_at=utc_now(),
    )
    return Outcome(ended, position)
