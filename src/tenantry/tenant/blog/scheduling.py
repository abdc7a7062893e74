"""Schedule when a post is published and withdrawn without a request."""

from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

import sqlalchemy as sa

from tenantry.db import audit_log
from tenantry.db.statements import Count, Statement
from tenantry.kit.errors import Conflict, Invalid
from tenantry.kit.preconditions import Expected
from tenantry.tenant import audit
from tenantry.tenant.blog import due, publication, state
from tenantry.tenant.blog.content import Post
from tenantry.tenant.databases import WRITABLE_FROM, TenantDatabase, has_revision
from tenantry.tenant.entry import TenantContext
from tenantry.tenant.tables import post_schedule

_is_pending = sa.or_(post_schedule.c.due_at > due.now, post_schedule.c.unpublish_at > due.now)
_COUNT = Statement(
    sa.select(sa.func.count().label("count")).select_from(post_schedule).where(_is_pending), Count
)
_REMOVE_ALL = (
    Statement[Any](sa.delete(post_schedule).where(post_schedule.c.due_at > due.now)),
    Statement[Any](
        sa.update(post_schedule)
        .values(unpublish_at=None)
        .where(post_schedule.c.unpublish_at > due.now)
    ),
)


class BadSchedule(Invalid):
    """A time of a schedule breaks a rule; the message says which."""


class NothingToSchedule(Conflict):
    """At that time the post would have nothing to publish, or to withdraw; the message says why."""


async def schedule(
    ctx: TenantContext,
    post_id: UUID,
    *,
    publish_at: datetime | None,
    unpublish_at: datetime | None,
    expected: Expected = None,
) -> Post:
    """Replace the schedule of a post; None for a time that it has not.

    At *publish_at* readers see the latest draft, from *unpublish_at* on nothing. Saves until then
    change what is published.

    Raises:
        BadSchedule: A time is not in UTC or not in the future, or the order is wrong.
        PostNotFound: There is no such post.
        PostChanged: The post is not what is *expected*.
        NothingToSchedule: The post is published without a draft, or is not published until then.
    """
    _check(ctx.now, publish_at, unpublish_at)
    async with publication.writing_now(ctx, post_id) as (at, session):
        before = await publication.find_own(at, session, post_id, expected)
        if (publish_at, unpublish_at) == (before.publish_at, before.unpublish_at):
            return before
        is_published = before.published_at is not None
        if publish_at is not None and is_published and not before.has_draft:
            raise NothingToSchedule(
                "The post is published and has no draft. Save one first: PUT with `publish: false`."
            )
        if unpublish_at is not None and not is_published and publish_at is None:
            raise NothingToSchedule(
                "The post is not published. Send `publishAt` too, or publish it first."
            )
        after = await publication.scheduled(
            session, before, unpublish_at, publish_at=publish_at, was=before
        )
        changes = audit_log.changes_between(before, after, "publish_at", "unpublish_at")
        await audit.LOG.add(session, at, "post.schedule", post_id, changes=changes)
    return after


async def remove_all(database: TenantDatabase, *, now: datetime) -> int:
    """Remove all schedules, except what they have done already; return of how many posts.

    Raises:
        DatabaseUnavailable, TenantOutdated: It is no database of a tenant.
    """
    if not await has_revision(database, WRITABLE_FROM):
        return 0
    async with state.writing(database) as session:
        count = await session.fetch_one(_COUNT, now=now)
        for statement in _REMOVE_ALL:
            await session.execute(statement, now=now)
        await state.note_due(session)
    return 0 if count is None else count.count


def _check(now: datetime, publish_at: datetime | None, unpublish_at: datetime | None) -> None:
    for name, at in (("publishAt", publish_at), ("unpublishAt", unpublish_at)):
        if at is None:
            continue
        if at.utcoffset() != timedelta(0):
            raise BadSchedule(f"`{name}` must be in UTC: with `Z` at its end.")
        if at <= now:
            raise BadSchedule(f"`{name}` must be in the future.")
    if publish_at is not None and unpublish_at is not None and unpublish_at <= publish_at:
        raise BadSchedule("`unpublishAt` must be later than `publishAt`.")
