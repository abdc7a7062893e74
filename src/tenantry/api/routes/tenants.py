"""``/api/admin/tenants``."""

from uuid import UUID

from tenantry.access.principal import AdminContext
from tenantry.api.access_levels import ADMIN
from tenantry.api.endpoints import CONFLICT, creates, endpoint
from tenantry.api.streaming import Source
from tenantry.catalog import credentials, plans, runs, tenant_list, tenants
from tenantry.catalog.tenants import NotServed
from tenantry.fleet.status import tenant_map
from tenantry.kit.errors import Unavailable
from tenantry.kit.preconditions import Expected
from tenantry.schemas.base import Nothing, ZipFile, sent_members
from tenantry.schemas.tenants import (
    AppliedRevisionResponse,
    ContentResponse,
    CreatedTenantResponse,
    CreateTenantRequest,
    DeleteTenantRequest,
    ExportTenantRequest,
    FailureResponse,
    NewPostResponse,
    TenantMapRequest,
    TenantMapResponse,
    TenantMigrationsResponse,
    TenantOverviewResponse,
    TenantPage,
    TenantPageRequest,
    TenantResponse,
    UpdateTenantRequest,
)
from tenantry.services import Services
from tenantry.tenant.overview import migration_log, read_overview
from tenantry.tenant.users import NewUser

# More time than other requests have: to read the schema, before the first byte.
EXPORT_SECONDS = 30.0


@creates("/api/admin/tenants", ADMIN, seconds_more=None)
async def create_tenant(
    ctx: AdminContext, services: Services, request: CreateTenantRequest
) -> CreatedTenantResponse:
    """Create a tenant."""
    owner = request.owner
    provisioned = await services.lifecycle.provision(
        ctx,
        name=request.name,
        owner=NewUser(email=owner.email, full_name=owner.full_name, password=owner.password),
        module_keys=sent_members(request).get("modules"),
        labels=sent_members(request).get("labels"),
    )
    return CreatedTenantResponse.of_provisioned(provisioned)


@endpoint("GET", "/api/admin/tenants", ADMIN)
async def list_tenants(
    _ctx: AdminContext, services: Services, request: TenantPageRequest
) -> TenantPage:
    """List tenants."""
    page = await tenant_list.page(
        services.catalog,
        request.window,
        search=request.search,
        where=request.where,
        filters=request.filters,
    )
    return TenantPage.of_page(page)


@endpoint("GET", "/api/admin/tenants/map", ADMIN)
async def show_map(
    _ctx: AdminContext, services: Services, request: TenantMapRequest
) -> TenantMapResponse:
    """List tenants with their places, in the order of their creation."""
    streams = services.streams()
    found = await tenant_map(services.catalog, streams, after=request.after, where=request.where)
    return TenantMapResponse.of_map(str(streams.head), found)


@endpoint("GET", "/api/admin/tenants/{tenantId}", ADMIN, edits=TenantResponse)
async def show_tenant(
    _ctx: AdminContext, services: Services, _request: Nothing, *, tenant_id: UUID
) -> TenantResponse:
    """Show a tenant."""
    return TenantResponse.of(await tenants.get(services.catalog, tenant_id))


@endpoint("GET", "/api/admin/tenants/{tenantId}/migrations", ADMIN)
async def list_migrations(
    _ctx: AdminContext, services: Services, _request: Nothing, *, tenant_id: UUID
) -> TenantMigrationsResponse:
    """List the revisions applied to a tenant, newest first, and its latest failure."""
    tenant = await tenants.get(services.catalog, tenant_id)
    failure = None
    if tenant.failing_run_id is not None:
        item = await runs.find_item(services.catalog, tenant.failing_run_id, tenant_id)
        failure = None if item is None else FailureResponse.of(item)
    try:
        entries = await migration_log(await services.databases.open(tenant, writes=False))
    except (Unavailable, NotServed):  # the failure says why, and is needed most in this case
        return TenantMigrationsResponse(None, failure)
    known = await plans.existing(services.catalog, [entry.run_id for entry in entries])
    items = [AppliedRevisionResponse.of(one, has_run=one.run_id in known) for one in entries]
    return TenantMigrationsResponse(items, failure)


@endpoint("GET", "/api/admin/tenants/{tenantId}/overview", ADMIN)
async def show_overview(
    ctx: AdminContext, services: Services, _request: Nothing, *, tenant_id: UUID
) -> TenantOverviewResponse:
    """Show when a tenant was last active, the size of its database, and its newest posts."""
    tenant = await tenants.get(services.catalog, tenant_id)
    used_at = await credentials.last_use(services.catalog, tenant_id)
    try:
        database = await services.databases.open(tenant, writes=False)
        found = await read_overview(database, now=ctx.now)
    except (Unavailable, NotServed):
        return TenantOverviewResponse(used_at, None)
    limit = services.storage.limit_of(tenant)
    posts = [NewPostResponse.of(one) for one in found.posts]
    contents = ContentResponse.of(found, size_bytes_max=limit, posts=posts)
    return TenantOverviewResponse(used_at, contents)


@endpoint(
    "GET",
    "/api/admin/tenants/{tenantId}/export",
    ADMIN,
    response=ZipFile,
    is_bare=True,
    seconds_more=EXPORT_SECONDS,
)
async def export_tenant(
    ctx: AdminContext, services: Services, request: ExportTenantRequest, *, tenant_id: UUID
) -> Source:
    """Export every table of a tenant, with the schema, as a ZIP file."""
    tenant = await tenants.get(services.catalog, tenant_id)
    return services.export.download(ctx, tenant, row_format=request.format)


@endpoint("PATCH", "/api/admin/tenants/{tenantId}", ADMIN, errors=[CONFLICT], edits=TenantResponse)
async def update_tenant(
    ctx: AdminContext,
    services: Services,
    request: UpdateTenantRequest,
    *,
    tenant_id: UUID,
    expected: Expected,
) -> TenantResponse:
    """Change a tenant: suspend it, make it read-only, activate it."""
    tenant = await tenants.get(services.catalog, tenant_id)
    sent = sent_members(request)
    changed = await services.lifecycle.update(
        ctx, tenant, module_keys=sent.pop("modules", None), expected=expected, **sent
    )
    return TenantResponse.of(changed)


@endpoint(
    "DELETE",
    "/api/admin/tenants/{tenantId}",
    ADMIN,
    message="The tenant was deleted.",
    errors=[CONFLICT],
    seconds_more=None,
    edits=TenantResponse,
)
async def delete_tenant(
    ctx: AdminContext,
    services: Services,
    request: DeleteTenantRequest,
    *,
    tenant_id: UUID,
    expected: Expected,
) -> None:
    """Delete a suspended tenant; it can be undeleted for some days."""
    tenant = await tenants.get(services.catalog, tenant_id)
    await services.deletion.delete(ctx, tenant, name=request.name, expected=expected)
