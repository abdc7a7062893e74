"""End what was in progress in a catalog when it was backed up.

All of it has ended since, and its cleanup would drop databases: the one that a job was filling,
or that of a tenant in provisioning, can be that of a ready tenant by now. What a move had done to
its tenant is undone: its old database may still reject writes. Migration runs are stopped: an admin
may have cancelled them since.
"""

from datetime import datetime
from typing import Any

import sqlalchemy as sa

from tenantry.catalog.database import CatalogChange
from tenantry.catalog.job_states import JobState
from tenantry.catalog.jobs import is_dropping, is_open, is_running
from tenantry.catalog.run_tables import migration_run
from tenantry.catalog.runs import NOT_ATTEMPTED
from tenantry.catalog.tables import api_key, job, mcp_token, tenant
from tenantry.catalog.tenants import TenantState, is_ready
from tenantry.db.statements import Statement

RESTORED = "The catalog was restored from a backup that was made before the job ended."
RUN_STOPPED = f"{NOT_ATTEMPTED}the catalog was restored"

_now = sa.bindparam("now", type_=job.c.finished_at.type)
_is_deleted = tenant.c.state == TenantState.DELETED.value
_is_unsettled = sa.and_(~is_ready, ~_is_deleted)
_unsettled = sa.select(tenant.c.id).where(_is_unsettled)

_is_unfinished_move = sa.and_(
    job.c.kind == "move",
    job.c.source_database_name.is_not(None),
    sa.or_(is_running, sa.and_(is_dropping, job.c.error.is_not(None))),
)
_NO_DATABASE = {"server_name": None, "database_name": None, "worker_id": None}
# Any process undoes it, as it does for the jobs of dead processes.
_UNDO_MOVES = Statement[Any](
    sa.update(job)
    .values(state=JobState.DROPPING.value, error=RESTORED, **_NO_DATABASE)
    .where(_is_unfinished_move)
)
_END_JOBS = Statement[Any](
    sa.update(job)
    .values(state=JobState.FAILED.value, error=RESTORED, finished_at=_now, **_NO_DATABASE)
    .where(~_is_unfinished_move, sa.or_(job.c.state == JobState.QUEUED.value, is_open))
)
# The workers end the tenants that are left, as in any stopped run.
_STOP_RUNS = Statement[Any](
    sa.update(migration_run)
    .values(stop_reason=RUN_STOPPED)
    .where(migration_run.c.finished_at.is_(None), migration_run.c.stop_reason.is_(None))
)
_REMOVE_UNSETTLED = (
    Statement[Any](sa.delete(api_key).where(api_key.c.tenant_id.in_(_unsettled))),
    Statement[Any](sa.delete(mcp_token).where(mcp_token.c.tenant_id.in_(_unsettled))),
    Statement[Any](sa.delete(tenant).where(_is_unsettled)),
)
_KEEP_DELETED = Statement[Any](sa.update(tenant).values(deleted_at=_now).where(_is_deleted))


async def settle(session: CatalogChange, *, now: datetime) -> None:
    """End every job, and remove the tenants that were being created or removed; drop no database.

    Migration runs are stopped. Unfinished moves are left to any process, which undoes them.

    Deleted tenants are kept as if they were deleted now: one may have been undeleted since.
    """
    await session.execute(_END_JOBS, now=now)
    await session.execute(_UNDO_MOVES)
    await session.execute(_STOP_RUNS)
    for statement in _REMOVE_UNSETTLED:
        await session.execute(statement)
    await session.execute(_KEEP_DELETED, now=now)
