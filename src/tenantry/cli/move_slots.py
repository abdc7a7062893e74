"""Check of the doctor: replication slots of moves that have ended, which keep a server's log."""

from uuid import UUID

from tenantry.catalog import jobs
from tenantry.catalog.database import Catalog
from tenantry.catalog.jobs import JobNotFound, JobState
from tenantry.cli.findings import Finding, State
from tenantry.db.replication import PREFIX
from tenantry.kit.errors import Unavailable
from tenantry.services import open_tenant_server
from tenantry.settings import Settings

OPEN = {JobState.QUEUED.value, JobState.RUNNING.value, JobState.DROPPING.value}


async def check_slots(settings: Settings, catalog: Catalog) -> list[Finding]:
    """Return a finding for each slot of a move that does not run."""
    findings = []
    for name, server in settings.servers.items():
        try:
            followed = await open_tenant_server(settings, server).followed()
        except Unavailable:
            continue  # the check of the server reports it
        for slot, database in followed:
            if not await _is_used(catalog, slot):
                findings.append(_finding(name, slot, database))
    return findings


async def _is_used(catalog: Catalog, slot: str) -> bool:
    try:
        return (await jobs.get(catalog, UUID(slot.removeprefix(PREFIX)))).state in OPEN
    except (JobNotFound, ValueError):
        return False


def _finding(server: str, slot: str, database: str) -> Finding:
    return Finding(
        f"replication slot {server}",
        State.WARNING,
        f"{slot} is of a move that has ended: the server keeps its whole log since then.",
        f"In the database {database}, run: SELECT pg_drop_replication_slot('{slot}'); "
        f"DROP PUBLICATION IF EXISTS {slot};",
    )
