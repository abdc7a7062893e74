"""One-time links: issued by admins, and used by people without any other credential."""

from uuid import UUID

from tenantry.access.principal import AdminContext
from tenantry.api.access_levels import ADMIN, OPEN
from tenantry.api.endpoints import (
    FORBIDDEN,
    HASHING_SECONDS,
    NOT_FOUND,
    TOO_MANY_REQUESTS,
    creates,
    endpoint,
)
from tenantry.catalog import tenants
from tenantry.kit.context import OperationContext
from tenantry.schemas.base import Nothing, PageRequest, sent_members
from tenantry.schemas.links import (
    InviteRequest,
    IssuedLinkResponse,
    LinkPage,
    OpenLinkResponse,
    ShowLinkRequest,
    UseLinkRequest,
)
from tenantry.services import Services
from tenantry.tenant import links
from tenantry.tenant.databases import TenantDatabase


@creates("/api/admin/tenants/{tenantId}/invitations", ADMIN)
async def invite(
    ctx: AdminContext, services: Services, request: InviteRequest, *, tenant_id: UUID
) -> IssuedLinkResponse:
    """Invite a person to a tenant by a one-time link."""
    database = await _open(services, tenant_id, writes=True)
    issued = await links.invite(ctx, database, tenant_id, email=request.email, role=request.role)
    return IssuedLinkResponse.of_issued(issued, base_url=services.settings.base_url)


@creates("/api/admin/tenants/{tenantId}/users/{userId}/reset-link", ADMIN)
async def issue_reset(
    ctx: AdminContext, services: Services, _request: Nothing, *, tenant_id: UUID, user_id: UUID
) -> IssuedLinkResponse:
    """Make a one-time link with which a user sets a new password."""
    database = await _open(services, tenant_id, writes=True)
    issued = await links.issue_reset(ctx, database, tenant_id, user_id)
    return IssuedLinkResponse.of_issued(issued, base_url=services.settings.base_url)


@endpoint("GET", "/api/admin/tenants/{tenantId}/links", ADMIN)
async def list_open(
    ctx: AdminContext, services: Services, request: PageRequest, *, tenant_id: UUID
) -> LinkPage:
    """List the one-time links of a tenant that are open, the oldest first."""
    database = await _open(services, tenant_id, writes=False)
    return LinkPage.of_page(await links.page(ctx, database, request.window))


@endpoint(
    "DELETE", "/api/admin/tenants/{tenantId}/links/{linkId}", ADMIN, message="The link was revoked."
)
async def revoke(
    ctx: AdminContext, services: Services, _request: Nothing, *, tenant_id: UUID, link_id: UUID
) -> None:
    """Revoke a one-time link."""
    database = await _open(services, tenant_id, writes=True)
    await links.revoke(ctx, database, link_id)


@endpoint("POST", "/api/links/show", OPEN, errors=[NOT_FOUND, TOO_MANY_REQUESTS], writes=False)
async def show(
    ctx: OperationContext, services: Services, request: ShowLinkRequest
) -> OpenLinkResponse:
    """Show what a one-time link is for."""
    found = await links.find(
        ctx, services.catalog, services.databases, services.throttle, secret=request.secret
    )
    return OpenLinkResponse.of_open(found)


@endpoint(
    "POST",
    "/api/links/use",
    OPEN,
    errors=[FORBIDDEN, NOT_FOUND, TOO_MANY_REQUESTS],
    seconds_more=HASHING_SECONDS,
)
async def use(
    ctx: OperationContext, services: Services, request: UseLinkRequest
) -> OpenLinkResponse:
    """Set a password by a one-time link; an invitation creates the user."""
    found = await links.use(
        ctx,
        services.catalog,
        services.databases,
        passwords=services.passwords,
        throttle=services.throttle,
        secret=request.secret,
        password=request.password,
        full_name=sent_members(request).get("full_name"),
    )
    return OpenLinkResponse.of_open(found)


async def _open(services: Services, tenant_id: UUID, *, writes: bool) -> TenantDatabase:
    tenant = await tenants.get(services.catalog, tenant_id)
    return await services.databases.open(tenant, writes=writes)
