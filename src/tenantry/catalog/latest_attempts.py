"""The latest attempt to migrate each tenant: where its database is, and whether it failed."""

from collections.abc import Mapping
from typing import Any
from uuid import UUID

import msgspec
import sqlalchemy as sa

from tenantry.catalog.session import CatalogSession
from tenantry.catalog.tables import tenant
from tenantry.db.statements import Statement


class Attempt(msgspec.Struct, frozen=True):
    """What an attempt to migrate a tenant has shown.

    Attributes:
        revision: Of its database; None if that is not known.
        failing_run_id: The run of the attempt, if it failed.
    """

    revision: str | None
    failing_run_id: UUID | None


_seen = sa.func.coalesce(sa.bindparam("revision", type_=sa.String), tenant.c.schema_revision)
_failing = sa.bindparam("failing_run_id", type_=sa.Uuid)
_SET_ATTEMPT = Statement[Any](
    sa.update(tenant)
    .values(schema_revision=_seen, failing_run_id=_failing)
    .where(
        tenant.c.id == sa.bindparam("tenant"),
        sa.or_(
            tenant.c.schema_revision.is_distinct_from(_seen),
            tenant.c.failing_run_id.is_distinct_from(_failing),
        ),
    )
)


async def set_attempts(session: CatalogSession, attempts: Mapping[UUID, Attempt]) -> None:
    """Store what the latest attempts to migrate some tenants have shown."""
    # In a fixed order, to avoid deadlocks.
    rows = [
        {"tenant": tenant_id, **msgspec.structs.asdict(attempts[tenant_id])}
        for tenant_id in sorted(attempts)
    ]
    await session.execute_many(_SET_ATTEMPT, rows)
