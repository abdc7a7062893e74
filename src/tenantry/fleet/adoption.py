"""Adopt a database: make an existing database, with its own tables, that of a new tenant.

The existing tables are never changed, and the database is never dropped. So the catalog lists the
tenant as `adopting`, not as `provisioning`: if the adoption fails, only Tenantry's tables are
removed. They are created in one transaction, with the tenant's id in their log, which identifies
the adoption that they belong to.
"""

import asyncio
from collections.abc import Coroutine
from dataclasses import dataclass
from functools import partial
from typing import Any

import msgspec

from tenantry.catalog import tenants
from tenantry.catalog.job_states import Job
from tenantry.catalog.jobs import ADOPT
from tenantry.catalog.tenants import Tenant, TenantState
from tenantry.db.servers import Server
from tenantry.fleet.lifecycle import Lifecycle, Provisioned, UnknownServer, new_tenant
from tenantry.kit.context import OperationContext
from tenantry.kit.errors import Conflict, Invalid, TenantryError, Unavailable
from tenantry.migration import inspection
from tenantry.migration.errors import explain, reason_of
from tenantry.migration.inspection import AlreadyTenantry, Inspected, inspect_database
from tenantry.migration.schema_state import BASE, SchemaRevision
from tenantry.migration.statements import SchemaMoved
from tenantry.migration.streams import Streams, UnknownRevision
from tenantry.settings import SERVER_DEFAULT
from tenantry.tenant import users
from tenantry.tenant.users import NewUser
from tenantry.work.ledger import JobLost, new_job
from tenantry.work.progress import Progress
from tenantry.work.running import running

INSPECT_SECONDS_MAX = 60.0
ADOPT_SECONDS_MAX = 3_600.0  # a SQLite file is copied
LOCK_WAIT_MS = 3_000
TABLES_SHOWN_MAX = 10
STAMP_BASE = "base"
"""The `stamp` of a database to which no user revision was applied."""
RUN_TO_END_SECONDS_MAX = 30.0


class DatabaseUnreadable(Conflict):
    """The database exists, but cannot be inspected."""


class SeveralRevisions(Conflict):
    """The version table of the database has several rows; merge the branches first."""


class RevisionNotFound(Conflict):
    """The database is at a revision that TENANTRY_TENANT_MIGRATIONS does not have."""


class VersionElsewhere(Conflict):
    """The database has other Alembic version tables; the message names them and the options."""


class VersionMissing(Conflict):
    """The database has tables and no revision; the message names the options."""


class BadStamp(Invalid):
    """--stamp must name one of the revisions in TENANTRY_TENANT_MIGRATIONS, or base."""


class StampContradicted(Conflict):
    """--stamp contradicts the database's version table; the message names its revision."""


class AdoptionFailed(Unavailable):
    """The database could not be adopted; Tenantry's tables are removed from it again."""


class TakenOver(Unavailable):
    """Another process rolled the adoption back, because this one had no heartbeat; try again."""


@dataclass(frozen=True, kw_only=True)
class Adoption:
    """Makes existing databases tenants."""

    lifecycle: Lifecycle

    async def adopt(
        self,
        ctx: OperationContext,
        *,
        name: str,
        database: str,
        owner: NewUser,
        server_name: str = SERVER_DEFAULT,
        stamp: str | None = None,
    ) -> Provisioned:
        """Make an existing database that of a new tenant, or change nothing.

        The user's revisions are not applied; the next run applies those that are pending.
        *database* is the name of a database on the server, which is used in place; or the path of a
        SQLite file, which is copied to it. *stamp* is the id of the user revision that the database
        is at, or `STAMP_BASE`: required if the database has no version table.

        Raises:
            UnknownServer: There is no server of this name.
            BadText, BadEmail, BadPassword: A rule is broken.
            DatabaseMissing, DatabaseReserved, NotUtf8, NotOwner, MayNotCreate, AlreadyTenantry,
                NamesTaken: See `db.inspection` and `migration.inspection`.
            DatabaseUnreadable, SeveralRevisions, RevisionNotFound, VersionElsewhere,
                VersionMissing, BadStamp, StampContradicted: See above.
            SourceChanged: The file was written to while it was copied.
            TenantNameInUse, DatabaseInUse: Another tenant has the name or the database.
            DatabaseUnavailable: The server cannot be reached.
            BadStream: The directory of revisions cannot be read.
            AdoptionFailed: Any other error.
        """
        lifecycle = self.lifecycle
        users.check_new(lifecycle.passwords, owner)
        if server_name not in lifecycle.databases.server_names:
            raise UnknownServer
        new = new_tenant(ctx, name, None, server_name)
        streams = lifecycle.streams()
        server = lifecycle.databases.server(server_name)
        stamp = _resolved_stamp(stamp, streams)
        inspected = await _inspect(server, database, streams)
        _check_versions(inspected, stamp, streams)
        await _check_known(inspected, streams)
        written = None if inspected.versions or stamp == STAMP_BASE else stamp
        tenant = msgspec.structs.replace(
            new,
            state=TenantState.ADOPTING.value,
            database_name=server.adopted_name(database, new.database_name),
        )
        return await self._adopt(ctx, tenant, database, owner, streams, stamp=written)

    async def _adopt(
        self,
        ctx: OperationContext,
        tenant: Tenant,
        database: str,
        owner: NewUser,
        streams: Streams,
        *,
        stamp: str | None,
    ) -> Provisioned:
        lifecycle, progress = self.lifecycle, Progress()
        server = lifecycle.databases.server(tenant.server_name)
        of, source = (tenant.id, tenant.name), (tenant.server_name, tenant.database_name)
        job = new_job(ctx, ADOPT, progress, tenant=of, source=source)
        try:
            async with (
                running(
                    lifecycle.ledger, job, progress, undo=partial(undo, lifecycle), tenant=tenant
                ),
                asyncio.timeout(ADOPT_SECONDS_MAX),
            ):
                await server.adopt_database(database, tenant.database_name)
                adding = self._add_tables(tenant, server, streams, stamp)
                position = await _run_to_end(adding)
                opened = await lifecycle.databases.open(tenant, writes=True)
                user = await users.create(ctx, opened, lifecycle.passwords, owner)
                return await lifecycle.publish(
                    ctx, "adopt", job, tenant, user, revision=str(position), logged="database_name"
                )
        except Exception as error:
            if isinstance(error, JobLost):
                # The other process may have inspected the database before our tables were added.
                await inspection.undo_adoption(server, tenant.database_name, tenant.id)
                error = TakenOver()
            if isinstance(error, TenantryError) and not isinstance(error, Unavailable):
                raise
            raise AdoptionFailed(
                f"The database could not be adopted: {reason_of(error)}"
            ) from error

    async def _add_tables(
        self, tenant: Tenant, server: Server, streams: Streams, stamp: str | None
    ) -> SchemaRevision:
        """Add Tenantry's tables and the stamp, and return the resulting revision."""
        try:
            return await self.lifecycle.migrator.add_tables(
                server.url(tenant.database_name),
                streams,
                run_id=tenant.id,
                wait_ms=LOCK_WAIT_MS,
                stamp=stamp,
            )
        except SchemaMoved as error:  # another process adopted it first, perhaps another catalog's
            raise AlreadyTenantry from error


