"""Pages of posts: one statement reads a page, the length of the list, and the blog's version.

So the three are consistent despite concurrent writes. The length is stored when a post is
written; counting would read every post of the blog for every page. Only a search is counted.
"""

from collections.abc import Sequence
from typing import Any, TypeVar

import msgspec
import sqlalchemy as sa

from tenantry.db.statements import Statement
from tenantry.tenant.blog import drafted, searching
from tenantry.tenant.blog.content import PostStatus
from tenantry.tenant.tables import (
    blog_state,
    draft_text,
    post,
    post_tag,
    post_text,
    published_tag,
    tag,
)

Listed = TypeVar("Listed", bound=msgspec.Struct)

_a_post = sa.literal_column("1", sa.Integer).label("has_post")
_blog_version = blog_state.c.version.label("blog_version")
_wanted_tag = sa.bindparam("tag", type_=sa.String)
_STATUS = {
    PostStatus.ALL: [],
    PostStatus.DRAFT: [post.c.published_at.is_(None)],
    PostStatus.PUBLISHED: [post.c.published_at.is_not(None)],
}


def statement(
    columns: Sequence[sa.ColumnElement[Any]],
    row: type[Listed],
    status: PostStatus,
    *,
    tagged: bool,
    searched: bool = False,
    with_drafts: bool = False,
) -> Statement[Listed]:
    """Return the statement of one page of a kind of list. An empty page has one row.

    Posts are in descending order: published ones by the time of publication, others by creation.

    Args:
        columns: The columns of the posts.
        row: *columns*, then ``has_post``, which is None in the row without a post, then
            ``blog_version`` and ``total_count``.
        status: Of the posts.
        tagged: Whether they have the tag in the parameter ``tag``.
        searched: Whether they contain the parameter ``search``.
        with_drafts: Whether *columns* are those of `drafted`, and the search is of drafts too.
    """
    counts = tag if tagged else blog_state
    number = {
        PostStatus.ALL: counts.c.post_count,
        PostStatus.DRAFT: counts.c.post_count - counts.c.published_count,
        PostStatus.PUBLISHED: counts.c.published_count,
    }[status]
    is_published = status is PostStatus.PUBLISHED
    tags = published_tag if is_published else post_tag
    order = {"id": tags.c.post_id if tagged else post.c.id}
    if is_published:
        order = {"published_at": (tags if tagged else post).c.published_at, **order}
    source: sa.FromClause = tags.join(post) if tagged else post
    conditions: list[sa.ColumnElement[bool]] = [*_STATUS[status]]
    if tagged:
        # In addition to the status, unless the tags are only those of published posts.
        conditions = [*([] if is_published else conditions), tags.c.tag == _wanted_tag]
    counted = _of_tag(number) if tagged else _of_all(number)
    if searched:
        source, is_found = _searched(source, with_drafts=with_drafts)
        counted = _by_counting(source, conditions := [*conditions, is_found])
    if with_drafts:
        source = drafted.joined(source)
    listed = (
        sa.select(*columns, _a_post)
        .select_from(source)
        .where(*conditions)
        .order_by(*(column.desc() for column in order.values()))
        .limit(sa.bindparam("limit", type_=sa.BigInteger))
        .offset(sa.bindparam("offset", type_=sa.BigInteger))
        .subquery("listed")
    )
    count = counted.subquery("counted")
    return Statement(
        sa.select(*listed.c, *count.c)
        .select_from(count.outerjoin(listed, sa.true()))
        .order_by(*(listed.c[name].desc() for name in order)),
        row,
    )


def _searched(
    source: sa.FromClause, *, with_drafts: bool
) -> tuple[sa.FromClause, sa.ColumnElement[bool]]:
    """Return *source* with the searched texts, and the condition that one has the text."""
    source = source.join(post_text, post_text.c.post_id == post.c.id)
    text: sa.ColumnElement[str] = post_text.c.text
    if with_drafts:
        source = source.outerjoin(draft_text, draft_text.c.post_id == post.c.id)
        text = sa.func.coalesce(draft_text.c.text, text)
    return source, searching.position(text, sa.bindparam("search", type_=sa.String)) > 0


def _of_all(number: sa.ColumnElement[int]) -> sa.Select[Any]:
    return sa.select(_blog_version, number.label("total_count"))


def _of_tag(number: sa.ColumnElement[int]) -> sa.Select[Any]:
    """Return the stored *number* of the wanted tag; 0 if no post has it."""
    return sa.select(_blog_version, sa.func.coalesce(number, 0).label("total_count")).select_from(
        blog_state.outerjoin(tag, tag.c.tag == _wanted_tag)
    )


def _by_counting(
    source: sa.FromClause, conditions: Sequence[sa.ColumnElement[bool]]
) -> sa.Select[Any]:
    count = sa.select(sa.func.count()).select_from(source).where(*conditions)
    return sa.select(_blog_version, count.scalar_subquery().label("total_count"))
