"""Read and write the posts of a tenant's blog, for editors.

Drafts are visible to an McpToken only with the scope `content:write`.
"""

from collections.abc import Sequence
from datetime import datetime
from functools import partial
from itertools import product
from uuid import UUID

import msgspec
import sqlalchemy as sa

from tenantry.access.principal import Scope
from tenantry.db import audit_log
from tenantry.db.statements import Statement, columns_of
from tenantry.kit.pages import Page, Window
from tenantry.kit.preconditions import Expected, check
from tenantry.kit.text import canonical
from tenantry.tenant import audit, users
from tenantry.tenant.blog import listing, searching, state, tagging, writing
from tenantry.tenant.blog.content import (
    Post,
    PostChanged,
    PostExists,
    PostNotFound,
    PostStatus,
    PostSummary,
)
from tenantry.tenant.blog.drafts import NOTHING, Draft, revised
from tenantry.tenant.blog.folding import Folding
from tenantry.tenant.blog.slugs import slug_of
from tenantry.tenant.blog.writing import Author
from tenantry.tenant.databases import TenantDatabase, TenantSession
from tenantry.tenant.entry import TenantContext
from tenantry.tenant.tables import post


class _Listed(PostSummary, frozen=True):
    has_post: int | None
    version: UUID
    total_count: int


_COLUMNS = columns_of(post, PostSummary)
_PAGES = {
    (status, tagged, searched): listing.statement(
        _COLUMNS, _Listed, status, tagged=tagged, searched=searched
    )
    for status, tagged, searched in product(PostStatus, (False, True), (False, True))
}
_FIND = Statement(
    sa.select(*columns_of(post, Post)).where(post.c.id == sa.bindparam("post", type_=sa.Uuid)),
    Post,
)
_FIND_BY_SLUG = Statement(
    sa.select(*columns_of(post, Post)).where(
        post.c.slug == sa.bindparam("slug", type_=post.c.slug.type)
    ),
    Post,
)


async def page(
    ctx: TenantContext,
    window: Window,
    *,
    status: PostStatus = PostStatus.ALL,
    tag: str | None = None,
    search: str | None = None,
) -> Page[PostSummary]:
    """Return a page of posts, newest first; published ones by the time of publication.

    Only posts with this status, with *tag*, and with *search* in the title or content, both
    ignoring case.

    Raises:
        BadText, BadSearch: *tag* or *search* breaks a rule.
    """
    wanted = {}
    if tag is not None:
        wanted["tag"] = tagging.wanted_tag(tag)
    if search is not None:
        wanted["search"] = searching.searched_for(search)
    if not _sees_drafts(ctx):
        if status is PostStatus.DRAFT:
            return Page([], window, 0)
        status = PostStatus.PUBLISHED
    rows = await ctx.database.fetch_all(
        _PAGES[status, tag is not None, search is not None],
        limit=window.size,
        offset=window.offset,
        **wanted,
    )
    items = list[PostSummary](rows) if rows[0].has_post else []
    return Page(items, window, rows[0].total_count)


async def get(ctx: TenantContext, post_id: UUID) -> Post:
    """Return a post.

    Raises:
        PostNotFound: The caller sees no post with this id.
    """
    found = await ctx.database.fetch_one(_FIND, post=post_id)
    return _seen(ctx, found)


async def get_by_slug(ctx: TenantContext, slug: str) -> Post:
    """Return a post.

    Raises:
        PostNotFound: The caller sees no post with this slug.
    """
    found = await ctx.database.fetch_one(_FIND_BY_SLUG, slug=canonical(slug))
    return _seen(ctx, found)


async def create(
    ctx: TenantContext,
    folding: Folding,
    *,
    title: str,
    content: str,
    slug: str | None = None,
    excerpt: str | None = None,
    tags: Sequence[str] | None = None,
    must_be_new: bool = False,
) -> Post:
    """Create a draft. Its author is the caller: a user, or the user that the McpToken is bound to.

    The title is one line; the content is any text, and stored unchanged. By default, the slug is a
    free one of the title, and the excerpt is the beginning of the content. Tags that differ only in
    case or width are stored once. With *must_be_new*, the slug of the title must be free as it is.

    Raises:
        BadText, BadSlug, BadTags: A rule is broken; the message names the member.
        SlugInUse: Another post has the given slug.
        PostExists: With *must_be_new*: a post has the slug.
    """
    if must_be_new and slug is None:
        slug = slug_of(title)
    changes = revised(title=title, content=content, slug=slug, excerpt=excerpt, tags=tags)
    says = changes.of(NOTHING)
    folded = await folding.fold(ctx.tenant.id, title, content)
    async with state.writing(ctx.database) as session:
        author = await _author(ctx, session)
        if must_be_new:
            taken = await session.fetch_one(_FIND_BY_SLUG, slug=says.slug)
            if taken is not None:
                raise PostExists(taken.updated_at)
        written = await writing.add(session, says, folded, author=author, now=ctx.now)
        await audit.LOG.add(
            session, ctx, "post.create", written.id, changes=_changes(None, written)
        )
    return written


