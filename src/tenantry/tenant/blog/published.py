"""The published posts of a blog, for callers with the tenant's API key."""

from dataclasses import dataclass
from typing import Generic, TypeVar
from uuid import UUID

import sqlalchemy as sa

from tenantry.db.statements import Statement, columns_of
from tenantry.kit.pages import Page, Window
from tenantry.kit.text import canonical
from tenantry.tenant.blog import listing, tagging
from tenantry.tenant.blog.content import PostNotFound, PostStatus, PublicPost, PublicPostSummary
from tenantry.tenant.databases import TenantDatabase
from tenantry.tenant.tables import blog_state, post

Content = TypeVar("Content")


@dataclass(frozen=True, slots=True)
class Versioned(Generic[Content]):
    """Content, and the version of the blog that it was read from."""

    content: Content
    version: UUID


class _Listed(PublicPostSummary, frozen=True):
    has_post: int | None
    blog_version: UUID
    total_count: int


class _Found(PublicPost, frozen=True):
    version: UUID


_COLUMNS = columns_of(post, PublicPostSummary)
_PAGE = listing.statement(_COLUMNS, _Listed, PostStatus.PUBLISHED, tagged=False)
_PAGE_OF_TAG = listing.statement(_COLUMNS, _Listed, PostStatus.PUBLISHED, tagged=True)
_is_found = sa.and_(
    post.c.published_at.is_not(None), post.c.slug == sa.bindparam("slug", type_=post.c.slug.type)
)
_FIND = Statement(
    sa.select(*columns_of(post, PublicPost), blog_state.c.version).where(_is_found), _Found
)


async def page(
    database: TenantDatabase, window: Window, *, tag: str | None = None
) -> Versioned[Page[PublicPostSummary]]:
    """Return a page of the published posts, newest first; with *tag*, only those that have it.

    Raises:
        BadText: *tag* is not a valid tag.
    """
    wanted = {} if tag is None else {"tag": tagging.wanted_tag(tag)}
    statement = _PAGE if tag is None else _PAGE_OF_TAG
    rows = await database.fetch_all(statement, limit=window.size, offset=window.offset, **wanted)
    first = rows[0]
    items = list[PublicPostSummary](rows) if first.has_post else []
    return Versioned(Page(items, window, first.total_count), first.blog_version)


async def get(database: TenantDatabase, slug: str) -> Versioned[PublicPost]:
    """Return the published post with this slug.

    Raises:
        PostNotFound: There is none.
    """
    found = await database.fetch_one(_FIND, slug=canonical(slug))
    if found is None:
        raise PostNotFound
    return Versioned(found, found.version)
