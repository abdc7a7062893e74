"""Preview links: one reads the latest text of a post, published or not, without other credentials.

A link ends with its time, when it is revoked, and with its post; it reads nothing while the tenant
is suspended, or the user who has made it is not active.
"""

from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

import msgspec
import sqlalchemy as sa

from tenantry.access import preview_tokens
from tenantry.access.credentials import BadExpiry
from tenantry.access.preview_tokens import PreviewClaims
from tenantry.access.request_limits import RateLimits, check
from tenantry.catalog import tenants
from tenantry.catalog.database import Catalog
from tenantry.db.statements import Statement, columns_of, parameters
from tenantry.kit.context import OperationContext
from tenantry.kit.errors import Conflict, NotFound
from tenantry.kit.ids import new_id
from tenantry.tenant import audit, modules
from tenantry.tenant.blog import drafted, due, posts, publication, state
from tenantry.tenant.blog.content import PostNotFound, PublicPost
from tenantry.tenant.blog.drafted import Reads
from tenantry.tenant.blog.versions import name_of, sees_drafts
from tenantry.tenant.databases import WRITABLE_FROM, TenantDatabases, require_revision
from tenantry.tenant.entry import TenantContext
from tenantry.tenant.tables import post, post_schedule, preview_link, user

LIFETIME_DEFAULT = timedelta(hours=24)
LIFETIME_MAX = timedelta(days=30)
LINKS_PER_POST_MAX = 20


class PreviewNotFound(NotFound):
    """There is no such preview: the link has expired or was revoked, or its post was deleted."""


class PreviewLinkNotFound(NotFound):
    """The post has no such preview link."""


class TooManyPreviewLinks(Conflict):
    """The post has the maximum number of preview links; revoke one first."""


class PreviewLink(msgspec.Struct, frozen=True, rename="camel"):
    """A preview link of a post, without its token.

    Attributes:
        created_by: The name of the user who has made it; empty without a user.
        expires_at: When it ends, in UTC.
    """

    id: UUID
    created_at: datetime
    created_by: str
    expires_at: datetime


class IssuedPreviewLink(PreviewLink, frozen=True):
    """A new preview link.

    Attributes:
        token: Reads the post at `GET /api/public/blog/preview`; it is not shown again.
    """

    token: str


_post = sa.bindparam("post", type_=sa.Uuid)
_link = sa.bindparam("link", type_=sa.Uuid)
_user = sa.bindparam("user", type_=sa.Uuid)
_of_post = preview_link.c.post_id == _post
_has_expired = preview_link.c.expires_at <= due.now
_ADD = Statement[Any](
    sa.insert(preview_link).values(
        parameters("id", "post_id", "created_at", "expires_at") | {"created_by": name_of(_user)}
    )
)
_LIST = Statement(
    sa.select(*columns_of(preview_link, PreviewLink))
    .where(_of_post, sa.not_(_has_expired))
    .order_by(preview_link.c.id.desc())
    .limit(LINKS_PER_POST_MAX),
    PreviewLink,
)
_FORGET = Statement[Any](sa.delete(preview_link).where(_of_post, _has_expired))
_REMOVE = Statement(
    sa.delete(preview_link)
    .where(_of_post, preview_link.c.id == _link)
    .returning(*columns_of(preview_link, PreviewLink)),
    PreviewLink,
)
# As if it was published at the time of its schedule, or now.
_published_at = sa.func.coalesce(due.published_at, post_schedule.c.publish_at, due.now)
_READ = Statement(
    sa.select(
        *(
            _published_at.label(column.name) if column.name == "published_at" else column
            for column in drafted.columns(PublicPost, Reads.EDITORS)
        )
    )
    .select_from(
        drafted.joined(Reads.EDITORS, preview_link.join(post, preview_link.c.post_id == post.c.id))
    )
    .where(
        preview_link.c.id == _link,
        sa.not_(_has_expired),
        sa.or_(_user.is_(None), sa.exists().where(user.c.id == _user, user.c.is_active)),
    ),
    PublicPost,
)


