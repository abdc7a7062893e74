"""Read and restore the versions of a post."""

import asyncio
import re
from collections.abc import Sequence
from difflib import unified_diff
from uuid import UUID

import msgspec
import sqlalchemy as sa

from tenantry.db.statements import Count, Statement
from tenantry.kit.errors import NotFound
from tenantry.kit.pages import Page, Window
from tenantry.kit.preconditions import Expected
from tenantry.tenant.blog import drafted, posts, state, versions
from tenantry.tenant.blog.content import Post, PostNotFound, PostVersion, PostVersionSummary
from tenantry.tenant.blog.folding import Folding
from tenantry.tenant.databases import require_revision
from tenantry.tenant.entry import TenantContext
from tenantry.tenant.tables import post, post_version

# More lines are shown as one change, because the comparison takes time that grows with the square
# of their number, at the worst with the cube (measured: 0.05 s for this).
COMPARED_LINES_MAX = 200
CONTEXT_LINES = 3
# Of the column; a driver cannot send a larger one.
NUMBER_MAX = 2**31 - 1
_RANGE = re.compile(r"([-+])(\d+)")


class VersionNotFound(NotFound):
    """The post has no such version: it never had, or it was one of the oldest and is removed."""


class PostDifference(msgspec.Struct, frozen=True, rename="camel"):
    """What differs between two versions of a post.

    Attributes:
        number: The later version, or any other one.
        against: The version that it is compared with.
        changes: One object for each member that differs, with `field`, `old` and `new`, except the
            content.
        lines: The lines of the content that differ, with some around them, in the unified format:
            each begins with ` `, `-`, `+` or `@@`.
    """

    number: int
    against: int
    changes: list[dict[str, str]]
    lines: list[str]


_post = sa.bindparam("post", type_=sa.Uuid)
_number = sa.bindparam("number", type_=sa.Integer)
_SUMMARY = [field.name for field in msgspec.structs.fields(PostVersionSummary)]
_WHOLE = [field.name for field in msgspec.structs.fields(PostVersion)]


def _versions(names: Sequence[str]) -> sa.Subquery:
    """Return the versions of a post, and the text in its row if that is none of them.

    A deleted post has none: neither one in the bin, nor one that the release before has deleted.
    """
    stored = (
        sa.select(*(post_version.c[name] for name in names))
        .join(post, post.c.id == post_version.c.post_id)
        .where(post.c.id == _post)
    )
    return stored.union_all(drafted.unrecorded(names, _post)).subquery("versions")


_listed, _whole = _versions(_SUMMARY), _versions(_WHOLE)
_PAGE = Statement(
    sa.select(*_listed.c)
    .order_by(_listed.c.number.desc())
    .limit(sa.bindparam("limit", type_=sa.BigInteger))
    .offset(sa.bindparam("offset", type_=sa.BigInteger)),
    PostVersionSummary,
)
_COUNT = Statement(sa.select(sa.func.count().label("count")).select_from(_listed), Count)
_FIND = Statement(sa.select(*_whole.c).where(_whole.c.number == _number), PostVersion)
_FIND_BEFORE = Statement(
    sa.select(*_whole.c)
    .where(_whole.c.number < _number)
    .order_by(_whole.c.number.desc())
    .limit(sa.literal_column("1")),
    PostVersion,
)


async def page(ctx: TenantContext, post_id: UUID, window: Window) -> Page[PostVersionSummary]:
    """Return a page of the versions of a post, the newest first.

    Raises:
        PostNotFound: There is no such post, or the caller sees no drafts.
    """
    await require_revision(ctx.database, state.EDITABLE_FROM)
    await posts.get(ctx, post_id)
    if not versions.sees_drafts(ctx):
        raise PostNotFound
    items = await ctx.database.fetch_all(
        _PAGE, post=post_id, limit=window.size, offset=window.offset
    )
    total = await ctx.database.fetch_one(_COUNT, post=post_id)
    return Page(items, window, total.count if total else 0)


