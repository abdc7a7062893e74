"""Checks of the doctor: who else can open the files and databases of tenants, and role rights."""

import shlex
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path

from tenantry.backup import dumps, s3
from tenantry.catalog import tenants
from tenantry.catalog.database import Catalog
from tenantry.cli.doctor.findings import Finding, State
from tenantry.cli.serving.server import LOCK_FILE
from tenantry.db.factory import open_tenant_server
from tenantry.db.postgres.roles import read_role
from tenantry.db.sqlite.files import SIDE_FILES
from tenantry.db.urls import sqlite_path
from tenantry.kit import postgres_urls, private
from tenantry.kit.errors import Unavailable
from tenantry.settings import ENV_FILE, Settings

ROLE_ADVICE = (
    "Use a role with LOGIN and CREATEDB alone: ALTER ROLE … NOSUPERUSER NOCREATEROLE, and REVOKE "
    "other roles from it."
)
# Parameters of a URL that name a file with a secret.
SECRET_FILES = ("passfile", "sslkey")
PATHS_MAX = 100_000
"""How many paths below a folder of tenants are checked: this takes about a second."""


def check_modes(settings: Settings) -> list[Finding]:
    """Check that only the owner can open the files of tenants, and those that have secrets."""
    found = [sqlite_path(server.address) for server in settings.servers.values()]
    folders = [path for path in found if path is not None]
    if not settings.archives.startswith(s3.SCHEME):
        folders.append(Path(settings.archives))
    made = [path for path in (*_files(settings), *folders) if path.exists()]
    if not made:
        return []
    exposed = [path for path in made if _is_exposed(path, deep=path in folders)]
    if not exposed:
        return [Finding("file modes", State.OK, "Only their owner can open the files.")]
    paths = " ".join(shlex.quote(str(path)) for path in exposed)
    detail = f"Other users of this machine may open {_first(exposed)}."
    return [Finding("file modes", State.WARNING, detail, f"Run: chmod -R go= {paths}")]


async def check_public(settings: Settings, catalog: Catalog) -> list[Finding]:
    """Check that no other role may connect to a tenant's database on PostgreSQL."""
    findings = []
    for name, server in settings.servers.items():
        try:
            public = await open_tenant_server(settings, server).public_names()
            ours = await tenants.database_names(catalog, server_name=name) if public else set()
        except Unavailable:
            continue  # the check of the server reports it
        if found := [one for one in public if one in ours]:
            detail = f"Every role of the server may connect to {_first(found)}."
            advice = "Unless others need it: REVOKE CONNECT, TEMPORARY ON DATABASE … FROM PUBLIC."
            findings.append(Finding(f"tenant access {name}", State.WARNING, detail, advice))
    return findings


async def check_roles(settings: Settings) -> list[Finding]:
    """Check that the roles of the URLs can only do what Tenantry needs."""
    urls = {"catalog": settings.catalog}
    urls |= {f"tenant server {one}": found.address for one, found in settings.servers.items()}
    urls |= {
        f"administration of {one}": found.admin_address
        for one, found in settings.servers.items()
        if found.admin_address != found.address
    }
    findings = []
    for name, url in urls.items():
        if sqlite_path(url) is not None:
            continue
        try:
            async with dumps.connected(url) as raw:
                role = await read_role(raw)
        except Unavailable:
            continue  # the checks of the catalog and of the servers report it
        if role.power is not None:
            detail = f"The role {role.name} {role.power}."
            findings.append(Finding(f"role of {name}", State.WARNING, detail, ROLE_ADVICE))
    return findings


def _files(settings: Settings) -> Iterator[Path]:
    folder = settings.data_dir
    yield from (folder, folder / "secret-key", folder / LOCK_FILE)
    yield Path(ENV_FILE).resolve()  # the mode of a symbolic link means nothing
    for url in (settings.catalog, *_urls_of(settings)):
        if sqlite_path(url) is None:
            given = postgres_urls.parse(url).parameters
            yield from (Path(given[name]).resolve() for name in SECRET_FILES if name in given)
    catalog = sqlite_path(settings.catalog)
    if catalog is not None:
        yield from (Path(f"{catalog}{suffix}") for suffix in ("", *SIDE_FILES))


def _urls_of(settings: Settings) -> Iterator[str]:
    for server in settings.servers.values():
        yield from (server.address, server.admin_address)


def _is_exposed(path: Path, *, deep: bool) -> bool:
    below = islice(path.rglob("*"), PATHS_MAX) if deep else ()
    return any(private.is_open_to_others(one) for one in (path, *below))


def _first(found: Sequence[object]) -> str:
    more = f" and {len(found) - 1:,} more" if found[1:] else ""
    return f"{found[0]}{more}"
