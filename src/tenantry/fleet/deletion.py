"""Delete tenants: keep them for some days, undelete them, and then remove them for good."""

import contextlib
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial
from uuid import UUID

import msgspec
import structlog

from tenantry.catalog import credentials as stored
from tenantry.catalog import deleted_tenants, jobs, tenants
from tenantry.catalog.database import CatalogChange
from tenantry.catalog.deleted_tenants import DeletedTenantNotFound
from tenantry.catalog.job_states import JobState
from tenantry.catalog.jobs import PURGE
from tenantry.catalog.tenants import Tenant
from tenantry.db import audit_log
from tenantry.fleet.lifecycle import Lifecycle, checked_name
from tenantry.kit.context import OperationContext
from tenantry.kit.errors import Conflict, Invalid, Unavailable
from tenantry.kit.preconditions import Expected, check
from tenantry.migration.errors import reason_of
from tenantry.tenant import sessions
from tenantry.tenant.databases import TenantDatabase
from tenantry.work.job_functions import undone
from tenantry.work.ledger import new_job
from tenantry.work.undoing import clear

# Tenants that one call of `Deletion.purge_expired` removes; it is called every 5 s.
PURGED_MAX = 5

_LOGGED = ("name", "database_name", "server_name")

_log = structlog.get_logger(__name__)


class DetachInstead(Conflict):
    """An attached database is never deleted: `tenantry tenant detach` forgets it, as it is."""


class WrongName(Invalid):
    """`name` must be the exact name of the tenant."""


class TenantActive(Conflict):
    """The tenant is active; suspend it before you delete it."""


class DatabaseNotDropped(Unavailable):
    """The tenant is removed, and its database is not dropped yet; the message says why."""


