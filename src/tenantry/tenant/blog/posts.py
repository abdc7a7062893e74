"""Read and write the posts of a tenant's blog, for editors.

Drafts are visible to an McpToken only with the scope `content:draft` or `content:publish`, and only
with the latter it changes what readers see. `content:write` is both.
"""

from collections.abc import Sequence
from datetime import datetime
from itertools import product
from uuid import UUID

import msgspec

from tenantry.db import audit_log
from tenantry.kit.pages import Page, Window
from tenantry.kit.preconditions import Expected
from tenantry.kit.text import canonical
from tenantry.tenant import audit
from tenantry.tenant.blog import (
    deleted,
    drafted,
    listing,
    searching,
    state,
    tagging,
    versions,
    writing,
)
from tenantry.tenant.blog.content import (
    Post,
    PostChanged,
    PostExists,
    PostNotFound,
    PostStatus,
    PostSummary,
    Stored,
)
from tenantry.tenant.blog.drafted import Reads
from tenantry.tenant.blog.drafts import NOTHING, revised
from tenantry.tenant.blog.folding import Folding
from tenantry.tenant.blog.slugs import slug_of
from tenantry.tenant.blog.versions import Kind, Saver
from tenantry.tenant.blog.writing import Author
from tenantry.tenant.databases import TenantDatabase, TenantSession, has_revision
from tenantry.tenant.entry import ScopeRequired, TenantContext


class _Listed(PostSummary, frozen=True):
    has_post: int | None
    blog_version: UUID
    total_count: int


_PAGES = {
    (reads, status, tagged, searched): listing.statement(
        drafted.columns(PostSummary, reads),
        _Listed,
        status,
        tagged=tagged,
        searched=searched,
        with_drafts=reads is Reads.EDITORS,
    )
    for reads, status, tagged, searched in product(Reads, PostStatus, (False, True), (False, True))
    if reads is not Reads.READERS or status is PostStatus.PUBLISHED
}


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
    if not versions.sees_drafts(ctx):
        if status is PostStatus.DRAFT:
            return Page([], window, 0)
        status = PostStatus.PUBLISHED
    rows = await ctx.database.fetch_all(
        _PAGES[await _reads(ctx), status, tag is not None, search is not None],
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
    found = await ctx.database.fetch_one(drafted.FIND[await _reads(ctx)], post=post_id)
    return _seen(ctx, found)


async def get_by_slug(ctx: TenantContext, slug: str) -> Post:
    """Return the post with this slug, or with it in its draft.

    Raises:
        PostNotFound: The caller sees no post with this slug.
    """
    find = drafted.FIND_BY_SLUG[await _reads(ctx)]
    found = await ctx.database.fetch_one(find, slug=canonical(slug))
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
    publish: bool = False,
    note: str | None = None,
    must_be_new: bool = False,
) -> Post:
    """Create a draft; with *publish*, a published post.

    Its author is the caller: a user, or the user that the McpToken is bound to.

    The title is one line; the content is any text, and stored unchanged. By default, the slug is a
    free one of the title, and the excerpt is the beginning of the content. Tags that differ only in
    case or width are stored once. With *must_be_new*, the slug of the title must be free as it is.

    Raises:
        BadText, BadSlug, BadTags: A rule is broken; the message names the member.
        SlugInUse: Another post has the given slug.
        PostExists: With *must_be_new*: a post has the slug.
        ScopeRequired: With *publish*: the McpToken may not publish.
    """
    _check_scope(ctx, changes_readers=publish)
    if must_be_new and slug is None:
        slug = slug_of(title)
    changes = revised(title=title, content=content, slug=slug, excerpt=excerpt, tags=tags)
    says, by = changes.of(NOTHING), versions.saver(ctx, note)
    folded = await folding.fold(ctx.tenant.id, title, content)
    async with state.writing(ctx.database) as session:
        author = await writing.author_of(session, ctx.identity.user_id)
        if must_be_new:
            taken = await session.fetch_one(drafted.FIND_BY_SLUG[Reads.EDITORS], slug=says.slug)
            if taken is not None:
                raise PostExists(taken.updated_at)
        written = await writing.add(
            session,
            says,
            folded,
            author=author,
            by=by,
            now=ctx.now,
            published_at=ctx.now if publish else None,
        )
        await audit.LOG.add(
            session, ctx, "post.create", written.id, changes=_changes(None, written)
        )
        if publish:
            await audit.LOG.add(session, ctx, "post.publish", written.id)
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
            by=Saver(author.id, Kind.COMMAND),
            now=now,
            published_at=now if is_published else None,
        )


