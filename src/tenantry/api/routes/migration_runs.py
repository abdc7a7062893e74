"""``/api/admin/migration-runs``: runs with their options, state and activity."""

from uuid import UUID

import msgspec

from tenantry.access.principal import AdminContext
from tenantry.api.access_levels import ADMIN
from tenantry.api.endpoints import endpoint
from tenantry.api.streaming import Source
from tenantry.catalog import runs
from tenantry.catalog.activity import activity_of
from tenantry.catalog.runs import MigrationRun, MigrationState
from tenantry.catalog.session import CatalogSession
from tenantry.schemas.base import Nothing
from tenantry.schemas.migration_runs import (
    RunPage,
    RunPageRequest,
    RunResponse,
    RunTenantList,
    RunTenantResponse,
    RunTenantsRequest,
)
from tenantry.services import Services

_encode = msgspec.json.Encoder().encode


@endpoint("GET", "/api/admin/migration-runs", ADMIN)
async def list_runs(_ctx: AdminContext, services: Services, request: RunPageRequest) -> RunPage:
    """List migration runs with their options and state."""
    catalog = services.catalog
    page = await runs.page(catalog, request.window, is_finished=request.is_finished)
    items = [RunResponse.of_run(run, await activity_of(catalog, run)) for run in page.items]
    return RunPage.of_page(page, items)


@endpoint("GET", "/api/admin/migration-runs/{runId}", ADMIN)
async def show_run(
    _ctx: AdminContext, services: Services, _request: Nothing, *, run_id: UUID
) -> RunResponse:
    """Show a migration run with its options, state and tenants in work."""
    run = await runs.get(services.catalog, run_id)
    return RunResponse.of_run(run, await activity_of(services.catalog, run))


@endpoint("GET", "/api/admin/migration-runs/{runId}/tenants", ADMIN, response=RunTenantList)
async def list_tenants(
    _ctx: AdminContext, services: Services, request: RunTenantsRequest, *, run_id: UUID
) -> Source:
    """List the results of a migration run's tenants."""
    run = await runs.get(services.catalog, run_id)
    return _tenants(services.catalog, run, MigrationState.FAILED if request.only_failed else None)


async def _tenants(
    catalog: CatalogSession, run: MigrationRun, state: MigrationState | None
) -> Source:
    # The array is left open until all items are in it. No transaction is held during the transfer.
    yield b'{"items":['
    comma = b""
    async for items in runs.each_ended(catalog, run.id, state=state):
        yield comma + _encode([RunTenantResponse.of(item) for item in items])[1:-1]
        comma = b","
    yield b"]}"
