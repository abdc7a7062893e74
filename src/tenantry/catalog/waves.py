"""The waves of a run: which tenants they name, in which order the others follow, their budgets.

Each item of a run with such waves has the number of its wave, and what orders it; both are stored
when it is inserted, so later changes of a tenant do not change its wave. `run_tenants` begins a
wave, by the rule in `run_progress`.
"""

from collections.abc import Mapping, Sequence
from typing import Any
from uuid import UUID

import msgspec
import sqlalchemy as sa

from tenantry.catalog.labels import is_key
from tenantry.catalog.run_tables import tenant_migration
from tenantry.catalog.runs import MigrationState, of_run
from tenantry.catalog.session import CatalogSession, fetch_row
from tenantry.catalog.tables import tenant, tenant_label
from tenantry.catalog.where import condition_of
from tenantry.db.statements import Count, Statement

CREATION, NAME, SIZE, LARGEST = "creation", "name", "size", "-size"
BY_LABEL = "label:"
"""The beginning of an order by a label, before its key."""
ORDERS = CREATION, NAME, f"{BY_LABEL}KEY", SIZE, LARGEST
"""The orders of tenants; those that are equal in it follow by their creation."""
LAST = "~"
"""The text that sorts a tenant after all others: no value of a label, and no size begins so."""


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

_SET_SORT_KEY = Statement[Any](
    sa.update(tenant_migration)
    .values(sort_key=sa.bindparam("key", type_=sa.String))
    .where(_item.run_id == sa.bindparam("run"), _item.tenant_id == sa.bindparam("tenant"))
)


def is_order(text: str) -> bool:
    """Return whether *text* is one of `ORDERS`."""
    if text.startswith(BY_LABEL):
        return is_key(text.removeprefix(BY_LABEL))
    return text in ORDERS


def sort_key_of(order: str) -> sa.ColumnElement[Any]:
    """Return the text by which an order sorts a tenant; NULL in the order of creation.

    By a label, a tenant without it is the last. By size, every tenant is, until
    `set_sort_keys`: the catalog does not know sizes.
    """
    if order in (SIZE, LARGEST):
        return sa.literal(LAST, sa.String)
    if order.startswith(BY_LABEL):
        value = sa.select(tenant_label.c.value).where(
            tenant_label.c.tenant_id == tenant.c.id,
            tenant_label.c.key == sa.literal(order.removeprefix(BY_LABEL), sa.String),
        )
        return sa.func.coalesce(value.scalar_subquery(), sa.literal(LAST, sa.String))
    return tenant.c.canonical_name if order == NAME else sa.cast(sa.null(), sa.String)


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
    return (await fetch_row(session, _COUNT, run=run_id, wave=wave)).count


async def set_sort_keys(session: CatalogSession, run_id: UUID, keys: Mapping[UUID, str]) -> None:
    """Set what orders these tenants of a run that has not begun."""
    rows = [{"run": run_id, "tenant": one, "key": keys[one]} for one in sorted(keys)]
    if rows:
        await session.execute_many(_SET_SORT_KEY, rows)


def _number(value: int) -> sa.ColumnElement[int]:
    return sa.literal_column(str(value), sa.Integer)
