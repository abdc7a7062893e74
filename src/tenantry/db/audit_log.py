"""An audit log: a table of who did what, when, from where, and which values changed.

An entry is written in the transaction of what it records, so in the same database: the catalog
has a log (`catalog.audit`), and each tenant has one (`tenant.audit`). Both have the same filters,
order and form. Entries are only added and, after the retention period, removed.

An entry never contains a secret: passwords, keys and tokens are named as fields, without values.
"""

from collections.abc import AsyncGenerator, Mapping, Sequence
from datetime import UTC, datetime
from functools import cache
from operator import attrgetter
from typing import Any, Generic
from uuid import UUID

import msgspec
import sqlalchemy as sa

from tenantry.db.sessions import Kind, Session
from tenantry.db.statements import Count, Statement, parameters
from tenantry.kit.context import OperationContext
from tenantry.kit.ids import first_id_at, new_id_at
from tenantry.kit.pages import Page, Window

# Longest value of a field that an entry repeats: a name and an e-mail address always fit.
VALUE_CHARS_MAX = 300
# Longest target: two ids, or an id and a label.
TARGET_CHARS_MAX = 300
# Entries in memory while the log is exported.
EXPORT_ROWS = 500
# Entries that one call of `AuditLog.prune` removes; called every 5 s, it keeps up with 200
# entries/s.
PRUNED_MAX = 1000

Changes = list[dict[str, object]]


