"""Deleted tenants: the row and the database are kept for some days, so that an admin can undelete.

A deleted tenant is in the state `deleted`: invisible, with all of its credentials rejected. It
has no worker, and nothing cleans it up before it is purged. Its name is free for another tenant.
"""

from datetime import datetime
from uuid import UUID

import sqlalchemy as sa

from tenantry.catalog import tenant_counts
from tenantry.catalog.database import CatalogChange
from tenantry.catalog.session import CatalogSession, fetch_or_raise
from tenantry.catalog.tables import tenant
from tenantry.catalog.tenants import Tenant, TenantState, by_id, is_ready, updating
from tenantry.db.paging import LIMIT, OFFSET
from tenantry.db.statements import Statement, columns_of
from tenantry.kit.errors import NotFound
from tenantry.kit.pages import Page, Window
from tenantry.kit.text import canonical


class DeletedTenantNotFound(NotFound):
    """There is no such deleted tenant: it was purged, or never deleted."""


_is_deleted = tenant.c.state == TenantState.DELETED.value
_deleted = sa.select(*columns_of(tenant, Tenant)).where(_is_deleted)
_name = sa.bindparam("name", type_=sa.String)

_ADD = updating(
    by_id,
    is_ready,
    ~tenant.c.is_active,
    state=TenantState.DELETED.value,
    # A unique value: the name becomes available.
    canonical_name=sa.cast(tenant.c.id, sa.String),
    deleted_at=sa.bindparam("now", type_=tenant.c.deleted_at.type),
)
_FIND = Statement(_deleted.where(by_id), Tenant)
_NAMED = Statement(_deleted.where(tenant.c.name == _name).order_by(tenant.c.id).limit(2), Tenant)
_RESTORE = updating(
    by_id,
    _is_deleted,
    state=TenantState.READY.value,
    name=_name,
    canonical_name=sa.bindparam("canonical_name"),
    deleted_at=None,
)
_PAGE = Statement(
    _deleted.where(tenant.c.deleted_at.is_not(None))  # as its index
    .order_by(tenant.c.deleted_at.desc(), tenant.c.id)
    .limit(LIMIT)
    .offset(OFFSET),
    Tenant,
)
_EXPIRED = Statement(
    _deleted.where(tenant.c.deleted_at <= sa.bindparam("before", type_=tenant.c.deleted_at.type))
    .order_by(tenant.c.deleted_at)
    .limit(LIMIT),
    Tenant,
)
_TAKE = updating(
    by_id, _is_deleted, state=TenantState.DELETING.value, worker_id=sa.bindparam("worker")
)


async def add(session: CatalogChange, tenant_id: UUID, *, now: datetime) -> Tenant | None:
    """Mark a suspended tenant as deleted; return None if it is active, or missing."""
    return await session.fetch_one(_ADD, tenant=tenant_id, now=now)


async def get(session: CatalogSession, tenant_id: UUID) -> Tenant:
    """Return a deleted tenant.

    Raises:
        DeletedTenantNotFound: There is none with this id.
    """
    return await fetch_or_raise(session, _FIND, DeletedTenantNotFound, tenant=tenant_id)


async def get_by_name(session: CatalogSession, name: str) -> Tenant:
    """Return the only deleted tenant with exactly this name.

    Raises:
        DeletedTenantNotFound: There is none, or there are several.
    """
    found = await session.fetch_all(_NAMED, name=name)
    if len(found) != 1:
        raise DeletedTenantNotFound
    return found[0]


async def page(session: CatalogSession, window: Window) -> Page[Tenant]:
    """Return some deleted tenants, the last deleted first."""
    items = await session.fetch_all(_PAGE, limit=window.size, offset=window.offset)
    total = await tenant_counts.total(session, state=TenantState.DELETED)
    return Page(items, window, total)


async def restore(session: CatalogChange, tenant_id: UUID, *, name: str) -> Tenant:
    """Make a deleted tenant visible again, suspended, under a name; return it.

    Raises:
        DeletedTenantNotFound: There is none with this id.
        TenantNameInUse: Another tenant has the name.
    """
    values = {"tenant": tenant_id, "name": name, "canonical_name": canonical(name)}
    return await fetch_or_raise(session, _RESTORE, DeletedTenantNotFound, **values)


async def expired(session: CatalogSession, *, before: datetime, limit: int) -> list[Tenant]:
    """Return up to *limit* tenants that were deleted at a time or before it, the oldest first."""
    return await session.fetch_all(_EXPIRED, before=before, limit=limit)


async def take(session: CatalogChange, tenant_id: UUID, *, worker_id: UUID) -> Tenant:
    """Take a deleted tenant to purge it: from now on it cannot be undeleted.

    Raises:
        DeletedTenantNotFound: There is none with this id.
    """
    values = {"tenant": tenant_id, "worker": worker_id}
    return await fetch_or_raise(session, _TAKE, DeletedTenantNotFound, **values)
