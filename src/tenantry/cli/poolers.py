"""Check of the doctor: connection poolers between this machine and PostgreSQL."""

import psycopg

from tenantry.cli.findings import Finding, State
from tenantry.db.poolers import Pooler, find_pooler
from tenantry.db.urls import sqlite_path
from tenantry.settings import Settings

ADVICE = (
    "Set pool_mode = session; or upgrade PgBouncer to 1.21 or newer and set "
    "max_prepared_statements = 200."
)


async def check_poolers(settings: Settings) -> list[Finding]:
    """Return a finding for each URL that leads to a pooler."""
    urls = {"catalog": settings.catalog}
    urls |= {f"tenant server {name}": server.address for name, server in settings.servers.items()}
    findings = []
    for name, url in urls.items():
        if sqlite_path(url) is not None:
            continue
        try:
            pooler = await find_pooler(url, timeout_seconds=settings.connect_timeout_s)
        except psycopg.Error:
            continue  # the checks of the catalog and of the servers report it
        if pooler is not None:
            findings.append(_finding(f"pooler of {name}", pooler))
    return findings


def _finding(check: str, pooler: Pooler) -> Finding:
    if not pooler.is_usable:
        detail = "In transaction mode, it does not keep prepared statements."
        return Finding(check, State.FAILED, detail, ADVICE)
    mode = (
        "Transaction mode, with prepared statements." if pooler.shares_sessions else "Session mode."
    )
    return Finding(check, State.OK, mode)