async def undo(lifecycle: Lifecycle, job: Job) -> None:
    """Remove Tenantry's tables from the database of a failed adoption, and the row of the tenant.

    Nothing is done for a copy of a database, which the job itself drops.
    """
    server_name, database_name = job.source_server_name, job.source_database_name
    if job.tenant_id is None or server_name is None or database_name is None:
        return
    server = lifecycle.databases.server(server_name)
    await inspection.undo_adoption(server, database_name, job.tenant_id)
    await tenants.remove_unseen(lifecycle.catalog, job)


def _resolved_stamp(stamp: str | None, streams: Streams) -> str | None:
    if stamp is None or stamp == STAMP_BASE:
        return stamp
    if streams.user is None:
        raise BadStamp("--stamp requires TENANTRY_TENANT_MIGRATIONS, the folder of your revisions.")
    found = streams.user.find(stamp)
    if found is None:
        raise BadStamp
    return found.id


async def _inspect(server: Server, database: str, streams: Streams) -> Inspected:
    try:
        async with asyncio.timeout(INSPECT_SECONDS_MAX):
            return await inspect_database(server, database, version_table=streams.user_table)
    except TenantryError:
        raise
    except Exception as error:
        raise DatabaseUnreadable(f"The database cannot be inspected: {explain(error)}") from error


def _check_versions(inspected: Inspected, stamp: str | None, streams: Streams) -> None:
    """Check that the user revision of the database is known.

    Otherwise the next run would apply every revision again.
    """
    table, versions = streams.user_table, inspected.versions
    if len(versions) > 1:
        raise SeveralRevisions
    if stamp is not None and versions and versions != [stamp]:
        raise StampContradicted(
            f"--stamp contradicts the database: its table {table} says {versions[0]!r}."
        )
    if stamp is not None:
        return
    if inspected.elsewhere:
        shown = ", ".join(inspected.elsewhere[:TABLES_SHOWN_MAX])
        raise VersionElsewhere(
            f"The database has other Alembic version tables: {shown}. Tenantry reads {table} in "
            "the search path of its role. Set TENANTRY_TENANT_VERSION_TABLE to the right name, add "
            "its schema to the search path (ALTER ROLE … IN DATABASE … SET search_path), or give "
            "the revision of the database with --stamp REVISION."
        )
    if inspected.has_tables and not versions:
        raise VersionMissing(
            f"The database has tables, and no revision in {table}: the next run would apply every "
            "revision to it. Give the revision of the database with --stamp REVISION, or --stamp "
            f"{STAMP_BASE} if none of your revisions was applied."
        )


async def _check_known(inspected: Inspected, streams: Streams) -> None:
    if streams.user is None:
        return
    version = inspected.versions[0] if inspected.versions else BASE
    try:
        await asyncio.to_thread(streams.user.after, version)
    except UnknownRevision as error:
        raise RevisionNotFound(
            f"The database is at revision {version!r}, which is not in TENANTRY_TENANT_MIGRATIONS."
        ) from error


async def _run_to_end(adding: Coroutine[Any, Any, SchemaRevision]) -> SchemaRevision:
    """Await *adding*; after a cancellation, first wait for its end, then re-raise.

    It is short, and undoing needs to know whether its transaction was committed.
    """
    task = asyncio.ensure_future(adding)
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        await asyncio.wait([task], timeout=RUN_TO_END_SECONDS_MAX)
        if not task.cancel() and not task.cancelled():
            task.exception()  # mark it as retrieved, or asyncio logs it
        raise
