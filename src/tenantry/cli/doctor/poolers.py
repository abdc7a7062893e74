"""Check of the doctor: connection poolers between this machine and PostgreSQL."""

import asyncio

import psycopg

from tenantry.cli.doctor.findings import Finding, State
from tenantry.db.postgres.poolers import Pooler, count_served, find_pooler
from tenantry.db.postgres_server import POSTGRESQL_CONNECTIONS_MAX
from tenantry.db.urls import sqlite_path
from tenantry.settings import Settings

# A pooler lets a client wait for 120 s by default if its pool is used up.
CHECK_SECONDS_MAX = 10.0
ADVICE = (
    "Set pool_mode = session; or upgrade PgBouncer to 1.21 or newer and set "
    "max_prepared_statements = 200."
)
POOL_ADVICE = (
    "Set default_pool_size to the connections to one database (in session mode: for the catalog, "
    "TENANTRY_CATALOG_CONNECTIONS) times the number of processes; max_client_conn to all of them."
)


async def check_poolers(settings: Settings) -> list[Finding]:
    """Return a finding for each URL that leads to a pooler.

    Its pool of one database must have the connections that one process can open to that.
    """
    urls = {"catalog": (settings.catalog, settings.catalog_connections)}
    for name, server in settings.servers.items():
        most = min(settings.connections_of(server), POSTGRESQL_CONNECTIONS_MAX)
        urls[f"tenant server {name}"] = (server.address, most)
    seconds, findings = settings.connect_timeout_s, []
    for name, (url, needed) in urls.items():
        if sqlite_path(url) is not None:
            continue
        check, served = f"pooler of {name}", needed
        try:
            async with asyncio.timeout(CHECK_SECONDS_MAX):
                pooler = await find_pooler(url, timeout_seconds=seconds)
                if pooler is not None and pooler.is_usable:
                    served = await count_served(url, needed, timeout_seconds=seconds)
        except TimeoutError:
            detail = f"No answer in {CHECK_SECONDS_MAX:.0f} s: its pool can be used up."
            findings.append(Finding(check, State.FAILED, detail, POOL_ADVICE))
            continue
        except psycopg.Error:
            continue  # the checks of the catalog and of the servers report it
        if pooler is not None:
            findings.append(_finding(check, pooler, needed, served))
    return findings


def _finding(check: str, pooler: Pooler, needed: int, served: int) -> Finding:
    if served < needed:
        detail = f"Its pool serves {served} of the {needed} connections of one process."
        return Finding(check, State.FAILED, detail, POOL_ADVICE)
    if not pooler.is_usable:
        detail = "In transaction mode, it does not keep prepared statements."
        return Finding(check, State.FAILED, detail, ADVICE)
    mode = (
        "Transaction mode, with prepared statements." if pooler.shares_sessions else "Session mode."
    )
    return Finding(check, State.OK, mode)