async def update(
    ctx: TenantContext,
    folding: Folding,
    post_id: UUID,
    *,
    kept: int,
    title: str | None = None,
    content: str | None = None,
    slug: str | None = None,
    excerpt: str | None = None,
    tags: Sequence[str] | None = None,
    publish: bool | None = None,
    note: str | None = None,
    expected: Expected = None,
) -> Post:
    """Save a version with the values that are not None, and return the post.

    With *publish*, readers see it; with False, the text of a published post becomes its draft; with
    None, a draft stays one, and what readers see is replaced if the caller may publish.
    An excerpt that was derived from the content is derived again, and so is a blank *excerpt*. A
    post that has these values already is not changed. The latest *kept* versions are kept.

    Raises:
        BadText, BadSlug, BadTags: A rule is broken; the message names the member.
        PostNotFound: There is no such post.
        RoleRequired: The caller's role does not allow to change the post: see `require_own`.
        PostChanged: The post is not what is *expected*.
        SlugInUse: Another post has the slug.
        ScopeRequired: With *publish*: the McpToken may not publish.
    """
    _check_scope(ctx, changes_readers=bool(publish))
    changes = revised(title=title, content=content, slug=slug, excerpt=excerpt, tags=tags)
    by = versions.saver(ctx, note)
    folded = await folding.fold(ctx.tenant.id, title, content)
    async with state.writing(ctx.database) as session:
        before = await _find(ctx, session, post_id, expected)
        says = changes.of(before)
        if says == writing.text_of(before):
            return await _publish(ctx, session, before, kept) if publish else before
        if not before.is_recorded:
            await versions.add_unknown(session, post_id)
        if publish is None:
            publish = (
                bool(before.published_at) and not before.has_draft and versions.may_publish(ctx)
            )
        published_at = before.published_at or (ctx.now if publish else None)
        shown_at = ctx.now if publish else None
        if published_at is None or publish:
            written = await writing.change(
                session, before, says, folded, now=ctx.now, published_at=published_at
            )
        else:
            written = await writing.change_draft(session, before, says, folded, now=ctx.now)
        number, now = written.version, ctx.now
        await versions.add(
            session, post_id, number, says, by, kept=kept, now=now, published_at=shown_at
        )
        await audit.LOG.add(session, ctx, "post.update", post_id, changes=_changes(before, written))
        if publish and (before.has_draft or written.published_at != before.published_at):
            await audit.LOG.add(session, ctx, "post.publish", post_id)
    return written


async def publish(
    ctx: TenantContext, post_id: UUID, *, kept: int, expected: Expected = None
) -> Post:
    """Publish a post, or the draft of a published one. Without a draft, that is not changed.

    Raises:
        PostNotFound: There is no such post.
        RoleRequired: The caller's role does not allow to change the post: see `require_own`.
        PostChanged: The post is not what is *expected*.
        SlugInUse: Another post has the slug of the draft: the release before has written it.
    """
    async with state.writing(ctx.database) as session:
        before = await _find(ctx, session, post_id, expected)
        return await _publish(ctx, session, before, kept)


