"""What monitoring reads of the jobs: the length of the queue, and the last backup."""

from datetime import datetime

import msgspec
import sqlalchemy as sa

from tenantry.catalog.job_queue import BACKUP
from tenantry.catalog.jobs import JobState
from tenantry.catalog.session import CatalogSession
from tenantry.catalog.tables import job
from tenantry.db.statements import Statement


class Queue(msgspec.Struct, frozen=True):
    """The queued jobs, and when the oldest was queued."""

    count: int
    oldest_at: datetime | None


class _Ended(msgspec.Struct, frozen=True):
    finished_at: datetime


_QUEUE = Statement(
    sa.select(sa.func.count().label("count"), sa.func.min(job.c.started_at).label("oldest_at"))
    .select_from(job)
    .where(job.c.state == JobState.QUEUED.value),
    Queue,
)
# By the index of the time, from its end.
_LAST_BACKUP = Statement(
    sa.select(job.c.finished_at)
    .where(job.c.kind == BACKUP, job.c.state == JobState.DONE.value, job.c.finished_at.is_not(None))
    .order_by(job.c.finished_at.desc())
    .limit(1),
    _Ended,
)


async def queue(session: CatalogSession) -> Queue:
    """Return how many jobs wait, and since when."""
    found = await session.fetch_one(_QUEUE)
    assert found is not None
    return found


async def last_backup_at(session: CatalogSession) -> datetime | None:
    """Return when the newest backup of a tenant or of the catalog has ended, if one is listed."""
    found = await session.fetch_one(_LAST_BACKUP)
    return None if found is None else found.finished_at
