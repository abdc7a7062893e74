"""A tenant that has an active owner keeps one, whoever changes its users."""

from uuid import UUID

import msgspec
import sqlalchemy as sa

from tenantry.access.principal import TenantRole
from tenantry.db.statements import Statement
from tenantry.kit.errors import Conflict
from tenantry.tenant.databases import TenantSession
from tenantry.tenant.tables import user

# One of two is another one, whichever user is changed.
LOCKED_MAX = 2


class LastOwner(Conflict):
    """This is the last active owner of the tenant. Make another user an owner first."""


class _Id(msgspec.Struct, frozen=True):
    id: UUID


_is_owner = user.c.role == sa.literal_column(f"'{TenantRole.OWNER}'", sa.String)
_LOCK_OWNERS = Statement(
    sa.select(user.c.id)
    .where(_is_owner, user.c.is_active)
    .order_by(user.c.id)
    .limit(sa.literal_column(f"{LOCKED_MAX}"))
    .with_for_update(),
    _Id,
)


async def lock_another(session: TenantSession, user_id: UUID) -> bool:
    """Return whether a user other than *user_id* is an active owner, and stays one until the end.

    It locks the rows of up to `LOCKED_MAX` owners until the transaction ends, always in the same
    order, so that of two transactions one waits. Call it before the row of *user_id* is locked. On
    SQLite the transaction itself is the lock.
    """
    found = await session.fetch_all(_LOCK_OWNERS)
    return any(one.id != user_id for one in found)
