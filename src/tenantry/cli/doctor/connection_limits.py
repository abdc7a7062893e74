"""Checks of the doctor: limits of connections that all processes of Tenantry share."""

from collections.abc import Mapping

from pydantic import SecretStr

from tenantry.catalog import tenants, workers
from tenantry.catalog.database import Catalog
from tenantry.cli.doctor.capacity import CONNECTIONS_ADVICE, NAMES_SHOWN_MAX, connections_needed
from tenantry.cli.doctor.findings import Finding, State
from tenantry.db.factory import open_tenant_server
from tenantry.db.postgres_server import POSTGRESQL_CONNECTIONS_MAX
from tenantry.db.urls import sqlite_path
from tenantry.kit import postgres_urls
from tenantry.kit.errors import Unavailable
from tenantry.kit.server_settings import TenantServer
from tenantry.settings import Settings


async def check_limits(settings: Settings, catalog: Catalog) -> list[Finding]:
    """Compare what the processes that run can open with the limits of servers and databases.

    Raises:
        DatabaseUnavailable: The catalog cannot be reached.
    """
    processes = max(1, len(await workers.published(catalog)))
    findings = []
    for host, (count, server) in connections_needed(settings).items():
        try:
            allowed = await open_tenant_server(settings, server).connections_allowed()
        except Unavailable:
            continue  # the checks of the catalog and of the servers report it
        if count <= allowed < count * processes:
            detail = f"{processes} processes can open {count * processes:,}; the server allows the "
            detail += f"role {allowed:,} in all."
            check = f"connections of all processes to {host}"
            findings.append(Finding(check, State.WARNING, detail, CONNECTIONS_ADVICE))
    return findings + await _check_databases(settings, catalog, processes)


async def _check_databases(settings: Settings, catalog: Catalog, processes: int) -> list[Finding]:
    findings = []
    if sqlite_path(settings.catalog) is None:
        server = TenantServer(url=SecretStr(settings.catalog))
        name = postgres_urls.parse(settings.catalog).database or ""
        needed = {name: settings.catalog_connections * processes}
        findings += await _limits(settings, "the catalog", server, needed)
    for name, server in settings.servers.items():
        known = await tenants.database_names(catalog, server_name=name)
        # One more for a migration.
        needed = dict.fromkeys(known, POSTGRESQL_CONNECTIONS_MAX * processes + 1)
        findings += await _limits(settings, f"tenants on {name}", server, needed)
    return findings


async def _limits(
    settings: Settings, of: str, server: TenantServer, needed: Mapping[str, int]
) -> list[Finding]:
    """Return a finding if databases of *server* allow fewer connections than are *needed*."""
    try:
        limited = await open_tenant_server(settings, server).limited()
    except Unavailable:
        return []  # the checks of the catalog and of the servers report it
    short = sorted(name for name, most in limited.items() if most < needed.get(name, 0))
    if not short:
        return []
    shown = ", ".join(
        f"{name} allows {limited[name]} of {needed[name]}" for name in short[:NAMES_SHOWN_MAX]
    )
    more = ", …" if short[NAMES_SHOWN_MAX:] else ""
    advice = "Raise the limit: ALTER DATABASE … CONNECTION LIMIT -1. Requests wait, and then fail."
    return [Finding(f"connection limit of {of}", State.WARNING, f"{shown}{more}.", advice)]
