"""Read and write the posts of a tenant's blog, for editors.

Drafts are visible to an McpToken only with the scope `content:draft` or `content:publish`, and only
with the latter it changes what readers see. `content:write` is both.
"""

from collections.abc import Sequence
from datetime import datetime
from functools import cache
from uuid import UUID

from tenantry.db import audit_log
from tenantry.db.statements import Statement
from tenantry.kit.pages import Page, Window
from tenantry.kit.preconditions import Expected
from tenantry.kit.text import canonical
from tenantry.tenant import audit
from tenantry.tenant.blog import (
    deleted,
    drafted,
    due,
    listing,
    publication,
    searching,
    state,
    tagging,
    versions,
    writing,
)
from tenantry.tenant.blog.content import (
    Post,
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
from tenantry.tenant.databases import WRITABLE_FROM, TenantDatabase, TenantSession, has_revision
from tenantry.tenant.entry import ScopeRequired, TenantContext


class _Listed(PostSummary, frozen=True):
    has_post: int | None
    blog_version: UUID
    due_at: datetime | None
    total_count: int


@cache
def _page(
    reads: Reads, status: PostStatus, *, tagged: bool, searched: bool, some_due: bool
) -> Statement[_Listed]:
    return listing.statement(
        drafted.columns(PostSummary, reads),
        _Listed,
        status,
        reads=reads,
        tagged=tagged,
        searched=searched,
        some_due=some_due,
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
    wanted: dict[str, object] = {"limit": window.size, "offset": window.offset, "now": ctx.now}
    if tag is not None:
        wanted["tag"] = tagging.wanted_tag(tag)
    if search is not None:
        wanted["search"] = searching.searched_for(search)
    if not versions.sees_drafts(ctx):
        if status is PostStatus.DRAFT:
            return Page([], window, 0)
        status = PostStatus.PUBLISHED
    reads, kind = await _reads(ctx), {"tagged": tag is not None, "searched": search is not None}
    rows = await ctx.database.fetch_all(_page(reads, status, **kind, some_due=False), **wanted)
    if due.has_come(rows[0].due_at, ctx.now):
        reads = Reads.EDITORS if reads is Reads.EDITORS else Reads.READERS_NOW
        rows = await ctx.database.fetch_all(_page(reads, status, **kind, some_due=True), **wanted)
    items = list[PostSummary](rows) if rows[0].has_post else []
    return Page(items, window, rows[0].total_count)


async def get(ctx: TenantContext, post_id: UUID) -> Post:
    """Return a post.

    Raises:
        PostNotFound: The caller sees no post with this id.
    """
    found = await ctx.database.fetch_one(
        drafted.FIND[await _reads_now(ctx)], post=post_id, now=ctx.now
    )
    return _seen(ctx, found)


async def get_by_slug(ctx: TenantContext, slug: str) -> Post:
    """Return the post with this slug, or with it in its draft.

    Raises:
        PostNotFound: The caller sees no post with this slug.
    """
    find = drafted.FIND_BY_SLUG[await _reads_now(ctx)]
    found = await ctx.database.fetch_one(find, slug=canonical(slug), now=ctx.now)
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
    async with publication.writing_now(ctx) as (at, session):
        author = await writing.author_of(session, at.identity.user_id)
        if must_be_new:
            taken = await session.fetch_one(drafted.FIND_BY_SLUG[Reads.STORED], slug=says.slug)
            if taken is not None:
                raise PostExists(taken.updated_at)
        written = await writing.add(
            session,
            says,
            folded,
            author=author,
            by=by,
            now=at.now,
            published_at=at.now if publish else None,
        )
        await _log(at, session, "post.create", None, written, shown=publish)
        if publish:
            await audit.LOG.add(session, at, "post.publish", written.id)
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
        ScopeRequired: With *publish*, or a `publish_at` of the post: the McpToken may not publish.
    """
    _check_scope(ctx, changes_readers=bool(publish))
    changes = revised(title=title, content=content, slug=slug, excerpt=excerpt, tags=tags)
    by = versions.saver(ctx, note)
    folded = await folding.fold(ctx.tenant.id, title, content)
    async with publication.writing_now(ctx, post_id) as (at, session):
        before = await publication.find_own(at, session, post_id, expected)
        says = changes.of(before)
        if says == writing.text_of(before):
            return await publication.publish(at, session, before, kept=kept) if publish else before
        _check_schedule(at, before)
        if not before.is_recorded:
            await versions.add_unknown(session, post_id)
        if publish is None:
            is_live = bool(before.published_at) and not before.has_draft
            publish = is_live and versions.may_publish(at)
        published_at = before.published_at or (at.now if publish else None)
        if published_at is None or publish:
            written = await writing.change(
                session, before, says, folded, now=at.now, published_at=published_at
            )
        else:
            written = await writing.change_draft(session, before, says, folded, now=at.now)
        number, shown_at = written.version, at.now if publish else None
        await versions.add(
            session, post_id, number, says, by, kept=kept, now=at.now, published_at=shown_at
        )
        await _log(at, session, "post.update", before, written, shown=publish)
        if publish and (before.has_draft or written.published_at != before.published_at):
            await audit.LOG.add(session, at, "post.publish", post_id)
        return await publication.saved(session, before, written, is_published=publish)


async def publish(
    ctx: TenantContext, post_id: UUID, *, kept: int, expected: Expected = None
) -> Post:
    """Publish a post, or the draft of a published one. Without a draft, that is not changed.

    That ends its `publish_at`.

    Raises:
        PostNotFound: There is no such post.
        RoleRequired: The caller's role does not allow to change the post: see `require_own`.
        PostChanged: The post is not what is *expected*.
        SlugInUse: Another post has the slug of the draft: the release before has written it.
    """
    async with publication.writing_now(ctx, post_id) as (at, session):
        before = await publication.find_own(at, session, post_id, expected)
        return await publication.publish(at, session, before, kept=kept)


async def unpublish(
    ctx: TenantContext, post_id: UUID, *, kept: int, expected: Expected = None
) -> Post:
    """Turn a post into a draft, with its latest text. A draft is not changed.

    That ends its schedule.

    Raises:
        PostNotFound: There is no such post.
        RoleRequired: The caller's role does not allow to change the post: see `require_own`.
        PostChanged: The post is not what is *expected*.
        SlugInUse: Another post has the slug of the draft: the release before has written it.
    """
    async with publication.writing_now(ctx, post_id) as (at, session):
        before = await publication.find_own(at, session, post_id, expected)
        return await publication.unpublish(at, session, before, kept=kept)


async def delete(ctx: TenantContext, post_id: UUID, *, expected: Expected = None) -> None:
    """Move a post to the bin: see `deleted`.

    Raises:
        PostNotFound: There is no such post.
        RoleRequired: The caller's role does not allow to change the post: see `require_own`.
        PostChanged: The post is not what is *expected*.
        ScopeRequired: The post is published, or scheduled to be, and the McpToken may not publish.
    """
    async with publication.writing_now(ctx, post_id) as (at, session):
        before = await publication.find_own(at, session, post_id, expected)
        _check_scope(at, changes_readers=before.published_at is not None)
        _check_schedule(at, before)
        recorded = await publication.recorded(session, before, None, now=at.now)
        user_id = at.identity.user_id
        await deleted.add(session, post_id, recorded.version, now=at.now, user_id=user_id)
        await writing.remove(session, before)
        await _log(at, session, "post.delete", before, None, shown=True)


def _check_scope(ctx: TenantContext, *, changes_readers: bool) -> None:
    if changes_readers and not versions.may_publish(ctx):
        raise ScopeRequired("The McpToken needs the scope `content:publish` for this.")


def _check_schedule(ctx: TenantContext, before: Post) -> None:
    """Check that the caller may change the text that a schedule will publish."""
    if before.publish_at is not None and not versions.may_publish(ctx):
        raise ScopeRequired(
            "The post is scheduled to be published, so its text changes what readers will see: the "
            "McpToken needs the scope `content:publish` for this."
        )


async def _reads(ctx: TenantContext) -> Reads:
    if not await has_revision(ctx.database, state.EDITABLE_FROM):
        return Reads.BEFORE
    has_schedules = await has_revision(ctx.database, WRITABLE_FROM)
    if versions.sees_drafts(ctx):
        return Reads.EDITORS if has_schedules else Reads.UNSCHEDULED
    return Reads.READERS if has_schedules else Reads.UNSCHEDULED_READERS


async def _reads_now(ctx: TenantContext) -> Reads:
    """Return what the caller reads of one post."""
    reads = await _reads(ctx)
    return Reads.READERS_NOW if reads is Reads.READERS else reads


def _seen(ctx: TenantContext, found: Post | None) -> Post:
    if found is None or (found.published_at is None and not versions.sees_drafts(ctx)):
        raise PostNotFound
    return found


async def _log(
    ctx: TenantContext,
    session: TenantSession,
    action: str,
    before: Stored | None,
    after: Post | None,
    *,
    shown: bool,
) -> None:
    """Add an entry; long texts are named without their values. *shown*: readers see the change."""
    changes = audit_log.changes_between(before, after, "title", "slug", "tags")
    for name in ("content", "excerpt"):
        if getattr(before, name, None) != getattr(after, name, None):
            changes += audit_log.named_change(name)
    if shown:
        old = None if before is None else before.published_slug
        changes += publication.shown_change(old, None if after is None else after.slug)
    target = after or before
    assert target is not None
    await audit.LOG.add(session, ctx, action, target.id, changes=changes)
