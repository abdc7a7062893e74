"""Lists that are read in pages."""

from typing import Any, Generic, TypeVar

import sqlalchemy as sa

from tenantry.db.sessions import Session
from tenantry.db.statements import Count, Row, Statement
from tenantry.kit.pages import Page, Window

Kind = TypeVar("Kind")

LIMIT, OFFSET = (sa.bindparam(name, type_=sa.BigInteger) for name in ("limit", "offset"))
"""The parameters of a statement that returns some rows."""


class Listing(Generic[Row]):
    """A list that is read in pages, each with the length of the whole list.

    Args:
        every: The query of all rows, in their order.
        row: A Struct, as for a `Statement`.
    """

    def __init__(self, every: sa.Select[Any], row: type[Row]) -> None:
        number = every.with_only_columns(sa.func.count().label("count"), maintain_column_froms=True)
        self._page = Statement(every.limit(LIMIT).offset(OFFSET), row)
        self._number = Statement(number.order_by(None), Count)

    async def page(self, session: Session[Kind], window: Window, **values: object) -> Page[Row]:
        """Return one page; *values* are those of the parameters of the query."""
        items = await session.fetch_all(
            self._page, limit=window.size, offset=window.offset, **values
        )
        total = await session.fetch_one(self._number, **values)
        assert total is not None, "an aggregate has one row"
        return Page(items, window, total.count)