async def create(
    ctx: TenantContext, key: bytes, post_id: UUID, *, expires_at: datetime | None = None
) -> IssuedPreviewLink:
    """Return a new preview link of a post, signed with *key*; by default for `LIFETIME_DEFAULT`.

    Raises:
        BadExpiry: *expires_at* is not in the future, or after more than `LIFETIME_MAX`.
        PostNotFound: There is no such post.
        RoleRequired: The caller's role does not allow to change it.
        TooManyPreviewLinks: The post has `LINKS_PER_POST_MAX`.
    """
    expires_at = (expires_at or ctx.now + LIFETIME_DEFAULT).replace(microsecond=0)
    if not ctx.now < expires_at <= ctx.now + LIFETIME_MAX:
        raise BadExpiry(
            f"`expiresAt` must be in the future, at most {LIFETIME_MAX.days} days ahead."
        )
    link_id, user_id = new_id(), ctx.identity.user_id
    async with publication.writing_now(ctx, post_id) as (_, session):
        await publication.find_own(ctx, session, post_id, None)
        await session.execute(_FORGET, post=post_id, now=ctx.now)
        if len(await session.fetch_all(_LIST, post=post_id, now=ctx.now)) >= LINKS_PER_POST_MAX:
            raise TooManyPreviewLinks
        await session.execute(
            _ADD,
            id=link_id,
            post_id=post_id,
            created_at=ctx.now,
            expires_at=expires_at,
            user=user_id,
        )
        await audit.LOG.add(session, ctx, "post.preview", post_id)
        links = await session.fetch_all(_LIST, post=post_id, now=ctx.now)
    made = next(one for one in links if one.id == link_id)
    token = preview_tokens.sign(
        key, PreviewClaims(ctx.tenant.id, link_id, user_id, made.expires_at)
    )
    return IssuedPreviewLink(**msgspec.structs.asdict(made), token=token)


async def all_of(ctx: TenantContext, post_id: UUID) -> list[PreviewLink]:
    """Return the preview links of a post that have not expired, the newest first.

    Raises:
        PostNotFound: There is no such post, or the caller sees no drafts.
    """
    await require_revision(ctx.database, WRITABLE_FROM)
    await posts.get(ctx, post_id)
    if not sees_drafts(ctx):
        raise PostNotFound
    return await ctx.database.fetch_all(_LIST, post=post_id, now=ctx.now)


async def revoke(ctx: TenantContext, post_id: UUID, link_id: UUID) -> None:
    """End a preview link.

    Raises:
        PostNotFound, PreviewLinkNotFound: There is no such post, or it has no such link.
        RoleRequired: The caller's role does not allow to change the post.
    """
    async with state.writing(ctx.database) as session:
        await publication.find_own(ctx, session, post_id, None)
        if await session.fetch_one(_REMOVE, post=post_id, link=link_id) is None:
            raise PreviewLinkNotFound
        await audit.LOG.add(session, ctx, "post.preview-revoke", post_id)


async def read(
    ctx: OperationContext,
    catalog: Catalog,
    databases: TenantDatabases,
    limits: RateLimits,
    *,
    key: bytes,
    token: str,
) -> PublicPost:
    """Return the post of a preview link as readers would see its latest text.

    `published_at` is the time of its publication or of its schedule, or else now. The *token* alone
    says which tenant it is, and it counts for the limit of requests as a caller of that.

    Raises:
        PreviewNotFound: The token is not signed with *key*, the link has ended, or the user who has
            made it is not active.
        TooManyRequests: The limit is reached.
        DatabaseUnavailable, TenantOutdated: See `TenantDatabases.open`.
    """
    claims = preview_tokens.verify(key, token)
    if claims is None or claims.expires_at <= ctx.now:
        raise PreviewNotFound
    tenant = await catalog.cache.get(
        ("tenant", claims.tenant_id), lambda session: tenants.find(session, claims.tenant_id)
    )
    if tenant is None or not tenant.is_active or modules.BLOG not in tenant.modules:
        raise PreviewNotFound
    if tenant.requests_per_minute:
        limit = tenant.requests_per_minute
        check(limits.take("previews", tenant_id=tenant.id, per_minute=limit))
    else:
        check(limits.take(claims.link_id, tenant_id=tenant.id))
    database = await databases.open(tenant, writes=False)
    await require_revision(database, WRITABLE_FROM)
    found = await database.fetch_one(_READ, link=claims.link_id, user=claims.user_id, now=ctx.now)
    if found is None:
        raise PreviewNotFound
    return found