class AuditEntry(msgspec.Struct, frozen=True, rename="camel"):
    """One entry.

    Attributes:
        id: Its id: a UUIDv7 of the time.
        at: When it happened; for a merged entry, the first time.
        last_at: For a merged entry, the last time; otherwise the same as `at`.
        count: How many equal events the entry stands for; 1 if it is not merged.
        actor: An admin's e-mail address, ``user:ID``, ``mcp-token:ID``, ``cli:USER@HOST``,
            or ``schedule``: that of a post, when the first write after its moment was made. The
            moment is in the changes.
        action: What was done: a kind of object and a verb, such as ``tenant.create``.
        target: The id of what was changed, at most 300 characters; empty if there is none.
        tenant_id: The tenant whose data or settings were changed; None if it was that of no tenant.
        address: The client's address; ``local`` on the command line; empty for a schedule.
        command: The command on the command line, without arguments; None over HTTP.
        changes: One object for each field: ``field``, and ``old`` and ``new`` unless secret.
        request_id: The id of the request; for a merged entry, of the first request; empty for a
            schedule.
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
    """Selects entries; a field that is None matches any value.

    Attributes:
        actor: Only entries of this actor: the whole value, at most 300 characters.
        action: Only this action: the whole value, such as ``tenant.create``.
        target: Only this target: the whole value, at most 300 characters.
        tenant_id: Only entries of this tenant.
        since: The earliest time of an entry, inclusive, with a time zone.
        until: The latest time of an entry, exclusive, with a time zone.
    """

    actor: str | None = None
    action: str | None = None
    target: str | None = None
    tenant_id: UUID | None = None
    since: datetime | None = None
    until: datetime | None = None


ANY = AuditFilter()

_FILTERS = ("actor", "action", "target", "tenant_id")
_FIRST_ID = UUID(int=0)
_LAST_ID = UUID(int=2**128 - 1)


class Statements(msgspec.Struct, frozen=True):
    """The statements that read a log with one set of filters."""

    page: Statement[AuditEntry]
    count: Statement[Count]
    older: Statement[AuditEntry]


class _Id(msgspec.Struct, frozen=True):
    id: UUID


class AuditLog(Generic[Kind]):
    """Reads and writes one table of entries.

    Args:
        table: Its id is a UUIDv7 of the time in ``at``. So every index that ends with the id is
            ordered by time, and a range of times is a range of ids.
        others: Expressions for the fields of `AuditEntry` that are not columns of the table.
            They may use the parameters of `AuditFilter`.
    """

    def __init__(
        self, table: sa.Table, others: Mapping[str, sa.ColumnElement[Any]] | None = None
    ) -> None:
        others = others or {}
        fields = [field.name for field in msgspec.structs.fields(AuditEntry)]
        self._table = table
        self._names = [name for name in fields if name not in others]
        self._read = attrgetter(*self._names)
        self._selected = [
            others[name].label(name) if name in others else table.c[name] for name in fields
        ]
        self._filters = [name for name in _FILTERS if name not in others]
        self._add = Statement[Any](sa.insert(table).values(parameters(*self._names)))
        self._prune = Statement(
            sa.delete(table)
            .where(
                table.c.id.in_(
                    sa.select(table.c.id)
                    .where(table.c.id < sa.bindparam("before", type_=sa.Uuid))
                    .order_by(table.c.id)
                    .limit(PRUNED_MAX)
                )
            )
            .returning(table.c.id),
            _Id,
        )
        # At most 16 sets of filters.
        self.statements = cache(self._statements)

    async def add(
        self,
        session: Session[Kind],
        ctx: OperationContext,
        action: str,
        target: object,
        *,
        tenant_id: UUID | None = None,
        changes: Sequence[Mapping[str, object]] = (),
    ) -> None:
        """Add an entry of *action*, as ``noun.verb``, in the transaction of the change itself.

        The *target* is the id of what is changed, and `changes_between` returns the *changes*.
        """
        entry = new_entry(
            ctx, action=action, target=str(target), tenant_id=tenant_id, changes=changes
        )
        await session.execute(self._add, **self.row(entry))

    async def add_all(self, session: Session[Kind], entries: Sequence[AuditEntry]) -> None:
        """Add several entries: all of them, or none."""
        await session.execute_many(self._add, [self.row(entry) for entry in entries])

    async def page(
        self, session: Session[Kind], window: Window, wanted: AuditFilter = ANY
    ) -> Page[AuditEntry]:
        """Return one page of the *wanted* entries, the newest first."""
        given, values = self._values(wanted)
        statements = self.statements(given)
        items = await session.fetch_all(
            statements.page, limit=window.size, offset=window.offset, **values
        )
        total = await session.fetch_one(statements.count, **values)
        return Page(items, window, total.count if total else 0)

    async def each(
        self, session: Session[Kind], wanted: AuditFilter = ANY
    ) -> AsyncGenerator[list[AuditEntry], None]:
        """Yield all *wanted* entries, the newest first, at most `EXPORT_ROWS` at a time.

        No transaction is open between two batches. Entries that are added later are not included.
        """
        given, values = self._values(wanted)
        while True:
            older = self.statements(given).older
            found = await session.fetch_all(older, limit=EXPORT_ROWS, **values)
            if found:
                yield found
            if len(found) < EXPORT_ROWS:
                return
            values["end"] = found[-1].id

    async def prune(self, session: Session[Kind], *, before: datetime) -> bool:
        """Remove the oldest entries before a time, at most `PRUNED_MAX` of them.

        Returns:
            Whether there may be more.
        """
        removed = await session.fetch_all(self._prune, before=first_id_at(before))
        return len(removed) == PRUNED_MAX

    def row(self, entry: AuditEntry) -> dict[str, object]:
        """Return the columns of *entry* in this table."""
        return dict(zip(self._names, self._read(entry), strict=True))

    def _values(self, wanted: AuditFilter) -> tuple[tuple[str, ...], dict[str, object]]:
        values = {name: getattr(wanted, name) for name in _FILTERS}
        given = tuple(name for name in self._filters if values[name] is not None)
        values["first"] = _FIRST_ID if wanted.since is None else first_id_at(wanted.since)
        values["end"] = _LAST_ID if wanted.until is None else first_id_at(wanted.until)
        return given, values

    def _statements(self, given: tuple[str, ...]) -> Statements:
        """Return the statements that filter by the columns *given*."""
        columns = self._table.c
        conditions = [
            *(columns[name] == sa.bindparam(name, type_=columns[name].type) for name in given),
            columns.id >= sa.bindparam("first", type_=sa.Uuid),
            columns.id < sa.bindparam("end", type_=sa.Uuid),
        ]
        limit = sa.bindparam("limit", type_=sa.BigInteger)
        # The entries before the page are skipped in the index, without reading the rows.
        ids = (
            sa.select(columns.id)
            .where(*conditions)
            .order_by(columns.id.desc())
            .limit(limit)
            .offset(sa.bindparam("offset", type_=sa.BigInteger))
            .subquery()
        )
        entries = sa.select(*self._selected).select_from(self._table).order_by(columns.id.desc())
        count = sa.select(sa.func.count().label("count")).select_from(self._table)
        return Statements(
            Statement(entries.join(ids, ids.c.id == columns.id), AuditEntry),
            Statement(count.where(*conditions), Count),
            Statement(entries.where(*conditions).limit(limit), AuditEntry),
        )


def new_entry(
    ctx: OperationContext,
    *,
    action: str,
    target: str,
    tenant_id: UUID | None = None,
    changes: Sequence[Mapping[str, object]] = (),
) -> AuditEntry:
    """Return an entry for an action that *ctx* performs now."""
    return AuditEntry(
        id=new_id_at(ctx.now),
        at=ctx.now,
        last_at=ctx.now,
        count=1,
        actor=ctx.actor,
        action=action,
        target=target[:TARGET_CHARS_MAX],
        tenant_id=tenant_id,
        address=ctx.address,
        command=ctx.command,
        changes=list(map(dict, changes)),
        request_id=ctx.request_id,
    )


def changes_between(before: object, after: object, *names: str) -> Changes:
    """Return the fields in *names* that differ between two Structs.

    If one of the two is None, every field of the other that is not None is a change.
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


def _wire_name(name: str) -> str:
    first, *others = name.split("_")
    return "".join([first, *(one.title() for one in others)])


def _value(value: object) -> object:
    if value is None or isinstance(value, bool | int):
        return value
    if isinstance(value, dict):
        value = [f"{key}={one}" for key, one in value.items()]
    if isinstance(value, frozenset | list):
        value = " ".join(sorted(map(str, value)))
    if isinstance(value, datetime):
        value = msgspec.to_builtins(value.astimezone(UTC))
    text = str(value)
    return text if len(text) <= VALUE_CHARS_MAX else f"{text[: VALUE_CHARS_MAX - 1]}…"
