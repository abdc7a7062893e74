"""The waves of a run: which tenants they name, in which order the others follow, their budgets.

Each item of a run with such waves has the number of its wave, and what orders it; both are stored
when it is inserted, so later changes of a tenant do not change its wave.
"""

from collections.abc import Sequence
from typing import Any
from uuid import UUID

import msgspec
import sqlalchemy as sa

from tenantry.catalog.run_tables import tenant_migration
from tenantry.catalog.runs import MigrationState, of_run
from tenantry.catalog.session import CatalogSession
from tenantry.catalog.tables import tenant
from tenantry.catalog.where import condition_of
from tenantry.db.statements import Count, Statement

CREATION = "creation"
ORDERS: dict[str, sa.ColumnElement[Any]] = {
    CREATION: sa.cast(sa.null(), sa.String),
    "name": tenant.c.canonical_name,
}
"""The orders of tenants, and the text by which each sorts them; then by their creation."""


class Wave(msgspec.Struct, frozen=True):
    """What is known of a wave, besides its size.

    Attributes:
        where: How it names its tenants; None if it is an amount.
        max_failures: Its failure budget; None without one.
    """

    where: str | None = None
    max_failures: int | None = None


_item = tenant_migration.c
# Not as a parameter, which would match no partial index.
is_waiting = _item.state == sa.literal_column(f"'{MigrationState.WAITING.value}'")
_COUNT = Statement(
    sa.select(sa.func.count().label("count")).where(
        of_run, is_waiting, _item.wave == sa.bindparam("wave", type_=sa.Integer)
    ),
    Count,
)


def wave_of(named: Sequence[str]) -> sa.ColumnElement[Any]:
    """Return the number, from 0, of the first wave that names a tenant.

    *named* has an expression for each wave: see `catalog.where`. The number of a tenant that none
    names is that of the waves; NULL if there are none.
    """
    if not named:
        return sa.cast(sa.null(), sa.Integer)
    names = ((condition_of(where), _number(at)) for at, where in enumerate(named))
    return sa.case(*names, else_=_number(len(named)))


async def count(session: CatalogSession, run_id: UUID, wave: int) -> int:
    """Return how many tenants of a run that has not begun are in a wave that names them."""
    found = await session.fetch_one(_COUNT, run=run_id, wave=wave)
    return found.count if found else 0


def _number(value: int) -> sa.ColumnElement[int]:
    return sa.literal_column(str(value), sa.Integer)
