"""Migration runs: their options and results, as shown in the history.

A run has one item for each tenant. `catalog.plans` inserts them before the first tenant is
migrated; `catalog.run_tenants` claims and ends them.
"""

from collections.abc import AsyncIterator, Collection
from datetime import datetime
from enum import StrEnum
from typing import Any
from uuid import UUID

import msgspec
import sqlalchemy as sa

from tenantry.catalog.run_tables import migration_run, tenant_migration
from tenantry.catalog.session import CatalogSession, fetch_or_raise
from tenantry.db.paging import LIMIT, Listing
from tenantry.db.statements import Statement, columns_of
from tenantry.db.types import Ids, is_listed
from tenantry.kit.errors import NotFound, Unavailable
from tenantry.kit.pages import Page, Window

NOT_ATTEMPTED = "not attempted: "
"""The prefix of the error of a tenant that was not started; the reason follows."""
CANCELLED = f"{NOT_ATTEMPTED}run cancelled"
UNDO_OF = "undo of "
"""The prefix of the head of a run that undoes another one. An older release, which would upgrade
the tenants, does not know such a head, and leaves the run to other processes."""
UNFINISHED_MAX = 100
UNDOS_READ_MAX = 500
ENDED_READ_MAX = 500


class MigrationRunNotFound(NotFound):
    """There is no migration run with this id."""


class RunContinues(Unavailable):
    """This process is stopping. The run continues in other workers; see the migration history."""


class MigrationState(StrEnum):
    """The state of one tenant in a run."""

    WAITING = "Waiting"  # for its wave
    PENDING = "Pending"
    SUCCESS = "Success"
    FAILED = "Failed"


class RunState(StrEnum):
    """The state of a run. Before its end, all but `running` start no more tenants."""

    RUNNING = "running"
    HOLDING = "holding"  # until a person, or a check, continues it, or a process has its files
    STOPPING = "stopping"  # by its failure budget, or by its last wave
    CANCELLING = "cancelling"
    SUCCESS = "success"
    FAILED = "failed"
    STOPPED = "stopped"
    CANCELLED = "cancelled"


class MigrationRun(msgspec.Struct, frozen=True):
    """A migration run: one call to migrate active tenants to the head revision.

    Attributes:
        finished_at: When the last item ended; None before that.
        total_count: The number of tenants, fixed at the start.
        failed_count: The tenants that failed, or were not attempted.
        last_sequence: The sequence of the item that ended last; None before the first.
        head: The position that its tenants must reach; None if its planner could not read it.
        waves: The cumulative number of items up to each wave; None without waves.
        max_failures: The failure budget; None without a limit.
        stop_reason: Why no more items start; it is the error of those that have not started.
            None while items may start.
        retry_of: The earlier run of which it retries the failures; None for none.
        not_attempted_count: Tenants that were never started.
        plan_id: The stored plan that it runs; None without one.
        held_reason: Why no process works on it now, if none has its files.
        wave_details: For each of `waves`: a `waves.Wave`; None if no wave has any of it.
        wave_failed_max: How many tenants may have failed while the current wave goes on.
        holds: The numbers of the waves, from 1, after which it holds; None without holds.
        has_check: Whether the operator's check continues it after each wave, if it succeeds.
        holding_wave: The wave that has ended, while the run holds after it; else None.
        check_error: While it holds: why the check has failed; None if it has not.
        max_error_rate: It holds after a wave if more of the answers are errors: ``"1%"``.
        undoes: The run that it undoes; None if it upgrades. Its head is `UNDO_OF` and the head of
            that run.
        has_log: Whether the databases log what it applies. Only a run of attached ones may not.
    """

    id: UUID
    started_at: datetime
    triggered_by: str
    finished_at: datetime | None = None
    total_count: int = 0
    success_count: int = 0
    failed_count: int = 0
    last_sequence: int | None = None
    head: str | None = None
    label: str | None = None
    waves: list[int] | None = None
    max_failures: int | None = None
    stop_reason: str | None = None
    retry_of: UUID | None = None
    not_attempted_count: int = 0
    plan_id: UUID | None = None
    held_reason: str | None = None
    wave_details: list[dict[str, Any]] | None = None
    wave_failed_max: int | None = None
    holds: list[int] | None = None
    has_check: bool = False
    holding_wave: int | None = None
    check_error: str | None = None
    undoes: UUID | None = None
    max_error_rate: str | None = None
    has_log: bool = True

    @property
    def held_because(self) -> str | None:
        """Why it is holding; None if it is not, has ended, or is being stopped."""
        if self.finished_at is not None or self.stop_reason is not None:
            return None
        if self.holding_wave is None:
            return self.held_reason
        ended = f"Wave {self.holding_wave} of {len(self.waves or ())} has ended."
        if not self.is_left_to_person:
            return f"{ended} The check has not ended yet."
        return f"{ended} {self.check_error or 'Continue or cancel the run.'}"

    @property
    def is_left_to_person(self) -> bool:
        """Whether it holds after a wave, and no check may continue it."""
        return self.holding_wave is not None and not (self.is_checked and self.check_error is None)

    @property
    def is_checked(self) -> bool:
        """Whether a job continues it after each wave, unless a check fails."""
        return self.has_check or self.max_error_rate is not None

    @property
    def state(self) -> RunState:
        """The state of the run."""
        is_cancelled = self.stop_reason == CANCELLED
        if self.finished_at is None:
            if self.stop_reason is None:
                return RunState.RUNNING if self.held_because is None else RunState.HOLDING
            return RunState.CANCELLING if is_cancelled else RunState.STOPPING
        if self.stop_reason is not None:
            return RunState.CANCELLED if is_cancelled else RunState.STOPPED
        return RunState.FAILED if self.failed_count else RunState.SUCCESS

    def counts(self, item: "RunTenant") -> bool:
        """Return whether the counts include *item*, which may have ended after they were read."""
        return (item.sequence or 0) <= (self.last_sequence or 0)


