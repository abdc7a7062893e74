"""The tags of posts: their rules, and the tables that find and count posts by tag."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any
from uuid import UUID

import sqlalchemy as sa

from tenantry.db.statements import Statement, insert
from tenantry.kit.errors import Invalid
from tenantry.kit.text import canonical, checked_line, checked_text
from tenantry.tenant.databases import TenantSession
from tenantry.tenant.tables import post_tag, published_tag, tag

TAGS_MAX = 20
TAG_CHARS_MAX = 50


class BadTags(Invalid):
    """`tags` breaks a rule; the message says which."""


_post = sa.bindparam("post", type_=sa.Uuid)
_tags_of_post = sa.select(post_tag.c.tag).where(post_tag.c.post_id == _post)
_published = sa.bindparam("published", type_=sa.Integer)

_ADD = Statement[Any](sa.insert(post_tag))
_REMOVE = Statement[Any](sa.delete(post_tag).where(post_tag.c.post_id == _post))
_counted = insert(tag).from_select(
    ["tag", "post_count", "published_count"],
    sa.select(post_tag.c.tag, sa.literal(1, sa.Integer), _published).where(
        post_tag.c.post_id == _post
    ),
)
_COUNT_UP = Statement[Any](
    _counted.on_conflict_do_update(
        index_elements=[tag.c.tag],
        set_={
            "post_count": tag.c.post_count + 1,
            "published_count": tag.c.published_count + _counted.excluded.published_count,
        },
    )
)
_COUNT_DOWN = Statement[Any](
    sa.update(tag)
    .values(post_count=tag.c.post_count - 1, published_count=tag.c.published_count - _published)
    .where(tag.c.tag.in_(_tags_of_post))
)
_FORGET_UNUSED = Statement[Any](
    sa.delete(tag).where(tag.c.post_count == 0, tag.c.tag.in_(_tags_of_post))
)
_LIST = Statement[Any](
    sa.insert(published_tag).from_select(
        ["tag", "published_at", "post_id"],
        sa.select(
            post_tag.c.tag,
            sa.bindparam("at", type_=published_tag.c.published_at.type),
            post_tag.c.post_id,
        ).where(post_tag.c.post_id == _post),
    )
)
_UNLIST = Statement[Any](sa.delete(published_tag).where(published_tag.c.post_id == _post))


def checked_tags(tags: Sequence[str]) -> list[str]:
    """Return *tags* as they are stored: of tags that are equal when compared, the first.

    Raises:
        BadTags: There are more than `TAGS_MAX`.
        BadText: One is blank, longer than `TAG_CHARS_MAX`, or contains control characters.
    """
    if len(tags) > TAGS_MAX:
        raise BadTags(f"`tags` must have at most {TAGS_MAX} items.")
    found: dict[str, str] = {}
    for one in tags:
        checked = checked_line("tags", one, chars_max=TAG_CHARS_MAX).strip()
        found.setdefault(canonical(checked), checked)
    return list(found.values())


def wanted_tag(tag: str) -> str:
    """Return *tag* in the form in which tags are compared.

    Raises:
        BadText: It is longer than `TAG_CHARS_MAX`, or not valid text.
    """
    return canonical(checked_text("tag", tag, chars_max=TAG_CHARS_MAX).strip())


async def add(
    session: TenantSession, post_id: UUID, tags: Sequence[str], *, published_at: datetime | None
) -> None:
    """Add the tags of a post that has none."""
    for one in tags:
        await session.execute(_ADD, tag=canonical(one), post_id=post_id)
    if not tags:
        return
    await session.execute(_COUNT_UP, post=post_id, published=int(published_at is not None))
    if published_at is not None:
        await session.execute(_LIST, post=post_id, at=published_at)


async def remove(session: TenantSession, post_id: UUID, *, is_published: bool) -> None:
    """Remove all tags of a post."""
    await session.execute(_COUNT_DOWN, post=post_id, published=int(is_published))
    await session.execute(_FORGET_UNUSED, post=post_id)
    await session.execute(_UNLIST, post=post_id)
    await session.execute(_REMOVE, post=post_id)
