"""Pages of posts: one statement reads a page, the length of the list, and the blog's version.

So the three are consistent despite concurrent writes. The length is stored when a post is
written; counting would read every post of the blog for every page.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import sqlalchemy as sa

from tenantry.tenant.tables import blog_state, tag

_a_post = sa.literal_column("1", sa.Integer).label("has_post")
wanted_tag = sa.bindparam("tag", type_=sa.String)


def page(
    columns: Sequence[sa.ColumnElement[Any]],
    *,
    source: sa.FromClause,
    conditions: Sequence[sa.ColumnElement[bool]],
    order: Mapping[str, sa.ColumnElement[Any]],
    counted: sa.Select[Any],
) -> sa.Select[Any]:
    """Return the statement of one page. An empty page has one row, without a post.

    Args:
        columns: The columns of the posts.
        source: The tables that they are read from.
        conditions: The filters of the list.
        order: The columns to order by, in descending order, by the names of *columns*.
        counted: One row: ``version`` and ``total_count``.

    Returns:
        *columns*, then ``has_post``, which is None in the row without a post, then the columns
        of *counted*.
    """
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
    return (
        sa.select(*listed.c, *count.c)
        .select_from(count.outerjoin(listed, sa.true()))
        .order_by(*(listed.c[name].desc() for name in order))
    )


def of_all(number: sa.ColumnElement[int]) -> sa.Select[Any]:
    """Return the version, and the stored *number* of the whole blog."""
    return sa.select(blog_state.c.version, number.label("total_count"))


def of_tag(number: sa.ColumnElement[int]) -> sa.Select[Any]:
    """Return the version, and the stored *number* of the wanted tag; 0 if no post has it."""
    return sa.select(
        blog_state.c.version, sa.func.coalesce(number, 0).label("total_count")
    ).select_from(blog_state.outerjoin(tag, tag.c.tag == wanted_tag))


def by_counting(
    source: sa.FromClause, conditions: Sequence[sa.ColumnElement[bool]]
) -> sa.Select[Any]:
    """Return the version and a counted number of posts, for filters without a stored count."""
    count = sa.select(sa.func.count()).select_from(source).where(*conditions)
    return sa.select(blog_state.c.version, count.scalar_subquery().label("total_count"))
