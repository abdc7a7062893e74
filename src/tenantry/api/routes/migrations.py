"""``/api/admin/tenants/migrate-all`` and ``…/migration-history``."""

from collections.abc import Awaitable, Callable
from http import HTTPStatus
from uuid import UUID

from tenantry.access.principal import AdminContext
from tenantry.api.envelope import Reply
from tenantry.api.events import events_of, sequence_of
from tenantry.api.histories import page_in_pieces, run_in_pieces
from tenantry.api.pieces import Source
from tenantry.api.requests import prefers
from tenantry.catalog import runs
from tenantry.catalog.waiting import away_servers
from tenantry.fleet.run_options import BadOrder
from tenantry.fleet.status import schema_status
from tenantry.schemas.base import Nothing
from tenantry.schemas.migrations import (
    FailureCauseList,
    HistoryPageRequest,
    HistoryRequest,
    MigrateAllRequest,
    MigrationPreviewResponse,
    MigrationResultResponse,
    MigrationRunResponse,
    SchemaStatusResponse,
)
from tenantry.services import Services

# Source: RFC 7240, section 4.1
RESPOND_ASYNC = "respond-async"


async def migrate_all(
    ctx: AdminContext, services: Services, request: MigrateAllRequest, *, prefer: str
) -> MigrationResultResponse | MigrationPreviewResponse | Reply:
    """Migrate tenants; this call only waits for the end, unless it prefers not to."""
    if request.dry_run:
        preview = await services.fleet.preview(ctx, request.options, rehearse=request.rehearse)
        return MigrationPreviewResponse.of(preview)
    if request.rehearse:
        raise BadOrder("`rehearse` needs `dryRun`.")
    run_id = await services.fleet.plan(ctx, triggered_by=ctx.email, options=request.options)
    if prefers(prefer, RESPOND_ASYNC):
        return await _accepted(services, run_id)
    run = await services.fleet.wait(run_id)
    return MigrationResultResponse.of_run(run, await runs.ended(services.catalog, run_id))


async def list_runs(_ctx: AdminContext, services: Services, request: HistoryPageRequest) -> Source:
    """Tell of the runs, the newest first."""
    page = await runs.page(services.catalog, request.window)
    return page_in_pieces(services.catalog, page, request.details)


async def show_run(
    _ctx: AdminContext, services: Services, request: HistoryRequest, *, run_id: UUID
) -> Source:
    """Tell of one run."""
    run = await runs.get(services.catalog, run_id)
    return run_in_pieces(services.catalog, run, request.details)


async def show_causes(
    _ctx: AdminContext, services: Services, _request: Nothing, *, run_id: UUID
) -> FailureCauseList:
    """Tell why tenants failed in a run."""
    await runs.get(services.catalog, run_id)
    return FailureCauseList.of_all(await runs.failure_causes(services.catalog, run_id))


async def show_events(
    _ctx: AdminContext,
    services: Services,
    _request: Nothing,
    *,
    run_id: UUID,
    last_event_id: str,
    readmit: Callable[[], Awaitable[object]],
) -> Source:
    """Tell what happens in a run, while it happens."""
    updates = services.watchers.watch(run_id, after=sequence_of(last_event_id))
    return events_of(updates, readmit)


async def cancel_run(
    ctx: AdminContext, services: Services, _request: Nothing, *, run_id: UUID
) -> None:
    """Let nothing more of a run start."""
    await services.fleet.cancel(ctx, run_id)


async def show_status(
    _ctx: AdminContext, services: Services, _request: Nothing
) -> SchemaStatusResponse:
    """Tell where the fleet stands."""
    return SchemaStatusResponse.of(await schema_status(services.catalog, services.streams()))


async def _accepted(services: Services, run_id: UUID) -> Reply:
    run = await runs.get(services.catalog, run_id)
    ended = [part for part in await runs.ended(services.catalog, run_id) if run.counts(part)]
    where = f"/api/admin/tenants/migration-history/{run_id}"
    return Reply(
        MigrationRunResponse.of_run(run, ended, await away_servers(services.catalog, run)),
        HTTPStatus.ACCEPTED,
        [(b"location", where.encode()), (b"preference-applied", RESPOND_ASYNC.encode())],
    )
