"""The state of a tenant's blog: one row, changed in the transaction of every write.

A write locks the row first, which serializes the writes to one blog: counts are exact, a free slug
stays free, and values that were read in the transaction are current when it writes. On SQLite the
transaction itself is the lock.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any
from uuid import UUID

import msgspec
import sqlalchemy as sa

from tenantry.db.statements import Statement
from tenantry.kit.ids import new_id
from tenantry.tenant.databases import TenantDatabase, TenantSession, require_revision
from tenantry.tenant.tables import blog_state

EDITABLE_FROM = "0002"
"""The oldest revision at which posts can be written, and have versions; they are read before."""


class _Version(msgspec.Struct, frozen=True):
    version: UUID


_LOCK = Statement(sa.select(blog_state.c.version).with_for_update(), _Version)
_VERSION = Statement(sa.select(blog_state.c.version), _Version)
_CHANGE = Statement[Any](
    sa.update(blog_state).values(
        version=sa.bindparam("new", type_=sa.Uuid),
        post_count=blog_state.c.post_count + sa.bindparam("posts", type_=sa.Integer),
        published_count=blog_state.c.published_count + sa.bindparam("published", type_=sa.Integer),
    )
)


async def version(database: TenantDatabase) -> UUID:
    """Return the version of the blog.

    Every write changes it. It is random: after a restore from a backup, a counter would return an
    earlier number with different posts.
    """
    found = await database.fetch_one(_VERSION)
    assert found is not None
    return found.version


@asynccontextmanager
async def writing(database: TenantDatabase) -> AsyncIterator[TenantSession]:
    """Open a transaction that writes to the blog; other writes wait until it ends.

    Raises:
        TenantOutdated: The tenant must be migrated to `EDITABLE_FROM` first.
    """
    await require_revision(database, EDITABLE_FROM)
    async with database.begin() as session:
        await session.execute(_LOCK)
        yield session


async def change(session: TenantSession, *, posts: int = 0, published: int = 0) -> None:
    """Record a write: change the version, and add to the numbers of posts."""
    await session.execute(_CHANGE, new=new_id(), posts=posts, published=published)
