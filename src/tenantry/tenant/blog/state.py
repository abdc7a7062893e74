"""The state of a tenant's blog: one row, changed in the transaction of every write.

A write locks the row first, which serializes the writes to one blog: counts are exact, a free slug
stays free, and values that were read in the transaction are current when it writes. On SQLite the
transaction itself is the lock.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import datetime
from typing import Any
from uuid import UUID

import msgspec
import sqlalchemy as sa

from tenantry.db.statements import Statement
from tenantry.kit.ids import new_id
from tenantry.tenant.blog import due
from tenantry.tenant.databases import (
    WRITABLE_FROM,
    TenantDatabase,
    TenantSession,
    has_revision,
    require_revision,
)
from tenantry.tenant.tables import blog_state, post_schedule

EDITABLE_FROM = "0002"
"""The oldest revision at which posts have versions; they are read before."""


class _Version(msgspec.Struct, frozen=True):
    version: UUID


class _Due(_Version, frozen=True):
    due_at: datetime | None


_LOCK = Statement(sa.select(blog_state.c.version, due.NEXT).with_for_update(), _Due)
_VERSION = Statement(sa.select(blog_state.c.version), _Version)
_NEXT, _LATEST = (
    Statement(sa.select(blog_state.c.version, at.label("due_at")), _Due)
    for at in (due.NEXT, due.LATEST)
)
_CHANGE = Statement[Any](
    sa.update(blog_state).values(
        version=sa.bindparam("new", type_=sa.Uuid),
        post_count=blog_state.c.post_count + sa.bindparam("posts", type_=sa.Integer),
        published_count=blog_state.c.published_count + sa.bindparam("published", type_=sa.Integer),
    )
)

_NOTE_DUE = Statement[Any](
    sa.update(blog_state).values(
        version=sa.bindparam("new", type_=sa.Uuid),
        due_at=sa.select(sa.func.min(post_schedule.c.due_at)).scalar_subquery(),
    )
)


async def version(database: TenantDatabase, *, now: datetime) -> UUID:
    """Return the version of the blog.

    Every write that readers may see changes it, and every moment of a schedule. It is random: after
    a restore from a backup, a counter would return an earlier number with different posts.
    """
    if not await has_revision(database, WRITABLE_FROM):
        found = await database.fetch_one(_VERSION)
        assert found is not None
        return found.version
    next_ = await database.fetch_one(_NEXT)
    assert next_ is not None
    if not due.has_come(next_.due_at, now):
        return next_.version
    latest = await database.fetch_one(_LATEST, now=now)
    assert latest is not None
    return due.version_at(latest.version, latest.due_at)


@asynccontextmanager
async def writing(database: TenantDatabase) -> AsyncIterator[TenantSession]:
    """Open a transaction that writes to the blog; other writes wait until it ends.

    Raises:
        TenantOutdated: The tenant must be migrated to `WRITABLE_FROM` first.
    """
    async with locked(database) as (session, _):
        yield session


@asynccontextmanager
async def locked(
    database: TenantDatabase,
) -> AsyncIterator[tuple[TenantSession, datetime | None]]:
    """Do the same as `writing`, and yield also when a schedule is due first, or earlier."""
    await require_revision(database, WRITABLE_FROM)
    async with database.begin() as session:
        found = await session.fetch_one(_LOCK)
        assert found is not None
        yield session, found.due_at


async def note_due(session: TenantSession) -> None:
    """Record a change of schedules: change the version, and when one is due first."""
    await session.execute(_NOTE_DUE, new=new_id())


async def change(session: TenantSession, *, posts: int = 0, published: int = 0) -> None:
    """Record a write: change the version, and add to the numbers of posts."""
    await session.execute(_CHANGE, new=new_id(), posts=posts, published=published)