class Progress(MigrationRun, frozen=True):
    """A run, and how far the workers have come with its waves.

    Attributes:
        unopened_count: Of the waves that have begun, how many items still wait; they are opened
            in batches.
    """

    unopened_count: int = 0

    @property
    def ended_count(self) -> int:
        """How many items have ended."""
        return self.success_count + self.failed_count

    @property
    def opened_count(self) -> int:
        """The number of items that may have started."""
        sizes = (size for size in self.waves or () if size > self.ended_count)
        return next(sizes, self.total_count)


class RunTenant(msgspec.Struct, frozen=True):
    """One tenant in a run.

    Attributes:
        applied: The applied revisions, separated by commas; None if nothing was pending, empty if
            the tenant failed and nothing was committed.
        sequence: Increases in the order in which the items of the run end; there are gaps. None
            before the end.
        cause: The failure group of its error; None for a success.
        planned_from: The revision at which the plan of the run found the tenant; None without a
            plan, or if that was unknown.
    """

    run_id: UUID
    tenant_id: UUID
    tenant_name: str
    database_name: str
    server_name: str
    state: str
    applied: str | None
    error: str | None
    started_at: datetime | None
    finished_at: datetime | None
    sequence: int | None = None
    cause: str | None = None
    planned_from: str | None = None

    @property
    def is_attempted(self) -> bool:
        """Whether the run has started the tenant, as far as is known."""
        return not (self.error or "").startswith(NOT_ATTEMPTED)


class Outcome(msgspec.Struct, frozen=True):
    """The outcome of one tenant.

    Attributes:
        schema_revision: Of its database, if that is known.
    """

    item: RunTenant
    schema_revision: str | None = None


class _Hashes(msgspec.Struct, frozen=True):
    revision_hashes: dict[str, str] | None


_run, _item = migration_run.c, tenant_migration.c
_RUN_COLUMNS = columns_of(migration_run, MigrationRun)
_ITEM_COLUMNS = columns_of(tenant_migration, RunTenant)
of_run = _item.run_id == sa.bindparam("run")
# Not as a parameter, which would match no partial index.
is_pending = _item.state == sa.literal_column(f"'{MigrationState.PENDING.value}'")
is_open = _item.finished_at.is_(None)
_FIND_ITEM = Statement(
    sa.select(*_ITEM_COLUMNS).where(of_run, _item.tenant_id == sa.bindparam("tenant")), RunTenant
)
_FIND = Statement(sa.select(*_RUN_COLUMNS).where(_run.id == sa.bindparam("run")), MigrationRun)
_HASHES = Statement(sa.select(_run.revision_hashes).where(_run.id == sa.bindparam("run")), _Hashes)
_is_planned = _run.planner_id.is_(None)
_is_finished = sa.bindparam("is_finished", type_=sa.Boolean)
_is_wanted = sa.or_(_is_finished.is_(None), _run.finished_at.is_not(None) == _is_finished)
_LISTING = Listing(
    sa.select(*_RUN_COLUMNS).where(_is_planned, _is_wanted).order_by(_run.id.desc()), MigrationRun
)
_UNDOS = Statement(
    sa.select(*_RUN_COLUMNS)
    .where(_is_planned, is_listed(_run.undoes, sa.bindparam("run_ids", type_=Ids)))
    .order_by(_run.id.desc())
    .limit(LIMIT),
    MigrationRun,
)
_UNFINISHED = Statement(
    sa.select(*columns_of(migration_run, Progress))
    .where(_is_planned, _run.finished_at.is_(None))
    .order_by(_run.id)
    .limit(UNFINISHED_MAX),
    Progress,
)


