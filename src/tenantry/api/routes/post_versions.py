"""``/api/tenant/blog``: the versions of posts, and deleted posts, for editors."""

from functools import partial
from uuid import UUID

from tenantry.access.principal import Scope
from tenantry.api.access_levels import TENANT
from tenantry.api.endpoints import CONFLICT, endpoint
from tenantry.kit.preconditions import Expected
from tenantry.schemas.base import Nothing, PageRequest
from tenantry.schemas.content import (
    DeletedPostPage,
    PostDifferenceRequest,
    PostDifferenceResponse,
    PostResponse,
    PostVersionPage,
    PostVersionResponse,
)
from tenantry.services import Services
from tenantry.tenant import modules
from tenantry.tenant.blog import deleted, history
from tenantry.tenant.entry import TenantContext

_endpoint = partial(endpoint, level=TENANT, scope=Scope.CONTENT_DRAFT, module=modules.BLOG)
# An McpToken that sees no drafts sees no versions.
_read = partial(_endpoint, "GET", scope=Scope.CONTENT_READ)


@_read("/api/tenant/blog/posts/{postId}/versions")
async def list_versions(
    ctx: TenantContext, _services: Services, request: PageRequest, *, post_id: UUID
) -> PostVersionPage:
    """List the versions of a post, newest first."""
    return PostVersionPage.of_page(await history.page(ctx, post_id, request.window))


@_read("/api/tenant/blog/posts/{postId}/versions/{number}")
async def show_version(
    ctx: TenantContext, _services: Services, _request: Nothing, *, post_id: UUID, number: int
) -> PostVersionResponse:
    """Show a version of a post."""
    return PostVersionResponse.of(await history.get(ctx, post_id, number))


@_read("/api/tenant/blog/posts/{postId}/versions/{number}/difference")
async def show_difference(
    ctx: TenantContext,
    _services: Services,
    request: PostDifferenceRequest,
    *,
    post_id: UUID,
    number: int,
) -> PostDifferenceResponse:
    """Show what differs between a version of a post and another."""
    found = await history.difference(ctx, post_id, number, request.against)
    return PostDifferenceResponse.of(found)


@_endpoint(
    "POST",
    "/api/tenant/blog/posts/{postId}/versions/{number}/restore",
    errors=[CONFLICT],
    adds=True,
    edits=PostResponse,
)
async def restore_version(
    ctx: TenantContext,
    services: Services,
    _request: Nothing,
    *,
    post_id: UUID,
    number: int,
    expected: Expected,
) -> PostResponse:
    """Save the text of a version as the latest; of a published post, as its draft."""
    kept = services.settings.post_versions
    restored = await history.restore(
        ctx, services.folding, post_id, number, kept=kept, expected=expected
    )
    return PostResponse.of(restored)


@_read("/api/tenant/blog/deleted-posts")
async def list_deleted(
    ctx: TenantContext, _services: Services, request: PageRequest
) -> DeletedPostPage:
    """List the posts in the bin, the last deleted first."""
    return DeletedPostPage.of_page(await deleted.page(ctx, request.window))


@_endpoint(
    "POST", "/api/tenant/blog/deleted-posts/{deletedPostId}/restore", errors=[CONFLICT], adds=True
)
async def restore_deleted(
    ctx: TenantContext, services: Services, _request: Nothing, *, deleted_post_id: UUID
) -> PostResponse:
    """Restore a post from the bin, as a draft."""
    kept = services.settings.post_versions
    restored = await deleted.restore(ctx, services.folding, deleted_post_id, kept=kept)
    return PostResponse.of(restored)


@_endpoint(
    "DELETE",
    "/api/tenant/blog/deleted-posts/{deletedPostId}",
    scope=Scope.CONTENT_PUBLISH,
    message="The post was removed for good.",
)
async def purge_deleted(
    ctx: TenantContext, services: Services, _request: Nothing, *, deleted_post_id: UUID
) -> None:
    """Remove a post in the bin for good, with all its versions."""
    await deleted.purge(ctx, deleted_post_id)
    services.storage.forget(ctx.tenant)
