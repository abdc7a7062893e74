"""Check for drift as a job: it has progress, can be cancelled, and survives its process."""

from tenantry.backup.jobs import Copying, Progress, finish_audited, new_job, running
from tenantry.catalog.tenants import Tenant
from tenantry.fleet.drift import DriftCheck, DriftReport
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
    """Compare the schemas of all tenants, or of one, and store which have drifted.

    The report is filled while tenants are compared; *progress* shows it.

    Raises:
        Exception: As for `DriftCheck.check`, and for `running`.
    """
    of = (None, None) if tenant is None else (tenant.id, tenant.name)
    job = new_job(ctx, "drift", progress, tenant=of)
    progress.report = report
    async with running(copying, job, progress):
        await check.check(ctx, report, only=tenant)
        await finish_audited(ctx, copying, job, progress, "drift.check")
