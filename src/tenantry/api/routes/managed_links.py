"""``/api/tenant/invitations`` and ``…/links``: the one-time links of a tenant, for its owners."""

from uuid import UUID

from tenantry.api.access_levels import OWNER
from tenantry.api.endpoints import creates, endpoint
from tenantry.api.routes.managed_users import OwnPassword
from tenantry.schemas.base import Nothing, PageRequest
from tenantry.schemas.links import InviteRequest, IssuedLinkResponse, LinkPage
from tenantry.services import Services
from tenantry.tenant import links
from tenantry.tenant.entry import PersonContext


@creates("/api/tenant/invitations", OWNER, adds=True)
async def invite(
    ctx: PersonContext, services: Services, request: InviteRequest
) -> IssuedLinkResponse:
    """Invite a person to your tenant by a one-time link."""
    issued = await links.invite(
        ctx, ctx.database, ctx.tenant.id, email=request.email, role=request.role
    )
    return IssuedLinkResponse.of_issued(issued, base_url=services.settings.base_url)


@creates("/api/tenant/users/{userId}/reset-link", OWNER)
async def issue_reset(
    ctx: PersonContext, services: Services, _request: Nothing, *, user_id: UUID
) -> IssuedLinkResponse:
    """Make a one-time link with which another user of your tenant sets a new password."""
    # A session alone, perhaps a stolen one, is no proof of the password.
    if user_id == ctx.user_id:
        raise OwnPassword
    issued = await links.issue_reset(ctx, ctx.database, ctx.tenant.id, user_id)
    return IssuedLinkResponse.of_issued(issued, base_url=services.settings.base_url)


@endpoint("GET", "/api/tenant/links", OWNER)
async def list_open(ctx: PersonContext, _services: Services, request: PageRequest) -> LinkPage:
    """List the one-time links of your tenant that are open, the oldest first."""
    return LinkPage.of_page(await links.page(ctx, ctx.database, request.window))


@endpoint("DELETE", "/api/tenant/links/{linkId}", OWNER, message="The link was revoked.")
async def revoke(
    ctx: PersonContext, _services: Services, _request: Nothing, *, link_id: UUID
) -> None:
    """Revoke a one-time link of your tenant."""
    await links.revoke(ctx, ctx.database, link_id)
