"""The ledger of durable work: the jobs that this process holds by its heartbeat, and their end.

`work.running` runs one, and `work.undoing` removes what is left of it if it fails.
"""

import asyncio
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from uuid import UUID

from tenantry.catalog import audit, job_states, jobs
from tenantry.catalog.database import Catalog
from tenantry.catalog.job_states import Event, Job
from tenantry.catalog.session import CatalogSession
from tenantry.catalog.tenants import Tenant
from tenantry.db.sqlite.files import FILE_ERRORS
from tenantry.kit.clock import utc_now
from tenantry.kit.context import OperationContext
from tenantry.kit.errors import Unavailable
from tenantry.kit.ids import new_id
from tenantry.migration.errors import explain
from tenantry.tenant.databases import TenantDatabases
from tenantry.work.heartbeat import Heartbeat
from tenantry.work.progress import Progress


@dataclass(frozen=True, kw_only=True)
class Ledger:
    """The jobs that this process holds.

    Attributes:
        busy: Those that it runs, or cleans up; each is here first, and then in the catalog. Any
            process cleans up the others.
        failed: Those with a cleanup that has failed because a server is away.
        claiming: Held from a claim until its job is *busy*.
        left: Databases (server, name) that it has created for jobs that another process has ended
            by then, and has not dropped yet.
    """

    catalog: Catalog
    databases: TenantDatabases
    heartbeat: Heartbeat
    busy: set[UUID] = field(default_factory=set)
    failed: set[UUID] = field(default_factory=set)
    claiming: asyncio.Lock = field(default_factory=asyncio.Lock)
    left: set[tuple[str, str]] = field(default_factory=set)

    @property
    def worker_id(self) -> UUID:
        """The id of this process, which holds the jobs."""
        return self.heartbeat.worker_id


class JobLost(Unavailable):
    """Another process has ended this job, because this one was silent for too long: try again."""


async def finish(
    session: CatalogSession, ledger: Ledger, job: Job, *, kept: tuple[str, str] | None = None
) -> Job:
    """End a job that has succeeded, in a transaction in the block of `running`.

    *kept* is the server and the name of a database that is kept.

    Raises:
        JobLost: This process no longer holds it.
    """
    return await note_event(session, ledger, job, job_states.succeeded(utc_now(), kept))


async def note_event(session: CatalogSession, ledger: Ledger, job: Job, event: Event) -> Job:
    """Write what an event makes of a job, in a transaction; return the job.

    Raises:
        JobLost: This process no longer holds it.
    """
    noted = await jobs.apply(session, job.id, event, worker_id=ledger.worker_id)
    if noted is None:
        raise JobLost
    return noted


async def finish_audited(
    ctx: OperationContext,
    ledger: Ledger,
    job: Job,
    progress: Progress,
    action: str,
    *,
    changes: Sequence[Mapping[str, object]] = (),
) -> Job:
    """Do the same as `finish`, with the last progress and an entry in the audit log."""
    ctx = ctx.at(utc_now())
    async with ledger.catalog.begin() as session:
        await jobs.note(session, job.id, bytes_done=progress.bytes_done, note=progress.note)
        done = await finish(session, ledger, job)
        await audit.LOG.add(session, ctx, action, job.id, tenant_id=job.tenant_id, changes=changes)
    return done


def reason_of(error: Exception) -> str:
    """Return why a job has failed, in a form that may be shown."""
    if isinstance(error, OSError) and error.errno in FILE_ERRORS:
        return f"A file cannot be read or written: {os.strerror(error.errno)}."
    return explain(error)


def new_job(
    ctx: OperationContext,
    kind: str,
    progress: Progress | None = None,
    *,
    new: Tenant | None = None,
    tenant: tuple[UUID | None, str | None] = (None, None),
    archive: str | None = None,
    database: tuple[str | None, str | None] = (None, None),
    source: tuple[str | None, str | None] = (None, None),
    note: str | None = None,
) -> Job:
    """Return a job that begins now: it fills *database*; a move copies *source* (server, name).

    For a *new* tenant, it fills the database of that.
    """
    if new is not None:
        tenant, database = (new.id, new.name), (new.server_name, new.database_name)
    return Job(
        id=new_id() if progress is None else progress.job_id,
        kind=kind,
        tenant_id=tenant[0],
        tenant_name=tenant[1],
        archive=archive,
        server_name=database[0],
        database_name=database[1],
        actor=ctx.actor,
        started_at=ctx.now,
        source_server_name=source[0],
        source_database_name=source[1],
        note=note,
    )
