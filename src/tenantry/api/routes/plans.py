"""``/api/admin/plans``: the plans of dry runs and rehearsals."""

from uuid import UUID

from tenantry.access.principal import AdminContext
from tenantry.api.access_levels import ADMIN
from tenantry.api.endpoints import endpoint
from tenantry.catalog import stored_plans
from tenantry.schemas.migrations import Details
from tenantry.schemas.plans import PlanDetailResponse, PlanPage, PlanPageRequest, PlanRequest
from tenantry.services import Services


@endpoint("GET", "/api/admin/plans", ADMIN)
async def list_plans(_ctx: AdminContext, services: Services, request: PlanPageRequest) -> PlanPage:
    """List the plans of dry runs and rehearsals."""
    return PlanPage.of_page(await stored_plans.page(services.catalog, request.window))


@endpoint("GET", "/api/admin/plans/{planId}", ADMIN)
async def show_plan(
    _ctx: AdminContext, services: Services, request: PlanRequest, *, plan_id: UUID
) -> PlanDetailResponse:
    """Show a plan with its revisions, files and customers."""
    plan = await stored_plans.get(services.catalog, plan_id)
    every = stored_plans.each_tenant(services.catalog, plan_id)
    tenants = [
        one
        async for one in every
        if request.details is Details.ALL
        or (request.details is Details.FAILED and one.error is not None)
    ]
    causes = await stored_plans.causes(services.catalog, plan_id)
    return PlanDetailResponse.of_plan(plan, causes, tenants)
