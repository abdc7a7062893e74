"""``/api/tenant/blog/posts``: posts and drafts, for editors."""

from functools import partial
from uuid import UUID

from tenantry.access.principal import Scope
from tenantry.api.access_levels import TENANT
from tenantry.api.endpoints import (
    CONFLICT,
    CONTENT_BYTES_MAX,
    CREATED,
    PRECONDITION_FAILED,
    endpoint,
)
from tenantry.kit.preconditions import Expected
from tenantry.schemas.base import Nothing, sent_members
from tenantry.schemas.content import (
    PostPage,
    PostPageRequest,
    PostResponse,
    PostScheduleRequest,
    WritePostRequest,
)
from tenantry.services import Services
from tenantry.tenant import modules
from tenantry.tenant.blog import posts, scheduling
from tenantry.tenant.entry import TenantContext

_read = partial(endpoint, "GET", level=TENANT, scope=Scope.CONTENT_READ, module=modules.BLOG)
_write = partial(
    endpoint,
    level=TENANT,
    scope=Scope.CONTENT_DRAFT,
    module=modules.BLOG,
    body_bytes_max=CONTENT_BYTES_MAX,
)
# To unpublish and to delete also work when the storage is full.
_add = partial(_write, adds=True)
_add_to = partial(_add, edits=PostResponse)
_write_to = partial(_write, edits=PostResponse)
_publish = partial(_write_to, scope=Scope.CONTENT_PUBLISH, errors=[CONFLICT])


@_read("/api/tenant/blog/posts")
async def list_posts(ctx: TenantContext, _services: Services, request: PostPageRequest) -> PostPage:
    """List posts, including drafts."""
    page = await posts.page(
        ctx, request.window, status=request.status, tag=request.tag, search=request.search
    )
    return PostPage.of_page(page)


@_add(
    "POST",
    "/api/tenant/blog/posts",
    status=CREATED,
    errors=[CONFLICT, PRECONDITION_FAILED],
    headers=("If-None-Match",),
)
async def create_post(
    ctx: TenantContext, services: Services, request: WritePostRequest, *, if_none_match: str
) -> PostResponse:
    """Create a draft."""
    is_new = if_none_match == "*"
    made = await posts.create(ctx, services.folding, must_be_new=is_new, **sent_members(request))
    return PostResponse.of(made)


@_read("/api/tenant/blog/posts/{postId}", edits=PostResponse)
async def show_post(
    ctx: TenantContext, _services: Services, _request: Nothing, *, post_id: UUID
) -> PostResponse:
    """Show a post."""
    return PostResponse.of(await posts.get(ctx, post_id))


@_add_to("PUT", "/api/tenant/blog/posts/{postId}", errors=[CONFLICT])
async def update_post(
    ctx: TenantContext,
    services: Services,
    request: WritePostRequest,
    *,
    post_id: UUID,
    expected: Expected,
) -> PostResponse:
    """Change a post; slug, excerpt and tags are kept if left out."""
    changed = await posts.update(
        ctx,
        services.folding,
        post_id,
        kept=services.settings.post_versions,
        expected=expected,
        **sent_members(request),
    )
    return PostResponse.of(changed)


@_write_to("DELETE", "/api/tenant/blog/posts/{postId}", message="The post was deleted.")
async def delete_post(
    ctx: TenantContext, services: Services, _request: Nothing, *, post_id: UUID, expected: Expected
) -> None:
    """Delete a post."""
    await posts.delete(ctx, post_id, expected=expected)
    services.storage.forget(ctx.tenant)


@_publish("POST", "/api/tenant/blog/posts/{postId}/publish", adds=True)
async def publish_post(
    ctx: TenantContext, services: Services, _request: Nothing, *, post_id: UUID, expected: Expected
) -> PostResponse:
    """Publish a post."""
    kept = services.settings.post_versions
    return PostResponse.of(await posts.publish(ctx, post_id, kept=kept, expected=expected))


@_publish("POST", "/api/tenant/blog/posts/{postId}/unpublish")
async def unpublish_post(
    ctx: TenantContext, services: Services, _request: Nothing, *, post_id: UUID, expected: Expected
) -> PostResponse:
    """Turn a published post into a draft."""
    kept = services.settings.post_versions
    return PostResponse.of(await posts.unpublish(ctx, post_id, kept=kept, expected=expected))


@_publish("PUT", "/api/tenant/blog/posts/{postId}/schedule")
async def schedule_post(
    ctx: TenantContext,
    _services: Services,
    request: PostScheduleRequest,
    *,
    post_id: UUID,
    expected: Expected,
) -> PostResponse:
    """Set when a post is published and withdrawn without a request, in UTC."""
    changed = await scheduling.schedule(
        ctx,
        post_id,
        publish_at=request.publish_at,
        unpublish_at=request.unpublish_at,
        expected=expected,
    )
    return PostResponse.of(changed)
