"""Tenants of a run that wait because their server is away, and the servers they wait for."""

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

import msgspec
import sqlalchemy as sa

from tenantry.catalog import workers
from tenantry.catalog.runs import MigrationRun, RunTenant
from tenantry.catalog.session import CatalogSession
from tenantry.catalog.tables import tenant_migration
from tenantry.catalog.workers import NO_WORKER
from tenantry.db.statements import Statement
from tenantry.db.types import Texts, is_listed


class Returned(msgspec.Struct, frozen=True):
    """A tenant that its worker returns to the queue.

    Attributes:
        may_have_started: Whether something may have been applied. Then the next worker reads the
            tenant's own log.
    """

    item: RunTenant
    may_have_started: bool


class AwayServer(msgspec.Struct, frozen=True):
    """A server that tenants of a run wait for.

    Attributes:
        since: When a worker first did not reach it, by the clock of the catalog's database.
    """

    server: str
    since: datetime


class _Name(msgspec.Struct, frozen=True):
    server_name: str


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
_NEEDED = Statement(
    sa.select(_item.server_name)
    .where(
        _item.run_id == sa.bindparam("run"),
        _is_open,
        is_listed(_item.server_name, sa.bindparam("names", type_=Texts)),
    )
    .distinct(),
    _Name,
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


async def away_servers(session: CatalogSession, run: MigrationRun) -> list[AwayServer]:
    """Return the servers that tenants of a run wait for, by name."""
    if run.finished_at is not None:
        return []
    since_ms: dict[str, int] = {}
    for process in await workers.published(session):
        for name, ms in process.away_since_ms.items():
            since_ms[name] = min(ms, since_ms.get(name, ms))
    if not since_ms:
        return []
    needed = await session.fetch_all(_NEEDED, run=run.id, names=sorted(since_ms))
    names = sorted(one.server_name for one in needed)
    return [AwayServer(name, datetime.fromtimestamp(since_ms[name] / 1000, UTC)) for name in names]
