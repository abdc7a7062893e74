"""Tenants of a run that go back to the queue, because their server is away."""

from collections.abc import Sequence
from typing import Any
from uuid import UUID

import msgspec
import sqlalchemy as sa

from tenantry.catalog.runs import RunTenant
from tenantry.catalog.session import CatalogSession
from tenantry.catalog.tables import tenant_migration
from tenantry.catalog.workers import NO_WORKER
from tenantry.db.statements import Statement


class Returned(msgspec.Struct, frozen=True):
    """A tenant that its worker returns to the queue.

    Attributes:
        may_have_started: Whether something may have been applied. Then the next worker reads the
            tenant's own log.
    """

    item: RunTenant
    may_have_started: bool


_item = tenant_migration.c
_is_open = _item.finished_at.is_(None)
_RETURN = Statement[Any](
    sa.update(tenant_migration)
    .values(worker_id=sa.bindparam("holder", type_=sa.Uuid))
    .where(
        _item.run_id == sa.bindparam("run"),
        _item.tenant_id == sa.bindparam("tenant"),
        _item.worker_id == sa.bindparam("worker", type_=sa.Uuid),
        _is_open,
    )
)


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
