"""Give a tenant another database, by a compare-and-swap on the old one."""

from typing import Any
from uuid import UUID

import sqlalchemy as sa

from tenantry.catalog.database import CatalogChange
from tenantry.catalog.runs import MigrationState
from tenantry.catalog.tables import migration_run, tenant_migration
from tenantry.catalog.tables import tenant as table
from tenantry.catalog.tenants import Tenant, TenantState
from tenantry.db.statements import Statement, columns_of

_MOVE = Statement(
    sa.update(table)
    .values(
        server_name=sa.bindparam("server"),
        database_name=sa.bindparam("database"),
        schema_revision=sa.bindparam("revision"),
        is_active=sa.bindparam("is_active", type_=sa.Boolean),
        # The failed attempt, and the drift, were of the old database.
        failing_run_id=None,
        drifted_at=None,
        drift=None,
    )
    .where(
        table.c.id == sa.bindparam("tenant"),
        table.c.state == TenantState.READY.value,
        ~table.c.is_active,
        table.c.server_name == sa.bindparam("old_server"),
        table.c.database_name == sa.bindparam("old_database"),
    )
    .returning(*columns_of(table, Tenant)),
    Tenant,
)

_SUSPEND = Statement(
    sa.update(table)
    .values(is_active=False)
    .where(
        table.c.id == sa.bindparam("tenant"),
        table.c.state == TenantState.READY.value,
        table.c.is_active,
        table.c.server_name == sa.bindparam("old_server"),
        table.c.database_name == sa.bindparam("old_database"),
    )
    .returning(*columns_of(table, Tenant)),
    Tenant,
)
_FREEZE = Statement(
    sa.update(table)
    .values(is_read_only=True)
    .where(
        table.c.id == sa.bindparam("tenant"),
        table.c.state == TenantState.READY.value,
        ~table.c.is_read_only,
        table.c.server_name == sa.bindparam("old_server"),
        table.c.database_name == sa.bindparam("old_database"),
    )
    .returning(*columns_of(table, Tenant)),
    Tenant,
)
_UNFREEZE = Statement(
    sa.update(table)
    .values(is_read_only=False)
    .where(
        table.c.id == sa.bindparam("tenant"),
        sa.or_(
            table.c.state == TenantState.READY.value, table.c.state == TenantState.DELETED.value
        ),
        table.c.is_read_only,
    )
    .returning(*columns_of(table, Tenant)),
    Tenant,
)
_RELOCATE = Statement(
    sa.update(table)
    .values(
        server_name=sa.bindparam("server"),
        database_name=sa.bindparam("database"),
        is_read_only=sa.bindparam("is_read_only", type_=sa.Boolean),
        drifted_at=None,
        drift=None,
    )
    .where(
        table.c.id == sa.bindparam("tenant"),
        table.c.state == TenantState.READY.value,
        table.c.is_read_only,
        table.c.server_name == sa.bindparam("old_server"),
        table.c.database_name == sa.bindparam("old_database"),
    )
    .returning(*columns_of(table, Tenant)),
    Tenant,
)


# In a run, an item has its own copy of the place.
_REDIRECT = Statement[Any](
    sa.update(tenant_migration)
    .values(server_name=sa.bindparam("server"), database_name=sa.bindparam("database"))
    .where(
        tenant_migration.c.tenant_id == sa.bindparam("tenant"),
        tenant_migration.c.run_id.in_(
            sa.select(migration_run.c.id).where(migration_run.c.finished_at.is_(None))
        ),
        sa.or_(
            *(
                tenant_migration.c.state == state.value
                for state in (MigrationState.PENDING, MigrationState.WAITING)
            )
        ),
    )
)


async def suspend(session: CatalogChange, tenant: Tenant) -> Tenant | None:
    """Suspend an active tenant.

    Args:
        session: A change of the catalog.
        tenant: With its current database.

    Returns:
        None if it is suspended or missing, or no longer has the database in *tenant*.
    """
    return await session.fetch_one(
        _SUSPEND,
        tenant=tenant.id,
        old_server=tenant.server_name,
        old_database=tenant.database_name,
    )


async def freeze(session: CatalogChange, tenant: Tenant) -> Tenant | None:
    """Make a writable tenant read-only.

    Args:
        session: A change of the catalog.
        tenant: With its current database.

    Returns:
        None if it is read-only or missing, or no longer has the database in *tenant*.
    """
    return await session.fetch_one(
        _FREEZE,
        tenant=tenant.id,
        old_server=tenant.server_name,
        old_database=tenant.database_name,
    )


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

    Args:
        session: A change of the catalog.
        tenant: With its current database.
        server_name: The tenant server of the copy.
        database_name: The name of the copy.
        is_read_only: Whether the tenant stays read-only.

    Returns:
        None if the tenant is writable or missing, or no longer has the database in *tenant*.
    """
    moved = await session.fetch_one(
        _RELOCATE,
        tenant=tenant.id,
        server=server_name,
        database=database_name,
        is_read_only=is_read_only,
        old_server=tenant.server_name,
        old_database=tenant.database_name,
    )
    if moved is not None:
        await session.execute(
            _REDIRECT, tenant=tenant.id, server=server_name, database=database_name
        )
    return moved


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

    Args:
        session: A change of the catalog.
        tenant: With its current database.
        server_name: The tenant server of the new database.
        database_name: The name of the new database.
        revision: The revision of the new database.
        is_active: Whether the tenant becomes active.

    Returns:
        None if the tenant is active or missing, or no longer has the database in *tenant*.
    """
    moved = await session.fetch_one(
        _MOVE,
        tenant=tenant.id,
        server=server_name,
        database=database_name,
        revision=revision,
        is_active=is_active,
        old_server=tenant.server_name,
        old_database=tenant.database_name,
    )
    if moved is not None:
        await session.execute(
            _REDIRECT, tenant=tenant.id, server=server_name, database=database_name
        )
    return moved
