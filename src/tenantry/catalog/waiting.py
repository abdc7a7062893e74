"""The tenants of a run that wait: by server, and those that go back to the queue."""

from collections.abc import Sequence
from typing import Any
from uuid import UUID

import msgspec
import sqlalchemy as sa

from tenantry.catalog.jobs import is_moving
from tenantry.catalog.runs import RunTenant, is_open, is_pending, of_run
from tenantry.catalog.session import CatalogSession
from tenantry.catalog.tables import tenant, tenant_migration
from tenantry.catalog.workers import NO_WORKER
from tenantry.db.statements import Statement
from tenantry.db.types import Ids, is_listed


class Returned(msgspec.Struct, frozen=True):
    """A tenant that its worker returns to the queue.

    Attributes:
        may_have_started: Whether something may have been applied. Then the next worker reads the
            tenant's own log.
    """

    item: RunTenant
    may_have_started: bool


class _ServerName(msgspec.Struct, frozen=True):
    server_name: str


_item = tenant_migration.c
_RETURN = Statement[Any](
    sa.update(tenant_migration)
    .values(worker_id=sa.bindparam("holder", type_=sa.Uuid))
    .where(
        of_run,
        _item.tenant_id == sa.bindparam("tenant"),
        _item.worker_id == sa.bindparam("worker", type_=sa.Uuid),
        is_open,
    )
)


_FIND_ELSEWHERE = Statement(
    sa.select(_item.server_name).where(
        of_run,
        _item.tenant_id == sa.bindparam("tenant"),
        sa.or_(
            _item.server_name != sa.bindparam("server_name"),
            _item.database_name != sa.bindparam("database_name"),
            is_moving(_item.tenant_id),
        ),
    ),
    _ServerName,
)


_is_same_tenant = tenant.c.id == _item.tenant_id
_FOLLOW = Statement[Any](
    sa.update(tenant_migration)
    .values(
        server_name=sa.select(tenant.c.server_name).where(_is_same_tenant).scalar_subquery(),
        database_name=sa.select(tenant.c.database_name).where(_is_same_tenant).scalar_subquery(),
        worker_id=NO_WORKER,
    )
    .where(
        of_run,
        is_listed(_item.tenant_id, sa.bindparam("tenant_ids", type_=Ids)),
        _item.worker_id == sa.bindparam("worker", type_=sa.Uuid),
        is_open,
    )
)


def _pending_servers() -> Statement[_ServerName]:
    """Return the statement that finds the servers of pending items, with a probe for each."""
    least = sa.select(sa.func.min(_item.server_name)).where(of_run, is_pending)
    found = least.cte("found", recursive=True)
    name = found.c[0]
    following = least.where(_item.server_name > name).scalar_subquery()
    found = found.union_all(sa.select(following).where(name.is_not(None)))
    name = found.c[0].label("server_name")
    return Statement(sa.select(name).where(name.is_not(None)), _ServerName)


_PENDING_SERVERS = _pending_servers()


async def give_back(session: CatalogSession, returned: Sequence[Returned], worker_id: UUID) -> None:
    """Let any worker claim what *worker_id* returns, as far as it still holds it."""
    rows = [
        {
            "run": one.item.run_id,
            "tenant": one.item.tenant_id,
            "worker": worker_id,
            "holder": NO_WORKER if one.may_have_started else None,
        }
        for one in returned
    ]
    await session.execute_many(_RETURN, rows)


async def follow(
    session: CatalogSession, run_id: UUID, tenant_ids: Sequence[UUID], worker_id: UUID
) -> None:
    """Give items of *worker_id* the current places of their tenants, and let any worker claim them.

    A tenant was moved while it was planned: neither transaction saw the other's rows. The next
    worker reads the tenant's own log.
    """
    await session.execute(_FOLLOW, run=run_id, tenant_ids=tenant_ids, worker=worker_id)


async def is_elsewhere(session: CatalogSession, item: RunTenant) -> bool:
    """Return whether a tenant was moved since *item* was claimed, or is being moved."""
    found = await session.fetch_one(
        _FIND_ELSEWHERE,
        run=item.run_id,
        tenant=item.tenant_id,
        server_name=item.server_name,
        database_name=item.database_name,
    )
    return found is not None


async def pending_servers(session: CatalogSession, run_id: UUID) -> list[str]:
    """Return the servers of the items that may start and have not ended, by name."""
    return [one.server_name for one in await session.fetch_all(_PENDING_SERVERS, run=run_id)]
