"""Posts as their editors see them: with the text of the draft, if a published post has one.

The row of a published post has the text of readers. So readers join nothing, and editors join the
version that is the draft. A database before `state.EDITABLE_FROM` has neither drafts nor versions.
"""

from collections.abc import Sequence
from enum import Enum, auto
from typing import Any

import msgspec
import sqlalchemy as sa

from tenantry.db.statements import Statement
from tenantry.tenant.blog.content import Post, Stored
from tenantry.tenant.tables import post, post_version

_draft = post_version.alias("draft")
_has_draft = post.c.draft_slug.is_not(None)
_is_draft = sa.and_(_has_draft, _draft.c.post_id == post.c.id, _draft.c.number == post.c.version)
_is_recorded = sa.func.coalesce(post.c.saved_at == post.c.updated_at, sa.false())
_one = sa.literal_column("1", sa.Integer)
_OF_VERSIONS: dict[str, sa.ColumnElement[Any]] = {
    "version": post.c.version + sa.case((_is_recorded, sa.literal_column("0")), else_=_one),
    "is_recorded": _is_recorded,
}
_OF_DRAFTS: dict[str, sa.ColumnElement[Any]] = {
    "updated_at": sa.func.coalesce(_draft.c.created_at, post.c.updated_at),
    "has_draft": _has_draft,
    **{
        name: sa.func.coalesce(_draft.c[name], post.c[name])
        for name in ("title", "slug", "excerpt", "tags", "content")
    },
}
_NO_DRAFTS: dict[str, sa.ColumnElement[Any]] = {"has_draft": sa.false()}


class Reads(Enum):
    """What a caller reads of a post."""

    READERS = auto()
    """The text of readers."""
    EDITORS = auto()
    """The text of the draft, if there is one."""
    BEFORE = auto()
    """The only text in a database without drafts, with what the upgrade makes of it."""


_KNOWN = {
    Reads.READERS: _OF_VERSIONS | _NO_DRAFTS,
    Reads.EDITORS: _OF_VERSIONS | _OF_DRAFTS,
    Reads.BEFORE: {"version": _one} | _NO_DRAFTS,
}


def columns(row: type[Any], reads: Reads = Reads.EDITORS) -> list[sa.ColumnElement[Any]]:
    """Return the columns for the fields of *row*; for editors, those of `joined` posts."""
    known = _KNOWN[reads]
    names = [field.name for field in msgspec.structs.fields(row)]
    return [known[name].label(name) if name in known else post.c[name] for name in names]


def joined(source: sa.FromClause = post) -> sa.FromClause:
    """Return *source*, which has the posts, with their drafts."""
    return source.outerjoin(_draft, _is_draft)


_by_id = post.c.id == sa.bindparam("post", type_=sa.Uuid)
_slug = sa.bindparam("slug", type_=post.c.slug.type)


def _selected(reads: Reads) -> sa.Select[Any]:
    source = joined() if reads is Reads.EDITORS else post
    return sa.select(*columns(Post, reads)).select_from(source)


STORED = Statement(sa.select(*columns(Stored)).select_from(joined()).where(_by_id), Stored)
FIND = {reads: Statement(_selected(reads).where(_by_id), Post) for reads in Reads}
FIND_BY_SLUG = {
    reads: Statement(_selected(reads).where(post.c.slug == _slug), Post) for reads in Reads
}
# A post with this slug comes before one with it in its draft.
FIND_BY_SLUG[Reads.EDITORS] = Statement(
    _selected(Reads.EDITORS)
    .where(sa.or_(post.c.slug == _slug, post.c.draft_slug == _slug))
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
