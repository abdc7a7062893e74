"""Preview links of posts: for editors, and the page that a website shows with one."""

from functools import partial
from uuid import UUID

from msgspec import UNSET

from tenantry.access.principal import Scope
from tenantry.api.access_levels import OPEN, TENANT
from tenantry.api.endpoints import CONFLICT, CREATED, NOT_FOUND, OK, TOO_MANY_REQUESTS, endpoint
from tenantry.api.envelope import Reply
from tenantry.kit.context import OperationContext
from tenantry.schemas.base import Nothing
from tenantry.schemas.content import (
    IssuedPreviewLinkResponse,
    IssuePreviewLinkRequest,
    PreviewLinkList,
    PreviewRequest,
    PublishedPost,
)
from tenantry.services import Services
from tenantry.tenant import modules
from tenantry.tenant.blog import previews
from tenantry.tenant.entry import TenantContext

# Previews are of drafts: an McpToken that sees none makes none, and finds none.
_endpoint = partial(endpoint, level=TENANT, scope=Scope.CONTENT_DRAFT, module=modules.BLOG)
# Source: https://developers.google.com/search/docs/crawling-indexing/robots-meta-tag
NO_INDEX = (b"x-robots-tag", b"noindex")


@_endpoint(
    "POST", "/api/tenant/blog/posts/{postId}/preview-links", status=CREATED, errors=[CONFLICT]
)
async def create_preview_link(
    ctx: TenantContext, services: Services, request: IssuePreviewLinkRequest, *, post_id: UUID
) -> IssuedPreviewLinkResponse:
    """Create a preview link of a post; its token is shown once."""
    expires_at = None if request.expires_at is UNSET else request.expires_at
    made = await previews.create(
        ctx, services.signing_keys.preview_key, post_id, expires_at=expires_at
    )
    return IssuedPreviewLinkResponse.of(made)


@_endpoint("GET", "/api/tenant/blog/posts/{postId}/preview-links", scope=Scope.CONTENT_READ)
async def list_preview_links(
    ctx: TenantContext, _services: Services, _request: Nothing, *, post_id: UUID
) -> PreviewLinkList:
    """List the preview links of a post that have not expired, newest first."""
    return PreviewLinkList.of_all(await previews.all_of(ctx, post_id))


@_endpoint(
    "DELETE",
    "/api/tenant/blog/posts/{postId}/preview-links/{previewLinkId}",
    message="The preview link was revoked.",
)
async def revoke_preview_link(
    ctx: TenantContext,
    _services: Services,
    _request: Nothing,
    *,
    post_id: UUID,
    preview_link_id: UUID,
) -> None:
    """Revoke a preview link."""
    await previews.revoke(ctx, post_id, preview_link_id)


@endpoint(
    "GET",
    "/api/public/blog/preview",
    OPEN,
    response=PublishedPost,
    errors=[NOT_FOUND, TOO_MANY_REQUESTS],
)
async def show_preview(ctx: OperationContext, services: Services, request: PreviewRequest) -> Reply:
    """Show the latest text of the post of a preview link."""
    found = await previews.read(
        ctx,
        services.catalog,
        services.databases,
        services.rate_limits,
        key=services.signing_keys.preview_key,
        token=request.token,
    )
    return Reply(PublishedPost.of(found), OK, [NO_INDEX])
