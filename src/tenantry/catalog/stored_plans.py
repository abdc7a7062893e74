"""Stored plans: what a dry run or a rehearsal has found, to be run exactly so.

The tenants of a plan are added in batches, each in its own transaction. The plan is hidden until
it is complete. One that stays incomplete is removed, like one that has expired.
"""

from collections.abc import AsyncIterator, Sequence
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

import msgspec
import sqlalchemy as sa

from tenantry.catalog.pace import PACE
from tenantry.catalog.run_tables import migration_run, plan, plan_tenant
from tenantry.catalog.session import CatalogSession, RowId, fetch_or_raise
from tenantry.db.paging import LIMIT, Listing
from tenantry.db.statements import Statement, columns_of, parameters
from tenantry.kit.errors import Conflict, NotFound
from tenantry.kit.pages import Page, Window

TENANTS_READ_MAX = 5_000
CAUSES_MAX = 1_000
# A dry run every few minutes, of many tenants, would fill the catalog.
PLANS_KEPT_MAX = 200
# How long a process may take to add the tenants of a plan.
INCOMPLETE_MAX = timedelta(hours=1)


class PlanNotFound(NotFound):
    """There is no plan with this id; it may have expired. Make a new one with a dry run."""


class PlanUsed(Conflict):
    """A run was started with this plan before. Make a new plan with a dry run."""


class SlowTenant(msgspec.Struct, frozen=True):
    """A tenant with a long rehearsal.

    Attributes:
        duration_ms: How long its revisions were executed, with the waits for locks, in
            milliseconds.
    """

    tenant_id: UUID
    tenant_name: str
    duration_ms: int


class StoredPlan(msgspec.Struct, frozen=True):
    """A plan of a run.

    Attributes:
        expires_at: Until when a run can be started with it.
        actor: Who made it, as in the audit log.
        is_rehearsed: Whether its revisions were executed and rolled back.
        options: One record: the options of the run.
        label: The label of the run; None without one.
        head: The revision that its tenants reach.
        digest: A hash in hex of everything that a run with it depends on.
        files: The name and the hash of each file that its revisions consist of.
        revisions: The pending revisions, with the hash of their SQL; see `fleet.approval`.
        total_count: The number of tenants.
        pending_count: Of the tenants, how many have pending revisions and have not failed.
        passed_count: Of these, how many a rehearsal has passed.
        up_to_date_count: How many of the tenants are at the head.
        failed_count: How many of the tenants have an error.
        run_id: The run that was started with it; None before.
        slowest: The tenants with the longest rehearsals; see `slow_tenants`.
        estimated_ms: How long one process needs for the run by the durations of the rehearsal;
            None if that is not known.
    """

    id: UUID
    created_at: datetime
    expires_at: datetime
    actor: str
    is_rehearsed: bool
    options: list[dict[str, Any]]
    label: str | None
    head: str
    digest: str
    files: list[dict[str, Any]]
    revisions: list[dict[str, Any]]
    total_count: int
    pending_count: int
    passed_count: int
    up_to_date_count: int
    failed_count: int
    run_id: UUID | None = None
    slowest: list[dict[str, Any]] = msgspec.field(default_factory=list)
    estimated_ms: int | None = None

    @property
    def slow_tenants(self) -> list[SlowTenant]:
        """The tenants with the longest rehearsals, the slowest first; at most 10."""
        return msgspec.convert(self.slowest, list[SlowTenant])

    @property
    def hashes(self) -> dict[str, str]:
        """The hash of each file, by its name."""
        return {one["name"]: one["sha256"] for one in self.files}


class PlanTenant(msgspec.Struct, frozen=True):
    """What a plan has found at one tenant.

    Attributes:
        position: The revision of its database; None if it was unknown.
        pending: The pending revisions, separated by commas; None if nothing was pending, empty if
            that was unknown.
        error: Why that was unknown, or why its rehearsal failed or was not possible.
        cause: What its error has in common with those of other tenants.
        has_passed: Whether its pending revisions were rehearsed without an error.
        wave: As in `plans.Selected`.
        sort_key: As in `plans.Selected`.
    """

    tenant_id: UUID
    tenant_name: str
    position: str | None
    pending: str | None
    error: str | None
    cause: str | None
    has_passed: bool
    wave: int | None = None
    sort_key: str | None = None


class PlanCause(msgspec.Struct, frozen=True):
    """How many tenants of a plan have errors of one kind, and one of them.

    Attributes:
        cause: What their errors have in common.
        count: How many tenants have such an error.
        sample_tenant_id: One of them.
    """

    cause: str
    count: int
    sample_tenant_id: UUID


def sample_of(tenant_id: sa.ColumnElement[Any]) -> sa.Label[UUID]:
    """Return one of the tenants of a group, for `PlanCause`."""
    # PostgreSQL before 18 cannot compare UUIDs here.
    least = sa.func.min(sa.cast(tenant_id, sa.String))
    return sa.cast(least, sa.Uuid).label("sample_tenant_id")


