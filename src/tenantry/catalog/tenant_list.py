"""Lists of ready tenants, by name: a page, with filters, and a search.

Pages and searches without filters, and those of labels, read the narrow table `tenant_name`; then
only the rows of the page are read.
"""

import functools
from collections.abc import Mapping
from enum import Enum, auto
from typing import Any, NamedTuple

import msgspec
import sqlalchemy as sa
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql.compiler import SQLCompiler
from sqlalchemy.sql.functions import FunctionElement

from tenantry.catalog import tenant_counts
from tenantry.catalog.session import CatalogSession, RowId, fetch_row
from tenantry.catalog.tables import tenant, tenant_label, tenant_name
from tenantry.catalog.tenant_counts import ANY, Filters
from tenantry.catalog.tenants import Tenant, TenantState
from tenantry.catalog.where import (
    COLUMNS,
    Led,
    condition_of,
    conditions_of,
    is_of_labels,
    led_by_label,
)
from tenantry.db.paging import LIMIT, OFFSET
from tenantry.db.statements import Count, Statement, columns_of
from tenantry.db.types import Ids, is_listed
from tenantry.kit.ids import parse_id
from tenantry.kit.pages import Page, Window
from tenantry.kit.text import canonical

TRIGRAM_CHARS = 3


class TrigramLimits(msgspec.Struct, frozen=True, kw_only=True):
    """The searches that use the index of trigrams; others read the names.

    Attributes:
        chars_max: A longer text has so many trigrams that reading every name is no slower.
        names_max: So many names are found by their trigrams, and sorted. If more contain a text,
            the names are read in their order until the page is full: about 1,000 of 1,000,000 for
            each item of a page.
    """

    chars_max: int = 64
    names_max: int = 1_000


TRIGRAM_LIMITS = TrigramLimits()


class _Search(Enum):
    """How the names that contain a text are found."""

    ALL = auto()
    """There is no text."""
    TRIGRAMS = auto()
    """By the index of trigrams."""
    SCAN = auto()
    """By reading every name."""


class _Choice(NamedTuple):
    """Selects a statement: only the chosen conditions are in it, so that their index is used.

    Attributes:
        filters: Their names, and the values of those that are true or false.
        search: How names are found.
        has_exact: Whether there are other tenants, found by their ids.
        where: An expression that selects tenants.
    """

    filters: frozenset[tuple[str, bool | None]]
    search: _Search
    has_exact: bool = False
    where: str | None = None


class _Counted(RowId, frozen=True):
    """A tenant that is found, and how many are."""

    total: int


_t, _n, _l = tenant.c, tenant_name.c, tenant_label.c


def _is_true(table: sa.FromClause) -> dict[str, sa.ColumnElement[bool]]:
    return {
        "is_active": table.c.is_active,
        "is_read_only": table.c.is_read_only,
        "is_failing": table.c.failing_run_id.is_not(None),
    }


_text = sa.bindparam("text", type_=sa.String)
_pattern = sa.bindparam("pattern", type_=sa.String)
_ids = sa.bindparam("ids", type_=Ids)


class _contains_by_trigrams(FunctionElement[Any]):  # noqa: N801 - reads like the SQL condition
    """Whether a name contains a text of `TRIGRAM_CHARS` and more, by an index.

    The clauses are the text, and a pattern for LIKE.
    """

    type = sa.types.NullType()  # SQLite uses no index for "IN (…) = 1"
    inherit_cache = True


@compiles(_contains_by_trigrams, "postgresql")
def _trigrams_on_postgresql(
    element: _contains_by_trigrams, compiler: SQLCompiler, **kw: Any
) -> str:
    text, pattern = (compiler.process(one, **kw) for one in element.clauses)
    # The text is in a subquery, so that the plan does not depend on it: for a frequent text, the
    # trigrams of every name would be computed, which takes 20 s for 1,000,000.
    return (
        f"(tenant_trigrams(tenant_name.canonical_name) @> (SELECT tenant_trigrams({text})) "
        f"AND tenant_name.canonical_name LIKE {pattern})"
    )


@compiles(_contains_by_trigrams, "sqlite")
def _trigrams_on_sqlite(element: _contains_by_trigrams, compiler: SQLCompiler, **kw: Any) -> str:
    return f"tenant_name.number IN ({_matches('rowid', element, compiler, **kw)})"


class _count_by_trigrams(FunctionElement[int]):  # noqa: N801 - reads like the SQL function
    """How many names contain a text; on SQLite without reading them. The clauses are as above."""

    type = sa.BigInteger()
    inherit_cache = True


