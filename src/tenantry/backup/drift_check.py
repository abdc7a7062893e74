"""Check for drift as a job: it has progress, can be cancelled, and survives its process."""

from tenantry.backup.jobs import Copying, JobLost, Progress, new_job, running
from tenantry.catalog import audit, jobs
from tenantry.catalog.tenants import Tenant
from tenantry.fleet.drift import DriftCheck, DriftReport
from tenantry.kit.clock import utc_now
from tenantry.kit.context import OperationContext


async def check_drift(
    ctx: OperationContext,
    copying: Copying,
    check: DriftCheck,
    report: DriftReport,
    *,
    tenant: Tenant | None,
    progress: Progress,
) -> None:
    """Compare the schemas of tenants, and store which have drifted.

    Args:
        ctx: Who checks.
        copying: The services.
        check: Compares them.
        report: It is filled while tenants are compared.
        tenant: The only one to compare; None for all.
        progress: Gets the report.

    Raises:
        Exception: As for `DriftCheck.check`, and for `running`.
    """
    of = (None, None) if tenant is None else (tenant.id, tenant.name)
    job = new_job(ctx, "drift", progress, tenant=of)
    progress.report = report
    async with running(copying, job, progress):
        await check.check(ctx, report, only=tenant)
        worker_id = copying.heartbeat.worker_id
        async with copying.catalog.begin() as session:
            await jobs.note(session, job.id, bytes_done=0, note=str(report))
            if await jobs.finish(session, job.id, worker_id=worker_id, at=utc_now()) is None:
                raise JobLost
            await audit.LOG.add(session, ctx, "drift.check", job.id, tenant_id=of[0], changes=[])