def _ended_as(state: object) -> sa.Select[Any]:
    """Return the query of items in a final state, in the order of an index."""
    return (
        sa.select(*_ITEM_COLUMNS)
        .where(of_run, _item.state == state, _item.tenant_id > sa.bindparam("after"))
        .order_by(_item.tenant_id)
        .limit(LIMIT)
    )


def _ended() -> sa.Select[Any]:
    """Return the query of the ended items; those that have not ended are not read."""
    each = [
        _ended_as(one.value).subquery() for one in (MigrationState.SUCCESS, MigrationState.FAILED)
    ]
    found = sa.union_all(*(sa.select(one) for one in each)).subquery()
    return sa.select(found).order_by(found.c.tenant_id).limit(LIMIT)


_ENDED_SOME = Statement(_ended(), RunTenant)
_ENDED_AS = Statement(_ended_as(sa.bindparam("state")), RunTenant)
_ENDED_AFTER = Statement(
    sa.select(*_ITEM_COLUMNS)
    .where(of_run, ~is_open, _item.sequence > sa.bindparam("number"))
    .order_by(_item.sequence)
    .limit(LIMIT),
    RunTenant,
)


async def get(session: CatalogSession, run_id: UUID) -> MigrationRun:
    """Return the run.

    Raises:
        MigrationRunNotFound: No run has this id.
    """
    return await fetch_or_raise(session, _FIND, MigrationRunNotFound, run=run_id)


async def revision_hashes(session: CatalogSession, run_id: UUID) -> dict[str, str] | None:
    """Return the hash of each revision with which a run began, by its name.

    None if it has a plan or no holds, or an earlier release began it.
    """
    found = await session.fetch_one(_HASHES, run=run_id)
    return None if found is None else found.revision_hashes


async def find_item(session: CatalogSession, run_id: UUID, tenant_id: UUID) -> RunTenant | None:
    """Return the item of a tenant in a run, if there is one."""
    return await session.fetch_one(_FIND_ITEM, run=run_id, tenant=tenant_id)


async def page(
    session: CatalogSession, window: Window, *, is_finished: bool | None = None
) -> Page[MigrationRun]:
    """Return some runs, the newest first: all, or only those that have ended, or have not."""
    return await _LISTING.page(session, window, is_finished=is_finished)


async def undos(session: CatalogSession, run_ids: Collection[UUID]) -> list[MigrationRun]:
    """Return the newest `UNDOS_READ_MAX` runs that undo one of *run_ids*, the newest first."""
    return await session.fetch_all(_UNDOS, run_ids=list(run_ids), limit=UNDOS_READ_MAX)


async def unfinished(session: CatalogSession) -> list[Progress]:
    """Return the runs that have not ended, the oldest first."""
    return await session.fetch_all(_UNFINISHED)


async def ended_batch(
    session: CatalogSession,
    run_id: UUID,
    *,
    after: UUID | None = None,
    limit: int = ENDED_READ_MAX,
    state: MigrationState | None = None,
) -> list[RunTenant]:
    """Return a batch of the ended items of a run, in the order of the tenants' creation.

    It follows the item of the tenant *after*. Fewer than *limit* items are the last batch. With a
    *state*, it has only items in this state: `SUCCESS` or `FAILED`.
    """
    values: dict[str, object] = {"run": run_id, "after": after or UUID(int=0), "limit": limit}
    if state is None:
        return await session.fetch_all(_ENDED_SOME, **values)
    return await session.fetch_all(_ENDED_AS, state=state.value, **values)


async def each_ended(
    session: CatalogSession,
    run_id: UUID,
    *,
    limit: int = ENDED_READ_MAX,
    state: MigrationState | None = None,
) -> AsyncIterator[list[RunTenant]]:
    """Yield all ended items of a run, in batches of up to *limit*; see `ended_batch`."""
    after: UUID | None = None
    while items := await ended_batch(session, run_id, after=after, limit=limit, state=state):
        yield items
        after = items[-1].tenant_id


async def ended(session: CatalogSession, run_id: UUID) -> list[RunTenant]:
    """Return the ended items of a run, in the order of the tenants' creation."""
    return [item async for items in each_ended(session, run_id) for item in items]


async def ended_after(
    session: CatalogSession, run_id: UUID, sequence: int, *, limit: int = ENDED_READ_MAX
) -> list[RunTenant]:
    """Return the items of a run that ended after the one with this *sequence*, in that order.

    0 returns all items. A reader that continues with the sequence of the last item misses none,
    because a smaller sequence is never written later.
    """
    return await session.fetch_all(_ENDED_AFTER, run=run_id, number=sequence, limit=limit)
