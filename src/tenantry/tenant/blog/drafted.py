"""Posts as their editors see them: with the text of the draft, if a published post has one.

The row of a published post has the text of readers. So readers join nothing, and editors join the
version that is the draft. A database before `state.EDITABLE_FROM` has neither drafts nor versions,
and one before `WRITABLE_FROM` no schedules.
"""

from collections.abc import Sequence
from enum import Enum, auto
from typing import Any

import msgspec
import sqlalchemy as sa

from tenantry.db.statements import Statement
from tenantry.tenant.blog import due
from tenantry.tenant.blog.content import Post, Stored
from tenantry.tenant.tables import post, post_schedule, post_version

_draft = post_version.alias("draft")
_has_draft = post.c.draft_slug.is_not(None)
_is_draft = sa.and_(_has_draft, _draft.c.post_id == post.c.id, _draft.c.number == post.c.version)
_is_recorded = sa.func.coalesce(post.c.saved_at == post.c.updated_at, sa.false())
_zero, _one = (sa.literal_column(one, sa.Integer) for one in "01")
_OF_VERSIONS: dict[str, sa.ColumnElement[Any]] = {
    "version": post.c.version + sa.case((_is_recorded, _zero), else_=_one),
    "is_recorded": _is_recorded,
}
TEXT = {
    name: sa.func.coalesce(_draft.c[name], post.c[name])
    for name in ("title", "slug", "excerpt", "tags", "content")
}
_OF_DRAFTS: dict[str, sa.ColumnElement[Any]] = {
    "updated_at": sa.func.coalesce(_draft.c.created_at, post.c.updated_at),
    "has_draft": _has_draft,
    "published_slug": sa.case((post.c.published_at.is_not(None), post.c.slug)),
    **TEXT,
}
_NO_DRAFTS: dict[str, sa.ColumnElement[Any]] = {"has_draft": sa.false()}
_NO_SCHEDULES: dict[str, sa.ColumnElement[Any]] = dict.fromkeys(
    ("publish_at", "unpublish_at"), due.NEVER
)
_OF_SCHEDULES: dict[str, sa.ColumnElement[Any]] = {
    name: post_schedule.c[name] for name in ("publish_at", "unpublish_at")
}


def _since_due(name: str, then: Any, *, before: sa.ColumnElement[Any]) -> dict[str, Any]:
    return {name: sa.case((due.is_due, then), else_=before)}


_DUE = {
    "published_at": due.published_at,
    # What the write that publishes the draft makes of it: see `publication.recorded`.
    "version": _OF_VERSIONS["version"]
    + sa.case((sa.and_(due.is_due, _has_draft, sa.not_(_is_recorded)), _one), else_=_zero),
}
_DUE_FOR_READERS = (
    _DUE | TEXT | _since_due("updated_at", due.moment, before=post.c.updated_at) | _NO_DRAFTS
)
_DUE_FOR_EDITORS = {
    **_DUE,
    **TEXT,
    **_since_due("updated_at", due.moment, before=_OF_DRAFTS["updated_at"]),
    **_since_due("has_draft", sa.false(), before=_has_draft),
    **_since_due("publish_at", due.NEVER, before=post_schedule.c.publish_at),
    "unpublish_at": sa.case((due.is_withdrawn, due.NEVER), else_=post_schedule.c.unpublish_at),
}


class Reads(Enum):
    """What a caller reads of a post."""

    READERS = auto()
    """The text of readers."""
    READERS_NOW = auto()
    """The same, if a schedule may be due."""
    EDITORS = auto()
    """The text of the draft, if there is one; the state is that of the parameter ``now``."""
    STORED = auto()
    """The same, with the state as it is stored."""
    UNSCHEDULED = auto()
    """The same, in a database without schedules."""
    UNSCHEDULED_READERS = auto()
    """The text of readers, in a database without schedules."""
    BEFORE = auto()
    """The only text in a database without drafts, with what the upgrade makes of it."""

    @property
    def has_drafts(self) -> bool:
        """Whether a draft is read, so its text is searched."""
        return self in (Reads.EDITORS, Reads.STORED, Reads.UNSCHEDULED)

    @property
    def has_schedules(self) -> bool:
        """Whether the database has schedules."""
        return self not in (Reads.UNSCHEDULED, Reads.UNSCHEDULED_READERS, Reads.BEFORE)


