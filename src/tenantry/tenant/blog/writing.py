"""Write posts. Call these functions in a transaction of `state.writing`."""

from collections.abc import Iterable
from datetime import datetime
from itertools import chain
from typing import Any
from uuid import UUID

import msgspec
import sqlalchemy as sa

from tenantry.db.statements import Statement, insert, parameters
from tenantry.kit.ids import new_id
from tenantry.tenant.blog import searching, slugs, state, tagging, versions
from tenantry.tenant.blog.content import Post, SlugInUse, Stored
from tenantry.tenant.blog.drafts import Draft
from tenantry.tenant.blog.searching import Folded
from tenantry.tenant.blog.versions import Saver
from tenantry.tenant.databases import TenantSession
from tenantry.tenant.tables import draft_text, post, post_text, user


class Author(msgspec.Struct, frozen=True):
    """The author of a post.

    Attributes:
        id: None without a user; then the name is empty.
        name: The user's name when the post was written.
    """

    id: UUID | None = None
    name: str = ""


class Restored(msgspec.Struct, frozen=True):
    """What a post from the bin keeps, and the number of its next version."""

    id: UUID
    created_at: datetime
    version: int


class _Id(msgspec.Struct, frozen=True):
    id: UUID


_by_id = post.c.id == sa.bindparam("post", type_=sa.Uuid)
_ADDED = [*(one.name for one in post.c if one.name != "draft_slug")]
_IN_USE = {"uq_tenantry_post_slug": SlugInUse}
_ADD = Statement[Any](sa.insert(post).values(parameters(*_ADDED)), conflicts=_IN_USE)
_TEXT = ("title", "content", "slug", "excerpt", "tags")
_CHANGE = Statement[Any](
    sa.update(post)
    .values(
        parameters(*_TEXT, "updated_at", "published_at", "version")
        | {"saved_at": sa.bindparam("updated_at"), "draft_slug": None}
    )
    .where(_by_id),
    conflicts=_IN_USE,
)
_PUBLISH = Statement[Any](
    sa.update(post)
    .values(
        parameters("published_at", "updated_at", "version")
        | {"saved_at": sa.bindparam("updated_at")}
    )
    .where(_by_id)
)
_SET_DRAFT = Statement[Any](
    sa.update(post)
    .values(parameters("version", "draft_slug") | {"saved_at": post.c.updated_at})
    .where(_by_id)
)
# Editors know a published post by the slug of its draft, so that is reserved too.
_slug = sa.bindparam("slug", type_=post.c.slug.type)
_OTHER = Statement(
    sa.select(post.c.id).where(
        sa.or_(post.c.slug == _slug, post.c.draft_slug == _slug),
        post.c.id != sa.bindparam("post", type_=sa.Uuid),
    ),
    _Id,
)
_REMOVE = Statement[Any](sa.delete(post).where(_by_id))
_ADD_TEXT = Statement[Any](sa.insert(post_text))
_this = sa.bindparam("post", type_=sa.Uuid)


def _change_text(table: sa.Table) -> Statement[Any]:
    """Return the update of a text: its first line is the title, and a part that is NULL is kept."""
    line_end = searching.position(table.c.text, sa.literal_column("'\n'", sa.String))
    one: sa.ColumnElement[int] = sa.literal_column("1", sa.Integer)
    title = sa.func.coalesce(
        sa.bindparam("title", type_=sa.String), sa.func.substr(table.c.text, one, line_end - one)
    )
    content = sa.func.coalesce(
        sa.bindparam("content", type_=sa.String), sa.func.substr(table.c.text, line_end + one)
    )
    text = title + sa.literal_column("'\n'", sa.String) + content
    return Statement(sa.update(table).values(text=text).where(table.c.post_id == _this))


