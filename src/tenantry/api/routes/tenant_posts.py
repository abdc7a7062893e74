"""``/api/tenant/blog/posts``: the posts, as those see and change them who write."""

from uuid import UUID

from tenantry.schemas.base import Nothing
from tenantry.schemas.content import PostPage, PostPageRequest, PostResponse, WritePostRequest
from tenantry.schemas.people import given
from tenantry.services import Services
from tenantry.tenant.blog import posts
from tenantry.tenant.entry import TenantContext


async def list_posts(ctx: TenantContext, _services: Services, request: PostPageRequest) -> PostPage:
    """Tell of the posts, drafts included."""
    page = await posts.page(
        ctx, request.window, status=request.status, tag=request.tag, search=request.search
    )
    return PostPage.of_page(page)


async def create_post(
    ctx: TenantContext, _services: Services, request: WritePostRequest
) -> PostResponse:
    """Write a new draft."""
    return PostResponse.of(await posts.create(ctx, **given(request)))


async def show_post(
    ctx: TenantContext, _services: Services, _request: Nothing, *, post_id: UUID
) -> PostResponse:
    """Tell one post."""
    return PostResponse.of(await posts.get(ctx, post_id))


async def update_post(
    ctx: TenantContext, _services: Services, request: WritePostRequest, *, post_id: UUID
) -> PostResponse:
    """Change what a post says."""
    return PostResponse.of(await posts.update(ctx, post_id, **given(request)))


async def delete_post(
    ctx: TenantContext, _services: Services, _request: Nothing, *, post_id: UUID
) -> None:
    """Delete a post."""
    await posts.delete(ctx, post_id)


async def publish_post(
    ctx: TenantContext, _services: Services, _request: Nothing, *, post_id: UUID
) -> PostResponse:
    """Let everybody see a post."""
    return PostResponse.of(await posts.publish(ctx, post_id))


async def unpublish_post(
    ctx: TenantContext, _services: Services, _request: Nothing, *, post_id: UUID
) -> PostResponse:
    """Make a draft of a post again."""
    return PostResponse.of(await posts.unpublish(ctx, post_id))
