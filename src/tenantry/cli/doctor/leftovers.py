"""Checks of the doctor: what is left for an operator, or for a process that cleans up."""

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from uuid import UUID

from tenantry.backup import dumps
from tenantry.catalog import deleted_tenants, jobs, owned_databases, tenant_counts, tenant_list
from tenantry.catalog.database import Catalog
from tenantry.catalog.job_states import JobState
from tenantry.catalog.jobs import JobNotFound
from tenantry.catalog.tenant_counts import Filters
from tenantry.cli.doctor.findings import NAMES_SHOWN_MAX, Finding, State, first_of
from tenantry.cli.printing import output
from tenantry.db.copying import replication
from tenantry.db.copying.replication import PREFIX
from tenantry.db.factory import open_tenant_server
from tenantry.db.servers import Server
from tenantry.db.urls import sqlite_path
from tenantry.fleet.templates import TEMPLATE, prefix_of
from tenantry.kit import postgres_urls
from tenantry.kit.errors import Unavailable
from tenantry.kit.pages import Window
from tenantry.kit.server_settings import TenantServer
from tenantry.settings import Settings

DATABASES_SHOWN_MAX = 20
OPEN = {JobState.QUEUED.value, JobState.RUNNING.value, JobState.DROPPING.value}
END_OF_TIME = datetime.max.replace(tzinfo=UTC)


async def check_leftovers(settings: Settings, catalog: Catalog) -> list[Finding]:
    """Return findings about unfinished jobs, read-only and deleted tenants, and their counts.

    Raises:
        DatabaseUnavailable: The catalog cannot be reached.
    """
    return [
        *await _check_jobs(catalog),
        *await _check_read_only(catalog),
        *await _check_deleted(settings, catalog),
        *await _check_counts(catalog),
    ]


async def check_slots(settings: Settings, catalog: Catalog) -> list[Finding]:
    """Return a finding for each slot of a move that does not run."""
    findings = []
    for name, server in _each_server(settings):
        if dumps.engine_of(server.admin_address) != dumps.POSTGRESQL:
            continue
        try:
            async with dumps.connected(server.admin_address) as raw:
                slots = await replication.left(raw)
        except Unavailable:
            continue  # the check of the server reports it
        for slot, database in slots:
            if not await _is_open(catalog, slot):
                findings.append(_slot_finding(name, slot, database))
    return findings


def _each_server(settings: Settings) -> Iterable[tuple[str, TenantServer]]:
    """Return each server once, under the first of its names in the settings."""
    found: dict[object, tuple[str, TenantServer]] = {}
    for name, one in settings.servers.items():
        place: object = sqlite_path(one.admin_address)
        if place is None:
            parts = postgres_urls.parse(one.admin_address)
            place = parts.user, parts.servers
        found.setdefault(place, (name, one))
    return found.values()


async def _check_jobs(catalog: Catalog) -> list[Finding]:
    left = await jobs.count_left(catalog)
    findings = []
    if left.abandoned:
        detail = f"{left.abandoned:,} unfinished, and their processes are dead."
        advice = (
            "A serving process removes what they have begun within 10 s: start one. "
            "`tenantry backup jobs` lists them."
        )
        findings.append(Finding("jobs", State.WARNING, detail, advice))
    if left.kept:
        detail = f"{left.kept:,} old databases of restored tenants are kept."
        advice = "Check the tenants, and drop them with `tenantry backup confirm TENANT`."
        findings.append(Finding("kept databases", State.WARNING, detail, advice))
    return findings


async def _check_read_only(catalog: Catalog) -> list[Finding]:
    page = await tenant_list.page(
        catalog, Window(1, NAMES_SHOWN_MAX + 1), filters=Filters(is_read_only=True)
    )
    if not page.items:
        return []
    names = first_of([one.name for one in page.items])
    detail = f"{page.total_count:,} reject writes and are not migrated: {names}."
    advice = "If no move or restore needs it: `tenantry tenant activate TENANT`."
    return [Finding("read-only tenants", State.WARNING, detail, advice)]


