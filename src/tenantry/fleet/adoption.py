"""Adopt a database: one that exists, with tables of its own, becomes a tenant's.

What was there before is not touched, and not ours to lose. So the catalog lists the tenant
as one that is being adopted, and not as one that is being made: whatever dies on the way is
let go, its database is never dropped. Our tables come in one transaction, with the tenant's
id in their log, by which whoever takes them away again knows that they are of this adoption.
"""

import asyncio
from collections.abc import Coroutine
from concurrent.futures import Executor
from dataclasses import dataclass
from typing import Any

import msgspec

from tenantry.access import credentials
from tenantry.catalog import tenants
from tenantry.catalog.tenants import DatabaseInUse, Tenant, TenantNameInUse, TenantState
from tenantry.db import audit_log
from tenantry.db.servers import Server
from tenantry.fleet.lifecycle import Lifecycle, Owner, Provisioned, UnknownServer, new_tenant
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

LOOK_SECONDS_MAX = 60.0
ADOPT_SECONDS_MAX = 3_600.0  # a SQLite file is copied
LOCK_WAIT_MS = 3_000
TABLES_SHOWN_MAX = 10
STAMP_BASE = "base"
"""What `stamp` is for a database to which no revision of its own was applied."""
RUN_TO_END_SECONDS_MAX = 30.0


class DatabaseUnreadable(Conflict):
    """The database exists, but cannot be inspected."""


class SeveralRevisions(Conflict):
    """The database has several revisions of its own at once: merge them first."""


class RevisionNotFound(Conflict):
    """The database is at a revision that TENANTRY_TENANT_MIGRATIONS does not have."""


class VersionElsewhere(Conflict):
    """The database has other version tables of Alembic; the message says which, and what to do."""


class VersionMissing(Conflict):
    """The database has tables and no revision; the message says what to do."""


class BadStamp(Invalid):
    """--stamp must name one of the revisions in TENANTRY_TENANT_MIGRATIONS, or base."""


class StampContradicted(Conflict):
    """The database says itself at which revision it is; the message says which."""


class AdoptionFailed(Unavailable):
    """The database could not be adopted; what was added to it is taken away again."""


class TakenOver(Unavailable):
    """This process was silent for so long that another one cleared the adoption away: try again."""


@dataclass(frozen=True, kw_only=True)
class Adoption:
    """Makes tenants of databases that exist.

    Attributes:
        lifecycle: Of all tenants.
        threads: Where SQLite runs.
        connect_seconds: How long to wait for a connection.
    """

    lifecycle: Lifecycle
    threads: Executor
    connect_seconds: float

    async def adopt(
        self,
        ctx: OperationContext,
        *,
        name: str,
        database: str,
        owner: Owner,
        server_name: str = SERVER_DEFAULT,
        stamp: str | None = None,
    ) -> Provisioned:
        """Make a tenant of a database that exists, all or nothing.

        Its own revisions stay where they are: what is pending comes with the next run.

        Args:
            ctx: Who adopts.
            name: Of the tenant.
            database: Its name on the server, which is taken over as it is; or the path of a
                SQLite file, which is copied.
            owner: The tenant's first user.
            server_name: The tenant server that has it, or that is to have the copy.
            stamp: The id of the revision of its own that it is at, or `STAMP_BASE`; needed when
                the database does not say it itself.

        Raises:
            UnknownServer: There is no server of this name.
            BadText, BadEmail, BadPassword: A rule is broken.
            DatabaseMissing, DatabaseReserved, NotUtf8, NotOwner, MayNotCreate, AlreadyTenantry,
                NamesTaken: See `db.inspection` and `migration.inspection`.
            DatabaseUnreadable, SeveralRevisions, RevisionNotFound, VersionElsewhere,
                VersionMissing, BadStamp, StampContradicted: See above.
            SourceChanged: The file was written to while it was copied.
            TenantNameInUse, DatabaseInUse: Another tenant has it.
            DatabaseUnavailable: The server cannot be reached.
            BadStream: The directory of revisions cannot be read.
            AdoptionFailed: Anything else.
        """
        lifecycle = self.lifecycle
        users.check_new(
            lifecycle.passwords,
            email=owner.email,
            full_name=owner.full_name,
            password=owner.password,
        )
        if server_name not in lifecycle.databases.server_names:
            raise UnknownServer
        new = new_tenant(ctx, name, None, server_name)
        streams = lifecycle.streams()
        server = lifecycle.databases.server(server_name)
        _check_stamp(stamp, streams)
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
        owner: Owner,
        streams: Streams,
        *,
        stamp: str | None,
    ) -> Provisioned:
        server = self.lifecycle.databases.server(tenant.server_name)
        try:
            async with asyncio.timeout(ADOPT_SECONDS_MAX):
                await tenants.add(
                    self.lifecycle.catalog, tenant, worker_id=self.lifecycle.heartbeat.worker_id
                )
                await server.adopt_database(database, tenant.database_name)
                adding = self._add_tables(tenant, server, streams, stamp)
                position = await _run_to_end(adding)
                return await self._finish(ctx, tenant, owner, position)
        except (TenantNameInUse, DatabaseInUse):  # nothing was begun
            raise
        except BaseException as error:
            await self.lifecycle.clear(tenant)
            if isinstance(error, TakenOver):
                # Whoever took over may have looked before our tables were there.
                await inspection.undo_adoption(server, tenant.database_name, tenant.id)
            if isinstance(error, TenantryError) and not isinstance(error, Unavailable):
                raise
            if not isinstance(error, Exception):
                raise
            raise AdoptionFailed(
                f"The database could not be adopted: {reason_of(error)}"
            ) from error

    async def _add_tables(
        self,
        tenant: Tenant,
        server: Server,
        streams: Streams,
        stamp: str | None,
    ) -> SchemaRevision:
        """Add our tables and the stamp, and return at which revision the database then is."""
        try:
            return await self.lifecycle.migrator.add_tables(
                server.url(tenant.database_name),
                streams,
                run_id=tenant.id,
                wait_ms=LOCK_WAIT_MS,
                stamp=stamp,
            )
        except SchemaMoved as error:  # another process was quicker, perhaps from another catalog
            raise AlreadyTenantry from error

    async def _finish(
        self, ctx: OperationContext, tenant: Tenant, owner: Owner, position: SchemaRevision
    ) -> Provisioned:
        lifecycle = self.lifecycle
        user = await users.create(
            ctx,
            await lifecycle.databases.open(tenant),
            lifecycle.passwords,
            email=owner.email,
            full_name=owner.full_name,
            password=owner.password,
        )
        changes = audit_log.changes_between(None, tenant, "name", "database_name", "server_name")
        async with lifecycle.catalog.change(
            ctx, "tenant.adopt", tenant.id, tenant_id=tenant.id, changes=changes
        ) as session:
            ready = await tenants.set_ready(
                session, tenant.id, worker_id=lifecycle.heartbeat.worker_id, revision=str(position)
            )
            if ready is None:
                raise TakenOver
            key = await credentials.add_key(ctx, session, tenant.id, expires_at=None)
        return Provisioned(tenant=ready, owner=user, key=key)


