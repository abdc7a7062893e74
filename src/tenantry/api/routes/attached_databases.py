"""``/api/admin/attached-databases``: databases that are migrated, and not served."""

from uuid import UUID

from tenantry.access.principal import AdminContext
from tenantry.api.access_levels import ADMIN
from tenantry.api.endpoints import CONFLICT, CREATED, endpoint
from tenantry.catalog import tenants
from tenantry.fleet.attaching import check_remote
from tenantry.schemas.attached_databases import AttachDatabaseRequest, ReplaceUrlRequest
from tenantry.schemas.base import Nothing, sent_members
from tenantry.schemas.tenants import TenantResponse
from tenantry.services import Services

# More time than other requests have: to connect to a database that may be far away.
READ_SECONDS = 30.0


@endpoint(
    "POST",
    "/api/admin/attached-databases",
    ADMIN,
    status=CREATED,
    errors=[CONFLICT],
    seconds_more=READ_SECONDS,
)
async def attach_database(
    ctx: AdminContext, services: Services, request: AttachDatabaseRequest
) -> TenantResponse:
    """Attach a database that follows the revisions of the operator, and is not served."""
    check_remote(request.url)
    labels = sent_members(request).get("labels", {})
    attached = await services.attaching.attach(
        ctx, name=request.name, url=request.url, labels=labels, is_remote=True
    )
    return TenantResponse.of(attached)


@endpoint(
    "POST",
    "/api/admin/attached-databases/{tenantId}/replace-url",
    ADMIN,
    message="The URL was replaced.",
    errors=[CONFLICT],
    seconds_more=READ_SECONDS,
)
async def replace_url(
    ctx: AdminContext, services: Services, request: ReplaceUrlRequest, *, tenant_id: UUID
) -> None:
    """Replace the URL of an attached database after a change of its password."""
    tenant = await tenants.get(services.catalog, tenant_id)
    check_remote(request.url)
    await services.attaching.replace_url(ctx, tenant, request.url, is_remote=True)


@endpoint(
    "DELETE",
    "/api/admin/attached-databases/{tenantId}",
    ADMIN,
    message="The database was detached.",
    errors=[CONFLICT],
)
async def detach_database(
    ctx: AdminContext, services: Services, _request: Nothing, *, tenant_id: UUID
) -> None:
    """Forget an attached database. Nothing is changed in it; its runs stay in the history."""
    tenant = await tenants.get(services.catalog, tenant_id)
    await services.attaching.detach(ctx, tenant)