@compiles(_count_by_trigrams, "postgresql")
def _count_on_postgresql(element: _count_by_trigrams, compiler: SQLCompiler, **kw: Any) -> str:
    contains = compiler.process(_contains_by_trigrams(*element.clauses), **kw)
    return f"(SELECT count(*) FROM tenant_name WHERE {contains})"  # noqa: S608 - our own


@compiles(_count_by_trigrams, "sqlite")
def _count_on_sqlite(element: _count_by_trigrams, compiler: SQLCompiler, **kw: Any) -> str:
    return f"({_matches('count(*)', element, compiler, **kw)})"


def _matches(what: str, element: FunctionElement[Any], compiler: SQLCompiler, **kw: Any) -> str:
    text = compiler.process(next(iter(element.clauses)), **kw)
    # A phrase of FTS5: the trigrams of the text, in sequence.
    phrase = f"""'"' || replace({text}, '"', '""') || '"'"""
    names = "tenant_name_trigrams"
    return f"SELECT {what} FROM {names} WHERE {names} MATCH {phrase}"  # noqa: S608 - our own


_COUNT = Statement(sa.select(_count_by_trigrams(_text, _pattern).label("count")), Count)
_EXACT = Statement(
    sa.select(_n.tenant_id.label("id"))
    .join(tenant, _t.id == _n.tenant_id)
    .where(
        sa.or_(
            _t.id == sa.bindparam("id", type_=sa.Uuid),
            _t.database_name == sa.bindparam("name", type_=sa.String),
            _t.owner_email == _text,
        ),
        _n.canonical_name.not_like(_pattern, escape="\\"),
    ),
    RowId,
)


_BY_IDS = Statement(sa.select(*columns_of(tenant, Tenant)).where(is_listed(_t.id, _ids)), Tenant)


async def page(
    session: CatalogSession,
    window: Window,
    *,
    search: str | None = None,
    where: str | None = None,
    filters: Filters = ANY,
    limits: TrigramLimits = TRIGRAM_LIMITS,
) -> Page[Tenant]:
    """Return a page of the ready tenants, by name.

    *search* is part of their names, in any case; or their id, the name of their database, or the
    address of their first user when they were created. *where* selects tenants: see
    `catalog.where`. *limits* change the duration alone.

    Raises:
        BadWhere: It breaks a rule of the language.
    """
    if where is not None and search is None and filters == ANY:
        statement = _labelled(where)
        if statement is not None:
            return await _labelled_page(session, window, statement)
    values = {name: one for name, one in msgspec.structs.asdict(filters).items() if one is not None}
    choice = _Choice(
        frozenset((name, one if isinstance(one, bool) else None) for name, one in values.items()),
        _Search.ALL,
        where=where,
    )
    if search is None and where is None:
        total = await tenant_counts.total(session, filters)
    elif search is None:
        total = await _count(session, choice, values)
    else:
        choice, found = await _find(session, search, choice, limits)
        values |= found
        total = await _count(session, choice, values)
    if choice.search is _Search.TRIGRAMS and total > limits.names_max:
        choice = choice._replace(search=_Search.SCAN)
    is_late = not (choice.filters or where) and window.offset > total // 2
    offset = max(total - window.offset - window.size, 0) if is_late else window.offset
    limit = min(window.size, max(total - window.offset, 0)) if is_late else window.size
    items = await session.fetch_all(
        _page_of(choice, is_late=is_late), limit=limit, offset=offset, **values
    )
    items.sort(key=lambda one: canonical(one.name))
    return Page(items, window, total)


async def _labelled_page(
    session: CatalogSession, window: Window, statement: Statement[_Counted]
) -> Page[Tenant]:
    found = await session.fetch_all(statement, limit=window.size, offset=window.offset)
    some = found or await session.fetch_all(statement, limit=1, offset=0)
    total = some[0].total if some else 0
    items = await session.fetch_all(_BY_IDS, ids=[one.id for one in found]) if found else []
    items.sort(key=lambda one: canonical(one.name))
    return Page(items, window, total)


@functools.lru_cache(maxsize=64)
def _labelled(where: str) -> Statement[_Counted] | None:
    """Return a statement for a page of those that an expression of labels and names selects.

    They are found, counted and sorted by indexes alone; then only the rows of the page are read.
    If each has one label, that index has their names. None if neither helps.
    """
    condition_of(where)
    led = led_by_label(where)
    if led is None and not is_of_labels(where):
        return None
    names = _names(led).subquery("names")
    rest = where if led is None else led.rest
    conditions = [] if rest is None else [condition_of(rest, names, are_found=led is not None)]
    return Statement(
        sa.select(names.c.id, sa.func.count().over().label("total"))
        .where(*conditions)
        .order_by(names.c.canonical_name)
        .limit(LIMIT)
        .offset(OFFSET),
        _Counted,
    )


