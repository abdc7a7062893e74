"""A check of the doctor: databases whose texts sort in another order than their indexes."""

from tenantry.backup import dumps
from tenantry.catalog import tenants
from tenantry.catalog.database import Catalog
from tenantry.cli.doctor.findings import Finding, State
from tenantry.db.postgres import collations
from tenantry.db.urls import sqlite_path
from tenantry.kit.errors import Unavailable
from tenantry.settings import Settings

NAMES_SHOWN_MAX = 3
ADVICE = (
    "ICU or libc of the server was upgraded, and indexes of texts can miss rows: run "
    "`tenantry collation refresh`."
)


async def check_collations(settings: Settings, catalog: Catalog) -> list[Finding]:
    """Return a finding for the catalog, and for each server, with outdated databases."""
    outdated = {"catalog": await _outdated(settings.catalog, None)}
    for name, server in settings.servers.items():
        names = await tenants.database_names(catalog, server_name=name)
        outdated[f"tenant server {name}"] = await _outdated(server.admin_address, names)
    return [
        Finding(f"collations of {where}", State.WARNING, _detail(names), ADVICE)
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


def _detail(names: list[str]) -> str:
    more = ", …" if names[NAMES_SHOWN_MAX:] else ""
    return f"{len(names):,} databases are outdated: {', '.join(names[:NAMES_SHOWN_MAX])}{more}."
