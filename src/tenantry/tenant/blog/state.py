"""The state of a tenant's blog: one row, changed in the transaction of every write.

Whoever writes locks it first, so that the writes to one blog come one after the other: no
count is lost, a free slug stays free, and what was read inside still holds when it is
written. On SQLite the transaction itself is that lock.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any
from uuid import UUID

import msgspec
import sqlalchemy as sa

from tenantry.db.statements import Statement
from tenantry.kit.ids import new_id
from tenantry.tenant.databases import TenantDatabase, TenantOutdated, TenantSession, is_current
from tenantry.tenant.tables import blog_state


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


def require(database: TenantDatabase) -> None:
    """Check that *database* has all that a blog needs.

    Raises:
        TenantOutdated: It has not.
    """
    if not is_current(database):
        raise TenantOutdated


async def version(database: TenantDatabase) -> UUID | None:
    """Return the version of the blog; None if the database has none yet.

    It is another one after every write, and no number: a blog that was restored from a backup
    would come by an old number with other posts.
    """
    if not is_current(database):
        return None
    found = await database.fetch_one(_VERSION)
    return found.version if found else None


@asynccontextmanager
async def writing(database: TenantDatabase) -> AsyncIterator[TenantSession]:
    """Open a transaction that writes to the blog: nobody else does meanwhile.

    Raises:
        TenantOutdated: The database has no place for what is written.
    """
    require(database)
    async with database.begin() as session:
        await session.execute(_LOCK)
        yield session


async def change(session: TenantSession, *, posts: int = 0, published: int = 0) -> None:
    """Note a write: how many posts there are more than before, and published ones."""
    await session.execute(_CHANGE, new=new_id(), posts=posts, published=published)
