"""What jobs leave: databases of dead processes' jobs, kept databases, and old rows."""

from datetime import datetime
from typing import Any
from uuid import UUID

import msgspec
import sqlalchemy as sa

from tenantry.catalog.jobs import Job, JobState, is_open, is_running, updating
from tenantry.catalog.session import CatalogSession
from tenantry.catalog.tables import job
from tenantry.catalog.workers import is_abandoned, living
from tenantry.db.statements import Statement

PRUNED_MAX = 1_000
"""Jobs that one call of `prune` removes."""
INTERRUPTED = (
    "The process ended before the job did, or did not reach the catalog for some seconds. "
    "What it had begun is removed."
)


class Left(msgspec.Struct, frozen=True):
    """Jobs that have left something.

    Attributes:
        abandoned: Unfinished ones of dead processes.
        kept: Those that keep the old database of a tenant.
    """

    abandoned: int
    kept: int


_worker = sa.bindparam("worker", type_=sa.Uuid)
_ABANDON = Statement[Any](
    sa.update(job)
    .values(worker_id=None)
    .where(job.c.id == sa.bindparam("job"), job.c.worker_id == sa.bindparam("worker"), is_open)
)
_TAKE_ABANDONED = updating(
    is_open,
    sa.or_(job.c.worker_id.is_(None), is_abandoned(job.c.worker_id, _worker)),
    worker_id=_worker,
    error=sa.case((is_running, INTERRUPTED), else_=job.c.error),
    state=JobState.DROPPING.value,
)
_is_kept = job.c.state == JobState.KEPT.value
_is_kept_of_tenant = sa.and_(_is_kept, job.c.tenant_id == sa.bindparam("tenant"))
_TAKE_KEPT = updating(_is_kept_of_tenant, worker_id=_worker, state=JobState.DROPPING.value)
_RELEASE_KEPT = Statement[Any](
    sa.update(job).values(state=JobState.DROPPING.value, worker_id=None).where(_is_kept_of_tenant)
)
_is_left = sa.and_(is_open, sa.or_(job.c.worker_id.is_(None), ~job.c.worker_id.in_(living)))
_LEFT = Statement(
    sa.select(
        sa.func.count(sa.case((_is_left, 1))).label("abandoned"),
        sa.func.count(sa.case((_is_kept, 1))).label("kept"),
    ),
    Left,
)
_PRUNE = Statement[Any](
    sa.delete(job).where(
        job.c.id.in_(
            sa.select(job.c.id)
            .where(
                # No other condition with an index: most jobs of 90 days have ended.
                job.c.finished_at < sa.bindparam("before", type_=job.c.finished_at.type),
                job.c.state != JobState.KEPT.value,
                job.c.state != JobState.DROPPING.value,
            )
            .limit(PRUNED_MAX)
        )
    )
)


async def abandon(session: CatalogSession, job_id: UUID, *, worker_id: UUID) -> None:
    """Release an unfinished job for cleanup by any process."""
    await session.execute(_ABANDON, job=job_id, worker=worker_id)


async def take_abandoned(session: CatalogSession, *, worker_id: UUID) -> list[Job]:
    """Claim the unfinished jobs of dead processes, for cleanup."""
    return await session.fetch_all(_TAKE_ABANDONED, worker=worker_id)


async def take_kept(session: CatalogSession, tenant_id: UUID, *, worker_id: UUID) -> list[Job]:
    """Claim the old databases of a tenant, to drop them."""
    return await session.fetch_all(_TAKE_KEPT, tenant=tenant_id, worker=worker_id)


async def release_kept(session: CatalogSession, tenant_id: UUID) -> None:
    """Let any process drop the old databases of a tenant that is removed for good."""
    await session.execute(_RELEASE_KEPT, tenant=tenant_id)


async def count_left(session: CatalogSession) -> Left:
    """Count the jobs that have left something."""
    found = await session.fetch_one(_LEFT)
    assert found is not None, "an aggregate has one row"
    return found


async def prune(session: CatalogSession, *, before: datetime) -> None:
    """Remove up to `PRUNED_MAX` jobs that have finished before a time, and keep no database."""
    await session.execute(_PRUNE, before=before)
