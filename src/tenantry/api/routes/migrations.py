"""``/api/admin/tenants/migrate-all`` and ``…/migration-history``."""

from collections.abc import Awaitable, Callable
from dataclasses import replace
from functools import partial
from http import HTTPStatus
from uuid import UUID

from tenantry.access.principal import AdminContext
from tenantry.api.access_levels import ADMIN
from tenantry.api.endpoints import ACCEPTED, CONFLICT, NOT_FOUND, OK, endpoint
from tenantry.api.envelope import Reply
from tenantry.api.events import events_of, sequence_of
from tenantry.api.requests import RESPOND_ASYNC, prefers
from tenantry.api.streamed_runs import stream_page, stream_result, stream_run
from tenantry.api.streaming import KEEP_ALIVE_SECONDS, Source
from tenantry.catalog import run_results, runs
from tenantry.catalog.activity import activity_of
from tenantry.fleet.run_options import BadRunOptions, RunOptions
from tenantry.fleet.status import schema_status
from tenantry.schemas.base import EventStream, Nothing
from tenantry.schemas.migrations import (
    ContinueRequest,
    FailureCauseList,
    HistoryPageRequest,
    HistoryRequest,
    MigrateAllRequest,
    MigrationResultResponse,
    MigrationRunPage,
    MigrationRunResponse,
    SchemaStatusResponse,
)
from tenantry.schemas.previews import MigrationPreviewResponse
from tenantry.services import Services

_starts = partial(
    endpoint,
    "POST",
    level=ADMIN,
    response=MigrationResultResponse,
    also=((OK, MigrationPreviewResponse), (ACCEPTED, MigrationRunResponse)),
    errors=[NOT_FOUND, CONFLICT],
    headers=("Prefer",),
    keep_alive_seconds=KEEP_ALIVE_SECONDS,
)
"""Declares an endpoint that starts a run, or says what it would find."""


@_starts("/api/admin/tenants/migrate-all")
async def migrate_all(
    ctx: AdminContext, services: Services, request: MigrateAllRequest, *, prefer: str
) -> Source | MigrationPreviewResponse | Reply:
    """Migrate every active tenant.

    The run continues if the client disconnects; it is in the history. With `dryRun`, nothing is
    changed: the response says what a run would find, and has a plan that can be started.
    """
    return await _start(ctx, services, request, request.options, prefer)


@_starts("/api/admin/tenants/migration-history/{runId}/undo", errors=[CONFLICT])
async def undo_run(
    ctx: AdminContext, services: Services, request: MigrateAllRequest, *, run_id: UUID, prefer: str
) -> Source | MigrationPreviewResponse | Reply:
    """Undo a migration run: downgrade what it has applied, in each tenant.

    It is a run like that of migrate-all, and takes the same options.
    """
    return await _start(ctx, services, request, replace(request.options, undoes=run_id), prefer)


async def _start(
    ctx: AdminContext,
    services: Services,
    request: MigrateAllRequest,
    options: RunOptions,
    prefer: str,
) -> Source | MigrationPreviewResponse | Reply:
    if request.dry_run and request.plan_id is not None:
        raise BadRunOptions("`dryRun` makes a new plan: leave out `plan`.")
    if request.dry_run:
        preview = await services.fleet.preview(ctx, options, rehearse=request.rehearse)
        return MigrationPreviewResponse.of(preview)
    if request.rehearse:
        raise BadRunOptions("`rehearse` requires `dryRun`.")
    run_id = await services.fleet.plan(
        ctx,
        triggered_by=ctx.email,
        options=options,
        plan_id=request.plan_id,
        passed_only=request.passed_only,
    )
    if prefers(prefer, RESPOND_ASYNC):
        return await _accepted(services, run_id)
    return stream_result(services.catalog, await services.fleet.wait(run_id))


@endpoint("GET", "/api/admin/tenants/migration-history", ADMIN, response=MigrationRunPage)
async def list_runs(_ctx: AdminContext, services: Services, request: HistoryPageRequest) -> Source:
    """List migration runs."""
    page = await runs.page(services.catalog, request.window)
    return stream_page(services.catalog, page, request.details)


@endpoint(
    "GET", "/api/admin/tenants/migration-history/{runId}", ADMIN, response=MigrationRunResponse
)
async def show_run(
    _ctx: AdminContext, services: Services, request: HistoryRequest, *, run_id: UUID
) -> Source:
    """Show a migration run."""
    run = await runs.get(services.catalog, run_id)
    return stream_run(services.catalog, run, request.details)


@endpoint("GET", "/api/admin/tenants/migration-history/{runId}/failure-causes", ADMIN)
async def show_causes(
    _ctx: AdminContext, services: Services, _request: Nothing, *, run_id: UUID
) -> FailureCauseList:
    """Count the failures of a run by cause."""
    await runs.get(services.catalog, run_id)
    return FailureCauseList.of_all(await run_results.failure_causes(services.catalog, run_id))


@endpoint(
    "GET",
    "/api/admin/tenants/migration-history/{runId}/events",
    ADMIN,
    response=EventStream,
    headers=("Last-Event-ID",),
    is_bare=True,
    is_event_stream=True,
    seconds_more=None,
)
async def show_events(
    _ctx: AdminContext,
    services: Services,
    _request: Nothing,
    *,
    run_id: UUID,
    last_event_id: str,
    readmit: Callable[[], Awaitable[object]],
) -> Source:
    """Stream the events of a migration run.

    The data of an event `run` is a `RunResponse`, that of `tenant` a `RunTenantResponse`. The
    stream ends with the run, or when the caller loses access.
    """
    updates = services.watchers.watch(run_id, after=sequence_of(last_event_id))
    return events_of(updates, readmit)


@endpoint(
    "POST",
    "/api/admin/tenants/migration-history/{runId}/cancel",
    ADMIN,
    message="The run was cancelled: no more tenants are started.",
    status=ACCEPTED,
    errors=[CONFLICT],
)
async def cancel_run(
    ctx: AdminContext, services: Services, _request: Nothing, *, run_id: UUID
) -> None:
    """Cancel a migration run."""
    await services.fleet.cancel(ctx, run_id)


@endpoint(
    "POST",
    "/api/admin/tenants/migration-history/{runId}/continue",
    ADMIN,
    message="The run continues with its next wave.",
    status=ACCEPTED,
    errors=[CONFLICT],
)
async def continue_run(
    ctx: AdminContext, services: Services, request: ContinueRequest, *, run_id: UUID
) -> None:
    """Continue a migration run that holds after a wave."""
    await services.fleet.resume(ctx, run_id, wave=request.wave)


@endpoint("GET", "/api/admin/tenants/schema-status", ADMIN)
async def show_status(
    _ctx: AdminContext, services: Services, _request: Nothing
) -> SchemaStatusResponse:
    """Count tenants by revision."""
    return SchemaStatusResponse.of(await schema_status(services.catalog, services.streams()))


async def _accepted(services: Services, run_id: UUID) -> Reply:
    run = await runs.get(services.catalog, run_id)
    ended = [item for item in await runs.ended(services.catalog, run_id) if run.counts(item)]
    where = f"/api/admin/tenants/migration-history/{run_id}"
    return Reply(
        MigrationRunResponse.of_run(run, ended, await activity_of(services.catalog, run)),
        HTTPStatus.ACCEPTED,
        [(b"location", where.encode()), (b"preference-applied", RESPOND_ASYNC.encode())],
    )
