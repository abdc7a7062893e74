"""``/api/public/blog``."""

from uuid import UUID

from tenantry.api.conditions import Versioned
from tenantry.schemas.base import Nothing
from tenantry.schemas.content import PublishedPost, PublishedPostPage, PublishedPostPageRequest
from tenantry.services import Services
from tenantry.tenant.blog import published, state
from tenantry.tenant.entry import TenantContext


async def version_of_posts(ctx: TenantContext) -> UUID:
    """Tell which version of the posts there is."""
    return await state.version(ctx.database)


async def list_posts(
    ctx: TenantContext, _services: Services, request: PublishedPostPageRequest
) -> Versioned:
    """Tell of the published posts, the newest first."""
    found = await published.page(ctx.database, request.window, tag=request.tag)
    return Versioned(PublishedPostPage.of_page(found.content), found.version)


async def show_post(
    ctx: TenantContext, _services: Services, _request: Nothing, *, slug: str
) -> Versioned:
    """Tell one published post."""
    found = await published.get(ctx.database, slug)
    return Versioned(PublishedPost.of(found.content), found.version)
