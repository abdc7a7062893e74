"""How far the post events of each tenant were queued for each target that gets them.

A cursor is moved in the transaction that adds to the outbox, and only from where it was read, so
each event is queued once. One process reads all tenants of a target, and holds the target by its
heartbeat; when it has none, another process takes over.
"""

from collections.abc import Iterable
from typing import Any
from uuid import UUID

import msgspec
import sqlalchemy as sa

from tenantry.catalog.session import CatalogSession, Value
from tenantry.catalog.tables import post_hook, post_hook_target, tenant
from tenantry.catalog.tenants import Tenant, is_ready
from tenantry.catalog.workers import NO_WORKER, is_abandoned
from tenantry.db.statements import Statement, columns_of, insert

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

    def after(self, positions: Iterable[str], *, settled: str = "") -> "Progress":
        """Return the progress after *positions*, before which all were read.

        `since` is the last one, but not after *settled*: until there, nothing is written between.
        """
        seen = sorted({*self.seen, *positions})
        last = min(settled, seen[-1]) if seen else ""
        return self._since(seen, last, *seen[: max(len(seen) - SEEN_MAX, 0)])

    def cut(self, before: str) -> "Progress":
        """Return the progress without what is *before* a position, read or not."""
        return self._since(self.seen, before)

    def _since(self, seen: Iterable[str], *since: str) -> "Progress":
        last = max(self.since, *since)
        return Progress(last, tuple(one for one in seen if one > last))


class Cursor(msgspec.Struct, frozen=True):
    """The progress in the two logs of a tenant: its audit log, and the moments of its schedules."""

    entries: Progress
    moments: Progress

    @property
    def text(self) -> str:
        """The cursor as it is stored."""
        return msgspec.json.encode(self).decode()


class Followed(Tenant, frozen=True):
    """A tenant with its stored cursor."""

    stored: str = ""

    @property
    def cursor(self) -> Cursor:
        """The cursor."""
        return msgspec.json.decode(self.stored, type=Cursor)


class _Held(msgspec.Struct, frozen=True):
    is_mine: bool
    is_free: bool


_row, _held = post_hook.c, post_hook_target.c
_target = sa.bindparam("target", type_=sa.String)
_tenant = sa.bindparam("tenant", type_=sa.Uuid)
_worker = sa.bindparam("worker", type_=sa.Uuid)
_is_mine = _held.worker_id == _worker
_is_free = is_abandoned(_held.worker_id, _worker)
_FIND = Statement(
    sa.select(
        sa.type_coerce(_is_mine, sa.Boolean).label("is_mine"),
        sa.type_coerce(_is_free, sa.Boolean).label("is_free"),
    ).where(_held.target == _target),
    _Held,
)
_ADD_TARGET = Statement[Any](
    insert(post_hook_target).values(target=_target, worker_id=NO_WORKER).on_conflict_do_nothing()
)
_HOLD = Statement(
    sa.update(post_hook_target)
    .values(worker_id=_worker)
    .where(_held.target == _target, _is_free)
    .returning(_held.target.label("value")),
    Value,
)
_RELEASE = Statement[Any](
    sa.update(post_hook_target).values(worker_id=NO_WORKER).where(_held.target == _target, _is_mine)
)
_FOLLOWED = Statement(
    sa.select(*columns_of(tenant, Tenant), _row.cursor.label("stored"))
    .select_from(post_hook.join(tenant))
    .where(_row.target == _target, is_ready),
    Followed,
)
_FOLLOW = Statement[Any](
    insert(post_hook)
    .values(target=_target, tenant_id=_tenant, cursor=sa.bindparam("cursor", type_=sa.String))
    .on_conflict_do_nothing()
)
_MOVE = Statement(
    sa.update(post_hook)
    .values(cursor=sa.bindparam("to", type_=sa.String))
    .where(
        _row.target == _target,
        _row.tenant_id == _tenant,
        _row.cursor == sa.bindparam("stored", type_=sa.String),
    )
    .returning(_row.target.label("value")),
    Value,
)


async def hold(session: CatalogSession, target: str, *, worker_id: UUID) -> bool:
    """Return whether *worker_id* holds a target, or takes it because no process does."""
    names = {"target": target, "worker": worker_id}
    found = await session.fetch_one(_FIND, **names)
    if found is None:
        await session.execute(_ADD_TARGET, target=target)
    elif found.is_mine or not found.is_free:
        return found.is_mine
    return await session.fetch_one(_HOLD, **names) is not None


async def release(session: CatalogSession, target: str, *, worker_id: UUID) -> None:
    """Let other processes take a target that *worker_id* may hold."""
    await session.execute(_RELEASE, target=target, worker=worker_id)


async def followed(session: CatalogSession, target: str) -> dict[UUID, Followed]:
    """Return the ready tenants that have a cursor for a target, by their ids."""
    return {one.id: one for one in await session.fetch_all(_FOLLOWED, target=target)}


async def follow(session: CatalogSession, target: str, tenant_id: UUID, first: Cursor) -> None:
    """Let the cursor of a target and a tenant begin at *first*, if there is none."""
    await session.execute(_FOLLOW, target=target, tenant=tenant_id, cursor=first.text)


async def move(session: CatalogSession, target: str, tenant: Followed, to: Cursor) -> bool:
    """Move a cursor *to* a place, in the transaction that queues the events up to there.

    Returns False if it is no longer the cursor of *tenant*: another process has moved it.
    """
    names = {"target": target, "tenant": tenant.id, "stored": tenant.stored}
    return await session.fetch_one(_MOVE, to=to.text, **names) is not None
