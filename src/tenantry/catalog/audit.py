"""The audit log: who changed what. It is only ever added to."""

from datetime import datetime
from typing import Any
from uuid import UUID

import msgspec
import sqlalchemy as sa

from tenantry.catalog.planes import CatalogSession
from tenantry.catalog.tables import audit_entry
from tenantry.db.statements import Count, Statement, columns_of
from tenantry.kit.context import OperationContext
from tenantry.kit.ids import new_id
from tenantry.kit.pages import Page, Window


class AuditEntry(msgspec.Struct, frozen=True):
    """One change."""

    id: UUID
    at: datetime
    actor: str
    action: str
    target: str
    request_id: str


_ADD = Statement[Any](sa.insert(audit_entry))
_PAGE = Statement(
    sa.select(*columns_of(audit_entry, AuditEntry))
    .order_by(audit_entry.c.id.desc())
    .limit(sa.bindparam("limit", type_=sa.BigInteger))
    .offset(sa.bindparam("offset", type_=sa.BigInteger)),
    AuditEntry,
)
_COUNT = Statement(sa.select(sa.func.count().label("count")).select_from(audit_entry), Count)


async def add(session: CatalogSession, ctx: OperationContext, *, action: str, target: str) -> None:
    """Add an entry, in the transaction of the change itself."""
    await session.execute(
        _ADD,
        id=new_id(),
        at=ctx.now,
        actor=ctx.actor,
        action=action,
        target=target,
        request_id=ctx.request_id,
    )


async def page(session: CatalogSession, window: Window) -> Page[AuditEntry]:
    """Return some entries, the newest first."""
    items = await session.fetch_all(_PAGE, limit=window.size, offset=window.offset)
    total = await session.fetch_one(_COUNT)
    return Page(items, window, total.count if total else 0)