_CHANGE_TEXT, _CHANGE_DRAFT_TEXT = _change_text(post_text), _change_text(draft_text)
_COPY_TEXT = Statement[Any](
    insert(draft_text)
    .from_select(
        ["post_id", "text"],
        sa.select(post_text.c.post_id, post_text.c.text).where(post_text.c.post_id == _this),
    )
    .on_conflict_do_nothing(index_elements=[draft_text.c.post_id])
)
_draft_text = sa.select(draft_text.c.text).where(draft_text.c.post_id == _this).scalar_subquery()
_TAKE_DRAFT_TEXT = Statement[Any](
    sa.update(post_text).values(text=_draft_text).where(post_text.c.post_id == _this)
)
_REMOVE_DRAFT_TEXT = Statement[Any](sa.delete(draft_text).where(draft_text.c.post_id == _this))


_AUTHOR = Statement(
    sa.select(user.c.id, user.c.full_name.label("name")).where(
        user.c.id == sa.bindparam("user", type_=sa.Uuid)
    ),
    Author,
)


async def author_of(session: TenantSession, user_id: UUID | None) -> Author:
    """Return a user as the author of a post; an empty one without a user."""
    return await session.fetch_one(_AUTHOR, user=user_id) or Author()


async def add(
    session: TenantSession,
    draft: Draft,
    folded: Folded,
    *,
    author: Author,
    by: Saver,
    now: datetime,
    published_at: datetime | None = None,
    restored: Restored | None = None,
    kept: int | None = None,
) -> Post:
    """Insert a post with its first version; *published_at* is None for a draft.

    A *restored* one keeps its id, the time of its creation and its versions: the latest *kept*.

    Raises:
        SlugInUse: Another post has the slug of *draft*.
    """
    written = await _add_under_free_slug(
        session, draft, author, now=now, published_at=published_at, restored=restored
    )
    await session.execute(_ADD_TEXT, post_id=written.id, text=folded.text)
    await tagging.add(session, written.id, draft.tags, published_at=published_at)
    await state.change(session, posts=1, published=int(published_at is not None))
    await versions.add(
        session,
        written.id,
        written.version,
        text_of(written),
        by,
        kept=kept,
        now=now,
        published_at=published_at,
    )
    return written


async def change(
    session: TenantSession,
    before: Stored,
    draft: Draft,
    folded: Folded,
    *,
    now: datetime,
    published_at: datetime | None,
) -> Post:
    """Replace the text of a post by the next version, for readers too if it is published.

    *folded* is complete for what may have changed; *published_at* is None for a draft.

    Raises:
        SlugInUse: Another post has the slug.
    """
    await _check_slug(session, before, draft)
    after = _after(before, draft, now=now, published_at=published_at, version=before.version + 1)
    await _write_row(session, before, after)
    if (draft.title, draft.content) != (before.title, before.content):
        await session.execute(
            _CHANGE_TEXT, post=before.id, title=folded.title, content=folded.content
        )
    return after


async def change_draft(
    session: TenantSession, before: Stored, draft: Draft, folded: Folded, *, now: datetime
) -> Post:
    """Make the next version the draft of a published post: readers see no change.

    Unless a schedule will publish it: a process whose clock is ahead may have shown the draft of
    before, so the version of the blog changes.

    Raises:
        SlugInUse: Another post has the slug.
    """
    await _check_slug(session, before, draft)
    number = before.version + 1
    await session.execute(_SET_DRAFT, post=before.id, version=number, draft_slug=draft.slug)
    if not before.has_draft:
        await session.execute(_COPY_TEXT, post=before.id)
    await session.execute(
        _CHANGE_DRAFT_TEXT, post=before.id, title=folded.title, content=folded.content
    )
    if before.publish_at is not None:
        await state.change(session)
    return _after(
        before,
        draft,
        now=now,
        published_at=before.published_at,
        version=number,
        has_draft=True,
    )


