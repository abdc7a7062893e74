"""The published posts of a blog, for callers with the tenant's API key."""

from dataclasses import dataclass
from datetime import datetime
from typing import Generic, TypeVar
from uuid import UUID

import sqlalchemy as sa

from tenantry.db.statements import Statement
from tenantry.kit.pages import Page, Window
from tenantry.kit.text import canonical
from tenantry.tenant.blog import drafted, due, listing, tagging
from tenantry.tenant.blog.content import PostNotFound, PostStatus, PublicPost, PublicPostSummary
from tenantry.tenant.blog.drafted import Reads
from tenantry.tenant.databases import WRITABLE_FROM, TenantDatabase, has_revision
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
    due_at: datetime | None
    total_count: int


class _Found(PublicPost, frozen=True):
    version: UUID
    due_at: datetime | None


def _page(reads: Reads, *, tagged: bool) -> Statement[_Listed]:
    """Return the statement of a page; its row for a database with schedules, or without."""
    columns, is_now = drafted.columns(PublicPostSummary, reads), reads is Reads.READERS_NOW
    return listing.statement(
        columns, _Listed, PostStatus.PUBLISHED, reads=reads, tagged=tagged, some_due=is_now
    )


_READERS = (Reads.READERS, Reads.READERS_NOW, Reads.UNSCHEDULED_READERS)
_PAGES = {
    (reads, tagged): _page(reads, tagged=tagged) for reads in _READERS for tagged in (False, True)
}
_slug = sa.bindparam("slug", type_=post.c.slug.type)
_IS_FOUND = sa.and_(post.c.published_at.is_not(None), post.c.slug == _slug)
_IS_FOUND_NOW = sa.and_(
    due.published_at.is_not(None), drafted.has_slug(_slug), drafted.TEXT["slug"] == _slug
)


def _find(reads: Reads) -> Statement[_Found]:
    is_now = reads is Reads.READERS_NOW
    at = {Reads.READERS: due.NEXT, Reads.READERS_NOW: due.LATEST}.get(reads, due.NEVER)
    return Statement(
        sa.select(*drafted.columns(PublicPost, reads), blog_state.c.version, at.label("due_at"))
        .select_from(drafted.joined(reads).join(blog_state, sa.true()))
        .where(_IS_FOUND_NOW if is_now else _IS_FOUND),
        _Found,
    )


_FIND = {reads: _find(reads) for reads in _READERS}


async def page(
    database: TenantDatabase, window: Window, *, now: datetime, tag: str | None = None
) -> Versioned[Page[PublicPostSummary]]:
    """Return a page of the posts that are published *now*, newest first; only those with *tag*.

    Raises:
        BadText: *tag* is not a valid tag.
    """
    wanted: dict[str, object] = {"limit": window.size, "offset": window.offset}
    if tag is not None:
        wanted["tag"] = tagging.wanted_tag(tag)
    reads = await _reads(database)
    rows = await database.fetch_all(_PAGES[reads, tag is not None], **wanted)
    version = rows[0].blog_version
    if due.has_come(rows[0].due_at, now):
        page_now = _PAGES[Reads.READERS_NOW, tag is not None]
        rows = await database.fetch_all(page_now, now=now, **wanted)
        version = due.version_at(rows[0].blog_version, rows[0].due_at)
    first = rows[0]
    items = list[PublicPostSummary](rows) if first.has_post else []
    return Versioned(Page(items, window, first.total_count), version)


async def get(database: TenantDatabase, slug: str, *, now: datetime) -> Versioned[PublicPost]:
    """Return the post with this slug that is published *now*.

    Raises:
        PostNotFound: There is none.
    """
    reads, wanted = await _reads(database), canonical(slug)
    found = await database.fetch_one(_FIND[reads], slug=wanted)
    if found is not None and not due.has_come(found.due_at, now):
        return Versioned(found, found.version)
    if reads is Reads.READERS:
        found = await database.fetch_one(_FIND[Reads.READERS_NOW], slug=wanted, now=now)
        if found is not None:
            return Versioned(found, due.version_at(found.version, found.due_at))
    raise PostNotFound


async def _reads(database: TenantDatabase) -> Reads:
    if await has_revision(database, WRITABLE_FROM):
        return Reads.READERS
    return Reads.UNSCHEDULED_READERS
