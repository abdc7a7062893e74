"""Which databases of the tenant servers this catalog knows, and which it could not remove yet."""

import msgspec
import sqlalchemy as sa

from tenantry.catalog.job_states import JobState
from tenantry.catalog.jobs import is_open
from tenantry.catalog.session import CatalogSession, Value, fetch_value, fetch_values
from tenantry.catalog.tables import job, tenant
from tenantry.catalog.tenants import TenantState, is_ready
from tenantry.catalog.workers import living
from tenantry.db.paging import LIMIT
from tenantry.db.statements import Statement


class Unfinished(msgspec.Struct, frozen=True):
    """A database that no living process creates or removes, and that is to be removed."""

    server_name: str
    database_name: str


_server = sa.bindparam("server", type_=sa.String)
# A job names its databases until they are dropped.
_KNOWN = Statement(
    sa.union_all(
        sa.select(tenant.c.database_name.label("value")),
        sa.select(job.c.database_name).where(job.c.database_name.is_not(None)),
        sa.select(job.c.source_database_name).where(job.c.source_database_name.is_not(None)),
    ),
    Value,
)
_UNFINISHED = Statement(
    sa.select(tenant.c.server_name, tenant.c.database_name)
    .where(
        ~is_ready,
        tenant.c.state != TenantState.DELETED.value,
        sa.or_(tenant.c.worker_id.is_(None), ~tenant.c.worker_id.in_(living)),
    )
    .order_by(tenant.c.id)
    .limit(LIMIT),
    Unfinished,
)
# Those of other tenants and ended jobs are removed, or were never whole.
_name = sa.bindparam("name", type_=sa.String)
_OWNER_STATE = Statement(
    sa.union_all(
        sa.select(tenant.c.state.label("value")).where(
            tenant.c.server_name == _server,
            tenant.c.database_name == _name,
            sa.or_(is_ready, tenant.c.state == TenantState.DELETED.value),
        ),
        sa.select(job.c.state).where(
            job.c.server_name == _server,
            job.c.database_name == _name,
            sa.or_(is_open, job.c.state == JobState.KEPT.value),
        ),
    ),
    Value,
)


async def names(session: CatalogSession) -> set[str]:
    """Return the names of the databases that a tenant in any state, or a job, has, on any server.

    The settings can give one server two names, and a name can be left out of them.
    """
    return set(await fetch_values(session, _KNOWN))


async def owner_state(session: CatalogSession, server_name: str, name: str) -> str | None:
    """Return the state of the ready or deleted tenant, or the open or kept job, of a database."""
    state: str | None = await fetch_value(session, _OWNER_STATE, server=server_name, name=name)
    return state


async def unfinished(session: CatalogSession, *, limit: int) -> list[Unfinished]:
    """Return up to *limit* databases of interrupted creations and removals of tenants."""
    return await session.fetch_all(_UNFINISHED, limit=limit)