async def publish(
    session: TenantSession, before: Stored, *, published_at: datetime | None, now: datetime
) -> Post:
    """Publish the latest text of a post at *published_at*, or unpublish it if that is None.

    Raises:
        SlugInUse: Another post has the slug of the draft: the release before has written it.
    """
    after = _after(
        before, text_of(before), now=now, published_at=published_at, version=before.version
    )
    await _write_row(session, before, after)
    return after


async def remove(session: TenantSession, before: Post) -> None:
    """Delete a post."""
    is_published = before.published_at is not None
    await tagging.remove(session, before.id, is_published=is_published)
    await session.execute(_REMOVE, post=before.id)
    await state.change(session, posts=-1, published=-int(is_published))


async def has_free_slug(session: TenantSession, one: Post) -> bool:
    """Return whether no other post has the slug of a post, or of its draft."""
    return await session.fetch_one(_OTHER, slug=one.slug, post=one.id) is None


def text_of(says: Post) -> Draft:
    """Return the text of a post."""
    return Draft(**{name: getattr(says, name) for name in _TEXT})


def _after(
    before: Stored,
    draft: Draft,
    *,
    now: datetime,
    published_at: datetime | None,
    version: int,
    has_draft: bool = False,
) -> Post:
    return Post(
        id=before.id,
        author_id=before.author_id,
        author_name=before.author_name,
        created_at=before.created_at,
        published_at=published_at,
        updated_at=now,
        version=version,
        has_draft=has_draft,
        publish_at=before.publish_at,
        unpublish_at=before.unpublish_at,
        **msgspec.structs.asdict(draft),
    )


async def _check_slug(session: TenantSession, before: Stored, draft: Draft) -> None:
    if draft.slug == before.slug:
        return
    if await session.fetch_one(_OTHER, slug=draft.slug, post=before.id) is not None:
        raise SlugInUse


async def _write_row(session: TenantSession, before: Stored, after: Post) -> None:
    """Make *after* what readers see if it is published, with its tags; not yet the searched text.

    That becomes the one of the draft, if there is one.
    """
    values = {
        "post": after.id,
        "updated_at": after.updated_at,
        "published_at": after.published_at,
        "version": after.version,
    }
    if before.has_draft:
        await session.execute(_TAKE_DRAFT_TEXT, post=before.id)
        await session.execute(_REMOVE_DRAFT_TEXT, post=before.id)
    if before.has_draft or after.version != before.version:
        text = {name: getattr(after, name) for name in _TEXT}
        await session.execute(_CHANGE, **values, **text)
    else:
        await session.execute(_PUBLISH, **values)
    was, is_ = (int(one.published_at is not None) for one in (before, after))
    is_moved = after.published_at != before.published_at
    if is_moved or before.has_draft or after.tags != before.tags:
        await tagging.remove(session, before.id, is_published=bool(was))
        await tagging.add(session, before.id, after.tags, published_at=after.published_at)
    await state.change(session, published=is_ - was)


async def _add_under_free_slug(
    session: TenantSession,
    draft: Draft,
    author: Author,
    *,
    now: datetime,
    published_at: datetime | None,
    restored: Restored | None,
) -> Post:
    post_id = new_id() if restored is None else restored.id
    wanted: Iterable[str] = [draft.slug] if draft.slug else ()
    if restored is not None or not draft.slug:
        wanted = chain(wanted, slugs.candidates(draft.title, post_id))
    for slug in wanted:
        if await session.fetch_one(_OTHER, slug=slug, post=post_id) is None:
            break
    else:
        raise SlugInUse
    written = Post(
        id=post_id,
        author_id=author.id,
        author_name=author.name,
        created_at=now if restored is None else restored.created_at,
        published_at=published_at,
        updated_at=now,
        version=1 if restored is None else restored.version,
        has_draft=False,
        publish_at=None,
        unpublish_at=None,
        **{**msgspec.structs.asdict(draft), "slug": slug},
    )
    values = msgspec.structs.asdict(written)
    del values["has_draft"], values["publish_at"], values["unpublish_at"]
    await session.execute(_ADD, saved_at=now, **values)
    return written
