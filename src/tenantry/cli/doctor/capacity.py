"""Checks of the doctor: disk space, tenant databases, and connections of PostgreSQL servers."""

import shutil
from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path

from pydantic import SecretStr

from tenantry.catalog import tenant_counts, tenants, workers
from tenantry.catalog.database import Catalog
from tenantry.cli.doctor.findings import Finding, State, first_of
from tenantry.db.factory import open_tenant_server
from tenantry.db.postgres_server import POSTGRESQL_CONNECTIONS_MAX
from tenantry.db.urls import sqlite_path
from tenantry.kit import postgres_urls
from tenantry.kit.errors import Unavailable
from tenantry.kit.server_settings import TenantServer
from tenantry.kit.sizes import mark_of
from tenantry.settings import Settings

FREE_BYTES_WARNING = 2**30
FREE_BYTES_FAILED = 2**26
# Of `max_tenants`, from where on the doctor warns.
FILL_WARNING = 0.9
CONNECTIONS_ADVICE = (
    "Lower TENANTRY_TENANT_CONNECTIONS and TENANTRY_CATALOG_CONNECTIONS, or raise max_connections "
    "of the server, and the CONNECTION LIMIT of the role if it has one."
)


def check_space(settings: Settings) -> list[Finding]:
    """Return a finding for each disk that holds files of Tenantry."""
    folders = {settings.data_dir: "disk space"}
    catalog = sqlite_path(settings.catalog)
    if catalog is not None:
        folders.setdefault(catalog.parent, "disk space of the catalog")
    for name, server in settings.servers.items():
        folder = sqlite_path(server.address)
        if folder is not None:
            folders.setdefault(folder, f"disk space of tenant server {name}")
    disks: dict[int, Finding] = {}
    for folder, check in folders.items():
        existing = nearest(folder)
        usage = shutil.disk_usage(existing)
        rejected_below = mark_of(settings.free_space_mark).bytes_in(usage.total)
        found = space_finding(check, existing, usage.free, rejected_below)
        disks.setdefault(existing.stat().st_dev, found)
    return list(disks.values())


def space_finding(check: str, folder: Path, free_bytes: int, mark_bytes: int = 0) -> Finding:
    """Return the finding for a disk with *free_bytes*; below *mark_bytes*, content is rejected."""
    detail = f"{free_bytes / 2**30:,.1f} GiB are free."
    advice = f"Free space on the disk of {folder.absolute()}."
    if free_bytes < FREE_BYTES_FAILED:
        return Finding(check, State.FAILED, f"The disk is full: {detail}", advice)
    if free_bytes < mark_bytes:
        detail = f"Content is rejected, because the disk is nearly full: {detail}"
        return Finding(check, State.FAILED, detail, advice)
    if free_bytes < FREE_BYTES_WARNING:
        return Finding(check, State.WARNING, f"The disk is nearly full: {detail}", advice)
    return Finding(check, State.OK, detail)


def check_tenant_size(settings: Settings) -> list[Finding]:
    """Warn of tenants without a size limit on PostgreSQL, whose free space cannot be measured."""
    servers = settings.servers.items()
    found = [name for name, server in servers if sqlite_path(server.address) is None]
    if settings.tenant_size_max or not found:
        return []
    detail = f"A tenant without a limit of its own can fill the disk of {', '.join(found)}."
    advice = "Set TENANTRY_TENANT_SIZE_MAX."
    return [Finding("size of tenants", State.WARNING, detail, advice)]


def nearest(path: Path) -> Path:
    """Return *path*, or its nearest existing parent."""
    return next(one for one in (path, *path.absolute().parents) if one.exists())


async def check_databases(settings: Settings, catalog: Catalog) -> list[Finding]:
    """Check that the database of every tenant exists."""
    findings = []
    for name, server in settings.servers.items():
        try:
            expected = await tenants.database_names(catalog, server_name=name)
            missing = sorted(await open_tenant_server(settings, server).missing(expected))
        except Unavailable:
            continue  # the check of the server reports it
        if not missing:
            continue
        detail = f"{len(missing):,} of {len(expected):,} are missing: {first_of(missing)}."
        advice = "Run `tenantry backup restore-missing`, or suspend and delete their tenants."
        findings.append(Finding(f"tenant databases {name}", State.FAILED, detail, advice))
    return findings


async def check_fill(settings: Settings, catalog: Catalog) -> list[Finding]:
    """Return how many databases of tenants each server has, and its share of new tenants."""
    counts = await tenant_counts.by_server(catalog)
    return [
        _fill_finding(name, server, counts.get(name, 0))
        for name, server in settings.servers.items()
    ]


def _fill_finding(name: str, server: TenantServer, count: int) -> Finding:
    check, most = f"tenants on {name}", server.max_tenants
    share = f"weight {server.weight}" if server.weight else "new tenants only by name"
    if most is None:
        return Finding(check, State.OK, f"{count:,}, {share}.")
    detail = f"{count:,} of at most {most:,}, {share}."
    if not server.weight or count < most * FILL_WARNING:
        return Finding(check, State.OK, detail)
    advice = "Raise its max_tenants in TENANTRY_TENANT_SERVERS, or add a server with a weight."
    return Finding(check, State.WARNING, detail, advice)


async def check_connections(settings: Settings) -> list[Finding]:
    """Compare the connections of one process with the limit of each PostgreSQL server."""
    findings = []
    for host, (count, server) in connections_needed(settings).items():
        try:
            allowed = await open_tenant_server(settings, server).connections_allowed()
        except Unavailable:
            continue  # the checks of the catalog and of the servers report it
        findings.append(_connections_finding(host, count, allowed))
    return findings


def connections_needed(settings: Settings) -> dict[str, tuple[int, TenantServer]]:
    """Return how many connections one process can open to each host, and a URL to ask it."""
    needed: dict[str, int] = defaultdict(int)
    servers: dict[str, TenantServer] = {}
    catalog = TenantServer(url=SecretStr(settings.catalog))
    needs = [(catalog, settings.catalog_connections)]
    for server in settings.servers.values():
        migrated = settings.concurrency_of(server) + settings.reads_max
        needs.append((server, settings.connections_of(server) + migrated))
    for server, count in needs:
        if sqlite_path(server.address) is None:
            hosts = postgres_urls.parse(server.admin_address).servers
            host = ",".join(f"{name}:{port}" for name, port in hosts) or "the local server"
            needed[host] += count
            servers[host] = server
    return {host: (count, servers[host]) for host, count in needed.items()}


def _connections_finding(host: str, needed: int, allowed: int) -> Finding:
    check = f"connections to {host}"
    if needed <= allowed:
        detail = f"One process opens at most {needed}; the server allows the role {allowed} in all."
        return Finding(check, State.OK, detail)
    detail = f"One process can open {needed}; the server allows the role {allowed} in all."
    return Finding(check, State.WARNING, detail, CONNECTIONS_ADVICE)


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
    shown = first_of([f"{name} allows {limited[name]} of {needed[name]}" for name in short])
    advice = "Raise the limit: ALTER DATABASE … CONNECTION LIMIT -1. Requests wait, and then fail."
    return [Finding(f"connection limit of {of}", State.WARNING, f"{shown}.", advice)]
