"""The versions of a post: every text that was saved, with who saved it and when.

The latest `TENANTRY_POST_VERSIONS` are kept, and as many of those that were published. A version is
never changed, except that `published_at` is set when its text is published.
"""

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any
from uuid import UUID

import msgspec
import sqlalchemy as sa

from tenantry.access.principal import Scope, TenantRole, allows
from tenantry.db.statements import Statement, columns_of
from tenantry.kit.text import checked_line
from tenantry.tenant.blog.content import PostVersion
from tenantry.tenant.blog.drafted import unrecorded
from tenantry.tenant.blog.drafts import Draft
from tenantry.tenant.databases import TenantSession
from tenantry.tenant.entry import RoleRequired, TenantContext
from tenantry.tenant.tables import post_version, user

NOTE_CHARS_MAX = 200


class Kind(StrEnum):
    """The credential with which a version was saved."""

    SESSION = "session"
    MCP_TOKEN = "mcp-token"  # noqa: S105 - not a password
    COMMAND = "command"
    RELEASE = "release"
    """Unknown: the text is from a release of Tenantry that knew no versions."""


@dataclass(frozen=True, slots=True)
class Saver:
    """Who saves a version, and why.

    Attributes:
        id: The user; None without one.
        kind: The credential.
        note: One line, or empty.
    """

    id: UUID | None
    kind: Kind
    note: str = ""


_post = sa.bindparam("post", type_=sa.Uuid)
_number = sa.bindparam("number", type_=sa.Integer)
_ADDED = (
    "created_at",
    "published_at",
    "kind",
    "note",
    "title",
    "slug",
    "excerpt",
    "tags",
    "content",
)


def name_of(user_id: sa.ColumnElement[UUID]) -> sa.ColumnElement[str]:
    """Return the name of a user, in SQL; empty without one."""
    name = sa.select(user.c.full_name).where(user.c.id == user_id).scalar_subquery()
    return sa.func.coalesce(name, sa.literal_column("''", sa.String))


_NAMES = [column.name for column in post_version.c if column.name != "post_id"]
_ADD_UNKNOWN = Statement[Any](
    sa.insert(post_version).from_select(
        [*_NAMES, "post_id"], unrecorded(_NAMES, _post).add_columns(_post)
    )
)
_of_post = post_version.c.post_id == _post
_is_published = post_version.c.published_at.is_not(None)
_FIND = Statement(
    sa.select(*columns_of(post_version, PostVersion)).where(
        _of_post, post_version.c.number == _number
    ),
    PostVersion,
)


def _pruning(write: sa.Insert | sa.Update, *, published: bool) -> Statement[Any]:
    """Return *write* of the version `number`, and the removal of old ones, in one round trip.

    Those up to the number `last` that were never published; and of *published* ones, if the version
    becomes one, all but it and the latest `others`.
    """
    others = (
        sa.select(post_version.c.number)
        .where(_of_post, _is_published, post_version.c.number != _number)
        .order_by(post_version.c.number.desc())
        .limit(sa.bindparam("others", type_=sa.BigInteger))
        .subquery()
    )
    oldest = sa.select(sa.func.coalesce(sa.func.min(others.c.number), _number)).scalar_subquery()
    removed: sa.ColumnElement[bool] = sa.not_(_is_published)
    if published:
        removed = sa.or_(removed, post_version.c.number < oldest)
    last = sa.bindparam("last", type_=sa.Integer)
    prune = sa.delete(post_version).where(_of_post, post_version.c.number <= last, removed)
    return Statement(write.add_cte(prune.cte("pruned")), on_sqlite=(write, prune))


