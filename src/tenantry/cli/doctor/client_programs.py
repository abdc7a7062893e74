"""Check of the doctor: the programs of PostgreSQL that backups, copies and moves run."""

import asyncio

from tenantry.backup import dumps
from tenantry.cli.doctor.findings import Finding, State
from tenantry.db.postgres.tools import DUMP, RESTORE, PostgresTools, ToolMissing, ToolTooOld
from tenantry.db.urls import sqlite_path
from tenantry.kit.errors import Unavailable
from tenantry.settings import Settings

CHECK = "pg_dump, pg_restore"


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
    return [await asyncio.to_thread(_check, settings, name, majors[name])]


def _check(settings: Settings, server_name: str, major: int) -> Finding:
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
        return Finding(CHECK, State.WARNING, f"Not installed: {needed}.", advice)
    except ToolTooOld as error:
        found = error.message.partition(":")[0]
        return Finding(CHECK, State.WARNING, f"{found}: {needed}.", advice)
    return Finding(CHECK, State.OK, f"Not older than the server {server_name} (version {major}).")
