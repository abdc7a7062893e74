"""Checks of the doctor: what is left for an operator, or for a process that cleans up."""

from datetime import UTC, datetime, timedelta
from uuid import UUID

from tenantry.backup import dumps
from tenantry.catalog import deleted_tenants, jobs, tenant_counts, tenant_list
from tenantry.catalog.database import Catalog
from tenantry.catalog.job_states import JobState
from tenantry.catalog.jobs import JobNotFound
from tenantry.catalog.tenant_counts import Filters
from tenantry.cli.doctor.findings import Finding, State
from tenantry.cli.printing import output
from tenantry.db.copying import replication
from tenantry.db.copying.replication import PREFIX
from tenantry.kit.errors import Unavailable
from tenantry.kit.pages import Window
from tenantry.settings import Settings

NAMES_SHOWN_MAX = 3
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
    for name, server in settings.servers.items():
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
        catalog, Window(1, NAMES_SHOWN_MAX), filters=Filters(is_read_only=True)
    )
    if not page.items:
        return []
    names = ", ".join(one.name for one in page.items)
    more = ", …" if page.total_count > len(page.items) else ""
    detail = f"{page.total_count:,} reject writes and are not migrated: {names}{more}."
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