_author = sa.bindparam("author_id", type_=sa.Uuid)
_add = sa.insert(post_version).values(
    post_id=_post,
    number=_number,
    author_id=_author,
    author_name=name_of(_author),
    **{name: sa.bindparam(name, type_=post_version.c[name].type) for name in _ADDED},
)
_ADD, _ADD_PUBLISHED = (_pruning(_add, published=one) for one in (False, True))
_repeated: dict[str, sa.ColumnElement[Any]] = {
    "number": _number,
    "created_at": sa.bindparam("created_at", type_=post_version.c.created_at.type),
    "published_at": sa.cast(sa.null(), post_version.c.published_at.type),
}
_REPEAT = _pruning(
    sa.insert(post_version).from_select(
        [column.name for column in post_version.c],
        sa.select(
            *(_repeated.get(column.name, column).label(column.name) for column in post_version.c)
        ).where(_of_post, post_version.c.number == sa.bindparam("of", type_=sa.Integer)),
    ),
    published=False,
)
_PUBLISH = _pruning(
    sa.update(post_version)
    .values(published_at=sa.bindparam("at", type_=post_version.c.published_at.type))
    .where(_of_post, post_version.c.number == _number),
    published=True,
)


def sees_drafts(ctx: TenantContext) -> bool:
    """Return whether the caller sees texts that are not published."""
    return may_publish(ctx) or _has(ctx, Scope.CONTENT_DRAFT)


def may_publish(ctx: TenantContext) -> bool:
    """Return whether the caller may change what readers see."""
    return _has(ctx, Scope.CONTENT_PUBLISH)


def require_own(ctx: TenantContext, author_id: UUID | None) -> None:
    """Check that the caller may change, publish, delete and restore a post of this author.

    Owners and editors change all posts, an author only their own ones, and a reader none. A post
    without an author is of no author.

    Raises:
        RoleRequired: The caller's role does not suffice.
    """
    if ctx.role in {TenantRole.OWNER, TenantRole.EDITOR}:
        return
    is_own = author_id is not None and author_id == ctx.identity.user_id
    if ctx.role is not TenantRole.AUTHOR or not is_own:
        raise RoleRequired


def _has(ctx: TenantContext, scope: Scope) -> bool:
    token = ctx.identity.mcp_token
    return token is None or allows(token.scopes, scope)


def saver(ctx: TenantContext, note: str | None = None) -> Saver:
    """Return the caller as the one who saves a version.

    Raises:
        BadText: *note* is not one line of at most `NOTE_CHARS_MAX` characters.
    """
    kind = Kind.SESSION if ctx.identity.mcp_token is None else Kind.MCP_TOKEN
    if note:
        checked_line("note", note, chars_max=NOTE_CHARS_MAX)
    return Saver(ctx.identity.user_id, kind, note or "")


async def find(session: TenantSession, post_id: UUID, number: int) -> PostVersion | None:
    """Return a version of a post, if it is stored."""
    return await session.fetch_one(_FIND, post=post_id, number=number)


async def add(
    session: TenantSession,
    post_id: UUID,
    number: int,
    says: Draft,
    by: Saver,
    *,
    kept: int | None,
    now: datetime,
    published_at: datetime | None,
) -> None:
    """Add a version, and remove the oldest: all but *kept*, and as many published ones.

    The slug of *says* is not None; with None for *kept*, none is removed.
    """
    await session.execute(
        _ADD if published_at is None else _ADD_PUBLISHED,
        post=post_id,
        number=number,
        created_at=now,
        published_at=published_at,
        author_id=by.id,
        kind=by.kind.value,
        note=by.note,
        **_limits(number, kept),
        **msgspec.structs.asdict(says),
    )


async def add_unknown(session: TenantSession, post_id: UUID) -> None:
    """Add the text in the row of a post as a version, if no version has it."""
    await session.execute(_ADD_UNKNOWN, post=post_id)


async def repeat(
    session: TenantSession, post_id: UUID, of: int, number: int, *, kept: int | None, now: datetime
) -> None:
    """Add the version *of* once more as *number*, of the same author; remove old ones as `add`."""
    await session.execute(
        _REPEAT, post=post_id, of=of, number=number, created_at=now, **_limits(number, kept)
    )


async def publish(
    session: TenantSession, post_id: UUID, number: int, *, kept: int | None, now: datetime
) -> None:
    """Record that the latest version was published, and remove the oldest as `add` does."""
    await session.execute(_PUBLISH, post=post_id, number=number, at=now, **_limits(number, kept))


def _limits(number: int, kept: int | None) -> dict[str, int]:
    return {"last": 0, "others": 0} if kept is None else {"last": number - kept, "others": kept - 1}