async def get(ctx: TenantContext, post_id: UUID, number: int) -> PostVersion:
    """Return a version of a post.

    Raises:
        VersionNotFound: There is no such post or version, or the caller sees no drafts.
    """
    await require_revision(ctx.database, state.EDITABLE_FROM)
    if not versions.sees_drafts(ctx) or number > NUMBER_MAX:
        raise VersionNotFound
    found = await ctx.database.fetch_one(_FIND, post=post_id, number=number)
    if found is None:
        raise VersionNotFound
    return found


async def difference(
    ctx: TenantContext, post_id: UUID, number: int, against: int | None
) -> PostDifference:
    """Return what differs between a version and another; None for the stored one before it.

    The first one is compared with nothing, as version 0.

    Raises:
        VersionNotFound: There is no such post, or one of the versions is not stored.
    """
    new = await get(ctx, post_id, number)
    old: PostVersion | None
    if against is None:
        old = await ctx.database.fetch_one(_FIND_BEFORE, post=post_id, number=number)
    else:
        old = await get(ctx, post_id, against)
    if old is None:
        old = msgspec.structs.replace(
            new, number=0, title="", slug="", excerpt="", tags=[], content=""
        )
    changes = [
        {"field": name, "old": _shown(getattr(old, name)), "new": _shown(getattr(new, name))}
        for name in ("title", "slug", "excerpt", "tags")
        if getattr(old, name) != getattr(new, name)
    ]
    lines = await asyncio.to_thread(changed_lines, old.content, new.content)
    return PostDifference(number, old.number, changes, lines)


async def restore(
    ctx: TenantContext,
    folding: Folding,
    post_id: UUID,
    number: int,
    *,
    kept: int,
    expected: Expected = None,
) -> Post:
    """Save the text of a version as the latest one; of a published post, as its draft.

    Raises:
        VersionNotFound: There is no such post or version.
        PostNotFound: The post was deleted.
        PostChanged: The post is not what is *expected*.
        SlugInUse: Another post has the slug of the version.
        ScopeRequired: The post is scheduled to be published, and the McpToken may not publish.
    """
    found = await get(ctx, post_id, number)
    return await posts.update(
        ctx,
        folding,
        post_id,
        kept=kept,
        title=found.title,
        content=found.content,
        slug=found.slug,
        excerpt=found.excerpt,
        tags=found.tags,
        publish=False,
        note=f"Restored from version {number}.",
        expected=expected,
    )


def changed_lines(old: str, new: str) -> list[str]:
    """Return the lines that differ in the unified format, without its head.

    If more than `COMPARED_LINES_MAX` lines are between the first and the last one that differ, they
    are one change.
    """
    before, after = old.split("\n"), new.split("\n")
    if before == after:
        return []
    start, shorter = 0, min(len(before), len(after))
    while start < shorter and before[start] == after[start]:
        start += 1
    end = 0
    while end < shorter - start and before[-1 - end] == after[-1 - end]:
        end += 1
    removed, added = before[start : len(before) - end], after[start : len(after) - end]
    if max(len(removed), len(added)) > COMPARED_LINES_MAX:
        head = f"@@ -{start + 1},{len(removed)} +{start + 1},{len(added)} @@"
        return [head, *(f"-{line}" for line in removed), *(f"+{line}" for line in added)]
    first = max(start - CONTEXT_LINES, 0)
    last = max(end - CONTEXT_LINES, 0)
    compared = unified_diff(
        before[first : len(before) - last],
        after[first : len(after) - last],
        lineterm="",
        n=CONTEXT_LINES,
    )
    return [_moved(line, first) for line in list(compared)[2:]]


def _moved(line: str, count: int) -> str:
    """Return a line of a unified difference; its head counts from *count* lines later."""
    if not line.startswith("@@"):
        return line
    return _RANGE.sub(lambda found: f"{found[1]}{int(found[2]) + count}", line)


def _shown(value: str | list[str]) -> str:
    return value if isinstance(value, str) else ", ".join(value)
