"""What readers see because the time of a schedule has come, computed by the statement that reads.

No timer and no job changes a post. Each page is read with `NEXT`, the earliest moment of all
schedules, from a row that it reads anyway. Until then, the rows of the posts are what readers see.
From then on, a statement reads the posts of the schedules that are due in their new state, besides
all others: until the next write changes their rows. So a page without a schedule costs what it did
before.

A post of a schedule that is due has its latest text: it was published, or it is a draft again.
"""

from datetime import datetime
from uuid import UUID, uuid5

import sqlalchemy as sa

from tenantry.db.types import Instant
from tenantry.tenant.tables import blog_state, post, post_schedule

NEVER = sa.cast(sa.null(), Instant)
now = sa.bindparam("now", type_=Instant)
is_due = post_schedule.c.due_at <= now
is_withdrawn = post_schedule.c.unpublish_at <= now
_due = sa.select(post_schedule.c.post_id).where(is_due)
is_among_due = post.c.id.in_(_due)
"""Whether a post has a schedule that is due."""
is_among_others = post.c.id.not_in(_due)
moment = sa.case((is_withdrawn, post_schedule.c.unpublish_at), else_=post_schedule.c.due_at)
"""When a schedule that is due has changed its post for the last time."""
published_at = sa.case(
    (is_withdrawn, NEVER),
    (is_due, sa.func.coalesce(post.c.published_at, post_schedule.c.publish_at)),
    else_=post.c.published_at,
)
"""The time of publication of a post that may have a schedule; None for a draft."""

NEXT = blog_state.c.due_at
"""When a schedule is due first, or earlier; None without one."""
_published = sa.case((published_at.is_not(None), 1), else_=0)
_stored = sa.case((post.c.published_at.is_not(None), 1), else_=0)
PUBLISHED = (
    blog_state.c.published_count
    + sa.select(sa.func.coalesce(sa.func.sum(_published - _stored), 0))
    .select_from(post_schedule.join(post))
    .where(is_due)
    .scalar_subquery()
)
"""The number of published posts."""
LATEST = sa.select(sa.func.max(moment)).where(is_due).scalar_subquery()
"""When a schedule has changed a post for the last time; None if none is due."""


def has_come(at: datetime | None, now: datetime) -> bool:
    """Return whether a schedule with the moment *at*, if any, is due."""
    return at is not None and at <= now


def version_at(version: UUID, latest: datetime | None) -> UUID:
    """Return the version of a blog after the moment *latest*; None if no schedule is due."""
    return version if latest is None else uuid5(version, latest.isoformat())
