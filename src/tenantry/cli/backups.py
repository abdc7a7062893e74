"""``tenantry backup``: archives of tenants."""

import asyncio
from typing import Annotated

import typer

from tenantry.backup import creating, pruning, replacing, restoring, targets, verifying
from tenantry.backup.archives import open_target
from tenantry.backup.recovery import every_tenant
from tenantry.backup.targets import StreamTarget, Target
from tenantry.catalog.job_states import Job
from tenantry.catalog.jobs import JobNotFound
from tenantry.catalog.tenants import Tenant
from tenantry.cli import job_reading, options, recovery, session, transfer
from tenantry.cli.commands import new_group
from tenantry.cli.completion import tenant_names
from tenantry.cli.exit_status import ExitStatus, Misuse
from tenantry.cli.finding import find_tenant, read_id
from tenantry.cli.printing import output
from tenantry.cli.recovery import Archive, Place
from tenantry.cli.restored import show_restored
from tenantry.cli.transfer import STREAM
from tenantry.kit.errors import TenantryError
from tenantry.kit.ids import parse_id
from tenantry.schemas.backups import (
    KEEP_DAYS_MAX,
    KEEP_LAST_MAX,
    ArchiveList,
    JobList,
    JobResponse,
    TenantFailure,
    VerifiedResponse,
)
from tenantry.services import Services
from tenantry.work.progress import Progress

CONCURRENT = 4
"""Tenants that `create --all` backs up at the same time."""

group = new_group("Back up tenants, and restore them from archives.", reading=job_reading.group)

group.command("restore-catalog")(recovery.restore_catalog)
group.command("restore-missing")(recovery.restore_missing)

Server = Annotated[
    str | None,
    typer.Option(help="The tenant server to use. Default: one of the archive's engine."),
]
Foreign = Annotated[
    bool,
    typer.Option(
        "--foreign",
        help="Accept an archive that was made with another secret key. Its SQL is executed with "
        "the privileges of Tenantry's role: use it only if you trust its source.",
    ),
]


@group.command("create")
async def create(
    *,
    tenant: Annotated[
        list[str] | None,
        typer.Option(
            metavar="TENANT", help="An id or a name; repeatable.", autocompletion=tenant_names
        ),
    ] = None,
    where: options.Where = None,
    everything: Annotated[
        bool, typer.Option("--all", help="Every tenant, and the catalog.")
    ] = False,
    to: Annotated[
        str | None,
        typer.Option(
            metavar="TARGET",
            help="Where the archives are written: a folder, s3://bucket/prefix, or - for standard "
            "output. Default: TENANTRY_BACKUP_TARGET.",
        ),
    ] = None,
) -> None:
    """Back up tenants: one archive for each, with its database and its catalog rows.

    Tenants are served during the backup. Each archive is one consistent snapshot. It contains no
    secret, but all data of the tenant. Restoring it needs the same TENANTRY_SECRET_KEY.
    """
    names = tenant or []
    if bool(names) + everything + (where is not None) != 1:
        raise Misuse("Name tenants with --tenant, or use --where or --all.")
    settings = session.configure()
    if to == STREAM:
        if len(names) != 1:
            raise Misuse("Standard output takes one archive: name one tenant.")
        stream = StreamTarget(transfer.output_stream())
        async with transfer.job(settings) as (services, progress):
            found = await find_tenant(services.catalog, names[0])
            await creating.back_up(
                session.context(), services.copying, found, stream, progress=progress
            )
        return
    target = open_target(to or settings.archives)
    async with transfer.job(settings) as (services, progress):
        made, failed = await _create(services, progress, target=target, names=names, where=where)
    _show_made(made, failed)


@group.command("list")
async def show_archives(*, folder: Place = None) -> None:
    """List archives, the newest first. Only their beginning and their end are read."""
    settings = session.configure()
    target = transfer.source_of(settings, folder)
    async with session.opened(settings, changes=False) as services:
        found = await asyncio.to_thread(targets.stored, target, services.copying.keys)
    archives = ArchiveList.of_all(found)
    columns = [
        "Archive",
        "Tenant",
        output.unwrapped("Created"),
        output.unwrapped("Revision"),
        output.number("MB"),
        output.unwrapped("Fault"),
    ]
    rows = [
        (
            one.name,
            one.tenant_name or one.kind,
            output.minute(one.created_at),
            one.revision,
            f"{one.size / 1e6:.1f}",
            one.fault,
        )
        for one in archives.items
    ]
    output.show_list(archives, columns, rows, none="No archives.")


@group.command("verify")
async def verify(
    archive: Archive, *, folder: Place = None, server: Server = None, foreign: Foreign = False
) -> None:
    """Restore an archive into a scratch database, compare it, and drop the database."""
    settings = session.configure()
    with transfer.opened_reader(settings, archive, folder, accepts_foreign=foreign) as reader:
        async with transfer.job(settings) as (services, progress):
            manifest = await verifying.verify(
                session.context(), services.copying, reader, server_name=server, progress=progress
            )
    counts = manifest.row_counts
    verified = VerifiedResponse(archive, len(counts), sum(counts.values()), manifest.database_bytes)
    if not output.shown_as_json(verified):
        output.show_line(
            f"{verified.name} is complete: {verified.rows} rows in {verified.tables} tables."
        )


