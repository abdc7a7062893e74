"""The migration log of a tenant: which revisions its database has, and since when."""

from datetime import datetime
from uuid import UUID

import msgspec
import sqlalchemy as sa

from tenantry.db.statements import Statement
from tenantry.migration.schema_state import BEGUN, log
from tenantry.tenant.databases import TenantDatabase

ENTRIES_MAX = 200


class LogEntry(msgspec.Struct, frozen=True):
    """A revision that a run has applied.

    Attributes:
        stream: `tenantry` or `user`.
        run_id: The run; for a new tenant, its creation.
    """

    stream: str
    revision: str
    run_id: UUID
    applied_at: datetime


_ENTRIES = Statement(
    sa.select(log.c.stream, log.c.revision, log.c.run_id, log.c.applied_at)
    .where(log.c.stream != BEGUN)
    .order_by(log.c.position.desc())
    .limit(ENTRIES_MAX),
    LogEntry,
)


async def entries(database: TenantDatabase) -> list[LogEntry]:
    """Return the last `ENTRIES_MAX` revisions that were applied, the newest first."""
    return await database.fetch_all(_ENTRIES)
