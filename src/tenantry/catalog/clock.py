"""The clock of the catalog's database."""

import msgspec
import sqlalchemy as sa

from tenantry.catalog.session import CatalogSession
from tenantry.db.statements import Statement
from tenantry.db.types import database_clock_ms


class _Now(msgspec.Struct, frozen=True):
    now_ms: int


_NOW = Statement(sa.select(database_clock_ms().label("now_ms")), _Now)


async def now_ms(session: CatalogSession) -> int:
    """Return the time of the database's clock, in milliseconds since 1970.

    Raises:
        DatabaseUnavailable: The catalog cannot be reached.
    """
    found = await session.fetch_one(_NOW)
    assert found is not None
    return found.now_ms
