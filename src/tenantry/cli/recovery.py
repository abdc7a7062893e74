"""``tenantry backup restore-catalog`` and ``restore-missing``: recover a whole installation."""

import asyncio
from typing import Annotated

import typer

from tenantry.backup import recovery, replacing, targets
from tenantry.backup.archive import ArchiveReader
from tenantry.backup.copying import Copying
from tenantry.backup.targets import Stored, Target
from tenantry.catalog.tenants import Tenant
from tenantry.cli import session, transfer
from tenantry.cli.exit_status import ExitStatus
from tenantry.cli.printing import output
from tenantry.db.postgres.tools import PostgresTools
from tenantry.kit.errors import TenantryError
from tenantry.kit.stopping import entered_in_thread, run_in_thread
from tenantry.schemas.backups import RestoredMissing, TenantFailure
from tenantry.work.progress import Progress

Archive = Annotated[
    str,
    typer.Argument(help="An archive: its name in the target, its path, or - for standard input."),
]
Place = Annotated[
    str | None,
    typer.Option(
        "--from",
        metavar="TARGET",
        help="Where the archives are: a folder or s3://bucket/prefix. Default: "
        "TENANTRY_BACKUP_TARGET.",
    ),
]


async def restore_catalog(archive: Archive, *, place: Place = None) -> None:
    """Restore the catalog where there is none: a new machine, or an empty database.

    Then `tenantry backup restore-missing` restores the tenants that it lists.
    """
    settings = session.configure()
    with transfer.opened_reader(settings, archive, place) as reader:
        await recovery.restore_catalog(
            session.context(), settings.catalog, reader, tools=PostgresTools(settings.pg_tools)
        )
    output.show_done(
        "The catalog was restored. `tenantry backup restore-missing` restores its tenants."
    )


async def restore_missing(*, place: Place = None) -> None:
    """Restore every tenant without a database from its newest archive.

    Tenants that have their database are not changed. If a tenant cannot be restored, the others
    are, and the exit status is 1. If an archive is damaged, the one before it is restored, which is
    printed, and the exit status is 1.
    """
    settings = session.configure()
    target = transfer.source_of(settings, place)
    done, failed = 0, []
    async with transfer.job(settings) as (services, progress):
        copying = services.copying
        stored = await asyncio.to_thread(targets.stored, target, copying.keys)
        archives = recovery.archives_by_tenant(stored)
        unusable = [one for one in stored if one.fault is not None]
        if unusable:
            first = unusable[0]
            output.note(
                f"Unusable archives: {len(unusable)}, such as {first.name} ({first.fault}). "
                "Older ones of the same tenants are restored."
            )
        for tenant in await recovery.tenants_without_database(copying):
            is_restored, texts = await _restore(
                copying, tenant, archives.get(tenant.id, []), target, progress
            )
            done += is_restored
            failed += [TenantFailure(tenant.name, text) for text in texts]
    message = f"Restored {done} tenant{'s' * (done != 1)}."
    if not output.shown_as_json(RestoredMissing(message, failed)):
        for one in failed:
            output.note(f"{one.tenant_name}: {one.error}")
        output.show_line(message)
    if failed:
        raise typer.Exit(ExitStatus.TENANTS_FAILED)


async def _restore(
    copying: Copying, tenant: Tenant, archives: list[Stored], target: Target, progress: Progress
) -> tuple[bool, list[str]]:
    """Restore a tenant; return whether it was restored, and what the operator must know."""
    try:
        chosen, damaged = await recovery.undamaged(copying, target, archives)
        async with entered_in_thread(target.reading(chosen.name)) as file:
            reader = await run_in_thread(lambda _stop: ArchiveReader(file, copying.keys))
            restored = await replacing.replace(
                session.context(),
                copying,
                reader,
                tenant,
                server_name=None,
                progress=Progress(total=progress),
            )
    except TenantryError as error:
        return False, [f"It was not restored: {error.message}"]
    except OSError as error:
        return False, [f"It was not restored: {error.strerror}."]
    texts = []
    if damaged:
        texts.append(f"It was restored from an older archive: {damaged[0]} is damaged.")
    if restored.behind is not None:
        texts.append(f"It was restored, and is suspended: {restored.behind}")
    elif not restored.tenant.is_active:
        output.note(f"{tenant.name}: It was restored, and is suspended, as before.")
    return True, texts
