"""Give a tenant another database, by a compare-and-swap on the old one."""

import sqlalchemy as sa

from tenantry.catalog.database import CatalogChange
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
        failing_run_id=None,  # the failed attempt was of the old database
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

_RELOCATE = Statement(
    sa.update(table)
    .values(
        server_name=sa.bindparam("server"),
        database_name=sa.bindparam("database"),
        is_read_only=sa.bindparam("is_read_only", type_=sa.Boolean),
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


async def relocate(
    session: CatalogChange,
    tenant: Tenant,
    *,
    server_name: str,
    database_name: str,
    is_read_only: bool,
) -> Tenant | None:
    """Give a read-only tenant a copy of its database.

    Args:
        session: A change of the catalog.
        tenant: With its current database.
        server_name: The tenant server of the copy.
        database_name: The name of the copy.
        is_read_only: Whether the tenant stays read-only.

    Returns:
        None if the tenant is writable or missing, or no longer has the database in *tenant*.
    """
    return await session.fetch_one(
        _RELOCATE,
        tenant=tenant.id,
        server=server_name,
        database=database_name,
        is_read_only=is_read_only,
        old_server=tenant.server_name,
        old_database=tenant.database_name,
    )


async def move(
    session: CatalogChange,
    tenant: Tenant,
    *,
    server_name: str,
    database_name: str,
    revision: str,
    is_active: bool,
) -> Tenant | None:
    """Give a suspended tenant another database.

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
    return await session.fetch_one(
        _MOVE,
        tenant=tenant.id,
        server=server_name,
        database=database_name,
        revision=revision,
        is_active=is_active,
        old_server=tenant.server_name,
        old_database=tenant.database_name,
    )
