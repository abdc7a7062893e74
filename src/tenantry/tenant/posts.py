"""The posts of a tenant's blog."""

import re
import unicodedata
from datetime import datetime
from typing import Any
from uuid import UUID

import msgspec
import sqlalchemy as sa

from tenantry.db.statements import Count, Statement, columns_of
from tenantry.kit.errors import Conflict, NotFound
from tenantry.kit.ids import new_id
from tenantry.kit.pages import Page, Window
from tenantry.kit.text import canonical, checked_line
from tenantry.tenant.databases import TenantDatabase, TenantSession
from tenantry.tenant.tables import post, post_tag

TITLE_CHARS_MAX = 200
SLUG_CHARS_MAX = 200
EXCERPT_CHARS = 200
TAG_CHARS_MAX = 50


class PostNotFound(NotFound):
    """There is no such post."""


class SlugInUse(Conflict):
    """Another post has this slug."""


class PostSummary(msgspec.Struct, frozen=True):
    """A published post as a list shows it."""

    id: UUID
    title: str
    slug: str
    excerpt: str
    author_name: str
    tags: list[str]
    published_at: datetime
    updated_at: datetime


class Post(msgspec.Struct, frozen=True):
    """A published post, whole."""

    id: UUID
    title: str
    slug: str
    excerpt: str
    author_name: str
    tags: list[str]
    published_at: datetime
    updated_at: datetime
    content: str


class _Listed(PostSummary, frozen=True):
    total_count: int


_is_published = post.c.published_at.is_not(None)
_tag = sa.bindparam("tag", type_=sa.String)
_has_tag = sa.exists().where(post_tag.c.tag == _tag, post_tag.c.post_id == post.c.id)


def _page_of(
    *conditions: sa.ColumnElement[bool],
) -> tuple[Statement[_Listed], Statement[Count]]:
    listed = (
        sa.select(*columns_of(post, PostSummary), sa.func.count().over().label("total_count"))
        .where(*conditions)
        .order_by(post.c.published_at.desc(), post.c.id.desc())
        .limit(sa.bindparam("limit", type_=sa.BigInteger))
        .offset(sa.bindparam("offset", type_=sa.BigInteger))
    )
    counted = sa.select(sa.func.count().label("count")).select_from(post).where(*conditions)
    return Statement(listed, _Listed), Statement(counted, Count)


_PAGE, _COUNT = _page_of(_is_published)
_PAGE_OF_TAG, _COUNT_OF_TAG = _page_of(_is_published, _has_tag)
_FIND = Statement(
    sa.select(*columns_of(post, Post)).where(post.c.slug == sa.bindparam("slug"), _is_published),
    Post,
)
_ADD = Statement[Any](sa.insert(post), conflicts={"uq_tenantry_post_slug": SlugInUse})
_ADD_TAG = Statement[Any](sa.insert(post_tag))


async def page_published(
    session: TenantSession, window: Window, *, tag: str | None = None
) -> Page[PostSummary]:
    """Return some published posts, the newest first; with *tag*, only those that have it."""
    statement, count, wanted = _PAGE, _COUNT, {}
    if tag is not None:
        statement, count, wanted = _PAGE_OF_TAG, _COUNT_OF_TAG, {"tag": canonical(tag)}
    listed = await session.fetch_all(statement, limit=window.size, offset=window.offset, **wanted)
    if listed:
        return Page(list[PostSummary](listed), window, listed[0].total_count)
    if not window.offset:
        return Page([], window, 0)
    # Past the end no row is there to tell how many there are.
    counted = await session.fetch_one(count, **wanted)
    return Page([], window, counted.count if counted else 0)


async def get_published(session: TenantSession, slug: str) -> Post:
    """Return the published post with this slug.

    Raises:
        PostNotFound: There is none.
    """
    found = await session.fetch_one(_FIND, slug=canonical(slug))
    if found is None:
        raise PostNotFound
    return found


async def publish_new(
    database: TenantDatabase,
    *,
    title: str,
    content: str,
    tags: list[str],
    author_id: UUID | None,
    author_name: str,
    now: datetime,
) -> Post:
    """Write a post and publish it at once.

    Raises:
        BadText: A rule is broken.
        SlugInUse: The slug that its title makes is another post's.
    """
    written = Post(
        id=new_id(),
        title=checked_line("title", title, chars_max=TITLE_CHARS_MAX),
        slug=slug_of(title),
        excerpt=" ".join(content[:EXCERPT_CHARS].split()),
        author_name=author_name,
        tags=[checked_line("tags", tag, chars_max=TAG_CHARS_MAX) for tag in tags],
        published_at=now,
        updated_at=now,
        content=content,
    )
    async with database.begin() as session:
        await session.execute(
            _ADD, author_id=author_id, created_at=now, **msgspec.structs.asdict(written)
        )
        for tag in {canonical(tag) for tag in tags}:
            await session.execute(_ADD_TAG, tag=tag, post_id=written.id)
    return written


def slug_of(title: str) -> str:
    """Return the part of a URL that *title* makes: letters and digits of any script."""
    plain = unicodedata.normalize("NFKC", canonical(title))
    return re.sub(r"[\W_]+", "-", plain).strip("-")[:SLUG_CHARS_MAX].strip("-") or "post"
