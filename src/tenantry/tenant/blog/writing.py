"""Write posts. Call these functions in a transaction of `state.writing`."""

from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

import msgspec
import sqlalchemy as sa

from tenantry.db.statements import Statement, insert, parameters
from tenantry.kit.ids import new_id
from tenantry.tenant.blog import searching, slugs, state, tagging
from tenantry.tenant.blog.content import Post, SlugInUse
from tenantry.tenant.blog.drafts import Draft
from tenantry.tenant.blog.searching import Folded
from tenantry.tenant.databases import TenantSession
from tenantry.tenant.tables import post, post_text


@dataclass(frozen=True, slots=True)
class Author:
    """The author of a post.

    Attributes:
        id: None without a user; then the name is empty.
        name: The user's name when the post was written.
    """

    id: UUID | None = None
    name: str = ""


class _Id(msgspec.Struct, frozen=True):
    id: UUID


_by_id = post.c.id == sa.bindparam("post", type_=sa.Uuid)
_ADD = Statement(
    insert(post).on_conflict_do_nothing(index_elements=[post.c.slug]).returning(post.c.id), _Id
)
_CHANGE = Statement[Any](
    sa.update(post)
    .values(parameters("title", "content", "slug", "excerpt", "tags", "updated_at"))
    .where(_by_id),
    conflicts={"uq_tenantry_post_slug": SlugInUse},
)
_PUBLISH = Statement[Any](
    sa.update(post).values(parameters("published_at", "updated_at")).where(_by_id)
)
_REMOVE = Statement[Any](sa.delete(post).where(_by_id))
_ADD_TEXT = Statement[Any](sa.insert(post_text))
_line_end = searching.position(post_text.c.text, sa.literal_column("'\n'", sa.String))
# The folded title is the first line, the content the rest; a part that is NULL is kept.
_CHANGE_TEXT = Statement[Any](
    sa.update(post_text)
    .values(
        text=sa.func.coalesce(
            sa.bindparam("title", type_=sa.String),
            sa.func.substr(
                post_text.c.text, sa.literal_column("1"), _line_end - sa.literal_column("1")
            ),
        )
        + sa.literal_column("'\n'", sa.String)
        + sa.func.coalesce(
            sa.bindparam("content", type_=sa.String),
            sa.func.substr(post_text.c.text, _line_end + sa.literal_column("1")),
        )
    )
    .where(post_text.c.post_id == sa.bindparam("post", type_=sa.Uuid))
)


async def add(
    session: TenantSession,
    draft: Draft,
    folded: Folded,
    *,
    author: Author,
    now: datetime,
    published_at: datetime | None = None,
) -> Post:
    """Insert a post; *published_at* is None for a draft.

    Raises:
        SlugInUse: Another post has the slug of *draft*.
    """
    written = await _add_under_free_slug(session, draft, author, now, published_at)
    await session.execute(_ADD_TEXT, post_id=written.id, text=folded.text)
    await tagging.add(session, written.id, draft.tags, published_at=published_at)
    await state.change(session, posts=1, published=int(published_at is not None))
    return written


async def change(
    session: TenantSession, before: Post, draft: Draft, folded: Folded, *, now: datetime
) -> Post:
    """Replace the content of a post; *folded* is complete for what may have changed.

    Raises:
        SlugInUse: Another post has the slug.
    """
    says = {**msgspec.structs.asdict(draft), "updated_at": now}
    await session.execute(_CHANGE, post=before.id, **says)
    if (draft.title, draft.content) != (before.title, before.content):
        await session.execute(
            _CHANGE_TEXT, post=before.id, title=folded.title, content=folded.content
        )
    if draft.tags != before.tags:
        await tagging.remove(session, before.id, is_published=before.published_at is not None)
        await tagging.add(session, before.id, draft.tags, published_at=before.published_at)
    await state.change(session)
    return msgspec.structs.replace(before, **says)


async def publish(
    session: TenantSession, before: Post, *, published_at: datetime | None, now: datetime
) -> Post:
    """Publish a post at *published_at*, or unpublish it if that is None."""
    was, is_ = (int(one is not None) for one in (before.published_at, published_at))
    await session.execute(_PUBLISH, post=before.id, published_at=published_at, updated_at=now)
    await tagging.remove(session, before.id, is_published=bool(was))
    await tagging.add(session, before.id, before.tags, published_at=published_at)
    await state.change(session, published=is_ - was)
    return msgspec.structs.replace(before, published_at=published_at, updated_at=now)


async def remove(session: TenantSession, before: Post) -> None:
    """Delete a post."""
    is_published = before.published_at is not None
    await tagging.remove(session, before.id, is_published=is_published)
    await session.execute(_REMOVE, post=before.id)
    await state.change(session, posts=-1, published=-int(is_published))


async def _add_under_free_slug(
    session: TenantSession,
    draft: Draft,
    author: Author,
    now: datetime,
    published_at: datetime | None,
) -> Post:
    post_id = new_id()
    wanted = [draft.slug] if draft.slug else slugs.candidates(draft.title, post_id)
    for slug in wanted:
        written = Post(
            id=post_id,
            author_name=author.name,
            created_at=now,
            published_at=published_at,
            updated_at=now,
            **{**msgspec.structs.asdict(draft), "slug": slug},
        )
        values = msgspec.structs.asdict(written)
        if await session.fetch_one(_ADD, author_id=author.id, **values) is not None:
            return written
    raise SlugInUse