async def unpublish(
    ctx: TenantContext, post_id: UUID, *, kept: int, expected: Expected = None
) -> Post:
    """Turn a post into a draft, with its latest text. A draft is not changed.

    Raises:
        PostNotFound: There is no such post.
        RoleRequired: The caller's role does not allow to change the post: see `require_own`.
        PostChanged: The post is not what is *expected*.
        SlugInUse: Another post has the slug of the draft: the release before has written it.
    """
    async with state.writing(ctx.database) as session:
        before = await _find(ctx, session, post_id, expected)
        if before.published_at is None:
            return before
        before = await _recorded(ctx, session, before, kept)
        written = await writing.publish(session, before, published_at=None, now=ctx.now)
        await audit.LOG.add(session, ctx, "post.unpublish", post_id)
    return written


async def delete(ctx: TenantContext, post_id: UUID, *, expected: Expected = None) -> None:
    """Move a post to the bin: see `deleted`.

    Raises:
        PostNotFound: There is no such post.
        RoleRequired: The caller's role does not allow to change the post: see `require_own`.
        PostChanged: The post is not what is *expected*.
        ScopeRequired: The post is published, and the McpToken may not publish.
    """
    async with state.writing(ctx.database) as session:
        before = await _find(ctx, session, post_id, expected)
        _check_scope(ctx, changes_readers=before.published_at is not None)
        recorded = await _recorded(ctx, session, before, kept=None)
        user_id = ctx.identity.user_id
        await deleted.add(session, post_id, recorded.version, now=ctx.now, user_id=user_id)
        await writing.remove(session, before)
        await audit.LOG.add(session, ctx, "post.delete", post_id, changes=_changes(before, None))


def _check_scope(ctx: TenantContext, *, changes_readers: bool) -> None:
    if changes_readers and not versions.may_publish(ctx):
        raise ScopeRequired("The McpToken needs the scope `content:publish` for this.")


async def _reads(ctx: TenantContext) -> Reads:
    if not await has_revision(ctx.database, state.EDITABLE_FROM):
        return Reads.BEFORE
    return Reads.EDITORS if versions.sees_drafts(ctx) else Reads.READERS


def _seen(ctx: TenantContext, found: Post | None) -> Post:
    if found is None or (found.published_at is None and not versions.sees_drafts(ctx)):
        raise PostNotFound
    return found


async def _find(
    ctx: TenantContext, session: TenantSession, post_id: UUID, expected: Expected = None
) -> Stored:
    """Return the post that the caller is about to change."""
    found = await session.fetch_one(drafted.STORED, post=post_id)
    if found is None:
        raise PostNotFound
    versions.require_own(ctx, found.author_id)
    if expected is not None and not expected(found):
        latest = await versions.find(session, post_id, found.version)
        raise PostChanged(found.updated_at, latest)
    return found


async def _publish(ctx: TenantContext, session: TenantSession, before: Stored, kept: int) -> Post:
    if before.published_at is not None and not before.has_draft:
        return before
    before = await _recorded(ctx, session, before, kept)
    published_at = before.published_at or ctx.now
    written = await writing.publish(session, before, published_at=published_at, now=ctx.now)
    await versions.publish(session, written.id, written.version, kept=kept, now=ctx.now)
    await audit.LOG.add(session, ctx, "post.publish", written.id)
    return written


async def _recorded(
    ctx: TenantContext, session: TenantSession, before: Stored, kept: int | None
) -> Stored:
    """Store what the release before has written as versions; return the post as it is then.

    With None for *kept*, no version is removed.
    """
    if before.is_recorded:
        return before
    await versions.add_unknown(session, before.id)
    number = before.version
    if before.has_draft:  # the latest text is still the draft, so it is the latest version again
        number += 1
        text, by = writing.text_of(before), versions.saver(ctx)
        await versions.add(
            session, before.id, number, text, by, kept=kept, now=ctx.now, published_at=None
        )
    return msgspec.structs.replace(before, version=number, is_recorded=True)


def _changes(before: Post | None, after: Post | None) -> audit_log.Changes:
    """Return the changes for the audit log; long texts are named without their values."""
    changes = audit_log.changes_between(before, after, "title", "slug", "tags")
    for name in ("content", "excerpt"):
        if getattr(before, name, None) != getattr(after, name, None):
            changes += audit_log.named_change(name)
    return changes
