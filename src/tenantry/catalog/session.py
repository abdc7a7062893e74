"""The session type of the catalog, and what several modules fetch with it."""

from uuid import UUID

import msgspec

from tenantry.db.sessions import Session
from tenantry.db.statements import Row, Statement
from tenantry.kit.errors import TenantryError


class CatalogKind:
    """Marks the sessions of the catalog."""


CatalogSession = Session[CatalogKind]


class RowId(msgspec.Struct, frozen=True):
    """The id of a row that a statement has found or changed."""

    id: UUID


async def fetch_or_raise(
    session: CatalogSession,
    statement: Statement[Row],
    error: type[TenantryError],
    /,
    **values: object,
) -> Row:
    """Return the first row of a statement; raise *error* if there is none."""
    found = await session.fetch_one(statement, **values)
    if found is None:
        raise error
    return found