_plan, _item = plan.c, plan_tenant.c
_id = sa.bindparam("plan", type_=sa.Uuid)
_COLUMNS = columns_of(plan, StoredPlan)
_ADD = Statement[Any](
    sa.insert(plan).values(is_complete=sa.false(), **parameters(*StoredPlan.__struct_fields__))
)
_ADD_TENANT = Statement[Any](
    sa.insert(plan_tenant).values(**parameters("plan_id", *PlanTenant.__struct_fields__))
)
_COMPLETE = Statement(
    sa.update(plan).values(is_complete=sa.true()).where(_plan.id == _id).returning(_plan.id), RowId
)
_FIND = Statement(sa.select(*_COLUMNS).where(_plan.id == _id, _plan.is_complete), StoredPlan)
_LISTING = Listing(
    sa.select(*_COLUMNS).where(_plan.is_complete).order_by(_plan.id.desc()), StoredPlan
)
_TENANTS = Statement(
    sa.select(*columns_of(plan_tenant, PlanTenant))
    .where(_item.plan_id == _id, _item.tenant_id > sa.bindparam("after", type_=sa.Uuid))
    .order_by(_item.tenant_id)
    .limit(LIMIT),
    PlanTenant,
)
_number = sa.func.count().label("count")
_CAUSES = Statement(
    sa.select(
        _item.cause,
        _number,
        sample_of(_item.tenant_id),
    )
    .where(_item.plan_id == _id, _item.cause.is_not(None))
    .group_by(_item.cause)
    .order_by(_number.desc(), _item.cause)
    .limit(CAUSES_MAX),
    PlanCause,
)
_TAKE = Statement(
    sa.update(plan)
    .values(run_id=sa.bindparam("run", type_=sa.Uuid))
    .where(_plan.id == _id, _plan.run_id.is_(None))
    .returning(_plan.id),
    RowId,
)
_newer = plan.alias()
_first_left_out = (
    sa.select(_newer.c.id)
    .order_by(_newer.c.id.desc())
    .limit(1)
    .offset(sa.bindparam("kept_max", type_=sa.BigInteger))
    .scalar_subquery()
)
# A worker reads the plan of its run until the run has ended.
_is_over = sa.and_(
    sa.or_(
        _plan.expires_at < sa.bindparam("now"),
        sa.and_(~_plan.is_complete, _plan.created_at < sa.bindparam("begun_before")),
        _plan.id <= _first_left_out,
    ),
    ~sa.exists().where(migration_run.c.plan_id == _plan.id, migration_run.c.finished_at.is_(None)),
)
_PRUNE_TENANTS = Statement(
    sa.delete(plan_tenant)
    .where(
        sa.tuple_(_item.plan_id, _item.tenant_id).in_(
            sa.select(_item.plan_id, _item.tenant_id)
            .join(plan, _plan.id == _item.plan_id)
            .where(_is_over)
            .limit(LIMIT)
        )
    )
    .returning(_item.tenant_id.label("id")),
    RowId,
)
_PRUNE = Statement[Any](
    sa.delete(plan).where(_is_over, ~sa.exists().where(_item.plan_id == _plan.id))
)


async def add(session: CatalogSession, stored: StoredPlan) -> None:
    """Insert a plan without tenants. It is hidden until `complete`."""
    await session.execute(_ADD, **msgspec.structs.asdict(stored))


async def add_tenants(session: CatalogSession, plan_id: UUID, some: Sequence[PlanTenant]) -> None:
    """Add tenants to a plan, in a transaction."""
    rows = [{"plan_id": plan_id, **msgspec.structs.asdict(one)} for one in some]
    await session.execute_many(_ADD_TENANT, rows)


async def complete(session: CatalogSession, plan_id: UUID) -> None:
    """Show a plan after its last `add_tenants`.

    Raises:
        PlanNotFound: It was removed, because it took longer than `INCOMPLETE_MAX`.
    """
    await fetch_or_raise(session, _COMPLETE, PlanNotFound, plan=plan_id)


async def get(session: CatalogSession, plan_id: UUID) -> StoredPlan:
    """Return a plan.

    Raises:
        PlanNotFound: There is none with this id.
    """
    return await fetch_or_raise(session, _FIND, PlanNotFound, plan=plan_id)


async def page(session: CatalogSession, window: Window) -> Page[StoredPlan]:
    """Return some plans, the newest first."""
    return await _LISTING.page(session, window)


async def each_tenant(session: CatalogSession, plan_id: UUID) -> AsyncIterator[PlanTenant]:
    """Yield the tenants of a plan, in the order of their creation."""
    after = UUID(int=0)
    while True:
        some = await session.fetch_all(_TENANTS, plan=plan_id, after=after, limit=TENANTS_READ_MAX)
        for one in some:
            yield one
        if len(some) < TENANTS_READ_MAX:
            return
        after = some[-1].tenant_id


async def causes(session: CatalogSession, plan_id: UUID) -> list[PlanCause]:
    """Return the causes of the errors in a plan, most frequent first, at most `CAUSES_MAX`."""
    return await session.fetch_all(_CAUSES, plan=plan_id)


async def take(session: CatalogSession, plan_id: UUID, run_id: UUID) -> None:
    """Let a run be the only one that is started with a plan.

    Raises:
        PlanUsed: Another run was started with it.
    """
    await fetch_or_raise(session, _TAKE, PlanUsed, plan=plan_id, run=run_id)


async def prune(
    session: CatalogSession,
    *,
    now: datetime,
    kept_max: int = PLANS_KEPT_MAX,
    limit: int = PACE.added_max,
) -> None:
    """Remove plans: expired and incomplete ones, and all but the newest *kept_max*.

    One call removes at most *limit* of their tenants.
    """
    values = {"now": now, "begun_before": now - INCOMPLETE_MAX, "kept_max": kept_max}
    removed = await session.fetch_all(_PRUNE_TENANTS, limit=limit, **values)
    if len(removed) < limit:
        await session.execute(_PRUNE, **values)
