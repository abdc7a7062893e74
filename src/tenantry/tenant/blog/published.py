"""The published posts of a blog, for callers with the tenant's API key."""

from dataclasses import dataclass
from typing import Generic, TypeVar
from uuid import UUID

import sqlalchemy as sa

from tenantry.db.statements import Statement, columns_of
from tenantry.kit.pages import Page, Window
from tenantry.kit.text import canonical
from tenantry.tenant.blog import listing, tagging
from tenantry.tenant.blog.content import PostNotFound, PublicPost, PublicPostSummary
from tenantry.tenant.databases import TenantDatabase
from tenantry.tenant.tables import blog_state, post, published_tag, tag

Content = TypeVar("Content")


@dataclass(frozen=True, slots=True)
class Versioned(Generic[Content]):
    """Content, and the version of the blog that it was read from."""

    content: Content
    version: UUID


class _Listed(PublicPostSummary, frozen=True):
    has_post: int | None
    version: UUID
    total_count: int


class _Found(PublicPost, frozen=True):
    version: UUID


_COLUMNS = columns_of(post, PublicPostSummary)
_ORDER = {"published_at": post.c.published_at, "id": post.c.id}
_is_published = post.c.published_at.is_not(None)
_is_found = sa.and_(_is_published, post.c.slug == sa.bindparam("slug", type_=post.c.slug.type))

_PAGE = Statement(
    listing.page(
        _COLUMNS,
        source=post,
        conditions=[_is_published],
        order=_ORDER,
        counted=listing.of_all(blog_state.c.published_count),
    ),
    _Listed,
)
_PAGE_OF_TAG = Statement(
    listing.page(
        _COLUMNS,
        source=published_tag.join(post),
        conditions=[published_tag.c.tag == listing.wanted_tag],
        order={"published_at": published_tag.c.published_at, "id": published_tag.c.post_id},
        counted=listing.of_tag(tag.c.published_count),
    ),
    _Listed,
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
    return Versioned(Page(items, window, first.total_count), first.version)


async def get(database: TenantDatabase, slug: str) -> Versioned[PublicPost]:
    """Return the published post with this slug.

    Raises:
        PostNotFound: There is none.
    """
    found = await database.fetch_one(_FIND, slug=canonical(slug))
    if found is None:
        raise PostNotFound
    return Versioned(found, found.version)
