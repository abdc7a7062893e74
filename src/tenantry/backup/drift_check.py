"""Check for drift as a job: it has progress, can be cancelled, and survives its process."""

from tenantry.backup.copying import Copying
from tenantry.catalog import tenants
from tenantry.catalog.job_queue import DRIFT, JobOptions
from tenantry.catalog.job_states import Job
from tenantry.catalog.tenants import Tenant
from tenantry.fleet.drift import DriftReport
from tenantry.kit.context import OperationContext
from tenantry.work.ledger import finish_audited, new_job
from tenantry.work.progress import Progress
from tenantry.work.running import running


async def check(copying: Copying, job: Job, options: JobOptions) -> Job:
    """Check the expression of a queued check.

    Raises:
        NoTenantMatches: It selects no tenant.
        BadText, BadWhere: It breaks a rule of the language: see `catalog.where`.
    """
    await tenants.check_selects(copying.catalog, options.where)
    return job


async def run(
    copying: Copying, ctx: OperationContext, job: Job, options: JobOptions, progress: Progress
) -> None:
    """Run a queued check: of one tenant, of those that an expression selects, or of all."""
    catalog, tenant_id = copying.catalog, job.tenant_id
    tenant = None if tenant_id is None else await tenants.get(catalog, tenant_id)
    await check_drift(
        ctx, copying, DriftReport(), tenant=tenant, where=options.where, progress=progress
    )


async def check_drift(
    ctx: OperationContext,
    copying: Copying,
    report: DriftReport,
    *,
    tenant: Tenant | None,
    where: str | None = None,
    progress: Progress,
) -> None:
    """Compare the schemas of all tenants, or of one, and store which have drifted.

    With *where*, of those that it selects.

    The report is filled while tenants are compared; *progress* shows it.

    Raises:
        NoTenantMatches: It selects no tenant.
        Exception: As for `DriftCheck.check`, and for `running`.
    """
    await tenants.check_selects(copying.catalog, where)
    of = (None, None) if tenant is None else (tenant.id, tenant.name)
    job = new_job(ctx, DRIFT, progress, tenant=of)
    progress.report = report
    async with running(copying.ledger, job, progress):
        await copying.drift.check(ctx, report, only=tenant, where=where)
        await finish_audited(ctx, copying.ledger, job, progress, "drift.check")
