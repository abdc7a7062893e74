"""The bin: deleted posts, with their versions, for `KEPT`.

A deleted post is removed from its table, so no list, count or search has to leave it out. The bin
has its last version, and restores it as a draft.
"""

from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

import msgspec
import sqlalchemy as sa

from tenantry.db.statements import Count, Statement, columns_of
from tenantry.kit.errors import NotFound
from tenantry.kit.pages import Page, Window
from tenantry.tenant import audit
from tenantry.tenant.blog import state, versions, writing
from tenantry.tenant.blog.content import Post
from tenantry.tenant.blog.drafts import Draft
from tenantry.tenant.blog.folding import Folding
from tenantry.tenant.blog.versions import name_of
from tenantry.tenant.blog.writing import Author, Restored
from tenantry.tenant.databases import TenantDatabase, TenantSession, require_revision
from tenantry.tenant.entry import TenantContext
from tenantry.tenant.tables import deleted_post, post, post_version

KEPT = timedelta(days=30)
# Posts that one call of `purge_expired` removes, with all their versions, each in a transaction.
PURGED_MAX = 100


class DeletedPostNotFound(NotFound):
    """There is no such post in the bin."""


class DeletedPost(msgspec.Struct, frozen=True, rename="camel"):
    """A post in the bin.

    Attributes:
        title: One line, at most 200 characters.
        slug: The part of the URL that the post had.
        excerpt: The beginning of the text, or what its author wrote instead.
        author_id: The id of the user who has created it, as their own post; None without one.
        author_name: The name of the author when the post was written; empty without a user.
        deleted_at: When it was deleted; 30 days later it is removed for good.
        deleted_by: The name of the user who has deleted it; empty without a user.
    """

    id: UUID
    title: str
    slug: str
    excerpt: str
    author_id: UUID | None
    author_name: str
    created_at: datetime
    deleted_at: datetime
    deleted_by: str


class _Found(msgspec.Struct, frozen=True):
    author_id: UUID | None
    author_name: str
    created_at: datetime
    version: int
    title: str
    slug: str
    excerpt: str
    tags: list[str]
    content: str


class _Id(msgspec.Struct, frozen=True):
    post_id: UUID


class _Taken(msgspec.Struct, frozen=True):
    author_id: UUID | None


_id = sa.bindparam("post", type_=sa.Uuid)
_in_bin = deleted_post.c.post_id == _id
_last = deleted_post.join(
    post_version,
    sa.and_(
        post_version.c.post_id == deleted_post.c.post_id,
        post_version.c.number == deleted_post.c.version,
    ),
)
_OF_VERSION = frozenset({"title", "slug", "excerpt", "tags", "content"})


def _columns(row: type[Any]) -> list[sa.ColumnElement[Any]]:
    names = [field.name for field in msgspec.structs.fields(row) if field.name != "id"]
    return [(post_version if name in _OF_VERSION else deleted_post).c[name] for name in names]


_ADD = Statement[Any](
    sa.insert(deleted_post).from_select(
        [column.name for column in deleted_post.c],
        sa.select(
            post.c.id,
            sa.bindparam("version", type_=sa.Integer),
            post.c.author_id,
            post.c.author_name,
            post.c.created_at,
            sa.bindparam("now", type_=deleted_post.c.deleted_at.type),
            name_of(sa.bindparam("user", type_=sa.Uuid)),
        ).where(post.c.id == _id),
    )
)
_PAGE = Statement(
    sa.select(deleted_post.c.post_id.label("id"), *_columns(DeletedPost))
    .select_from(_last)
    .order_by(deleted_post.c.deleted_at.desc(), deleted_post.c.post_id.desc())
    .limit(sa.bindparam("limit", type_=sa.BigInteger))
    .offset(sa.bindparam("offset", type_=sa.BigInteger)),
    DeletedPost,
)
_COUNT = Statement(sa.select(sa.func.count().label("count")).select_from(deleted_post), Count)
_FIND = Statement(sa.select(*_columns(_Found)).select_from(_last).where(_in_bin), _Found)
_TAKE = Statement(
    sa.delete(deleted_post).where(_in_bin).returning(deleted_post.c.author_id), _Taken
)
# Of a post that is neither in its table nor in the bin: the release before has deleted it, or it is
# removed for good.
_is_left = sa.and_(
    sa.not_(sa.exists().where(post.c.id == post_version.c.post_id)),
    sa.not_(sa.exists().where(deleted_post.c.post_id == post_version.c.post_id)),
)
_REMOVE_LEFT = Statement[Any](
    sa.delete(post_version).where(post_version.c.post_id == _id, _is_left)
)
_LEFT = Statement(
    sa.select(post_version.c.post_id).where(_is_left).distinct().limit(PURGED_MAX), _Id
)
_is_expired = deleted_post.c.deleted_at < sa.bindparam(
    "before", type_=deleted_post.c.deleted_at.type
)
_TAKE_EXPIRED = Statement[Any](sa.delete(deleted_post).where(_in_bin, _is_expired))
_EXPIRED = Statement(
    sa.select(*columns_of(deleted_post, _Id))
    .where(_is_expired)
    .order_by(deleted_post.c.deleted_at)
    .limit(PURGED_MAX),
    _Id,
)


