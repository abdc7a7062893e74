"""The checks of ``tenantry doctor``. They leave everything unchanged."""

import asyncio
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tenantry.access.signing import SigningKeys, WrongSecretKey, read_secret_file
from tenantry.catalog import stream as catalog_stream
from tenantry.catalog import workers
from tenantry.catalog.database import Catalog
from tenantry.cli.doctor.capacity import (
    check_connections,
    check_databases,
    check_fill,
    check_limits,
    check_space,
    check_tenant_size,
    nearest,
)
from tenantry.cli.doctor.configuration import check_configuration
from tenantry.cli.doctor.exposure import check_modes, check_public, check_roles
from tenantry.cli.doctor.findings import Finding, State
from tenantry.cli.doctor.leftovers import check_leftovers, check_slots, check_unowned
from tenantry.cli.doctor.postgres import check_client_programs, check_collations, check_poolers
from tenantry.db.factory import open_tenant_server
from tenantry.db.postgres_server import BehindPooler
from tenantry.db.sessions import DatabaseUnavailable
from tenantry.db.urls import sqlite_path
from tenantry.kit.clock import utc_now
from tenantry.kit.ids import new_id
from tenantry.kit.release import VERSION
from tenantry.kit.server_settings import TenantServer
from tenantry.migration.environment import read_environment
from tenantry.migration.errors import explain
from tenantry.migration.migrator import Migrator, TimeLimits
from tenantry.migration.project import BadProject, find_project
from tenantry.migration.schema_state import NoVersion
from tenantry.migration.sql_files import is_sql_folder
from tenantry.migration.streams import BadStream, RevisionUnreadable, Stream, Streams
from tenantry.settings import Settings
from tenantry.tenant import stream as tenant_stream

PROBE_BYTES = 4096
CLOCK_DIFFERENCE_MS_MAX = 2_000
CHECK_SECONDS_MAX = 15.0
CATALOG_ADVICE = (
    "Check TENANTRY_CATALOG_URL, and that the server accepts connections from this machine."
)
ADMIN_URL_ADVICE = (
    'Set it in TENANTRY_TENANT_SERVERS: {"default": {"url": "…", "admin_url": "…"}}, with the URL '
    "of the PostgreSQL server itself."
)
SERVER_ADVICE = "Check its URL, and that its role may create databases."


async def examine(settings: Settings) -> list[Finding]:
    """Run every check and return the findings."""
    findings = [
        Finding("release", State.OK, VERSION),
        Finding("settings", State.OK, "Every one is known and valid."),
        *check_configuration(settings),
        _check_folder("data folder", settings.data_dir),
    ]
    findings += await asyncio.to_thread(check_modes, settings)
    findings += await asyncio.to_thread(check_space, settings)
    findings += await _check_catalog(settings)
    findings += await _check_tenant_servers(settings)
    findings += await check_poolers(settings)
    findings += await check_roles(settings)
    findings += await check_client_programs(settings)
    findings += check_tenant_size(settings)
    findings += await check_connections(settings)
    findings += await asyncio.to_thread(_check_revisions, settings)
    return findings


def _check_folder(check: str, folder: Path) -> Finding:
    existing = nearest(folder)
    if not existing.is_dir():
        advice = "Set the path of a folder."
        return Finding(check, State.FAILED, f"{existing} is not a folder.", advice)
    try:
        # Permissions are not enough: the disk may be full, or mounted read-only.
        with tempfile.TemporaryFile(dir=existing) as file:
            file.write(bytes(PROBE_BYTES))
            file.flush()
    except OSError as error:
        advice = "Give the user that runs Tenantry write access, and free space on the disk."
        detail = f"{existing} is not writable ({error.strerror})."
        return Finding(check, State.FAILED, detail, advice)
    found = "is writable" if existing == folder else "will be created by the first start"
    return Finding(check, State.OK, f"{folder} {found}.")


async def _check_catalog(settings: Settings) -> list[Finding]:
    path = sqlite_path(settings.catalog)
    if path is not None and not path.exists():
        folder = _check_folder("catalog", path.parent)
        if folder.state is State.FAILED:
            return [folder]
        return [Finding("catalog", State.OK, f"{path} will be created by the first start.")]
    finding = await _check_catalog_revision(settings)
    if finding.state is not State.OK:
        return [finding]
    catalog = Catalog(
        settings.catalog,
        connections_max=1,
        timeout_seconds=settings.connect_timeout_s,
        synchronous=settings.sqlite_synchronous,
    )
    try:
        return [
            finding,
            await _check_keys(settings, catalog),
            *await _check_clock(path, catalog),
            *await check_databases(settings, catalog),
            *await check_fill(settings, catalog),
            *await check_public(settings, catalog),
            *await check_collations(settings, catalog),
            *await check_leftovers(settings, catalog),
            *await check_slots(settings, catalog),
            *await check_unowned(settings, catalog),
            *await check_limits(settings, catalog),
        ]
    except DatabaseUnavailable as error:
        return [Finding("catalog", State.FAILED, explain(error), CATALOG_ADVICE)]
    finally:
        await catalog.close()


