"""Give a tenant another database, by a compare-and-swap on the old one."""

from typing import Any
from uuid import UUID

import sqlalchemy as sa

from tenantry.catalog.database import CatalogChange
from tenantry.catalog.run_tables import migration_run, tenant_migration
from tenantry.catalog.runs import is_pending
from tenantry.catalog.tables import tenant as table
from tenantry.catalog.tenants import Tenant, TenantState, by_id, is_ready, updating
from tenantry.catalog.waves import is_waiting
from tenantry.db.statements import Statement

_new_place: dict[str, sa.BindParameter[str]] = {
    "server_name": sa.bindparam("server"),
    "database_name": sa.bindparam("database"),
}


def _swap(condition: sa.ColumnElement[bool], **values: object) -> Statement[Tenant]:
    """Return the statement that changes a ready tenant, if it still has its old database."""
    return updating(
        by_id,
        is_ready,
        condition,
        table.c.server_name == sa.bindparam("old_server"),
        table.c.database_name == sa.bindparam("old_database"),
        **values,
    )


_SUSPEND = _swap(table.c.is_active, is_active=False)
_FREEZE = _swap(~table.c.is_read_only, is_read_only=True)
_UNFREEZE = updating(
    by_id,
    sa.or_(is_ready, table.c.state == TenantState.DELETED.value),
    table.c.is_read_only,
    is_read_only=False,
)
_RELOCATE = _swap(
    table.c.is_read_only,
    **_new_place,
    is_read_only=sa.bindparam("is_read_only", type_=sa.Boolean),
    drifted_at=None,
    drift=None,
)
_MOVE = _swap(
    ~table.c.is_active,
    **_new_place,
    schema_revision=sa.bindparam("revision"),
    is_active=sa.bindparam("is_active", type_=sa.Boolean),
    # The failed attempt, and the drift, were of the old database.
    failing_run_id=None,
    drifted_at=None,
    drift=None,
)

# In a run, an item has its own copy of the place.
_REDIRECT = Statement[Any](
    sa.update(tenant_migration)
    .values(_new_place)
    .where(
        tenant_migration.c.tenant_id == sa.bindparam("tenant"),
        tenant_migration.c.run_id.in_(
            sa.select(migration_run.c.id).where(migration_run.c.finished_at.is_(None))
        ),
        sa.or_(is_pending, is_waiting),
    )
)


async def suspend(session: CatalogChange, tenant: Tenant) -> Tenant | None:
    """Suspend an active tenant.

    Returns:
        None if it is suspended or missing, or no longer has the database in *tenant*.
    """
    return await _change(session, _SUSPEND, tenant)


async def freeze(session: CatalogChange, tenant: Tenant) -> Tenant | None:
    """Make a writable tenant read-only.

    Returns:
        None if it is read-only or missing, or no longer has the database in *tenant*.
    """
    return await _change(session, _FREEZE, tenant)


async def unfreeze(session: CatalogChange, tenant_id: UUID) -> Tenant | None:
    """Undo `freeze`, also of a tenant that was deleted since; return None if it is writable."""
    return await session.fetch_one(_UNFREEZE, tenant=tenant_id)


async def relocate(
    session: CatalogChange,
    tenant: Tenant,
    *,
    server_name: str,
    database_name: str,
    is_read_only: bool,
) -> Tenant | None:
    """Give a read-only tenant, and its items in unfinished runs, a copy of its database.

    *is_read_only* is whether the tenant stays read-only.

    Returns:
        None if the tenant is writable or missing, or no longer has the database in *tenant*.
    """
    place = {"server": server_name, "database": database_name}
    return await _give(session, _RELOCATE, tenant, place, is_read_only=is_read_only)


async def move(
    session: CatalogChange,
    tenant: Tenant,
    *,
    server_name: str,
    database_name: str,
    revision: str,
    is_active: bool,
) -> Tenant | None:
    """Give a suspended tenant, and its items in unfinished runs, another database.

    The new database is at *revision*; *is_active* is whether the tenant becomes active.

    Returns:
        None if the tenant is active or missing, or no longer has the database in *tenant*.
    """
    place = {"server": server_name, "database": database_name}
    return await _give(session, _MOVE, tenant, place, revision=revision, is_active=is_active)


async def _give(
    session: CatalogChange,
    statement: Statement[Tenant],
    tenant: Tenant,
    place: dict[str, str],
    **values: object,
) -> Tenant | None:
    moved = await _change(session, statement, tenant, **place, **values)
    if moved is not None:
        await session.execute(_REDIRECT, tenant=tenant.id, **place)
    return moved


async def _change(
    session: CatalogChange, statement: Statement[Tenant], tenant: Tenant, **values: object
) -> Tenant | None:
    return await session.fetch_one(
        statement,
        tenant=tenant.id,
        old_server=tenant.server_name,
        old_database=tenant.database_name,
        **values,
    )