async def add(
    session: TenantSession, post_id: UUID, version: int, *, now: datetime, user_id: UUID | None
) -> None:
    """Put a post that is about to be deleted into the bin; its text is *version*."""
    await session.execute(_ADD, post=post_id, version=version, now=now, user=user_id)


async def page(ctx: TenantContext, window: Window) -> Page[DeletedPost]:
    """Return a page of the bin, the post that was deleted last first.

    It is empty for a caller who sees no drafts.
    """
    if not versions.sees_drafts(ctx):
        return Page([], window, 0)
    await require_revision(ctx.database, state.EDITABLE_FROM)
    items = await ctx.database.fetch_all(_PAGE, limit=window.size, offset=window.offset)
    total = await ctx.database.fetch_one(_COUNT)
    return Page(items, window, total.count if total else 0)


async def restore(ctx: TenantContext, folding: Folding, post_id: UUID, *, kept: int) -> Post:
    """Return a post from the bin, as a draft with its last text, and with its versions.

    If another post has its slug now, it gets one from its title. That it comes back is a version
    too; the latest *kept* are kept, as by a change.

    Raises:
        DeletedPostNotFound: There is no such post in the bin.
        RoleRequired: The caller's role does not allow to change the post.
        SlugInUse: No slug is free.
    """
    await require_revision(ctx.database, state.EDITABLE_FROM)
    found = await ctx.database.fetch_one(_FIND, post=post_id)
    if found is None:
        raise DeletedPostNotFound
    versions.require_own(ctx, found.author_id)
    folded = await folding.fold(ctx.tenant.id, found.title, found.content)
    says = Draft(found.title, found.content, found.slug, found.excerpt, found.tags)
    async with state.writing(ctx.database) as session:
        # Not the one of a post that was restored and deleted in between.
        if await session.fetch_one(_FIND, post=post_id) != found:
            raise DeletedPostNotFound
        await session.execute(_TAKE, post=post_id)
        written = await writing.add(
            session,
            says,
            folded,
            author=Author(found.author_id, found.author_name),
            by=versions.saver(ctx, "Restored from the bin."),
            now=ctx.now,
            restored=Restored(post_id, found.created_at, found.version + 1),
            kept=kept,
        )
        await audit.LOG.add(session, ctx, "post.restore", post_id)
    return written


async def purge(ctx: TenantContext, post_id: UUID) -> None:
    """Remove a post in the bin for good, with all its versions.

    Raises:
        DeletedPostNotFound: There is no such post in the bin.
        RoleRequired: The caller's role does not allow to change the post.
    """
    async with state.writing(ctx.database) as session:
        taken = await session.fetch_one(_TAKE, post=post_id)
        if taken is None:
            raise DeletedPostNotFound
        versions.require_own(ctx, taken.author_id)
        await session.execute(_REMOVE_LEFT, post=post_id)
        await audit.LOG.add(session, ctx, "post.purge", post_id)


async def purge_expired(database: TenantDatabase, *, now: datetime) -> bool:
    """Remove up to `PURGED_MAX` posts that were deleted `KEPT` ago, with all their versions.

    And the versions of as many posts that the release before has deleted, which knows no versions.

    Returns:
        Whether there may be more.

    Raises:
        DatabaseUnavailable: It cannot be reached.
        TenantOutdated: It is waiting to be migrated.
    """
    await require_revision(database, state.EDITABLE_FROM)
    expired = await database.fetch_all(_EXPIRED, before=now - KEPT)
    left = await database.fetch_all(_LEFT)
    for one in expired + left:
        # The texts of one post can be 100 MB, and writers wait.
        async with state.writing(database) as session:
            await session.execute(_TAKE_EXPIRED, post=one.post_id, before=now - KEPT)
            await session.execute(_REMOVE_LEFT, post=one.post_id)
    return PURGED_MAX in (len(expired), len(left))
