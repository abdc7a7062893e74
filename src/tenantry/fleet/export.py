"""Export the data of a tenant: for the customer, or for another system."""

import asyncio
import os
import shutil
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from threading import Event
from uuid import UUID

import msgspec
from sqlalchemy.exc import SQLAlchemyError

from tenantry.catalog import audit
from tenantry.catalog.database import Catalog
from tenantry.catalog.tenants import Tenant
from tenantry.db import table_export
from tenantry.db.sessions import DatabaseUnavailable
from tenantry.db.table_export import ExportedTable
from tenantry.kit import private
from tenantry.kit.context import OperationContext
from tenantry.kit.errors import Conflict, Unavailable
from tenantry.kit.ids import new_id
from tenantry.kit.release import VERSION
from tenantry.tenant.databases import TenantDatabases

FORMAT_VERSION = 1
MANIFEST = "export.json"
# Secrets of Tenantry's own tables. None: the whole table, which holds ids of sessions.
_LEFT_OUT: dict[str, frozenset[str] | None] = {
    "tenantry_user": frozenset({"password_hash", "spared_jti"}),
    "tenantry_ended_session": None,
}


class ExportFolderExists(Conflict):
    """The folder of the export exists already."""


class ExportFailed(Unavailable):
    """The files of the export cannot be written; the message has the reason."""


class Manifest(msgspec.Struct, frozen=True, rename="camel"):
    """The file `export.json`: what was exported, and from which tables.

    Attributes:
        release: The release of Tenantry that has written it.
        revision: The last seen revision of the database.
    """

    format_version: int
    release: str
    tenant_id: UUID
    tenant_name: str
    exported_at: datetime
    revision: str | None
    tables: list[ExportedTable]


@dataclass(frozen=True, kw_only=True)
class Export:
    """Exports tenants.

    Attributes:
        catalog: Its audit log records each export.
        databases: Returns the address of each tenant's database.
        connect_seconds: How long to wait for the connection.
    """

    catalog: Catalog
    databases: TenantDatabases
    connect_seconds: float

    async def write(self, ctx: OperationContext, tenant: Tenant, folder: Path) -> Manifest:
        """Export every table of a tenant into a new folder.

        The folder gets its name when it is complete. Only its owner can read it.

        Raises:
            ExportFolderExists: The folder exists.
            ExportFailed: The files cannot be written.
            DatabaseUnavailable: The database cannot be read.
        """
        if await asyncio.to_thread(os.path.lexists, folder):
            raise ExportFolderExists
        await audit.LOG.add(self.catalog, ctx, "tenant.export", tenant.id, tenant_id=tenant.id)
        unfinished = folder.with_name(f"{folder.name}.{new_id()}.unfinished")
        stop = Event()
        writing = asyncio.ensure_future(
            asyncio.to_thread(self._write, ctx, tenant, unfinished, folder, stop)
        )
        try:
            return await asyncio.shield(writing)
        except asyncio.CancelledError:
            stop.set()
            await asyncio.wait({writing})
            raise
        except OSError as error:
            raise ExportFailed(f"The export cannot be written: {error.strerror}.") from error
        except SQLAlchemyError as error:
            raise DatabaseUnavailable from error

    def _write(
        self, ctx: OperationContext, tenant: Tenant, unfinished: Path, folder: Path, stop: Event
    ) -> Manifest:
        private.make_folder(unfinished)
        try:
            tables = table_export.export_tables(
                self.databases.server(tenant.server_name).url(tenant.database_name),
                unfinished,
                left_out=lambda name: _LEFT_OUT.get(name, frozenset()),
                connect_seconds=self.connect_seconds,
                stop=stop,
            )
            manifest = Manifest(
                FORMAT_VERSION,
                VERSION,
                tenant.id,
                tenant.name,
                ctx.now,
                tenant.schema_revision,
                tables,
            )
            with private.open_new(unfinished / MANIFEST) as file:
                file.write(msgspec.json.format(msgspec.json.encode(manifest), indent=2) + b"\n")
            unfinished.rename(folder)
        except BaseException:
            shutil.rmtree(unfinished, ignore_errors=True)
            raise
        return manifest
