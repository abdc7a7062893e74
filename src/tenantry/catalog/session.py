"""The session type of the catalog, and what several modules fetch with it."""

from typing import Any
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


class Value(msgspec.Struct, frozen=True):
    """The only value of a row; its column is labelled so."""

    value: Any


async def fetch_values(
    session: CatalogSession, statement: Statement[Value], /, **values: object
) -> list[Any]:
    """Return the values of the rows of a statement."""
    return [one.value for one in await session.fetch_all(statement, **values)]


async def fetch_value(
    session: CatalogSession, statement: Statement[Value], /, **values: Any
) -> Any:
    """Return the value of the first row of a statement; None if there is none."""
    return next(iter(await fetch_values(session, statement, **values)), None)


async def fetch_row(session: CatalogSession, statement: Statement[Row], /, **values: object) -> Row:
    """Return the first row of a statement that has one in any case, such as an aggregate."""
    found = await session.fetch_one(statement, **values)
    assert found is not None
    return found


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
