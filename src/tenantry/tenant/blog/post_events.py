"""What readers of a blog see differently, in order: from its audit log, and from its schedules.

An entry of the audit log is written with the change itself (`publication.shown_change`). A schedule
changes what readers see without a write, so its moments are read from the schedules; the entry of
the first write after a moment has the same position, for a reader who has not read the moment.

Positions are texts in the order of time: those of entries, and those of moments.
"""

from datetime import UTC, datetime
from typing import Any
from uuid import UUID

import msgspec
import sqlalchemy as sa

from tenantry.db.statements import Statement
from tenantry.db.types import Instant
from tenantry.kit.hook_events import POST_CHANGED, POST_PUBLISHED, POST_UNPUBLISHED
from tenantry.kit.ids import first_id_at
from tenantry.tenant.blog import due
from tenantry.tenant.blog.publication import PUBLISHED_SLUG, SCHEDULE
from tenantry.tenant.databases import TenantDatabase
from tenantry.tenant.tables import audit, post, post_schedule

# As `Records` are stored; a quotation mark within a text has a backslash there. In the statement
# and not in Python: a day of drafts is read again until a post is published.
_IS_SHOWN = sa.type_coerce(audit.c.changes, sa.String).like(
    sa.literal_column(f'\'%"field":"{PUBLISHED_SLUG}"%\'', sa.String)
)
_MOMENT_FORMAT = "%Y-%m-%dT%H:%M:%S.%f"


class PostEvent(msgspec.Struct, frozen=True):
    """Readers see a post for the first time, or with another text, or no longer.

    Attributes:
        event: `post.published`, `post.changed` or `post.unpublished`.
        slug: Under which readers see it, or have seen it.
        previous_slug: Under which they saw it before, if that is another one.
    """

    event: str
    post_id: str
    slug: str
    previous_slug: str | None
    at: datetime


class Read(msgspec.Struct, frozen=True):
    """An entry, or a moment of a schedule.

    Attributes:
        position: Its position.
        event: What readers see.
        moment: Of an entry: the position of the moment of a schedule that it records, if any.
    """

    position: str
    event: PostEvent
    moment: str | None = None


class _Entry(msgspec.Struct, frozen=True):
    id: UUID
    at: datetime
    actor: str
    target: str
    changes: list[dict[str, Any]]


class _Moment(msgspec.Struct, frozen=True):
    post_id: UUID
    at: datetime
    old: str | None
    new: str | None


_limit = sa.bindparam("limit", type_=sa.BigInteger)
_ENTRIES = Statement(
    sa.select(audit.c.id, audit.c.at, audit.c.actor, audit.c.target, audit.c.changes)
    .where(audit.c.id > sa.bindparam("since", type_=sa.Uuid), _IS_SHOWN)
    .order_by(audit.c.id)
    .limit(_limit),
    _Entry,
)
_latest_slug = sa.func.coalesce(post.c.draft_slug, post.c.slug)
_published_slug = sa.case((post.c.published_at.is_not(None), post.c.slug))


def _moments(
    at: sa.ColumnElement[datetime], old: sa.ColumnElement[Any], new: sa.ColumnElement[Any]
) -> sa.Select[Any]:
    return (
        sa.select(post_schedule.c.post_id, at.label("at"), old.label("old"), new.label("new"))
        .select_from(post_schedule.join(post))
        .where(due.is_due, at <= due.now)
    )


_both = sa.union_all(
    _moments(post_schedule.c.publish_at, _published_slug, _latest_slug),
    _moments(
        post_schedule.c.unpublish_at,
        sa.case((post_schedule.c.publish_at.is_not(None), _latest_slug), else_=post.c.slug),
        sa.cast(sa.null(), post.c.slug.type),
    ),
).subquery()
_since = sa.bindparam("since", type_=Instant)
_MOMENTS = Statement(
    sa.select(_both.c.post_id, _both.c.at, _both.c.old, _both.c.new)
    .where(
        sa.or_(
            _both.c.at > _since,
            sa.and_(_both.c.at == _since, _both.c.post_id > sa.bindparam("post", type_=sa.Uuid)),
        )
    )
    .order_by(_both.c.at, _both.c.post_id)
    .limit(_limit),
    _Moment,
)


def first_entry(at: datetime) -> str:
    """Return the first position of an entry of this time."""
    return str(first_id_at(at))


def first_moment(at: datetime) -> str:
    """Return the first position of a moment of this time."""
    return _position(at, UUID(int=0))


async def entries(database: TenantDatabase, since: str, *, limit: int) -> list[Read]:
    """Return the first *limit* entries of what readers see after the position *since*, in order."""
    found = await database.fetch_all(_ENTRIES, since=UUID(since), limit=limit)
    return [_of_entry(one) for one in found]


async def moments(database: TenantDatabase, since: str, *, now: datetime, limit: int) -> list[Read]:
    """Return the first *limit* moments that have come since the position *since*, in order.

    Without those after which the blog was written: an entry has each of these.
    """
    text, post_id = since.split()
    found = await database.fetch_all(
        _MOMENTS,
        since=datetime.strptime(text, _MOMENT_FORMAT).replace(tzinfo=UTC),
        post=UUID(post_id),
        now=now,
        limit=limit,
    )
    return [
        Read(_position(one.at, one.post_id), _event(one.post_id, one.old, one.new, one.at))
        for one in found
    ]


def _of_entry(entry: _Entry) -> Read:
    old = {str(one["field"]): one.get("old") for one in entry.changes}
    new = {str(one["field"]): one.get("new") for one in entry.changes}
    at, moment = entry.at, None
    if entry.actor == SCHEDULE:
        name = "unpublishAt" if new[PUBLISHED_SLUG] is None else "publishAt"
        at = datetime.fromisoformat(str(old[name]))
        moment = _position(at, UUID(entry.target))
    event = _event(entry.target, old[PUBLISHED_SLUG], new[PUBLISHED_SLUG], at)
    return Read(str(entry.id), event, moment)


def _event(post_id: object, old: str | None, new: str | None, at: datetime) -> PostEvent:
    kind = POST_UNPUBLISHED if new is None else POST_PUBLISHED if old is None else POST_CHANGED
    slug = new or old
    assert slug is not None
    return PostEvent(kind, str(post_id), slug, old if old not in (None, slug) else None, at)


def _position(at: datetime, post_id: UUID) -> str:
    return f"{at.astimezone(UTC).strftime(_MOMENT_FORMAT)} {post_id}"
