"""Verify an archive: restore it into a scratch database, compare it, drop it."""

from tenantry.backup import loading
from tenantry.backup.archive import ArchiveReader, Manifest
from tenantry.backup.creating import TENANT, CatalogRecord
from tenantry.backup.jobs import Copying, Progress, finish, new_job, running
from tenantry.catalog.records import TenantRecord
from tenantry.kit.context import OperationContext
from tenantry.kit.ids import new_id
from tenantry.kit.stopping import run_in_thread


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
    job = new_job(
        ctx,
        "verify",
        progress,
        tenant=(reader.header.tenant_id, reader.header.tenant_name),
        database=(server_name, database_name),
    )
    async with running(copying, job, progress):
        server = copying.databases.server(server_name)
        await loading.fill(copying, reader, server, database_name, progress)
        await server.drop(database_name)
        await finish(copying.catalog, copying, job)
    return reader.manifest
