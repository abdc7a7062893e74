"""Pages of posts: one statement reads a page, the length of the list, and the blog's version.

So the three are consistent despite concurrent writes. The length is stored when a post is
written; counting would read every post of the blog for every page. Only a search is counted, and
the posts of schedules that are due.
"""

from collections.abc import Sequence
from typing import Any, TypeVar

import msgspec
import sqlalchemy as sa

from tenantry.db.statements import Statement
from tenantry.tenant.blog import drafted, due, searching
from tenantry.tenant.blog.content import PostStatus
from tenantry.tenant.blog.drafted import Reads
from tenantry.tenant.tables import (
    blog_state,
    draft_text,
    post,
    post_schedule,
    post_tag,
    post_text,
    published_tag,
    tag,
)

Listed = TypeVar("Listed", bound=msgspec.Struct)

_a_post = sa.literal_column("1", sa.Integer).label("has_post")
_blog_version = blog_state.c.version.label("blog_version")
_limit = sa.bindparam("limit", type_=sa.BigInteger)
_offset = sa.bindparam("offset", type_=sa.BigInteger)
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
    reads: Reads,
    tagged: bool,
    searched: bool = False,
    some_due: bool = False,
) -> Statement[Listed]:
    """Return the statement of one page of a kind of list. An empty page has one row.

    Posts are in descending order: published ones by the time of publication, others by creation.

    Args:
        columns: The columns of the posts.
        row: *columns*, then ``has_post``, which is None in the row without a post, then
            ``blog_version``, ``due_at`` and ``total_count``.
        status: Of the posts.
        reads: What *columns* are.
        tagged: Whether they have the tag in the parameter ``tag``.
        searched: Whether they contain the parameter ``search``.
        some_due: Whether a schedule may be due. Then ``due_at`` is the latest moment of one, and
            else the next one: if it has come, the page is to be read with *some_due*.
    """
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
    if searched:
        source, is_found = _searched(source, with_drafts=reads.has_drafts)
        conditions.append(is_found)
    others = [*conditions, due.is_among_others] if some_due else conditions
    number = _number(status, tagged=tagged)
    if searched:
        number = _counted(source, others)
    elif some_due:
        number -= _counted(source, [*conditions, due.is_among_due])
    listed = (
        sa.select(*columns, _a_post)
        .select_from(drafted.joined(reads, source))
        .where(*others)
        .order_by(*(column.desc() for column in order.values()))
    )
    if some_due:
        due_posts = _due_posts(columns, status, reads, tagged=tagged, searched=searched)
        number += sa.select(sa.func.count()).select_from(due_posts.subquery()).scalar_subquery()
        listed = _in_order(listed, due_posts, [*order])
    due_at = _due_at(reads, some_due=some_due)
    return _with_state(listed, number, row, [*order], due_at, tagged=tagged)


def _number(status: PostStatus, *, tagged: bool) -> sa.ColumnElement[int]:
    """Return the stored length of a list."""
    counts = tag if tagged else blog_state
    number: sa.ColumnElement[int] = {
        PostStatus.ALL: counts.c.post_count,
        PostStatus.DRAFT: counts.c.post_count - counts.c.published_count,
        PostStatus.PUBLISHED: counts.c.published_count,
    }[status]
    # There is no row of a tag that no post has.
    return sa.func.coalesce(number, 0) if tagged else number


def _in_order(
    others: sa.Select[Any], due_posts: sa.Select[Any], order: Sequence[str]
) -> sa.Select[Any]:
    """Return the posts of both in order; of the *others* only as many as the page can have."""
    first = others.limit(_limit + _offset).subquery("others")
    both = sa.union_all(sa.select(first), due_posts).subquery("both")
    return sa.select(both).order_by(*(both.c[name].desc() for name in order))


def _due_at(reads: Reads, *, some_due: bool) -> sa.ColumnElement[Any]:
    if not reads.has_schedules:
        return due.NEVER
    return due.LATEST if some_due else due.NEXT


def _with_state(
    listed: sa.Select[Any],
    number: sa.ColumnElement[int],
    row: type[Listed],
    order: Sequence[str],
    due_at: sa.ColumnElement[Any],
    *,
    tagged: bool,
) -> Statement[Listed]:
    """Return the statement of a page of the posts *listed*, with the state of the blog."""
    page = listed.limit(_limit).offset(_offset).subquery("listed")
    state: sa.FromClause = blog_state
    if tagged:
        state = blog_state.outerjoin(tag, tag.c.tag == _wanted_tag)
    count = (
        sa.select(_blog_version, due_at.label("due_at"), number.label("total_count"))
        .select_from(state)
        .subquery("counted")
    )
    return Statement(
        sa.select(*page.c, *count.c)
        .select_from(count.outerjoin(page, sa.true()))
        .order_by(*(page.c[name].desc() for name in order)),
        row,
    )


def _due_posts(
    columns: Sequence[sa.ColumnElement[Any]],
    status: PostStatus,
    reads: Reads,
    *,
    tagged: bool,
    searched: bool,
) -> sa.Select[Any]:
    """Return the posts of the schedules that are due and belong to the list in their new state."""
    source = drafted.joined(reads)
    conditions: list[sa.ColumnElement[bool]] = [due.is_among_due]
    if status is not PostStatus.ALL:
        is_draft = due.published_at.is_(None)
        conditions.append(is_draft if status is PostStatus.DRAFT else sa.not_(is_draft))
    if tagged:
        line: sa.ColumnElement[str] = sa.literal_column("'\n'", sa.String)
        wanted = searching.position(post_schedule.c.tags, line + _wanted_tag + line)
        conditions.append(wanted > 0)
    if searched:
        source, is_found = _searched(source, with_drafts=True)
        conditions.append(is_found)
    return sa.select(*columns, _a_post).select_from(source).where(*conditions)


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


def _counted(
    source: sa.FromClause, conditions: Sequence[sa.ColumnElement[bool]]
) -> sa.ColumnElement[int]:
    return sa.select(sa.func.count()).select_from(source).where(*conditions).scalar_subquery()