def _names(led: Led | None) -> sa.Select[Any]:
    """Return the ids and names of ready tenants, or of those that have one label.

    The latter also with the other columns of `tenant` that an expression may need.
    """
    if led is None:
        return sa.select(_n.tenant_id.label("id"), _n.canonical_name)
    others = () if led.rest is None or is_of_labels(led.rest) else (tenant,)
    more = [_t[name] for name in (*COLUMNS.values(), "failing_run_id") if name != "canonical_name"]
    found = sa.select(_l.tenant_id.label("id"), _l.canonical_name, *(more if others else ())).where(
        _l.key == sa.literal(led.key, sa.String),
        _l.value == sa.literal(led.value, sa.String),
        _l.canonical_name.is_not(None),
    )
    return found.join(tenant, _t.id == _l.tenant_id) if others else found


async def _find(
    session: CatalogSession, search: str, choice: _Choice, limits: TrigramLimits
) -> tuple[_Choice, dict[str, object]]:
    """Return how to search for a text, with the values of the statements for it."""
    text, exact = canonical(search), search.strip()
    escaped = text.replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_")
    values: dict[str, object] = {"text": text, "pattern": f"%{escaped}%"}
    found = await session.fetch_all(
        _EXACT,
        id=parse_id(exact),
        name=exact,
        text=canonical(exact),
        pattern=values["pattern"],
    )
    values["ids"] = [one.id for one in found]
    is_indexed = TRIGRAM_CHARS <= len(text) <= limits.chars_max
    how = _Search.TRIGRAMS if is_indexed else _Search.SCAN
    return choice._replace(search=how, has_exact=bool(found)), values


async def _count(session: CatalogSession, choice: _Choice, values: Mapping[str, Any]) -> int:
    if choice.search is _Search.TRIGRAMS and not (choice.filters or choice.where):
        return (await fetch_row(session, _COUNT, **values)).count + len(values["ids"])
    return (await fetch_row(session, _count_of(choice), **values)).count


# Without `where`, at most 108 choices of filters, 3 searches, and a late page of each search.
@functools.lru_cache(maxsize=512)
def _page_of(choice: _Choice, *, is_late: bool) -> Statement[Tenant]:
    rows, name, conditions = _selected(choice)
    # The rows of earlier pages are skipped in an index, and not read; those of a late page, from
    # the end.
    shown = (
        sa.select(name)
        .select_from(rows)
        .where(*conditions)
        .order_by(name.desc() if is_late else name)
        .limit(LIMIT)
        .offset(OFFSET)
    )
    page = sa.select(*columns_of(tenant, Tenant)).where(_t.canonical_name.in_(shown))
    return Statement(page, Tenant)


@functools.lru_cache(maxsize=256)
def _count_of(choice: _Choice) -> Statement[Count]:
    rows, _, conditions = _selected(choice)
    count = sa.select(sa.func.count().label("count")).select_from(rows).where(*conditions)
    return Statement(count, Count)


def _selected(
    choice: _Choice,
) -> tuple[sa.FromClause, sa.ColumnElement[str], list[sa.ColumnElement[bool]]]:
    """Return the rows to read, their names, and the conditions."""
    some = tenant.alias()
    conditions = list(_filtered(some, choice))
    if choice.search is _Search.ALL:
        if not conditions:
            return tenant_name, _n.canonical_name, []
        conditions.append(some.c.state == TenantState.READY.value)
        return some, some.c.canonical_name, conditions
    contains: sa.ColumnElement[bool] = _n.canonical_name.like(_pattern, escape="\\")
    if choice.search is _Search.TRIGRAMS:
        contains = _contains_by_trigrams(_text, _pattern)
    if choice.has_exact:
        contains = sa.or_(contains, is_listed(_n.tenant_id, _ids))
    rows = tenant_name.join(some, some.c.id == _n.tenant_id) if conditions else tenant_name
    return rows, _n.canonical_name, [contains, *conditions]


def _filtered(some: sa.FromClause, choice: _Choice) -> Any:
    """Yield the conditions of the chosen filters."""
    is_true = _is_true(some)
    for name, flag in sorted(choice.filters, key=str):
        if flag is None:
            yield some.c[name] == sa.bindparam(name, type_=sa.String)
        else:
            yield is_true[name] if flag else sa.not_(is_true[name])
    yield from conditions_of(choice.where, some)