async def write_new(
    database: TenantDatabase,
    *,
    title: str,
    content: str,
    tags: Sequence[str],
    author: Author,
    now: datetime,
    is_published: bool = True,
) -> Post:
    """Insert a post without a caller, for the sample data of the demo.

    Raises:
        BadText, BadTags: A rule is broken; the message names the member.
    """
    says = revised(title=title, content=content, tags=tags).of(NOTHING)
    folded = searching.fold(title, content)
    async with state.writing(database) as session:
        return await writing.add(
            session,
            says,
            folded,
            author=author,
            now=now,
            published_at=now if is_published else None,
        )


async def update(
    ctx: TenantContext,
    folding: Folding,
    post_id: UUID,
    *,
    title: str | None = None,
    content: str | None = None,
    slug: str | None = None,
    excerpt: str | None = None,
    tags: Sequence[str] | None = None,
    expected: Expected | None = None,
) -> Post:
    """Set the values that are not None, and return the post.

    An excerpt that was derived from the content is derived again, and so is a blank *excerpt*. A
    post that has these values already is not changed.

    Raises:
        BadText, BadSlug, BadTags: A rule is broken; the message names the member.
        PostNotFound: There is no such post.
        PostChanged: The post is not what is *expected*.
        SlugInUse: Another post has the slug.
    """
    changes = revised(title=title, content=content, slug=slug, excerpt=excerpt, tags=tags)
    folded = await folding.fold(ctx.tenant.id, title, content)
    async with state.writing(ctx.database) as session:
        before = await _find(session, post_id, expected)
        says = changes.of(before)
        if says == msgspec.convert(before, Draft, from_attributes=True):
            return before
        written = await writing.change(session, before, says, folded, now=ctx.now)
        await audit.LOG.add(session, ctx, "post.update", post_id, changes=_changes(before, written))
    return written


async def publish(ctx: TenantContext, post_id: UUID, *, expected: Expected | None = None) -> Post:
    """Publish a post. A published post is not changed.

    Raises:
        PostNotFound: There is no such post.
        PostChanged: The post is not what is *expected*.
    """
    async with state.writing(ctx.database) as session:
        written = await _find(session, post_id, expected)
        if written.published_at is None:
            written = await writing.publish(session, written, published_at=ctx.now, now=ctx.now)
            await audit.LOG.add(session, ctx, "post.publish", post_id)
    return written


async def unpublish(ctx: TenantContext, post_id: UUID, *, expected: Expected | None = None) -> Post:
    """Turn a post into a draft. A draft is not changed.

    Raises:
        PostNotFound: There is no such post.
        PostChanged: The post is not what is *expected*.
    """
    async with state.writing(ctx.database) as session:
        written = await _find(session, post_id, expected)
        if written.published_at is not None:
            written = await writing.publish(session, written, published_at=None, now=ctx.now)
            await audit.LOG.add(session, ctx, "post.unpublish", post_id)
    return written


async def delete(ctx: TenantContext, post_id: UUID, *, expected: Expected | None = None) -> None:
    """Permanently delete a post.

    Raises:
        PostNotFound: There is no such post.
        PostChanged: The post is not what is *expected*.
    """
    async with state.writing(ctx.database) as session:
        before = await _find(session, post_id, expected)
        await writing.remove(session, before)
        await audit.LOG.add(session, ctx, "post.delete", post_id, changes=_changes(before, None))


def _sees_drafts(ctx: TenantContext) -> bool:
    token = ctx.identity.mcp_token
    return token is None or Scope.CONTENT_WRITE in token.scopes


def _seen(ctx: TenantContext, found: Post | None) -> Post:
    if found is None or (found.published_at is None and not _sees_drafts(ctx)):
        raise PostNotFound
    return found


async def _find(session: TenantSession, post_id: UUID, expected: Expected | None) -> Post:
    found = await session.fetch_one(_FIND, post=post_id)
    if found is None:
        raise PostNotFound
    check(expected, found, partial(PostChanged, found.updated_at))
    return found


def _changes(before: Post | None, after: Post | None) -> audit_log.Changes:
    """Return the changes for the audit log; long texts are named without their values."""
    changes = audit_log.changes_between(before, after, "title", "slug", "tags")
    for name in ("content", "excerpt"):
        if getattr(before, name, None) != getattr(after, name, None):
            changes += audit_log.named_change(name)
    return changes


async def _author(ctx: TenantContext, session: TenantSession) -> Author:
    user_id = ctx.identity.user_id
    user = None if user_id is None else await users.find(session, user_id)
    return Author() if user is None else Author(user.id, user.full_name)