@group.command("prune")
async def prune(
    *,
    folder: Place = None,
    keep_days: Annotated[
        int, typer.Option(min=0, max=KEEP_DAYS_MAX, help="Days for which every archive is kept.")
    ] = 30,
    keep_last: Annotated[
        int, typer.Option(min=1, max=KEEP_LAST_MAX, help="Newest archives of each tenant to keep.")
    ] = 3,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Remove nothing.")] = False,
) -> None:
    """Remove old archives, and incomplete ones of processes that were killed.

    Archives that are incomplete or cannot be read, and those of another installation, are kept, and
    do not count.
    """
    settings = session.configure()
    target = transfer.source_of(settings, folder)
    rule = {"keep_days": keep_days, "keep_last": keep_last}
    async with transfer.job(settings) as (services, progress):
        ctx, copying = session.context(), services.copying
        if dry_run:
            pruned = await asyncio.to_thread(
                pruning.find_old, target, copying.keys, now=ctx.now, **rule
            )
        else:
            pruned = await pruning.prune(ctx, copying, target, progress=progress, **rule)
    if output.shown_as_json(ArchiveList.of_all(pruned.removed)):
        return
    for one in pruned.removed:
        output.show_line(one.name)
    done = "would be removed" if dry_run else "removed"
    output.note(f"{len(pruned.removed)} of {pruned.total_count} archives {done}.")


@group.command("restore")
async def restore(
    archive: Archive,
    *,
    name: Annotated[
        str | None, typer.Option("--as", metavar="NAME", help="Restore as a new tenant.")
    ] = None,
    replaced: Annotated[
        str | None,
        typer.Option(
            "--replace",
            metavar="TENANT",
            autocompletion=tenant_names,
            help="Restore in place of this tenant. Its old database is kept until "
            "`tenantry backup confirm`.",
        ),
    ] = None,
    folder: Place = None,
    server: Annotated[
        str | None,
        typer.Option(
            help="The tenant server to use. Default: with --replace, the one that the tenant is "
            "on; else one of the archive's engine."
        ),
    ] = None,
    foreign: Foreign = False,
) -> None:
    """Restore a tenant from an archive, completely or not at all.

    Without --as and --replace, a deleted tenant comes back with its id, its name and its API keys.
    With --as, the copy has another id and one new API key. All logins end. The tenant is migrated
    to the head; if that fails, it stays suspended.
    """
    if name is not None and replaced is not None:
        raise Misuse("Use either --as NAME or --replace TENANT.")
    if foreign and name is None:
        raise Misuse("A foreign archive is restored as a new tenant: use --as NAME.")
    settings = session.configure()
    with transfer.opened_reader(settings, archive, folder, accepts_foreign=foreign) as reader:
        async with transfer.job(settings) as (services, progress):
            ctx, copying = session.context(), services.copying
            if replaced is not None:
                tenant = await find_tenant(services.catalog, replaced)
                restored = await replacing.replace(
                    ctx, copying, reader, tenant, server_name=server, progress=progress
                )
            else:
                restored = await restoring.restore(
                    ctx, copying, reader, name=name, server_name=server, progress=progress
                )
    show_restored(restored)
    if replaced is not None and not output.wants_json():
        output.note(
            f"The old database is kept. `tenantry backup confirm {restored.tenant.id}` drops it."
        )


@group.command("confirm")
async def confirm(tenant: options.Tenant) -> None:
    """Drop the old database of a tenant that was restored with --replace."""
    async with transfer.job(session.configure()) as (services, _):
        tenant_id = parse_id(tenant) or (await find_tenant(services.catalog, tenant)).id
        count = await replacing.confirm(session.context(), services.copying, tenant_id)
    output.show_done(f"Dropped {count} database{'s' * (count > 1)}.")


@group.command("cancel")
async def cancel(
    job: Annotated[str, typer.Argument(help="The id of a job: see `tenantry backup jobs --json`.")],
) -> None:
    """Cancel a queued or running job of any process: what it has begun is removed."""
    job_id = read_id(job, JobNotFound)
    async with session.opened() as services:
        await services.queue.cancel(session.context(), job_id)
    output.show_done("The job is being cancelled.")


async def _create(
    services: Services,
    progress: Progress,
    *,
    target: Target,
    names: list[str],
    where: str | None,
) -> tuple[list[Job], list[TenantFailure]]:
    """Back up the tenants *names*, those that *where* selects, or everything.

    Return the jobs, and what failed and why.
    """
    ctx, copying = session.context(), services.copying
    chosen = [await find_tenant(services.catalog, name) for name in names]
    made: list[Job] = []
    failed: list[TenantFailure] = []
    places = asyncio.Semaphore(CONCURRENT)

    async def back_up(tenant: Tenant) -> None:
        async with places:
            try:
                made.append(
                    await creating.back_up(
                        ctx, copying, tenant, target, progress=Progress(total=progress)
                    )
                )
            except TenantryError as error:
                failed.append(TenantFailure(tenant.name, error.message))

    if not names:
        if where is None:
            catalog = Progress(total=progress)
            made.append(await creating.back_up(ctx, copying, None, target, progress=catalog))
        chosen = await every_tenant(copying, where=where)
    if len(chosen) == 1 and names:  # its error is the result of the command
        return [await creating.back_up(ctx, copying, chosen[0], target, progress=progress)], []
    async with asyncio.TaskGroup() as tasks:
        for tenant in chosen:
            tasks.create_task(back_up(tenant))
    return made, failed


def _show_made(made: list[Job], failed: list[TenantFailure]) -> None:
    if not output.shown_as_json(JobList([JobResponse.of(job) for job in made], failed)):
        for job in made:
            output.show_line(str(job.archive))
    for one in failed:
        output.note(f"Not backed up: {one.tenant_name}: {one.error}")
    if failed:
        raise typer.Exit(ExitStatus.TENANTS_FAILED)
