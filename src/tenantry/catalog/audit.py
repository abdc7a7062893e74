"""The audit log: who did what, when, from where, and which values changed.

One table for the whole service, in the catalog: it outlives a tenant's database, and it is not
rolled back when one is restored. Entries are only added and, after the retention period,
removed. Two kinds differ:

* A **change** is one entry for each change, and is never merged.
* A **sign-in** (login, failure, lockout, logout) is merged by `merge_key`: one entry with a
  count. Without that, an attacker who guesses passwords would fill the table.

An entry never contains a secret: passwords, keys and tokens are named as fields, without values.
"""

from collections.abc import AsyncGenerator, Mapping, Sequence
from datetime import UTC, datetime
from functools import cache
from typing import Any
from uuid import UUID

import msgspec
import sqlalchemy as sa

from tenantry.catalog.planes import CatalogSession
from tenantry.catalog.tables import audit_entry
from tenantry.db.statements import Count, Statement, columns_of, insert
from tenantry.kit.context import OperationContext
from tenantry.kit.ids import first_id_at, new_id_at
from tenantry.kit.pages import Page, Window

# Longest value of a field that an entry repeats.
VALUE_CHARS_MAX = 200
# Longest target: two ids, or an id and a label.
TARGET_CHARS_MAX = 300
# An IPv6 address with a zone, and more.
ADDRESS_CHARS_MAX = 100
# Entries in memory while the log is exported.
EXPORT_ROWS = 500
# Entries that one call of `prune` removes; called every 5 s, it keeps up with 200 entries/s.
PRUNED_MAX = 1000

Changes = list[dict[str, object]]


class AuditEntry(msgspec.Struct, frozen=True):
    """One entry.

    Attributes:
        at: When it happened; of a merged entry, the first time.
        last_at: Of a merged entry, the last time; else the same as `at`.
        count: How often it happened.
        actor: An admin's e-mail address, ``user:ID``, ``mcp-token:ID``, ``cli:USER@HOST``.
        target: The id of what was changed.
        tenant_id: The tenant concerned, if one is.
        address: The client's address; ``local`` on the command line.
        command: The command on the command line, without arguments.
        changes: A field each: ``field``, and ``old`` and ``new`` if they are no secrets.
        request_id: Of the request; of a merged entry, of the first one.
    """

    id: UUID
    at: datetime
    last_at: datetime
    count: int
    actor: str
    action: str
    target: str
    tenant_id: UUID | None
    address: str
    command: str | None
    changes: Changes
    request_id: str


class AuditFilter(msgspec.Struct, frozen=True, kw_only=True):
    """Which entries are wanted; None is any.

    Attributes:
        since: The earliest time, inclusive, by `AuditEntry.at`.
        until: The latest time, exclusive.
    """

    actor: str | None = None
    action: str | None = None
    target: str | None = None
    tenant_id: UUID | None = None
    since: datetime | None = None
    until: datetime | None = None


ANY = AuditFilter()

_EQUALS = ("actor", "action", "target", "tenant_id")
_entry = audit_entry.c
_COLUMNS = columns_of(audit_entry, AuditEntry)
_FIRST_ID = UUID(int=0)
_LAST_ID = UUID(int=2**128 - 1)

_ADD = Statement[Any](sa.insert(audit_entry))
_insert = insert(audit_entry)
_MERGE = Statement[Any](
    _insert.values(
        {column.name: sa.bindparam(column.name) for column in audit_entry.columns}
    ).on_conflict_do_update(
        index_elements=[_entry.merge_key],
        set_={
            "count": _entry.count + _insert.excluded.count,
            "last_at": _insert.excluded.last_at,
        },
    )
)
_PRUNE = Statement[Any](
    sa.delete(audit_entry).where(
        _entry.id.in_(
            sa.select(_entry.id)
            .where(_entry.id < sa.bindparam("before", type_=sa.Uuid))
            .order_by(_entry.id)
            .limit(PRUNED_MAX)
        )
    )
)


class _Statements(msgspec.Struct, frozen=True):
    page: Statement[AuditEntry]
    count: Statement[Count]
    older: Statement[AuditEntry]


@cache
def _statements(given: tuple[str, ...]) -> _Statements:
    """Return the statements that filter by the columns *given*: at most 16 sets of them."""
    conditions = [
        *(_entry[name] == sa.bindparam(name, type_=_entry[name].type) for name in given),
        _entry.id >= sa.bindparam("first", type_=sa.Uuid),
        _entry.id < sa.bindparam("end", type_=sa.Uuid),
    ]
    limit = sa.bindparam("limit", type_=sa.BigInteger)
    # What is skipped is skipped in the index, without reading the rows.
    ids = (
        sa.select(_entry.id)
        .where(*conditions)
        .order_by(_entry.id.desc())
        .limit(limit)
        .offset(sa.bindparam("offset", type_=sa.BigInteger))
        .subquery()
    )
    page = sa.select(*_COLUMNS).join(ids, ids.c.id == _entry.id).order_by(_entry.id.desc())
    count = sa.select(sa.func.count().label("count")).select_from(audit_entry).where(*conditions)
    older = sa.select(*_COLUMNS).where(*conditions).order_by(_entry.id.desc()).limit(limit)
    return _Statements(
        Statement(page, AuditEntry), Statement(count, Count), Statement(older, AuditEntry)
    )


