"""Publish and withdraw posts: at the request of an editor, or because a schedule is due.

What a schedule does is seen from its moment on: see `due`. A write to the blog begins with changing
the rows of the posts whose schedules are due, so an editor changes what readers see.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import datetime
from typing import Any
from uuid import UUID

import msgspec
import sqlalchemy as sa

from tenantry.db import audit_log
from tenantry.db.statements import Statement, insert, parameters
from tenantry.kit.clock import monotonic_seconds, utc_now
from tenantry.kit.preconditions import Expected
from tenantry.kit.text import canonical
from tenantry.tenant import audit
from tenantry.tenant.blog import drafted, due, state, versions, writing
from tenantry.tenant.blog.content import Post, PostChanged, PostNotFound, Stored
from tenantry.tenant.blog.drafted import Reads
from tenantry.tenant.databases import TenantSession
from tenantry.tenant.entry import TenantContext
from tenantry.tenant.tables import post_schedule

# Posts that one transaction publishes or withdraws, before others wait for it: 0.5 s.
SETTLED_MAX = 100
# How long one request begins to settle groups of posts before its own write.
SETTLING_SECONDS = 1.0
SCHEDULE = "schedule"
"""The actor of what a schedule does, in the audit log."""
PUBLISHED_SLUG = "publishedSlug"
"""The field of `shown_change`."""

_OF_SCHEDULE = ("publish_at", "unpublish_at", "tags")


class _Due(msgspec.Struct, frozen=True):
    post_id: UUID


_DUE = Statement(
    sa.select(post_schedule.c.post_id)
    .where(due.is_due)
    .order_by(
        (post_schedule.c.post_id == sa.bindparam("first", type_=sa.Uuid)).desc(),
        post_schedule.c.due_at,
    )
    .limit(sa.bindparam("most", type_=sa.BigInteger)),
    _Due,
)
_set = insert(post_schedule).values(
    parameters("post_id", "publish_at", "unpublish_at", "due_at", "tags")
)
_SET = Statement[Any](
    _set.on_conflict_do_update(
        index_elements=[post_schedule.c.post_id],
        set_={
            name: _set.excluded[name] for name in ("publish_at", "unpublish_at", "due_at", "tags")
        },
    )
)
_REMOVE = Statement[Any](
    sa.delete(post_schedule).where(post_schedule.c.post_id == sa.bindparam("post", type_=sa.Uuid))
)


@asynccontextmanager
async def writing_now(
    ctx: TenantContext, post_id: UUID | None = None
) -> AsyncIterator[tuple[TenantContext, TenantSession]]:
    """Open a transaction that writes to the blog, in which the schedule of the post is not due.

    Before it, the schedules of other posts that are due are settled for `SETTLING_SECONDS`, the
    post's own first. The rest stays due for later writes; readers see no difference.

    It may have waited for other writes while a moment came. So the operation has the time of the
    context that is yielded: after the wait.

    Raises:
        TenantOutdated: See `state.writing`.
    """
    end, is_settled = monotonic_seconds() + SETTLING_SECONDS, False
    while not is_settled:
        async with state.locked(ctx.database) as (session, due_at):
            ctx, is_last = ctx.at(max(ctx.now, utc_now())), monotonic_seconds() >= end
            most = 1 if is_last else SETTLED_MAX
            is_settled = (
                not due.has_come(due_at, ctx.now)
                or await _settle(session, ctx, post_id, most=most)
                or is_last
            )
            if is_settled:
                yield ctx, session


def shown_change(before: str | None, after: str | None) -> audit_log.Changes:
    """Return, for the audit log, that readers see another post or text, from its published slugs.

    None is that of a draft. An entry has this field for each change that readers see, also if the
    slug stays: hooks are notified of these, see `post_events`.
    """
    if before is None and after is None:
        return []
    return [{"field": PUBLISHED_SLUG, "old": before, "new": after}]


async def find(session: TenantSession, post_id: UUID) -> Stored:
    """Return a post as it is stored.

    Raises:
        PostNotFound: There is no such post.
    """
    found = await session.fetch_one(drafted.STORED, post=post_id)
    if found is None:
        raise PostNotFound
    return found


async def find_own(
    ctx: TenantContext, session: TenantSession, post_id: UUID, expected: Expected
) -> Stored:
    """Return the post that the caller is about to change, as it is stored.

    *expected* is compared with the post as editors read it now: a schedule may still be due.

    Raises:
        PostNotFound: There is no such post.
        RoleRequired: The caller's role does not allow to change it.
        PostChanged: The post is not what is *expected*.
    """
    found = await find(session, post_id)
    versions.require_own(ctx, found.author_id)
    if expected is not None:
        shown = await session.fetch_one(drafted.FIND[Reads.EDITORS], post=post_id, now=ctx.now)
        assert shown is not None
        if not expected(shown):
            latest = await versions.find(session, post_id, found.version)
            raise PostChanged(shown.updated_at, latest)
    return found


async def publish(
    ctx: TenantContext,
    session: TenantSession,
    before: Stored,
    *,
    kept: int | None,
    at: datetime | None = None,
) -> Post:
    """Publish a post, or the draft of a published one, *at* a time, or now; ends its `publish_at`.

    With None for *kept*, no version is removed.

    Raises:
        SlugInUse: Another post has the slug of the draft: the release before has written it.
    """
    if before.published_at is not None and not before.has_draft:
        return await scheduled(session, before, before.unpublish_at, was=before)
    at = at or ctx.now
    before = await recorded(session, before, kept, now=at)
    published_at = before.published_at or at
    written = await writing.publish(session, before, published_at=published_at, now=at)
    await versions.publish(session, written.id, written.version, kept=kept, now=at)
    after = await scheduled(session, written, before.unpublish_at, was=before)
    await _log(ctx, session, "post.publish", before, after, slug=after.slug)
    return after


async def unpublish(
    ctx: TenantContext,
    session: TenantSession,
    before: Stored,
    *,
    kept: int | None,
    at: datetime | None = None,
) -> Post:
    """Turn a post into a draft with its latest text, *at* a time, or now; that ends its schedule.

    Raises:
        SlugInUse: Another post has the slug of the draft: the release before has written it.
    """
    if before.published_at is None:
        return await scheduled(session, before, None, was=before)
    at = at or ctx.now
    before = await recorded(session, before, kept, now=at)
    written = await writing.publish(session, before, published_at=None, now=at)
    after = await scheduled(session, written, None, was=before)
    await _log(ctx, session, "post.unpublish", before, after, slug=None)
    return after


async def saved(session: TenantSession, before: Post, written: Post, *, is_published: bool) -> Post:
    """Return a post after a save, with its schedule; that it *is_published* ends `publish_at`."""
    publish_at = None if is_published else before.publish_at
    return await scheduled(session, written, before.unpublish_at, publish_at=publish_at, was=before)


async def scheduled(
    session: TenantSession,
    written: Post,
    unpublish_at: datetime | None,
    *,
    publish_at: datetime | None = None,
    was: Post,
) -> Post:
    """Give a post that *was* as it was before a schedule; return it with that.

    Nothing is written if neither that nor the tags have changed.
    """
    after = msgspec.structs.replace(written, publish_at=publish_at, unpublish_at=unpublish_at)
    if all(getattr(after, one) == getattr(was, one) for one in _OF_SCHEDULE):
        return after
    due_at = publish_at or unpublish_at
    if due_at is None:
        if was.publish_at or was.unpublish_at:
            await session.execute(_REMOVE, post=after.id)
            await state.note_due(session)
        return after
    tags = "".join(f"\n{canonical(one)}" for one in after.tags) + "\n"
    await session.execute(
        _SET,
        post_id=after.id,
        publish_at=publish_at,
        unpublish_at=unpublish_at,
        due_at=due_at,
        tags=tags,
    )
    await state.note_due(session)
    return after


async def recorded(
    session: TenantSession, before: Stored, kept: int | None, *, now: datetime
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
        await versions.repeat(session, before.id, number - 2, number, kept=kept, now=now)
    return msgspec.structs.replace(before, version=number, is_recorded=True)


async def _settle(
    session: TenantSession, ctx: TenantContext, first: UUID | None, *, most: int
) -> bool:
    """Publish and withdraw *most* posts, *first* that one; return whether there may be no more.

    One stays due if the release before has given the slug of its draft to another post. Its row
    cannot be changed until an editor has chosen another slug.
    """
    # The caller of this write is a bystander: neither its address nor its request did this.
    by = msgspec.structs.replace(ctx, actor=SCHEDULE, address="", command=None, request_id="")
    found, settled = await session.fetch_all(_DUE, now=ctx.now, first=first, most=most), 0
    for one in found:
        before = await find(session, one.post_id)
        publish_at, unpublish_at = before.publish_at, before.unpublish_at
        if not await writing.has_free_slug(session, before):
            continue
        settled += 1
        if publish_at is not None and publish_at <= ctx.now:
            await publish(by, session, before, kept=None, at=publish_at)
            before = await find(session, one.post_id)
        if unpublish_at is not None and unpublish_at <= ctx.now:
            await unpublish(by, session, before, kept=None, at=unpublish_at)
    if not found:  # the post of the schedule was deleted
        await state.note_due(session)
    return len(found) < most or not settled


async def _log(
    ctx: TenantContext,
    session: TenantSession,
    action: str,
    before: Stored,
    after: Post,
    *,
    slug: str | None,
) -> None:
    changes = audit_log.changes_between(before, after, "publish_at", "unpublish_at")
    changes += shown_change(before.published_slug, slug)
    await audit.LOG.add(session, ctx, action, after.id, changes=changes)
