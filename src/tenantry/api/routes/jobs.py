"""``/api/admin/jobs``: backups, restores, copies, moves and checks, with their progress."""

from functools import partial
from typing import Unpack
from uuid import UUID

from tenantry.access.principal import AdminContext
from tenantry.api.access_levels import ADMIN
from tenantry.api.endpoints import ACCEPTED, CONFLICT, endpoint
from tenantry.api.envelope import Reply
from tenantry.catalog import jobs, tenants
from tenantry.schemas.backups import JobPage, JobPageRequest, JobResponse, QueuedJobs
from tenantry.schemas.base import Nothing
from tenantry.services import Services
from tenantry.work.queue import Wanted

queues = partial(endpoint, "POST", level=ADMIN, response=JobResponse, status=ACCEPTED)
"""Declares an endpoint that queues one job, and returns it with `queued`."""


@endpoint("GET", "/api/admin/jobs", ADMIN)
async def list_jobs(_ctx: AdminContext, services: Services, request: JobPageRequest) -> JobPage:
    """List backups, restores, copies and moves, the newest first."""
    page = await jobs.page(
        services.catalog,
        request.window,
        tenant_id=request.tenant_id,
        is_finished=request.is_finished,
    )
    return JobPage.of_page(page)


@endpoint("GET", "/api/admin/jobs/{jobId}", ADMIN)
async def show_job(
    _ctx: AdminContext, services: Services, _request: Nothing, *, job_id: UUID
) -> JobResponse:
    """Show a backup, a restore, a copy or a move."""
    return JobResponse.of(await jobs.get(services.catalog, job_id))


@endpoint(
    "POST",
    "/api/admin/jobs/{jobId}/cancel",
    ADMIN,
    message="The job is being cancelled.",
    status=ACCEPTED,
    errors=[CONFLICT],
)
async def cancel_job(
    ctx: AdminContext, services: Services, _request: Nothing, *, job_id: UUID
) -> None:
    """Cancel a job: what it has begun is removed."""
    await services.queue.cancel(ctx, job_id)


@endpoint("POST", "/api/admin/jobs/cancel-queued", ADMIN)
async def cancel_queued(ctx: AdminContext, services: Services, _request: Nothing) -> QueuedJobs:
    """Cancel every job that has not started."""
    return QueuedJobs(await services.queue.cancel_queued(ctx))


async def queued(
    ctx: AdminContext,
    services: Services,
    kind: str,
    *,
    tenant_id: UUID | None = None,
    **wanted: Unpack[Wanted],
) -> Reply:
    """Queue a job, of a tenant if *tenant_id* is not None; return the response: see `Queue.add`."""
    tenant = None if tenant_id is None else await tenants.get(services.catalog, tenant_id)
    job = await services.queue.add(ctx, kind, tenant=tenant, **wanted)
    where = f"/api/admin/jobs/{job.id}"
    return Reply(JobResponse.of(job), ACCEPTED, [(b"location", where.encode())])
