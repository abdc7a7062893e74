"""``/api/public/blog``."""

from functools import partial
from uuid import UUID

from tenantry.access.principal import Scope
from tenantry.api.access_levels import PUBLIC
from tenantry.api.endpoints import endpoint
from tenantry.schemas.base import Nothing
from tenantry.schemas.content import PublishedPost, PublishedPostPage, PublishedPostPageRequest
from tenantry.services import Services
from tenantry.tenant import modules
from tenantry.tenant.blog import published, state
from tenantry.tenant.blog.published import Versioned
from tenantry.tenant.entry import TenantContext


async def version_of_posts(ctx: TenantContext) -> UUID:
    """Return the current version of the tenant's posts."""
    return await state.version(ctx.database, now=ctx.now)


_read = partial(
    endpoint,
    "GET",
    level=PUBLIC,
    scope=Scope.CONTENT_READ,
    module=modules.BLOG,
    version=version_of_posts,
)


@_read("/api/public/blog/posts", response=PublishedPostPage)
async def list_posts(
    ctx: TenantContext, _services: Services, request: PublishedPostPageRequest
) -> Versioned[PublishedPostPage]:
    """List published posts."""
    found = await published.page(ctx.database, request.window, now=ctx.now, tag=request.tag)
    return Versioned(PublishedPostPage.of_page(found.content), found.version)


@_read("/api/public/blog/posts/{slug}", response=PublishedPost)
async def show_post(
    ctx: TenantContext, _services: Services, _request: Nothing, *, slug: str
) -> Versioned[PublishedPost]:
    """Show a published post."""
    found = await published.get(ctx.database, slug, now=ctx.now)
    return Versioned(PublishedPost.of(found.content), found.version)
