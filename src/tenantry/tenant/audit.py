"""The audit log of a tenant: changes by users, McpTokens, admins and the command line.

An entry is written in the transaction of the change, in the tenant's own database. So there is
never one without the other, and no write to a tenant waits for the catalog.
"""

from collections.abc import Awaitable, Callable, Sequence
from datetime import datetime, timedelta
from uuid import UUID

import sqlalchemy as sa

from tenantry.catalog import tenants
from tenantry.catalog.session import CatalogSession
from tenantry.db.audit_log import AuditLog
from tenantry.db.sessions import DatabaseUnavailable
from tenantry.tenant.databases import (
    TenantDatabase,
    TenantDatabases,
    TenantKind,
    TenantOutdated,
)
from tenantry.tenant.tables import audit

# Entries are never merged, and all are of one tenant: its id is given with the filters.
LOG: AuditLog[TenantKind] = AuditLog(
    audit,
    {
        "last_at": audit.c.at,
        "count": sa.literal_column("1", sa.Integer),
        "tenant_id": sa.bindparam("tenant_id", type_=sa.Uuid),
    },
)

PRUNE_EVERY = timedelta(hours=1)
# Databases that one call of `Retention.prune` prunes. Called every 5 s, it completes all
# `DATABASES_MAX` of them in 18 minutes.
DATABASES_EACH = 20

Prune = Callable[[TenantDatabase], Awaitable[bool]]
"""Removes some of what has expired; returns whether there may be more."""


class Retention:
    """Removes what has expired from the tenant databases that this process has open.

    Args:
        databases: The open ones.
    """

    def __init__(self, catalog: CatalogSession, databases: TenantDatabases) -> None:
        self._catalog = catalog
        self._databases = databases
        self._due: dict[UUID, datetime] = {}

    async def prune(self, *, now: datetime, works: Sequence[Prune]) -> None:
        """Call *works*: for each database at most once in `PRUNE_EVERY`.

        A database is due again at once if one of them returns that there is more. One that is
        unavailable waits for the next time, and so does one of a read-only tenant.
        """
        opened = self._databases.opened()
        self._due = {one: self._due.get(one, now) for one in opened}
        due = sorted((one for one in opened if self._due[one] <= now), key=self._due.__getitem__)
        for tenant_id in due[:DATABASES_EACH]:
            self._due[tenant_id] = now + PRUNE_EVERY
            try:
                tenant = await tenants.find(self._catalog, tenant_id)
                if tenant is None or tenant.is_read_only:
                    continue
                for work in works:
                    if await work(opened[tenant_id]):
                        self._due[tenant_id] = now
            except (DatabaseUnavailable, TenantOutdated):
                continue
