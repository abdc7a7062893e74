"""What the database of a tenant holds, as the operator sees it.

Its size, its newest posts, and which revisions were applied to it.
"""

from datetime import datetime
from uuid import UUID

import msgspec
import sqlalchemy as sa

from tenantry.db.statements import Statement
from tenantry.db.types import sql_function
from tenantry.migration.schema_state import is_of_revision, log
from tenantry.tenant.blog import drafted, due
from tenantry.tenant.blog.drafted import Reads
from tenantry.tenant.databases import WRITABLE_FROM, TenantDatabase, has_revision
from tenantry.tenant.tables import blog_state, post

POSTS_SHOWN_MAX = 10
LOG_LINES_MAX = 200

# SQLite writes to free pages first. PostgreSQL does not say how much of a table is free.
_database_size = sql_function(
    sa.BigInteger(),
    sqlite="(SELECT (page_count - freelist_count) * page_size FROM pragma_page_count(), "
    "pragma_freelist_count(), pragma_page_size())",
    postgresql="pg_database_size(current_database())",
)


class NewPost(msgspec.Struct, frozen=True, rename="camel"):
    """A post.

    Attributes:
        title: One line, at most 200 characters.
        author_name: The name of the author when the post was written; empty without a user.
        published_at: When it was published; None for a draft.
    """

    id: UUID
    title: str
    author_name: str
    created_at: datetime
    published_at: datetime | None


class _Size(msgspec.Struct, frozen=True):
    size_bytes: int


class _Counts(msgspec.Struct, frozen=True):
    size_bytes: int
    post_count: int
    published_count: int


class Overview(_Counts, frozen=True):
    """The size of a tenant's database, and its posts.

    Attributes:
        posts: The newest ones, at most `POSTS_SHOWN_MAX`.
    """

    posts: list[NewPost]


_SIZE = Statement(sa.select(_database_size().label("size_bytes")), _Size)


def _counts(published: sa.ColumnElement[int]) -> Statement[_Counts]:
    size = _database_size().label("size_bytes")
    columns = (size, blog_state.c.post_count, published.label("published_count"))
    return Statement(sa.select(*columns), _Counts)


def _newest(reads: Reads) -> Statement[NewPost]:
    listed = sa.select(*drafted.columns(NewPost, reads)).select_from(drafted.joined(reads))
    return Statement(listed.order_by(post.c.id.desc()).limit(POSTS_SHOWN_MAX), NewPost)


_READS = (Reads.UNSCHEDULED_READERS, Reads.READERS_NOW)
_COUNTS = dict(
    zip(_READS, map(_counts, (blog_state.c.published_count, due.PUBLISHED)), strict=True)
)
_NEWEST = {reads: _newest(reads) for reads in _READS}


async def read_size(database: TenantDatabase) -> int:
    """Return the size of the database of a tenant, in bytes; on SQLite, of its used pages.

    Raises:
        DatabaseUnavailable: It cannot be reached.
    """
    found = await database.fetch_one(_SIZE)
    assert found is not None
    return found.size_bytes


async def read_overview(database: TenantDatabase, *, now: datetime) -> Overview:
    """Return what the database of a tenant holds; schedules count that are due *now*.

    Raises:
        DatabaseUnavailable: It cannot be reached.
    """
    reads = _READS[await has_revision(database, WRITABLE_FROM)]
    counts = await database.fetch_one(_COUNTS[reads], now=now)
    assert counts is not None
    posts = await database.fetch_all(_NEWEST[reads], now=now)
    return Overview(posts=posts, **msgspec.structs.asdict(counts))


class LogEntry(msgspec.Struct, frozen=True):
    """A revision that a run has applied.

    Attributes:
        stream: `tenantry` or `user`.
        run_id: The run; for a new tenant, its creation.
    """

    stream: str
    revision: str
    run_id: UUID
    applied_at: datetime


_ENTRIES = Statement(
    sa.select(log.c.stream, log.c.revision, log.c.run_id, log.c.applied_at)
    .where(is_of_revision)
    .order_by(log.c.position.desc())
    .limit(LOG_LINES_MAX),
    LogEntry,
)


async def migration_log(database: TenantDatabase) -> list[LogEntry]:
    """Return the last `LOG_LINES_MAX` revisions that were applied, the newest first."""
    return await database.fetch_all(_ENTRIES)
