"""Checks of the doctor: programs, collations and poolers of PostgreSQL."""

import asyncio

import psycopg

from tenantry.backup import dumps
from tenantry.catalog import tenants
from tenantry.catalog.database import Catalog
from tenantry.cli.doctor.findings import Finding, State, first_of
from tenantry.db.postgres import collations
from tenantry.db.postgres.poolers import Pooler, count_served, find_pooler
from tenantry.db.postgres.tools import DUMP, RESTORE, PostgresTools, ToolMissing, ToolTooOld
from tenantry.db.postgres_server import POSTGRESQL_CONNECTIONS_MAX
from tenantry.db.urls import sqlite_path
from tenantry.kit.errors import Unavailable
from tenantry.settings import Settings

PROGRAMS = "pg_dump, pg_restore"
COLLATION_ADVICE = (
    "ICU or libc of the server was upgraded, and indexes of texts can miss rows: run "
    "`tenantry collation refresh`."
)
# A pooler lets a client wait for 120 s by default if its pool is used up.
CHECK_SECONDS_MAX = 10.0
POOLER_ADVICE = (
    "Set pool_mode = session; or upgrade PgBouncer to 1.21 or newer and set "
    "max_prepared_statements = 200."
)
POOL_ADVICE = (
    "Set default_pool_size to the connections to one database (in session mode: for the catalog, "
    "TENANTRY_CATALOG_CONNECTIONS) times the number of processes; max_client_conn to all of them."
)


async def check_client_programs(settings: Settings) -> list[Finding]:
    """Check that the programs are not older than the newest server of tenants on PostgreSQL."""
    majors = {}
    for name, server in settings.servers.items():
        if sqlite_path(server.address) is not None:
            continue
        try:
            async with dumps.connected(server.address) as raw:
                majors[name] = int(await raw.fetchval("SHOW server_version_num")) // 10_000
        except Unavailable:
            continue  # the check of the server reports it
    if not majors:
        return []
    name = max(majors, key=majors.__getitem__)
    return [await asyncio.to_thread(_check_programs, settings, name, majors[name])]


def _check_programs(settings: Settings, server_name: str, major: int) -> Finding:
    tools = PostgresTools(settings.pg_tools)
    needed = f"backups of the server {server_name} need version {major} or newer"
    advice = (
        f"Install the client programs of PostgreSQL {major} (Debian: postgresql-client-{major}), "
        "or set TENANTRY_PG_TOOLS to their folder."
    )
    try:
        for program in (DUMP, RESTORE):
            tools.find(program, server_major=major)
    except ToolMissing:
        return Finding(PROGRAMS, State.WARNING, f"Not installed: {needed}.", advice)
    except ToolTooOld as error:
        found = error.message.partition(":")[0]
        return Finding(PROGRAMS, State.WARNING, f"{found}: {needed}.", advice)
    return Finding(
        PROGRAMS, State.OK, f"Not older than the server {server_name} (version {major})."
    )


async def check_collations(settings: Settings, catalog: Catalog) -> list[Finding]:
    """Return a finding for the catalog, and for each server, with outdated databases."""
    outdated = {"catalog": await _outdated(settings.catalog, None)}
    for name, server in settings.servers.items():
        names = await tenants.database_names(catalog, server_name=name)
        outdated[f"tenant server {name}"] = await _outdated(server.admin_address, names)
    return [
        Finding(
            f"collations of {where}",
            State.WARNING,
            f"{len(names):,} databases are outdated: {first_of(names)}.",
            COLLATION_ADVICE,
        )
        for where, names in outdated.items()
        if names
    ]


async def _outdated(url: str, names: set[str] | None) -> list[str]:
    if sqlite_path(url) is not None:
        return []
    try:
        async with dumps.connected(url) as raw:
            own = await raw.fetchval("SELECT current_database()")
            return await collations.find_outdated(raw, [own] if names is None else names)
    except Unavailable:
        return []  # the checks of the catalog and of the servers report it


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
            findings.append(_pooler_finding(check, pooler, needed, served))
    return findings


def _pooler_finding(check: str, pooler: Pooler, needed: int, served: int) -> Finding:
    if served < needed:
        detail = f"Its pool serves {served} of the {needed} connections of one process."
        return Finding(check, State.FAILED, detail, POOL_ADVICE)
    if not pooler.is_usable:
        detail = "In transaction mode, it does not keep prepared statements."
        return Finding(check, State.FAILED, detail, POOLER_ADVICE)
    mode = (
        "Transaction mode, with prepared statements." if pooler.shares_sessions else "Session mode."
    )
    return Finding(check, State.OK, mode)
