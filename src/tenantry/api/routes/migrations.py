"""``/api/admin/tenants/migrate-all`` and ``…/migration-history``."""

from uuid import UUID

from tenantry.access.principal import AdminContext
from tenantry.catalog import runs
from tenantry.catalog.runs import MigrationRun
from tenantry.fleet.status import schema_status
from tenantry.schemas.base import Nothing, PageRequest
from tenantry.schemas.migrations import (
    MigrateAllRequest,
    MigrationResultResponse,
    MigrationRunPage,
    MigrationRunResponse,
    SchemaStatusResponse,
)
from tenantry.services import Services


async def migrate_all(
    ctx: AdminContext, services: Services, _request: MigrateAllRequest
) -> MigrationResultResponse:
    """Migrate every active tenant; this call only waits for the end."""
    run_id = await services.fleet.plan(ctx, triggered_by=ctx.email)
    run = await services.fleet.wait(run_id)
    return MigrationResultResponse.of(run, await runs.ended(services.catalog, run_id))


async def list_runs(
    _ctx: AdminContext, services: Services, request: PageRequest
) -> MigrationRunPage:
    """Tell of the runs, the newest first."""
    page = await runs.page(services.catalog, request.window)
    items = [await _represent(services, run) for run in page.items]
    window = page.window
    return MigrationRunPage(items, window.page, window.size, page.total_count, page.total_pages)


async def show_run(
    _ctx: AdminContext, services: Services, _request: Nothing, *, run_id: UUID
) -> MigrationRunResponse:
    """Tell of one run."""
    return await _represent(services, await runs.get(services.catalog, run_id))


async def show_status(
    _ctx: AdminContext, services: Services, _request: Nothing
) -> SchemaStatusResponse:
    """Tell where the fleet stands."""
    return SchemaStatusResponse.of(await schema_status(services.catalog, services.streams()))


async def _represent(services: Services, run: MigrationRun) -> MigrationRunResponse:
    return MigrationRunResponse.of(run, await runs.ended(services.catalog, run.id))