@dataclass(frozen=True, kw_only=True)
class Deletion:
    """Deletes tenants.

    Attributes:
        kept: How long a deleted tenant can be undeleted; zero if it is removed at once.
    """

    lifecycle: Lifecycle
    kept: timedelta

    async def delete(
        self, ctx: OperationContext, tenant: Tenant, *, name: str, expected: Expected = None
    ) -> datetime | None:
        """Delete a suspended tenant: its credentials are rejected, and it is not listed.

        Returns:
            Until when it can be undeleted; None if it was removed at once.

        Raises:
            DetachInstead: It is an attached database.
            WrongName: *name* is not its exact name.
            TenantActive: It must be suspended first.
            ResourceChanged: The tenant is not what is *expected*.
            DatabaseNotDropped: It was to be removed at once. Any process drops its database later.
        """
        if tenant.is_attached:
            raise DetachInstead
        if name != tenant.name:
            raise WrongName
        if not self.kept:
            take = partial(self._take_suspended, expected=expected)
            await self._remove(ctx, tenant, "tenant.delete", take)
            return None
        catalog = self.lifecycle.catalog
        changes = audit_log.changes_between(tenant, None, *_LOGGED)
        async with catalog.change(
            ctx, "tenant.delete", tenant.id, tenant_id=tenant.id, changes=changes
        ) as session:
            if expected is not None:
                check(expected, await tenants.lock(session, tenant.id))
            if await deleted_tenants.add(session, tenant.id, now=ctx.now) is None:
                raise TenantActive
        await self.lifecycle.databases.forget(tenant.id)
        return ctx.now + self.kept

    async def undelete(
        self, ctx: OperationContext, deleted: Tenant, *, name: str | None = None
    ) -> Tenant:
        """Undo the deletion of a tenant; return it, suspended, with its API keys and McpTokens.

        The sessions of its users have ended: keys and tokens can be listed and revoked before
        the tenant is activated, and sessions cannot. Without a new *name*, it has the old one.

        Raises:
            BadText: The name breaks a rule.
            TenantNameInUse: Another tenant has the name.
            DeletedTenantNotFound: It was purged, or undeleted, at the same time.
            DatabaseUnavailable: Its database cannot be reached. It stays deleted.
        """
        name = deleted.name if name is None else checked_name(name)
        await self._end_sessions(deleted)
        changes: audit_log.Changes = []
        async with self.lifecycle.catalog.change(
            ctx, "tenant.undelete", deleted.id, tenant_id=deleted.id, changes=changes
        ) as session:
            restored = await deleted_tenants.restore(session, deleted.id, name=name)
            changes += audit_log.changes_between(deleted, restored, "name")
        return restored

    async def purge(self, ctx: OperationContext, deleted: Tenant, *, name: str) -> None:
        """Remove a deleted tenant and its database now. This cannot be undone.

        Raises:
            WrongName: *name* is not its exact name.
            DeletedTenantNotFound: It was purged, or undeleted, at the same time.
            DatabaseNotDropped: Any process drops its database later.
        """
        if name != deleted.name:
            raise WrongName
        await self._remove(ctx, deleted, "tenant.purge", deleted_tenants.take)

    async def purge_expired(self, ctx: OperationContext) -> None:
        """Purge up to `PURGED_MAX` tenants that were deleted long enough ago.

        A process that is killed during this leaves a job that another one ends.

        Raises:
            DatabaseUnavailable: The catalog cannot be reached.
        """
        catalog = self.lifecycle.catalog
        for deleted in await deleted_tenants.expired(
            catalog, before=ctx.now - self.kept, limit=PURGED_MAX
        ):
            # Another process may have purged or undeleted it. `reap` drops what is left.
            with contextlib.suppress(DeletedTenantNotFound, DatabaseNotDropped):
                await self._remove(ctx, deleted, "tenant.purge", deleted_tenants.take)
                _log.info("deleted tenant purged", tenant=str(deleted.id))

    async def _end_sessions(self, deleted: Tenant) -> None:
        server = self.lifecycle.databases.server(deleted.server_name)
        database: TenantDatabase = server.open(deleted.database_name)
        try:
            async with database.begin() as session:
                await sessions.end_sessions(session)
        finally:
            await database.close()

    async def _take_suspended(
        self, session: CatalogChange, tenant_id: UUID, *, worker_id: UUID, expected: Expected
    ) -> Tenant:
        if expected is not None:
            check(expected, await tenants.lock(session, tenant_id))
        taken = await tenants.set_deleting(session, tenant_id, worker_id=worker_id)
        if taken is None:
            raise TenantActive
        return taken

    async def _remove(
        self,
        ctx: OperationContext,
        tenant: Tenant,
        action: str,
        take: Callable[..., Awaitable[Tenant]],
    ) -> None:
        """Remove the tenant that *take* takes for that, with its database.

        Raises:
            DatabaseNotDropped: It is removed, and its database is not.
        """
        ledger, changes = self.lifecycle.ledger, audit_log.changes_between(tenant, None, *_LOGGED)
        job = new_job(ctx, PURGE, tenant=(tenant.id, tenant.name))
        ledger.busy.add(job.id)
        try:
            await ledger.heartbeat.renew()
            async with ledger.catalog.change(
                ctx, action, tenant.id, tenant_id=tenant.id, changes=changes
            ) as session:
                # It may have been moved since *tenant* was read.
                taken = await take(session, tenant.id, worker_id=ledger.worker_id)
                job = msgspec.structs.replace(
                    job,
                    state=JobState.DROPPING.value,
                    server_name=taken.server_name,
                    database_name=taken.database_name,
                )
                await stored.remove_all(session, tenant.id)
                await jobs.add(session, job, worker_id=ledger.worker_id)
                await jobs.take_kept(session, tenant.id, worker_id=None)
            error = await clear(ledger, job.id, undo=undone)
        finally:
            ledger.busy.discard(job.id)
        if error is not None:
            where = f"{job.database_name} on the server {job.server_name}"
            raise DatabaseNotDropped(
                f"The tenant is removed, and its database {where} could not be dropped: "
                f"{reason_of(error)} Every serving process tries again until it is dropped."
            ) from error
