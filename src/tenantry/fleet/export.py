"""Export the data of a tenant: for the customer, or for another system."""

import asyncio
import contextlib
import os
import re
import shutil
from collections.abc import AsyncGenerator
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial
from pathlib import Path
from uuid import UUID

import msgspec

from tenantry.catalog import audit
from tenantry.catalog.database import Catalog
from tenantry.catalog.tenants import Tenant
from tenantry.db import snapshots
from tenantry.db.copying import table_export
from tenantry.db.copying.row_formats import RowFormat
from tenantry.db.copying.table_export import ExportedTable
from tenantry.kit import private
from tenantry.kit.clock import monotonic_seconds
from tenantry.kit.context import OperationContext
from tenantry.kit.errors import Conflict, Unavailable
from tenantry.kit.ids import new_id
from tenantry.kit.release import VERSION
from tenantry.kit.stopping import Stop, run_in_thread
from tenantry.kit.threads import DaemonThreads
from tenantry.kit.zip_stream import OpenNew, zipped
from tenantry.tenant.databases import TenantDatabases

DOWNLOADS_MAX = 4
"""Downloads of one process at the same time. Each holds a thread and a snapshot."""
DOWNLOAD_SECONDS_MAX = 4 * 3_600.0
"""A snapshot keeps PostgreSQL from removing old rows, whatever the speed of the client."""
FORMAT_VERSION = 1
MANIFEST = "export.json"
_UNFINISHED = re.compile(r".+\.[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}\.unfinished")
# Secrets of Tenantry's own tables. None: the whole table, which holds ids of sessions.
_LEFT_OUT: dict[str, frozenset[str] | None] = {
    "tenantry_user": frozenset({"password_hash", "spared_jti"}),
    "tenantry_ended_session": None,
}


class ExportFolderExists(Conflict):
    """The folder of the export exists already."""


class ExportFailed(Unavailable):
    """The files of the export cannot be written; the message has the reason."""


class TooManyExports(Unavailable):
    """Too many exports are being downloaded: try again later."""


class ExportInterrupted(Unavailable):
    """The export was interrupted: it took too long."""


class Manifest(msgspec.Struct, frozen=True, rename="camel"):
    """The file `export.json`: what was exported, and from which tables.

    Attributes:
        release: The release of Tenantry that has written it.
        revision: The last seen revision of the database.
    """

    format_version: int
    format: RowFormat
    release: str
    tenant_id: UUID
    tenant_name: str
    exported_at: datetime
    revision: str | None
    tables: list[ExportedTable]


@dataclass(kw_only=True)
class Export:
    """Exports tenants.

    Attributes:
        catalog: Its audit log records each export.
        connect_seconds: How long to wait for the connection.
    """

    catalog: Catalog
    databases: TenantDatabases
    connect_seconds: float
    _threads: DaemonThreads = field(
        default_factory=partial(DaemonThreads, DOWNLOADS_MAX, "export"), init=False
    )
    _places: asyncio.Semaphore = field(
        default_factory=partial(asyncio.Semaphore, DOWNLOADS_MAX), init=False
    )

    async def write(
        self, ctx: OperationContext, tenant: Tenant, folder: Path, *, row_format: RowFormat
    ) -> Manifest:
        """Export every table of a tenant into a new folder.

        The folder gets its name when it is complete and durable. Only its owner can read it. What
        a killed export has left beside it is removed.

        Raises:
            NotServed: It is an attached database.
            ExportFolderExists: The folder exists.
            ExportFailed: The files cannot be written.
            DatabaseUnavailable: The database cannot be read.
        """
        if await asyncio.to_thread(os.path.lexists, folder):
            raise ExportFolderExists
        await self._record(ctx, tenant, row_format)
        try:
            return await run_in_thread(partial(self._write_folder, ctx, tenant, folder, row_format))
        except OSError as error:
            raise ExportFailed(f"The export cannot be written: {error.strerror}.") from error

    async def download(
        self, ctx: OperationContext, tenant: Tenant, *, row_format: RowFormat
    ) -> AsyncGenerator[bytes, None]:
        """Yield a ZIP file with the files that `write` makes; empty chunks while it waits.

        Raises:
            NotServed: It is an attached database.
            TooManyExports: `DOWNLOADS_MAX` are in work.
            ExportInterrupted: It takes longer than `DOWNLOAD_SECONDS_MAX`.
            DatabaseUnavailable: The database cannot be read.
        """
        if self._places.locked():
            raise TooManyExports
        async with self._places:
            await self._record(ctx, tenant, row_format)
            work = partial(self._write, ctx, tenant, row_format)
            chunks = zipped(work, self._threads, now=ctx.now)
            ends_at = monotonic_seconds() + DOWNLOAD_SECONDS_MAX
            async with contextlib.aclosing(chunks):
                async for chunk in chunks:
                    if monotonic_seconds() > ends_at:
                        raise ExportInterrupted
                    yield chunk

    async def _record(self, ctx: OperationContext, tenant: Tenant, row_format: RowFormat) -> None:
        tenant.check_served()
        await audit.LOG.add(
            self.catalog,
            ctx,
            "tenant.export",
            tenant.id,
            tenant_id=tenant.id,
            changes=[{"field": "format", "old": None, "new": str(row_format)}],
        )

    def _write_folder(
        self, ctx: OperationContext, tenant: Tenant, folder: Path, row_format: RowFormat, stop: Stop
    ) -> Manifest:
        snapshots.remove_left(folder.parent, _UNFINISHED)
        with snapshots.new_locked(lambda: _new_unfinished(folder)) as unfinished:
            try:
                manifest = self._write(
                    ctx, tenant, row_format, lambda name: private.open_new(unfinished / name), stop
                )
                for path in unfinished.iterdir():
                    with path.open("rb") as file:
                        private.sync(file)
                private.sync_folder(unfinished)
                unfinished.rename(folder)
            except BaseException:
                shutil.rmtree(unfinished, ignore_errors=True)
                raise
            private.sync_folder(folder.parent)
        return manifest

    def _write(
        self,
        ctx: OperationContext,
        tenant: Tenant,
        row_format: RowFormat,
        open_new: OpenNew,
        stop: Stop,
    ) -> Manifest:
        tables = table_export.export_tables(
            self.databases.server(tenant.server_name).url(tenant.database_name),
            open_new,
            row_format=row_format,
            left_out=lambda name: _LEFT_OUT.get(name, frozenset()),
            connect_seconds=self.connect_seconds,
            stop=stop,
        )
        manifest = Manifest(
            FORMAT_VERSION,
            row_format,
            VERSION,
            tenant.id,
            tenant.name,
            ctx.now,
            tenant.schema_revision,
            tables,
        )
        with open_new(MANIFEST) as file:
            file.write(msgspec.json.format(msgspec.json.encode(manifest), indent=2) + b"\n")
        return manifest


def _new_unfinished(folder: Path) -> Path:
    unfinished = folder.with_name(f"{folder.name}.{new_id()}.unfinished")
    private.make_folder(unfinished)
    return unfinished
