"""Back up one tenant, or the catalog, into one archive."""

import asyncio
from pathlib import Path

import msgspec

from tenantry.backup import dumps
from tenantry.backup.archive import ArchiveWriter, Header, Manifest, archive_name
from tenantry.backup.copying import Copying
from tenantry.backup.targets import Destination
from tenantry.catalog import records, tenants
from tenantry.catalog.job_queue import BACKUP, JobOptions
from tenantry.catalog.job_states import Job
from tenantry.catalog.tenants import Tenant
from tenantry.db.urls import sqlite_path
from tenantry.kit.context import OperationContext
from tenantry.kit.errors import Unavailable
from tenantry.kit.ids import new_id
from tenantry.kit.release import VERSION
from tenantry.kit.sizes import FreeSpaceMark, space_above
from tenantry.kit.stopping import entered_in_thread, run_in_thread
from tenantry.work.ledger import finish_audited, new_job
from tenantry.work.progress import Progress
from tenantry.work.running import running

TENANT, CATALOG = "tenant", "catalog"


class DiskNearlyFull(Unavailable):
    """The disk is nearly full, and the backup would fill it."""


class CatalogRecord(msgspec.Struct, frozen=True):
    """The record of an archive of the catalog: everything is in its database."""


async def run(
    copying: Copying, ctx: OperationContext, job: Job, _options: JobOptions, progress: Progress
) -> None:
    """Run a queued backup."""
    tenant_id, target = job.tenant_id, await copying.archives.target()
    tenant = None if tenant_id is None else await tenants.get(copying.catalog, tenant_id)
    await back_up(ctx, copying, tenant, target, progress=progress)


async def back_up(
    ctx: OperationContext,
    copying: Copying,
    tenant: Tenant | None,
    target: Destination,
    *,
    progress: Progress,
) -> Job:
    """Write an archive of a tenant, which is served during the backup; of the catalog if None.

    That of the catalog has tenants, credentials, admins, runs and the audit log.

    Raises:
        NotServed: It is an attached database.
        DatabaseUnavailable: Its database cannot be read.
        ToolMissing, ToolTooOld, ToolFailed: See `db.postgres.tools`.
        OSError: The archive cannot be written.
        DiskNearlyFull: Less than half of the mark would stay free on a disk.
    """
    record: msgspec.Struct
    if tenant is None:
        url, record = copying.catalog_url, CatalogRecord()
    else:
        tenant.check_served()
        url = copying.databases.server(tenant.server_name).url(tenant.database_name)
        record = await records.read(copying.catalog, tenant)
    header = Header(
        id=new_id(),
        key_id=copying.keys.current_id,
        release=VERSION,
        created_at=ctx.now,
        kind=CATALOG if tenant is None else TENANT,
        engine=dumps.engine_of(url),
        tenant_id=None if tenant is None else tenant.id,
        tenant_name=None if tenant is None else tenant.name,
        revision=None if tenant is None else tenant.schema_revision,
    )
    name = archive_name(header)
    of = (header.tenant_id, header.tenant_name)
    job = new_job(ctx, BACKUP, progress, tenant=of, archive=target.place(name))
    async with running(copying.ledger, job, progress):
        async with entered_in_thread(target.writing(name)) as sink:
            writer = await run_in_thread(lambda _stop: ArchiveWriter(sink, copying.keys, header))
            await run_in_thread(lambda _stop: writer.add_record(record))
            await _write(copying, writer, url=url, progress=progress, folder=target.folder)
            await asyncio.sleep(0)  # a cancellation from before ends the job here
            progress.is_final = target.names_at_once  # next, the archive gets its name
        progress.is_final = True
        return await finish_audited(ctx, copying.ledger, job, progress, "backup.create")


async def _write(
    copying: Copying, writer: ArchiveWriter, *, url: str, progress: Progress, folder: Path | None
) -> None:
    def write(data: bytes) -> None:
        if folder is not None:
            _check_space(folder, copying.mark, len(data))
        writer.add_chunk(data)
        progress.add(len(data))

    path = sqlite_path(url)
    if path is not None and path.exists():  # it is copied first
        size = path.stat().st_size
        await asyncio.to_thread(_check_space, copying.scratch.parent, copying.mark, size)
    contents = await dumps.dump(url, write, tools=copying.tools, scratch=copying.scratch)
    manifest = Manifest(
        chunk_count=writer.chunk_count,
        database_bytes=writer.database_bytes,
        sha256=writer.sha256,
        schema_fingerprint=contents.survey.schema_fingerprint,
        row_counts=contents.survey.row_counts,
        search_path=contents.search_path,
    )
    await run_in_thread(lambda _stop: writer.finish(manifest))


def _check_space(folder: Path, mark: FreeSpaceMark, size: int) -> None:
    """Check that half of *mark* stays free after *size* bytes; a compressed chunk needs less."""
    if not mark.is_off and space_above(folder, mark.half) < size:
        raise DiskNearlyFull(
            f"The disk of {folder} is nearly full: free space on it, or back up to another disk or "
            "to S3."
        )