async def _check_catalog_revision(settings: Settings) -> Finding:
    head = catalog_stream.STREAM.head
    try:
        found = await _position(settings, settings.catalog, Streams(catalog_stream.STREAM))
    except NoVersion:
        advice = "The first start creates its tables. Check that it is the right database."
        return Finding("catalog", State.WARNING, "There is no catalog in the database yet.", advice)
    except Exception as error:  # noqa: BLE001 - any error is a finding
        return Finding("catalog", State.FAILED, explain(error), CATALOG_ADVICE)
    if found < head:
        advice = "The next start migrates it to the head."
        return Finding("catalog", State.WARNING, f"At {found}, the head is {head}.", advice)
    where = "the head" if found == head else f"newer than this code ({head})"
    return Finding("catalog", State.OK, f"At {found}, {where}.")


async def _position(settings: Settings, url: str, streams: Streams) -> str:
    patience = TimeLimits(
        connect_seconds=settings.connect_timeout_s, deadline_seconds=CHECK_SECONDS_MAX, lock_ms=1
    )
    with ThreadPoolExecutor(1) as threads:
        migrator = Migrator(threads, patience)
        await migrator.check_empty(url, streams)
        state = await migrator.read_state(url, streams)
        return state.revision.own


async def _check_keys(settings: Settings, catalog: Catalog) -> Finding:
    advice = "Set the TENANTRY_SECRET_KEY, or restore the file, that the catalog was created with."
    file = settings.data_dir / "secret-key"
    secret = settings.secret_key.get_secret_value()
    if not secret and not file.exists():
        return Finding("signing keys", State.FAILED, f"{file} is missing.", advice)
    try:
        old = settings.secret_key_old.get_secret_value()
        ring = await SigningKeys(catalog, secret or read_secret_file(file), old).ring()
    except WrongSecretKey as error:
        return Finding("signing keys", State.FAILED, error.message, advice)
    except (DatabaseUnavailable, OSError) as error:
        return Finding("signing keys", State.FAILED, explain(error), advice)
    if old:
        detail = f"{len(ring.keys)}, and TENANTRY_SECRET_KEY_OLD is still set."
        advice = "Run `tenantry secret rotate`, and restart every process without the old key."
        return Finding("signing keys", State.WARNING, detail, advice)
    return Finding("signing keys", State.OK, f"{len(ring.keys)}, and the secret key opens them.")


async def _check_clock(path: Path | None, catalog: Catalog) -> list[Finding]:
    if path is not None:  # a file has the clock of this machine
        return []
    difference_ms = await workers.now_ms(catalog) - utc_now().timestamp() * 1000
    detail = f"{abs(difference_ms) / 1000:.1f} s from the clock of the catalog's server."
    if abs(difference_ms) > CLOCK_DIFFERENCE_MS_MAX:
        advice = "Synchronize the clocks of both machines (NTP)."
        return [Finding("clock", State.WARNING, detail, advice)]
    return [Finding("clock", State.OK, detail)]


async def _check_tenant_servers(settings: Settings) -> list[Finding]:
    return [
        await _check_tenant_server(settings, f"tenant server {name}", server)
        for name, server in settings.servers.items()
    ]


async def _check_tenant_server(settings: Settings, check: str, wanted: TenantServer) -> Finding:
    folder = sqlite_path(wanted.address)
    if folder is not None:
        return _check_folder(check, folder)
    server = open_tenant_server(settings, wanted)
    probe = f"tenantry_doctor_{new_id().hex}"
    try:
        async with asyncio.timeout(CHECK_SECONDS_MAX):
            await server.create(probe)
            await server.drop(probe)
    except BehindPooler as error:
        return Finding(check, State.FAILED, error.message, ADMIN_URL_ADVICE)
    except (DatabaseUnavailable, TimeoutError) as error:
        return Finding(check, State.FAILED, explain(error.__cause__ or error), SERVER_ADVICE)
    return Finding(check, State.OK, "Reachable, and its role can create databases.")


def _check_revisions(settings: Settings) -> list[Finding]:
    findings = [_check_stream("revisions", tenant_stream.STREAM, "Install Tenantry again.")]
    if settings.tenant_migrations is not None:
        advice = "TENANTRY_TENANT_MIGRATIONS must be a folder with one line of revisions."
        stream = Stream("user", settings.tenant_migrations)
        findings.append(_check_stream("your revisions", stream, advice))
        findings += _check_project(settings.tenant_migrations, settings.tenant_version_table)
    return findings


def _check_project(folder: Path, version_table: str) -> list[Finding]:
    if is_sql_folder(folder):
        return [Finding("your project", State.OK, "Plain SQL: its *.sql files are the revisions.")]
    try:
        project = find_project(folder)
    except BadProject as error:
        return [Finding("your project", State.FAILED, error.message, "Correct the file.")]
    detail = "No alembic.ini names the folder: every revision below versions/ counts."
    if project.file:
        paths = ", ".join(str(path) for path in project.import_paths) or "nothing"
        detail = f"{project.file}; revisions also import from: {paths}."
    missing = read_environment(folder, version_table)
    return [
        Finding("your project", State.OK, detail),
        *(Finding("your env.py", State.WARNING, one.found, one.consequence) for one in missing),
    ]


def _check_stream(check: str, stream: Stream, advice: str) -> Finding:
    try:
        head, count = stream.head, len(stream.revisions)
    except RevisionUnreadable as error:
        advice = "Correct the file, or what it needs: see docs/howto/install-your-packages.md."
        return Finding(check, State.FAILED, error.message, advice)
    except BadStream as error:
        return Finding(check, State.FAILED, error.message, advice)
    return Finding(check, State.OK, f"{count}, the head is {head}.")
