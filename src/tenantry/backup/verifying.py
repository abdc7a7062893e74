"""Verify an archive: restore it into a scratch database, compare it, drop it."""

import msgspec

from tenantry.backup import loading
from tenantry.backup.archive import ArchiveReader, Manifest
from tenantry.backup.copying import Copying
from tenantry.backup.creating import TENANT, CatalogRecord
from tenantry.catalog.job_queue import VERIFY, JobOptions
from tenantry.catalog.job_states import Job
from tenantry.catalog.records import TenantRecord
from tenantry.kit.context import OperationContext
from tenantry.kit.ids import new_id
from tenantry.kit.stopping import run_in_thread
from tenantry.work.ledger import finish, new_job
from tenantry.work.progress import Progress
from tenantry.work.running import running


async def check(copying: Copying, job: Job, options: JobOptions) -> Job:
    """Return a job with the tenant of its archive.

    Raises:
        ArchiveNotFound, ArchiveForeign, ArchiveDamaged, ArchiveNewer: It is not used.
        S3Missing, S3Unavailable: The target cannot be read.
    """
    header = await copying.archives.header(options.archive or "")
    return msgspec.structs.replace(job, tenant_id=header.tenant_id, tenant_name=header.tenant_name)


async def run(
    copying: Copying, ctx: OperationContext, _job: Job, options: JobOptions, progress: Progress
) -> None:
    """Verify the archive of a queued job."""
    async with copying.archives.reading(options.archive or "") as reader:
        await verify(ctx, copying, reader, server_name=None, progress=progress)


async def verify(
    ctx: OperationContext,
    copying: Copying,
    reader: ArchiveReader,
    *,
    server_name: str | None,
    progress: Progress,
) -> Manifest:
    """Restore an archive into a scratch database on a tenant server, and compare it.

    Raises:
        ArchiveDamaged, CopyDiffers, RoleTooPowerful: It cannot be restored.
        UnknownServer, WrongEngine: No server can be used for it.
    """
    is_tenant = reader.header.kind == TENANT
    kind = TenantRecord if is_tenant else CatalogRecord
    await run_in_thread(lambda _stop: reader.record(kind))
    server_name = loading.server_of_engine(copying, reader.header.engine, server_name)
    database_name = f"tenantry_{new_id().hex}"
    of, filled = (reader.header.tenant_id, reader.header.tenant_name), (server_name, database_name)
    job = new_job(ctx, VERIFY, progress, tenant=of, database=filled)
    async with running(copying.ledger, job, progress):
        server = copying.databases.server(server_name)
        await loading.fill(copying, reader, server, database_name, progress)
        await server.drop(database_name)
        async with copying.catalog.begin() as session:
            await finish(session, copying.ledger, job)
    return reader.manifest
