"""How far the post events of each tenant were queued for each target that gets them.

A cursor is moved in the transaction that adds to the outbox, so each event is queued once. A
process holds a cursor by its heartbeat; when it has none, another process takes over.
"""

from collections.abc import Iterable
from typing import Any
from uuid import UUID

import msgspec
import sqlalchemy as sa

from tenantry.catalog.session import CatalogSession
from tenantry.catalog.tables import post_hook
from tenantry.catalog.workers import is_abandoned
from tenantry.db.statements import Statement, insert

SEEN_MAX = 1_000
"""Positions after `Progress.since` that a cursor has; at more, the oldest become its `since`."""


class Progress(msgspec.Struct, frozen=True):
    """Which positions of a log were read: those up to `since`, and those that were `seen` after it.

    A process with a slow clock, or a long transaction, writes positions between.
    """

    since: str
    seen: tuple[str, ...] = ()

    def has(self, position: str) -> bool:
        """Return whether a position was read."""
        return position <= self.since or position in self.seen

    def after(self, positions: Iterable[str], *, since: str = "") -> "Progress":
        """Return the progress after *positions*, and after all positions up to *since*."""
        seen = sorted({*self.seen, *positions})
        last = max(self.since, since, *seen[: max(len(seen) - SEEN_MAX, 0)])
        return Progress(last, tuple(one for one in seen if one > last))


class Cursor(msgspec.Struct, frozen=True):
    """The progress in the two logs of a tenant: its audit log, and the moments of its schedules."""

    entries: Progress
    moments: Progress


class _Held(msgspec.Struct, frozen=True):
    cursor: str
    is_mine: bool
    is_free: bool


class _Cursor(msgspec.Struct, frozen=True):
    cursor: str


_row = post_hook.c
_worker = sa.bindparam("worker", type_=sa.Uuid)
_is_it = sa.and_(
    _row.target == sa.bindparam("target", type_=sa.String),
    _row.tenant_id == sa.bindparam("tenant", type_=sa.Uuid),
)
_cursor = sa.bindparam("cursor", type_=sa.String)
_is_mine = _row.worker_id == _worker
_is_free = is_abandoned(_row.worker_id, _worker)
_FIND = Statement(
    sa.select(
        _row.cursor,
        sa.type_coerce(_is_mine, sa.Boolean).label("is_mine"),
        sa.type_coerce(_is_free, sa.Boolean).label("is_free"),
    ).where(_is_it),
    _Held,
)
_ADD = Statement[Any](
    insert(post_hook)
    .values(
        target=sa.bindparam("target"),
        tenant_id=sa.bindparam("tenant"),
        cursor=_cursor,
        worker_id=_worker,
    )
    .on_conflict_do_nothing()
)
_TAKE = Statement(
    sa.update(post_hook).values(worker_id=_worker).where(_is_it, _is_free).returning(_row.cursor),
    _Cursor,
)
_MOVE = Statement(
    sa.update(post_hook).values(cursor=_cursor).where(_is_it, _is_mine).returning(_row.cursor),
    _Cursor,
)


async def hold(
    session: CatalogSession, target: str, tenant_id: UUID, first: Cursor, *, worker_id: UUID
) -> Cursor | None:
    """Return the cursor of a target and a tenant for *worker_id*; None if another process holds it.

    If there is none, it begins at *first*.
    """
    names = {"target": target, "tenant": tenant_id, "worker": worker_id}
    found = await session.fetch_one(_FIND, **names)
    if found is None:
        await session.execute(_ADD, cursor=msgspec.json.encode(first).decode(), **names)
        found = await session.fetch_one(_FIND, **names)
    if found is not None and found.is_mine:
        return _decoded(found.cursor)
    if found is None or not found.is_free:
        return None
    taken = await session.fetch_one(_TAKE, **names)
    return None if taken is None else _decoded(taken.cursor)


async def move(
    session: CatalogSession, target: str, tenant_id: UUID, to: Cursor, *, worker_id: UUID
) -> bool:
    """Move a cursor, in the transaction that queues events; False if *worker_id* has lost it."""
    cursor = msgspec.json.encode(to).decode()
    names = {"target": target, "tenant": tenant_id, "worker": worker_id}
    return await session.fetch_one(_MOVE, cursor=cursor, **names) is not None


def _decoded(cursor: str) -> Cursor:
    return msgspec.json.decode(cursor, type=Cursor)
