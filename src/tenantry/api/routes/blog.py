"""``/api/public/blog``."""

from tenantry.schemas.base import Nothing
from tenantry.schemas.content import PostPageRequest, PublishedPost, PublishedPostPage
from tenantry.services import Services
from tenantry.tenant import posts
from tenantry.tenant.entry import TenantContext


async def list_posts(
    ctx: TenantContext, _services: Services, request: PostPageRequest
) -> PublishedPostPage:
    """Tell of the published posts, the newest first."""
    page = await posts.page_published(ctx.database, request.window, tag=request.tag)
    return PublishedPostPage.of(page)


async def show_post(
    ctx: TenantContext, _services: Services, _request: Nothing, *, slug: str
) -> PublishedPost:
    """Tell one published post."""
    return PublishedPost.of(await posts.get_published(ctx.database, slug))
