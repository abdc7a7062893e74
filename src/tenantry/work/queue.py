"""Queue the jobs that admins request, after a check of the request."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypedDict, Unpack
from uuid import UUID

import msgspec

from tenantry.catalog import audit, holds, job_queue, jobs, tenants
from tenantry.catalog.job_queue import BACKUP, DRIFT, MOVE, WAVE, JobOptions
from tenantry.catalog.job_states import Job, JobState
from tenantry.catalog.outbox import Subscribed
from tenantry.catalog.session import CatalogSession
from tenantry.catalog.tenants import Tenant
from tenantry.db import audit_log
from tenantry.kit.context import OperationContext
from tenantry.kit.errors import Conflict, Invalid
from tenantry.work.job_functions import Kind
from tenantry.work.ledger import Ledger, new_job

QUEUED_MAX = 1_000
"""Queued jobs besides backups, moves and checks of waves: a tenant or a run has one of those."""

TenantName = tuple[UUID | None, str | None]


class Wanted(TypedDict, total=False):
    """The members of `JobOptions` that a request gives."""

    archive: str
    name: str | None
    server_name: str | None
    keep_days: int | None
    keep_last: int | None
    where: str | None


class NothingChosen(Invalid):
    """Say which tenants are moved: `fromServer`, `where`, or both."""


class TooManyQueued(Conflict):
    """Too many jobs are queued: cancel some, or wait until they have ended."""


@dataclass(frozen=True, kw_only=True)
class Queue:
    """Queues jobs, each with an entry in the audit log.

    Attributes:
        hint: Makes this process claim a job at once.
    """

    ledger: Ledger
    kinds: Mapping[str, Kind]
    hint: Callable[[], None]

    async def add(
        self,
        ctx: OperationContext,
        kind: str,
        *,
        tenant: Tenant | None = None,
        **wanted: Unpack[Wanted],
    ) -> Job:
        """Queue a job of a kind; *wanted* are the members of `JobOptions` that it needs.

        If a backup of the tenant is queued, that is returned: it has not begun, so it will contain
        everything that was written before this call.

        Raises:
            TooManyQueued: The queue is full.
            TenantMoving: It is a move, and another one of the tenant has not ended.
            NotServed: The tenant is an attached database, and it is no check for drift.
            Exception: As for `check` in the module of the kind.
        """
        if tenant is not None and kind != DRIFT:
            tenant.check_served()
        options = JobOptions(request_id=ctx.request_id, address=ctx.address, **wanted)
        of = (None, None) if tenant is None else (tenant.id, tenant.name)
        if kind == BACKUP:
            queued = await job_queue.queued_backup(self.ledger.catalog, of[0])
            if queued is not None:
                return queued
        job = await self.kinds[kind].check(_new(ctx, kind, of, options), options)
        changes = audit_log.changes_between(None, job, "kind", "tenant_name", "archive")
        if options.keep_days is not None:
            changes += audit_log.changes_between(None, options, "keep_days", "keep_last")
        changes += _selected(options.where)
        if kind == MOVE and tenant is not None:
            changes += _servers(tenant.server_name, options.server_name)
        async with self.ledger.catalog.begin() as session:
            is_bounded = kind not in {BACKUP, MOVE}
            if is_bounded and await job_queue.count(session) >= QUEUED_MAX:
                raise TooManyQueued
            await job_queue.add(session, [job])
            action = f"{kind}.queue"
            await audit.LOG.add(
                session, ctx, action, job.id, tenant_id=job.tenant_id, changes=changes
            )
        self.hint()
        return job

    async def back_up(
        self, ctx: OperationContext, tenant_ids: Sequence[UUID] | None, *, where: str | None = None
    ) -> int:
        """Queue backups of these tenants, or of every tenant and the catalog; return how many.

        With *where*, of those tenants that it selects, without the catalog. What is queued already
        is left out.

        Raises:
            NoTenantMatches: It selects no tenant, or only attached databases.
            BadText, BadWhere: It breaks a rule of the language: see `catalog.where`.
        """
        async with self.ledger.catalog.begin() as session:
            await tenants.check_selects(session, where, only_served=True)
            found = await job_queue.to_back_up(session, tenant_ids, where=where)
            chosen: list[TenantName] = [(one.id, one.name) for one in found]
            is_all = tenant_ids is None and where is None
            if is_all and await job_queue.queued_backup(session, None) is None:
                chosen.insert(0, (None, None))
            options = JobOptions(request_id=ctx.request_id, address=ctx.address)
            await job_queue.add(session, [_new(ctx, BACKUP, one, options) for one in chosen])
            changes = [*_counted(chosen), *_selected(where)]
            await audit.LOG.add(session, ctx, "backup.queue", "backups", changes=changes)
        self.hint()
        return len(chosen)

    async def move_all(
        self,
        ctx: OperationContext,
        *,
        from_server: str | None,
        to_server: str,
        where: str | None = None,
    ) -> int:
        """Queue a move of every tenant of a tenant server to another one; return how many.

        With *where*, of those that it selects, of any server without *from_server*. A tenant that
        is on *to_server*, is being moved, or will be, is left out.

        Raises:
            NothingChosen: There is neither *from_server* nor *where*.
            NoTenantMatches: *where* selects no tenant, or only attached databases.
            BadText, BadWhere: It breaks a rule of the language: see `catalog.where`.
            TenantMoving: Another caller has just queued a move of one of the tenants.
        """
        if from_server is None and where is None:
            raise NothingChosen
        options = JobOptions(request_id=ctx.request_id, address=ctx.address, server_name=to_server)
        async with self.ledger.catalog.begin() as session:
            await tenants.check_selects(session, where, only_served=True)
            found = await job_queue.to_move(
                session, from_server=from_server, to_server=to_server, where=where
            )
            if not found:
                return 0
            await job_queue.add(
                session, [_new(ctx, MOVE, (one.id, one.name), options) for one in found]
            )
            changes = [*_counted(found), *_servers(from_server, to_server), *_selected(where)]
            await audit.LOG.add(session, ctx, "move.queue", "moves", changes=changes)
        self.hint()
        return len(found)

    async def cancel(self, ctx: OperationContext, job_id: UUID) -> Job:
        """Cancel a job.

        Raises:
            JobNotFound: There is none.
            JobEnded: It has ended.
        """
        async with self.ledger.catalog.begin() as session:
            before = await jobs.get(session, job_id)
            job = await job_queue.cancel(session, job_id, now=ctx.now)
            await _end_checks(session, self.ledger.catalog.subscribed, [job])
            if not before.is_cancelled:
                await audit.LOG.add(session, ctx, "job.cancel", job.id, tenant_id=job.tenant_id)
        return job

    async def cancel_queued(self, ctx: OperationContext) -> int:
        """Cancel every queued job; return how many."""
        async with self.ledger.catalog.begin() as session:
            ended = await job_queue.cancel_queued(session, now=ctx.now)
            count = len(ended)
            await _end_checks(session, self.ledger.catalog.subscribed, ended)
            if count:
                changes: audit_log.Changes = [{"field": "jobs", "old": count, "new": None}]
                await audit.LOG.add(session, ctx, "job.cancel_queued", "jobs", changes=changes)
        return count


async def _end_checks(
    session: CatalogSession, subscribed: Subscribed, ended: Sequence[Job]
) -> None:
    """Note for the runs that queued jobs would have checked that they were not."""
    for job in ended:
        if job.kind == WAVE and job.finished_at is not None:
            await holds.check_failed(session, subscribed, job)


def _counted(queued: Sequence[object]) -> audit_log.Changes:
    return [{"field": "jobs", "old": None, "new": len(queued)}]


def _selected(where: str | None) -> audit_log.Changes:
    return [] if where is None else [{"field": "where", "old": None, "new": where}]


def _servers(from_server: str | None, to_server: str | None) -> audit_log.Changes:
    return [{"field": "serverName", "old": from_server, "new": to_server}]


def _new(ctx: OperationContext, kind: str, tenant: TenantName, options: JobOptions) -> Job:
    return msgspec.structs.replace(
        new_job(ctx, kind, tenant=tenant, archive=options.archive),
        state=JobState.QUEUED.value,
        options=msgspec.json.encode(options).decode(),
    )