def new_entry(
    ctx: OperationContext,
    *,
    action: str,
    target: str,
    tenant_id: UUID | None = None,
    changes: Sequence[Mapping[str, object]] = (),
) -> AuditEntry:
    """Return an entry of what *ctx* does now."""
    return AuditEntry(
        id=new_id_at(ctx.now),
        at=ctx.now,
        last_at=ctx.now,
        count=1,
        actor=ctx.actor,
        action=action,
        target=target[:TARGET_CHARS_MAX],
        tenant_id=tenant_id,
        address=_printable(ctx.address),
        command=ctx.command,
        changes=[dict(change) for change in changes],
        request_id=ctx.request_id,
    )


def changes_between(before: object, after: object, *names: str) -> Changes:
    """Return the fields in *names* whose values differ between two Structs.

    Either may be None: then every field of the other one that is not None is a change.
    """
    found: Changes = []
    for name in names:
        old, new = getattr(before, name, None), getattr(after, name, None)
        if old != new:
            found.append({"field": _wire_name(name), "old": _value(old), "new": _value(new)})
    return found


def named_change(name: str) -> Changes:
    """Return the change of a field without its values: a secret, or a text that is too long."""
    return [{"field": _wire_name(name)}]


async def add(
    session: CatalogSession,
    ctx: OperationContext,
    *,
    action: str,
    target: str,
    tenant_id: UUID | None = None,
    changes: Sequence[Mapping[str, object]] = (),
) -> None:
    """Add an entry, in the transaction of the change itself."""
    entry = new_entry(ctx, action=action, target=target, tenant_id=tenant_id, changes=changes)
    await add_all(session, [entry])


async def add_all(session: CatalogSession, entries: Sequence[AuditEntry]) -> None:
    """Add some entries, all or none of them."""
    await session.execute_many(_ADD, [_row(entry, None) for entry in entries])


async def merge_all(session: CatalogSession, entries: Mapping[str, AuditEntry]) -> None:
    """Add sign-ins by their merge keys, all or none; one that is there already counts up."""
    # In one order for every process, so that two of them cannot deadlock.
    rows = [_row(entries[key], key) for key in sorted(entries)]
    await session.execute_many(_MERGE, rows)


async def page(
    session: CatalogSession, window: Window, wanted: AuditFilter = ANY
) -> Page[AuditEntry]:
    """Return some of the *wanted* entries, the newest first."""
    given, values = _values(wanted)
    statements = _statements(given)
    items = await session.fetch_all(
        statements.page, limit=window.size, offset=window.offset, **values
    )
    total = await session.fetch_one(statements.count, **values)
    return Page(items, window, total.count if total else 0)


async def each(
    session: CatalogSession, wanted: AuditFilter = ANY
) -> AsyncGenerator[list[AuditEntry], None]:
    """Yield all *wanted* entries, the newest first, at most `EXPORT_ROWS` at a time.

    No transaction is held between two of them. What is added meanwhile is not included.
    """
    given, values = _values(wanted)
    while True:
        found = await session.fetch_all(_statements(given).older, limit=EXPORT_ROWS, **values)
        if found:
            yield found
        if len(found) < EXPORT_ROWS:
            return
        values["end"] = found[-1].id


async def prune(session: CatalogSession, *, before: datetime) -> None:
    """Remove the oldest entries from before a time, at most `PRUNED_MAX` of them."""
    await session.execute(_PRUNE, before=first_id_at(before))


def _values(wanted: AuditFilter) -> tuple[tuple[str, ...], dict[str, object]]:
    given = tuple(name for name in _EQUALS if getattr(wanted, name) is not None)
    values: dict[str, object] = {name: getattr(wanted, name) for name in given}
    values["first"] = _FIRST_ID if wanted.since is None else first_id_at(wanted.since)
    values["end"] = _LAST_ID if wanted.until is None else first_id_at(wanted.until)
    return given, values


def _row(entry: AuditEntry, merge_key: str | None) -> dict[str, object]:
    return {**msgspec.structs.asdict(entry), "merge_key": merge_key}


def _printable(address: str) -> str:
    """Return an address as it can be stored: a proxy may forward any text as one."""
    return "".join(one if one.isprintable() else "?" for one in address[:ADDRESS_CHARS_MAX])


def _wire_name(name: str) -> str:
    first, *others = name.split("_")
    return "".join([first, *(one.title() for one in others)])


def _value(value: object) -> object:
    if value is None or isinstance(value, bool | int):
        return value
    if isinstance(value, frozenset | list):
        value = " ".join(sorted(map(str, value)))
    if isinstance(value, datetime):
        value = msgspec.to_builtins(value.astimezone(UTC))
    text = str(value)
    return text if len(text) <= VALUE_CHARS_MAX else f"{text[: VALUE_CHARS_MAX - 1]}…"