_KNOWN = {
    Reads.READERS: _OF_VERSIONS | _NO_DRAFTS | _NO_SCHEDULES,
    Reads.READERS_NOW: _OF_VERSIONS | _NO_SCHEDULES | _DUE_FOR_READERS,
    Reads.EDITORS: _OF_VERSIONS | _DUE_FOR_EDITORS,
    Reads.STORED: _OF_VERSIONS | _OF_DRAFTS | _OF_SCHEDULES,
    Reads.UNSCHEDULED: _OF_VERSIONS | _OF_DRAFTS | _NO_SCHEDULES,
    Reads.UNSCHEDULED_READERS: _OF_VERSIONS | _NO_DRAFTS | _NO_SCHEDULES,
    Reads.BEFORE: {"version": _one} | _NO_DRAFTS | _NO_SCHEDULES,
}


def columns(row: type[Any], reads: Reads) -> list[sa.ColumnElement[Any]]:
    """Return the columns for the fields of *row*, of `joined` posts."""
    known = _KNOWN[reads]
    names = [field.name for field in msgspec.structs.fields(row)]
    return [known[name].label(name) if name in known else post.c[name] for name in names]


def joined(reads: Reads, source: sa.FromClause = post) -> sa.FromClause:
    """Return *source*, which has the posts, with their drafts and schedules."""
    schedule = post_schedule.c.post_id == post.c.id
    if reads is Reads.READERS_NOW:
        source = source.outerjoin(post_schedule, sa.and_(schedule, due.is_due))
        return source.outerjoin(_draft, sa.and_(_is_draft, post_schedule.c.post_id.is_not(None)))
    if reads.has_drafts:
        source = source.outerjoin(_draft, _is_draft)
        return source.outerjoin(post_schedule, schedule) if reads.has_schedules else source
    return source


_by_id = post.c.id == sa.bindparam("post", type_=sa.Uuid)
_slug = sa.bindparam("slug", type_=post.c.slug.type)


def has_slug(slug: sa.BindParameter[str]) -> sa.ColumnElement[bool]:
    """Return whether a post has *slug*, or its draft does."""
    return sa.or_(post.c.slug == slug, post.c.draft_slug == slug)


def _selected(reads: Reads) -> sa.Select[Any]:
    return sa.select(*columns(Post, reads)).select_from(joined(reads))


STORED = Statement(
    sa.select(*columns(Stored, Reads.STORED)).select_from(joined(Reads.STORED)).where(_by_id),
    Stored,
)
FIND = {reads: Statement(_selected(reads).where(_by_id), Post) for reads in Reads}
FIND_BY_SLUG = {
    reads: Statement(_selected(reads).where(post.c.slug == _slug), Post) for reads in Reads
}
FIND_BY_SLUG[Reads.READERS_NOW] = Statement(
    _selected(Reads.READERS_NOW).where(has_slug(_slug), TEXT["slug"] == _slug), Post
)
for _reads in Reads:
    if _reads.has_drafts:
        # A post with this slug comes before one with it in its draft.
        FIND_BY_SLUG[_reads] = Statement(
            _selected(_reads)
            .where(has_slug(_slug))
            .order_by((post.c.slug == _slug).desc())
            .limit(sa.literal_column("1")),
            Post,
        )


def unrecorded(names: Sequence[str], post_id: sa.BindParameter[Any]) -> sa.Select[Any]:
    """Return the columns of a version for the text in the row of a post, if no version has it."""
    others = {
        "number": post.c.version + _one,
        "created_at": post.c.updated_at,
        "kind": sa.literal_column("'release'", sa.String),
        "note": sa.literal_column("''", sa.String),
    }
    selected = [others[name].label(name) if name in others else post.c[name] for name in names]
    return sa.select(*selected).where(post.c.id == post_id, sa.not_(_is_recorded))