async def _check_counts(catalog: Catalog) -> list[Finding]:
    wrong = await tenant_counts.count_wrong(catalog)
    if not wrong:
        return []
    detail = f"{wrong:,} counts or names of the list are wrong: runs can leave out tenants."
    advice = f"Stop every process. In one transaction on the catalog, run: {tenant_counts.REBUILD}"
    return [Finding("tenant counts", State.FAILED, detail, advice)]


async def _check_deleted(settings: Settings, catalog: Catalog) -> list[Finding]:
    oldest = await deleted_tenants.expired(catalog, before=END_OF_TIME, limit=1)
    if not oldest or oldest[0].deleted_at is None:
        return []
    count = (await deleted_tenants.page(catalog, Window(1, 1))).total_count
    ends_at = oldest[0].deleted_at + timedelta(days=settings.deleted_days)
    detail = f"{count:,} can be undeleted; the first one until {output.minute(ends_at)} UTC."
    return [Finding("deleted tenants", State.OK, detail)]


async def _is_open(catalog: Catalog, slot: str) -> bool:
    try:
        return (await jobs.get(catalog, UUID(slot.removeprefix(PREFIX)))).state in OPEN
    except (JobNotFound, ValueError):
        return False


def _slot_finding(server: str, slot: str, database: str) -> Finding:
    return Finding(
        f"replication slot {server}",
        State.WARNING,
        f"{slot} is of a move that has ended: the server keeps its whole log since then.",
        f"In the database {database}, run: SELECT pg_drop_replication_slot('{slot}'); "
        f"DROP PUBLICATION IF EXISTS {slot};",
    )


async def check_unowned(settings: Settings, catalog: Catalog) -> list[Finding]:
    """Return a finding for each server with databases of this catalog that nothing uses.

    Only databases with generated names, which Tenantry's role owns, are counted.

    Raises:
        DatabaseUnavailable: The catalog cannot be reached.
    """
    await catalog.cache.check_epoch()
    findings = await _check_unfinished(catalog)
    for name, one in _each_server(settings):
        server = open_tenant_server(settings, one)
        try:
            found = await server.own_names()
            # Read later: what a process creates in the meantime is listed before it exists.
            found -= await owned_databases.names(catalog)
            if found:
                found -= await server.missing(found)  # what was dropped in the meantime
        except Unavailable:
            continue  # the check of the server reports it
        findings += _unknown_findings(name, server, found, prefix_of(catalog.cache.catalog_id))
    return findings


async def _check_unfinished(catalog: Catalog) -> list[Finding]:
    left = await owned_databases.unfinished(catalog, limit=DATABASES_SHOWN_MAX + 1)
    if not left:
        return []
    shown = first_of(
        [f"{one.database_name} on {one.server_name}" for one in left], DATABASES_SHOWN_MAX
    )
    return [
        Finding(
            "unfinished tenants",
            State.WARNING,
            f"Their creation or removal was interrupted, and their databases are left: {shown}.",
            "A serving process removes them within 10 s: start one. If they stay, its log says why "
            "(`tenant not cleared yet`).",
        )
    ]


def _unknown_findings(
    name: str, server: Server, found: set[str], own_templates: str
) -> list[Finding]:
    """Return a finding about the databases *found*, which this catalog does not know."""
    check = f"unknown databases {name}"
    templates = sorted(one for one in found if one.startswith(TEMPLATE))
    foreign = [one for one in templates if not one.startswith(own_templates)]
    unknown = sorted(found.difference(templates))
    if not unknown:
        return []
    if foreign:
        detail = (
            f"{len(unknown):,} are of no tenant and no job of this catalog. They can be those of "
            f"another catalog, which uses this server, too: {foreign[0]} is its template."
        )
        return [Finding(check, State.OK, detail)]
    shown = first_of(unknown, DATABASES_SHOWN_MAX)
    commands = " ".join(server.removal(one) for one in unknown[:DATABASES_SHOWN_MAX])
    return [
        Finding(
            check,
            State.WARNING,
            f"{len(unknown):,} are of no tenant and no job: {shown}. An interrupted creation can "
            "have left them; so can tenants that a restored catalog does not have.",
            f"If no other catalog uses this server, and their data are not needed: {commands}",
        )
    ]
