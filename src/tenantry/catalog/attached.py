"""Attached databases, which are migrated, and have no tables of Tenantry.

Each is a row of `tenant`. In the state of a fleet, the list that a command reads says which there
are: a database that is new in it is added, and one that has left it is kept and becomes inactive,
so no run migrates it. In the catalog of a service each is added by itself, with its URL, sealed.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

import msgspec
import sqlalchemy as sa

from tenantry.catalog import audit
from tenantry.catalog.database import Catalog, CatalogChange
from tenantry.catalog.session import CatalogSession, RowId, fetch_or_raise
from tenantry.catalog.tables import tenant
from tenantry.catalog.tenants import (
    NAME_CHARS_MAX,
    DatabaseInUse,
    Tenant,
    TenantNameInUse,
    TenantState,
    by_id,
)
from tenantry.db.statements import Statement, columns_of, parameters
from tenantry.kit import postgres_urls
from tenantry.kit.context import OperationContext
from tenantry.kit.errors import Conflict, Invalid
from tenantry.kit.ids import new_id
from tenantry.kit.postgres_urls import BadPostgresUrl
from tenantry.kit.text import canonical, shown

# Rows in one message to the database of the state.
ROWS_SENT = 1_000
# Two processes that read the same list at the same time add the same databases.
TRIES_MAX = 5


class BadList(Invalid):
    """The list of databases breaks a rule; the message says which, and where."""


class NotAFleet(Conflict):
    """This is the catalog of a Tenantry service, and no state of a fleet: set another --state."""


class NotAttached(Conflict):
    """The database was detached already, or the tenant is served: suspend and delete that one."""


class StateOfFleet(Conflict):
    """This is the state of a fleet: use the commands of fleets, or set another catalog."""


@dataclass(frozen=True, kw_only=True)
class Listed:
    """A database in the list.

    Attributes:
        name: Its name; None if the list has none for it.
        url: Its URL, with the password. It is never stored, logged or shown.
        place: Its URL without secrets, by which it is known; on PostgreSQL see `PostgresUrl.place`.
        server_name: Its server: databases of one server share a limit of connections.
        hint: From what a name is derived.
        labels: Its labels.
    """

    name: str | None
    url: str
    place: str
    server_name: str
    hint: str
    labels: Mapping[str, str]


@dataclass(frozen=True)
class ListChanges:
    """What a list has changed.

    Attributes:
        added: The names of the databases that were added.
        missing: The names of the databases that are known, and not in the list.
    """

    added: Sequence[str]
    missing: Sequence[str]


class _Row(msgspec.Struct, frozen=True):
    id: UUID
    name: str
    database_name: str
    server_name: str
    is_active: bool
    is_attached: bool
    labels: dict[str, str]
    sealed_url: bytes | None = None


class SealedUrl(msgspec.Struct, frozen=True):
    """The URL of an attached database of a service, sealed for the id of the tenant."""

    id: UUID
    sealed_url: bytes


class _Stored(msgspec.Struct, frozen=True):
    database_name: str


_CONFLICTS: dict[str, type[Conflict]] = {
    "uq_tenant_canonical_name": TenantNameInUse,
    "uq_tenant_database_name_server_name": DatabaseInUse,
}
_has_url = tenant.c.sealed_url.is_not(None)
_EVERY = Statement(sa.select(*columns_of(tenant, _Row)), _Row)
_STORED = Statement(sa.select(tenant.c.database_name).where(tenant.c.is_attached), _Stored)
_SOME = Statement(sa.select(tenant.c.id).where(tenant.c.is_attached, ~_has_url).limit(1), RowId)
_sealed = sa.select(*columns_of(tenant, SealedUrl)).where(tenant.c.is_attached, _has_url)
_SEALED = Statement(_sealed.order_by(tenant.c.id).with_for_update(), SealedUrl)
_FIND_SEALED = Statement(
    _sealed.where(
        tenant.c.server_name == sa.bindparam("server_name"),
        tenant.c.database_name == sa.bindparam("database_name"),
    ),
    SealedUrl,
)
_RESEAL = Statement(
    sa.update(tenant)
    .values(sealed_url=sa.bindparam("sealed_url"))
    .where(by_id, tenant.c.is_attached)
    .returning(tenant.c.id),
    RowId,
)
_DETACH = Statement(
    sa.delete(tenant).where(by_id, tenant.c.is_attached).returning(tenant.c.id), RowId
)
_LISTED = ("name", "canonical_name", "database_name", "server_name", "labels", "is_active")
_values = {name: sa.bindparam(name, type_=tenant.c[name].type) for name in _LISTED}
_add = sa.insert(tenant).values(
    id=sa.bindparam("id", type_=sa.Uuid),
    created_at=sa.bindparam("created_at", type_=tenant.c.created_at.type),
    modules=sa.bindparam("modules", type_=tenant.c.modules.type),
    state=TenantState.READY.value,
    is_attached=True,
    **_values,
)
_ADD = Statement[Any](_add, conflicts=_CONFLICTS)
_ADD_SEALED = Statement[Any](
    _add.values(parameters("sealed_url", "schema_revision")), conflicts=_CONFLICTS
)
# In two steps, because two databases can have exchanged their names or their URLs.
_FREE = Statement[Any](
    sa.update(tenant)
    .values({name: sa.cast(tenant.c.id, sa.String) for name in ("canonical_name", "database_name")})
    .where(by_id)
)
_UPDATE = Statement[Any](sa.update(tenant).values(_values).where(by_id), conflicts=_CONFLICTS)


async def check_no_fleet(session: CatalogSession) -> None:
    """Check that a catalog is not the state of a fleet.

    Raises:
        StateOfFleet: It is.
    """
    if await session.fetch_one(_SOME) is not None:
        raise StateOfFleet


async def add_sealed(session: CatalogChange, added: Tenant, sealed_url: bytes) -> None:
    """Insert an attached database of a service.

    Raises:
        TenantNameInUse, DatabaseInUse: Another tenant has the name, or is this database.
    """
    # The unique constraint compares texts, and an older release has spelled places otherwise.
    stored = await session.fetch_all(_STORED)
    if any(place_of(one.database_name) == added.database_name for one in stored):
        raise DatabaseInUse
    await session.execute(
        _ADD_SEALED,
        id=added.id,
        name=added.name,
        canonical_name=canonical(added.name),
        database_name=added.database_name,
        server_name=added.server_name,
        is_active=added.is_active,
        labels=added.labels,
        modules=added.modules,
        created_at=added.created_at,
        schema_revision=added.schema_revision,
        sealed_url=sealed_url,
    )


async def detach(session: CatalogChange, tenant_id: UUID) -> None:
    """Forget an attached database; nothing is changed in it.

    Raises:
        NotAttached: The tenant is no attached database, or was detached at the same time.
    """
    await fetch_or_raise(session, _DETACH, NotAttached, tenant=tenant_id)


async def find_sealed(
    session: CatalogSession, *, server_name: str, database_name: str
) -> SealedUrl | None:
    """Return the URL of an attached database of a service, if there is one of this name."""
    return await session.fetch_one(
        _FIND_SEALED, server_name=server_name, database_name=database_name
    )


async def sealed_urls(session: CatalogChange) -> dict[UUID, bytes]:
    """Return the URLs of all attached databases of a service, by the ids of the tenants.

    Until the change ends, no other one replaces them.
    """
    return {one.id: one.sealed_url for one in await session.fetch_all(_SEALED)}


async def reseal(session: CatalogChange, sealed: Mapping[UUID, bytes]) -> None:
    """Replace the sealed URLs of attached databases.

    Raises:
        NotAttached: A tenant is no attached database, or was detached at the same time.
    """
    for one in sorted(sealed):
        await fetch_or_raise(session, _RESEAL, NotAttached, tenant=one, sealed_url=sealed[one])


async def attach(catalog: Catalog, ctx: OperationContext, listed: Sequence[Listed]) -> ListChanges:
    """Make the attached databases those of the list, in one transaction.

    Raises:
        BadList: The list contains a name or a URL twice, or contradicts what is known.
        NotAFleet: The catalog has tenants of Tenantry.
        DatabaseUnavailable: The catalog cannot be reached; nothing was changed.
    """
    for tries in range(1, TRIES_MAX + 1):
        try:
            async with catalog.begin() as session:
                return await _attach(session, ctx, listed)
        except (TenantNameInUse, DatabaseInUse):
            if tries == TRIES_MAX:
                raise
    raise AssertionError


async def _attach(
    session: CatalogSession, ctx: OperationContext, listed: Sequence[Listed]
) -> ListChanges:
    known = await session.fetch_all(_EVERY)
    if not all(one.is_attached and one.sealed_url is None for one in known):
        raise NotAFleet
    rows = {row.id: row for row in _matched(known, listed)}
    before = {row.id: row for row in known}
    added = [row for row in rows.values() if row.id not in before]
    missing = [row for row in known if row.id not in rows]
    changed = [row for row in rows.values() if before.get(row.id, row) != row]
    changed += [msgspec.structs.replace(row, is_active=False) for row in missing if row.is_active]
    moved = [row for row in changed if _place(before[row.id]) != _place(row)]
    fixed = {"created_at": ctx.now, "modules": frozenset[str]()}
    await _send(session, _FREE, [{"tenant": row.id} for row in moved])
    await _send(session, _UPDATE, [{"tenant": row.id, **_values_of(row)} for row in changed])
    await _send(session, _ADD, [{"id": row.id, **fixed, **_values_of(row)} for row in added])
    if added or changed:
        target = f"{len(added)} added, {len(changed)} changed, {len(missing)} missing"
        await audit.LOG.add(session, ctx, "fleet.list", target)
    return ListChanges([one.name for one in added], [one.name for one in missing])


async def _send(
    session: CatalogSession, statement: Statement[Any], rows: Sequence[Mapping[str, object]]
) -> None:
    for at in range(0, len(rows), ROWS_SENT):
        await session.execute_many(statement, rows[at : at + ROWS_SENT])


def _place(row: _Row) -> tuple[str, str, str]:
    return canonical(row.name), row.server_name, row.database_name


def _values_of(row: _Row) -> dict[str, object]:
    return {
        "name": row.name,
        "canonical_name": canonical(row.name),
        "database_name": row.database_name,
        "server_name": row.server_name,
        "labels": row.labels,
        "is_active": row.is_active,
    }


def _matched(known: Sequence[_Row], listed: Sequence[Listed]) -> Iterator[_Row]:
    """Yield the row of each database in the list: one that is known, or a new one.

    Raises:
        BadList: The list contains a name or a URL twice, or contradicts what is known.
    """
    wanted = {(one.server_name, one.place) for one in listed}
    exact = [row for row in known if (row.server_name, row.database_name) in wanted]
    of_place = {row.database_name: row for row in exact}
    for row in known:
        if of_place.get(row.database_name) is not row:
            of_place.setdefault(place_of(row.database_name), row)
    of_name = {canonical(row.name): row for row in known}
    named = [canonical(one.name) for one in listed if one.name is not None]
    taken = {*of_name, *named}
    if len({*named}) < len(named):
        raise BadList(f"The list contains the name {shown(_twice(named))} twice.")
    places = [one.place for one in listed]
    if len({*places}) < len(places):
        raise BadList(f"The list contains {shown(_twice(places))} twice.")
    matched: set[UUID] = set()
    for one in listed:
        found = of_place.get(one.place)
        if one.name is not None:
            other = of_name.get(canonical(one.name))
            if found is not None and other not in (None, found):
                raise BadList(
                    f"{shown(one.place)} is known as {found.name}, and {shown(one.name)} is the "
                    "name of another database. Use another --state, or the names of before."
                )
            found = found or other
        if found is not None and found.id in matched:
            raise BadList(
                f"The list gives the name {shown(found.name)} to another database than before, and "
                "contains that one without a name: give it one."
            )
        matched |= {found.id} if found else set()
        name = one.name or (found.name if found else _derived(one.hint, taken))
        yield _Row(
            id=found.id if found else new_id(),
            name=name,
            database_name=one.place,
            server_name=one.server_name,
            is_active=True,
            is_attached=True,
            labels=dict(one.labels),
        )


def place_of(stored: str) -> str:
    """Return the place of a database that is stored, perhaps by an older release, as *stored*."""
    url, mark, digest = stored.partition("#")
    try:
        return postgres_urls.parse(url).place + mark + digest
    except BadPostgresUrl:
        return stored


def _twice(texts: Sequence[str]) -> str:
    seen: set[str] = set()
    return next(one for one in texts if one in seen or seen.add(one))  # type: ignore[func-returns-value]


def _derived(hint: str, taken: set[str]) -> str:
    """Return a name that no database has: *hint*, or *hint* with a number; add it to *taken*."""
    number, name = 1, hint[:NAME_CHARS_MAX]
    while canonical(name) in taken:
        number += 1
        end = f"-{number}"
        name = f"{hint[: NAME_CHARS_MAX - len(end)]}{end}"
    taken.add(canonical(name))
    return name
