"""Queue the jobs that admins request: what is wrong with a request is found before that."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from uuid import UUID

import msgspec

from tenantry.backup import moving
from tenantry.backup.archive import Header
from tenantry.backup.archives import Archives
from tenantry.backup.creating import TENANT
from tenantry.backup.jobs import Copying, Progress, new_job
from tenantry.backup.loading import NotATenant
from tenantry.backup.restoring import ArchiveOfOther
from tenantry.catalog import audit, job_queue, jobs
from tenantry.catalog.job_queue import (
    BACKUP,
    CLONE,
    DRIFT,
    MOVE,
    PRUNE,
    REPLACE,
    RESTORE,
    VERIFY,
    JobOptions,
)
from tenantry.catalog.jobs import Job, JobState
from tenantry.catalog.tenants import Tenant
from tenantry.db import audit_log
from tenantry.fleet.deletion import WrongName
from tenantry.fleet.lifecycle import UnknownServer, checked_name
from tenantry.kit.context import OperationContext
from tenantry.kit.errors import Conflict

QUEUED_MAX = 1_000
"""Queued jobs besides backups and moves, of which each tenant has at most one in the queue."""


class TooManyQueued(Conflict):
    """Too many jobs are queued: cancel some, or wait until they have ended."""


@dataclass(frozen=True, kw_only=True)
class Queueing:
    """Queues jobs, each with an entry in the audit log.

    Attributes:
        archives: Of the target that the settings name.
        hint: Lets this process claim a job at once.
    """

    copying: Copying
    archives: Archives
    hint: Callable[[], None]

    async def back_up(self, ctx: OperationContext, tenant_ids: Sequence[UUID] | None) -> int:
        """Queue backups of these tenants, or of every tenant and the catalog; return how many.

        What is queued already is left out.
        """
        async with self.copying.catalog.begin() as session:
            found = await job_queue.to_back_up(session, tenant_ids)
            queued = [_new(ctx, BACKUP, tenant=(one.id, one.name)) for one in found]
            if tenant_ids is None and await job_queue.queued_backup(session, None) is None:
                queued.insert(0, _new(ctx, BACKUP))
            await job_queue.add(session, queued)
            changes: audit_log.Changes = [{"field": "jobs", "old": None, "new": len(queued)}]
            await audit.LOG.add(session, ctx, "backup.queue", "backups", changes=changes)
        self.hint()
        return len(queued)

    async def back_up_tenant(self, ctx: OperationContext, tenant: Tenant) -> Job:
        """Queue a backup of one tenant; return the one that is queued, if there is one.

        That one has not begun, so it will contain everything that was written before this call.
        """
        queued = await job_queue.queued_backup(self.copying.catalog, tenant.id)
        if queued is not None:
            return queued
        return await self._queue(ctx, _new(ctx, BACKUP, tenant=(tenant.id, tenant.name)))

    async def verify(self, ctx: OperationContext, archive: str) -> Job:
        """Queue the verification of an archive.

        Raises:
            ArchiveNotFound, ArchiveForeign, ArchiveDamaged, ArchiveNewer: It is not used.
            S3Missing, S3Unavailable, TooManyQueued: See there.
        """
        header = await self.archives.header(archive)
        tenant = (header.tenant_id, header.tenant_name)
        return await self._queue(ctx, _new(ctx, VERIFY, tenant=tenant, archive=archive))

    async def prune(self, ctx: OperationContext, *, keep_days: int, keep_last: int) -> Job:
        """Queue the removal of old archives: see `pruning.prune`.

        Raises:
            TooManyQueued: See there.
        """
        kept: audit_log.Changes = [
            {"field": "keepDays", "old": None, "new": keep_days},
            {"field": "keepLast", "old": None, "new": keep_last},
        ]
        return await self._queue(ctx, _new(ctx, PRUNE, keep=(keep_days, keep_last)), kept)

    async def restore(
        self, ctx: OperationContext, archive: str, *, name: str | None, server_name: str | None
    ) -> Job:
        """Queue a restore as a new tenant with a *name*; without one, of a deleted tenant.

        Raises:
            NotATenant: The archive is of the catalog.
            BadText, UnknownServer: A rule is broken.
            Exception: As for `verify`.
        """
        header = await self._tenant_header(archive)
        self._check_server(server_name)
        tenant_name = header.tenant_name if name is None else checked_name(name)
        tenant = (header.tenant_id if name is None else None, tenant_name)
        job = _new(ctx, RESTORE, tenant=tenant, archive=archive, name=name, server_name=server_name)
        return await self._queue(ctx, job)

    async def replace(
        self, ctx: OperationContext, archive: str, tenant: Tenant, *, name: str
    ) -> Job:
        """Queue a restore in place of a tenant, with its exact *name*.

        Raises:
            NotATenant: The archive is of the catalog.
            ArchiveOfOther: It is of another tenant.
            WrongName: The tenant has another name.
            Exception: As for `verify`.
        """
        header = await self._tenant_header(archive)
        if header.tenant_id != tenant.id:
            raise ArchiveOfOther
        if name != tenant.name:
            raise WrongName
        job = _new(ctx, REPLACE, tenant=(tenant.id, tenant.name), archive=archive)
        return await self._queue(ctx, job)

    async def clone(
        self, ctx: OperationContext, tenant: Tenant, *, name: str, server_name: str | None
    ) -> Job:
        """Queue a copy of a tenant to a new one.

        Raises:
            BadText, UnknownServer: A rule is broken.
            TooManyQueued: See there.
        """
        self._check_server(server_name)
        job = _new(
            ctx,
            CLONE,
            tenant=(tenant.id, tenant.name),
            name=checked_name(name),
            server_name=server_name,
        )
        return await self._queue(ctx, job)

    async def check_drift(self, ctx: OperationContext, tenant: Tenant | None) -> Job:
        """Queue a check for drift: of one tenant, or of all.

        Raises:
            TooManyQueued: See there.
        """
        of = (None, None) if tenant is None else (tenant.id, tenant.name)
        return await self._queue(ctx, _new(ctx, DRIFT, tenant=of))

    async def move(self, ctx: OperationContext, tenant: Tenant, *, server_name: str) -> Job:
        """Queue a move of a tenant to another tenant server.

        Raises:
            UnknownServer, SameServer: See `moving.check_servers`.
            TenantMoving: Another move of the tenant has not ended.
        """
        moving.check_servers(self.copying, tenant.server_name, server_name)
        job = _new(ctx, MOVE, tenant=(tenant.id, tenant.name), server_name=server_name)
        return await self._queue(ctx, job, _servers(tenant.server_name, server_name))

    async def move_all(self, ctx: OperationContext, *, from_server: str, to_server: str) -> int:
        """Queue a move of every tenant of a tenant server; return how many.

        A tenant that is being moved, or will be, is left out.

        Raises:
            UnknownServer, SameServer: See `moving.check_servers`.
            TenantMoving: Another caller has just queued a move of one of the tenants.
        """
        moving.check_servers(self.copying, from_server, to_server)
        async with self.copying.catalog.begin() as session:
            found = await job_queue.to_move(session, from_server)
            queued = [
                _new(ctx, MOVE, tenant=(one.id, one.name), server_name=to_server) for one in found
            ]
            if not queued:
                return 0
            await job_queue.add(session, queued)
            changes: audit_log.Changes = [{"field": "jobs", "old": None, "new": len(queued)}]
            changes += _servers(from_server, to_server)
            await audit.LOG.add(session, ctx, "move.queue", "moves", changes=changes)
        self.hint()
        return len(queued)

    async def cancel(self, ctx: OperationContext, job_id: UUID) -> Job:
        """Cancel a job.

        Raises:
            JobNotFound: There is none.
            JobEnded: It has ended.
        """
        async with self.copying.catalog.begin() as session:
            before = await jobs.get(session, job_id)
            job = await job_queue.cancel(session, job_id, now=ctx.now)
            if not before.is_cancelled:
                await audit.LOG.add(session, ctx, "job.cancel", job.id, tenant_id=job.tenant_id)
        return job

    async def cancel_queued(self, ctx: OperationContext) -> int:
        """Cancel every queued job; return how many."""
        async with self.copying.catalog.begin() as session:
            count = await job_queue.cancel_queued(session, now=ctx.now)
            if count:
                changes: audit_log.Changes = [{"field": "jobs", "old": count, "new": None}]
                await audit.LOG.add(session, ctx, "job.cancel_queued", "jobs", changes=changes)
        return count

    async def _queue(
        self, ctx: OperationContext, job: Job, more: Sequence[dict[str, object]] = ()
    ) -> Job:
        """Queue a job; its entry in the audit log has *more* changes."""
        async with self.copying.catalog.begin() as session:
            is_bounded = job.kind not in {BACKUP, MOVE}
            if is_bounded and await job_queue.count(session) >= QUEUED_MAX:
                raise TooManyQueued
            await job_queue.add(session, [job])
            changes = audit_log.changes_between(None, job, "kind", "tenant_name", "archive")
            changes += more
            await audit.LOG.add(
                session,
                ctx,
                f"{job.kind}.queue",
                job.id,
                tenant_id=job.tenant_id,
                changes=changes,
            )
        self.hint()
        return job

    async def _tenant_header(self, archive: str) -> Header:
        header = await self.archives.header(archive)
        if header.kind != TENANT:
            raise NotATenant
        return header

    def _check_server(self, server_name: str | None) -> None:
        if server_name is not None and server_name not in self.copying.databases.server_names:
            raise UnknownServer


def _servers(from_server: str, to_server: str) -> audit_log.Changes:
    return [{"field": "serverName", "old": from_server, "new": to_server}]


def _new(
    ctx: OperationContext,
    kind: str,
    *,
    tenant: tuple[UUID | None, str | None] = (None, None),
    archive: str | None = None,
    name: str | None = None,
    server_name: str | None = None,
    keep: tuple[int | None, int | None] = (None, None),
) -> Job:
    options = JobOptions(
        request_id=ctx.request_id,
        address=ctx.address,
        archive=archive,
        name=name,
        server_name=server_name,
        keep_days=keep[0],
        keep_last=keep[1],
    )
    return msgspec.structs.replace(
        new_job(ctx, kind, Progress(), tenant=tenant, archive=archive),
        state=JobState.QUEUED.value,
        options=msgspec.json.encode(options).decode(),
    )