def _check_stamp(stamp: str | None, streams: Streams) -> None:
    if stamp is None or stamp == STAMP_BASE:
        return
    if streams.user is None:
        raise BadStamp("--stamp needs TENANTRY_TENANT_MIGRATIONS, which has your revisions.")
    if stamp not in {revision.id for revision in streams.user.revisions}:
        raise BadStamp


async def _inspect(server: Server, database: str, streams: Streams) -> Inspected:
    try:
        async with asyncio.timeout(LOOK_SECONDS_MAX):
            return await inspect_database(server, database, version_table=streams.user_table)
    except TenantryError:
        raise
    except Exception as error:
        raise DatabaseUnreadable(f"The database cannot be inspected: {explain(error)}") from error


def _check_versions(inspected: Inspected, stamp: str | None, streams: Streams) -> None:
    """Check that it is known at which of its own revisions the database is.

    A database that is taken for one without a revision gets every revision again.
    """
    table, versions = streams.user_table, inspected.versions
    if len(versions) > 1:
        raise SeveralRevisions
    if stamp is not None and versions and versions != [stamp]:
        raise StampContradicted(f"The database is at {versions[0]!r}, by its table {table}.")
    if stamp is not None:
        return
    if inspected.elsewhere:
        shown = ", ".join(inspected.elsewhere[:TABLES_SHOWN_MAX])
        raise VersionElsewhere(
            f"The database has other version tables of Alembic: {shown}. Tenantry reads {table} "
            "in the search path of its role. Name the right one in "
            "TENANTRY_TENANT_VERSION_TABLE, bring it into the search path (ALTER ROLE … IN "
            "DATABASE … SET search_path), or say where the database is with --stamp REVISION."
        )
    if inspected.has_tables and not versions:
        raise VersionMissing(
            f"The database has tables, and no revision in {table}: the next run would apply every "
            "revision to them. Say where the database is with --stamp REVISION, or with --stamp "
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
            f"The database is at revision {version!r} of its own, which is not among "
            "those in TENANTRY_TENANT_MIGRATIONS."
        ) from error


async def _run_to_end(adding: Coroutine[Any, Any, SchemaRevision]) -> SchemaRevision:
    """Return what *adding* returns; after a cancellation, wait for its end and re-raise.

    It is short, and a transaction that has ended is easier to undo than one that may have.
    """
    task = asyncio.ensure_future(adding)
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        await asyncio.wait([task], timeout=RUN_TO_END_SECONDS_MAX)
        if not task.cancel() and not task.cancelled():
            task.exception()  # nobody else asks for it
        raise
