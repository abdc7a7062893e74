"""Checks of the doctor: databases that no tenant and no job has."""

from collections.abc import Sequence

from tenantry.catalog import owned_databases
from tenantry.catalog.database import Catalog
from tenantry.cli.doctor.findings import Finding, State
from tenantry.db.factory import open_tenant_server
from tenantry.db.servers import Server
from tenantry.fleet.templates import TEMPLATE, prefix_of
from tenantry.kit.errors import Unavailable
from tenantry.settings import Settings

NAMES_SHOWN_MAX = 20


async def check_unowned(settings: Settings, catalog: Catalog) -> list[Finding]:
    """Return a finding for each server with databases of this catalog that nothing uses.

    Only databases with generated names, which Tenantry's role owns, are counted.

    Raises:
        DatabaseUnavailable: The catalog cannot be reached.
    """
    await catalog.cache.check_epoch()
    findings = await _check_unfinished(catalog)
    for name, one in settings.servers.items():
        server = open_tenant_server(settings, one)
        try:
            found = await server.own_names()
            # Read later: what a process creates in the meantime is listed before it exists.
            found -= await owned_databases.names(catalog)
            if found:
                found -= await server.missing(found)  # what was dropped in the meantime
        except Unavailable:
            continue  # the check of the server reports it
        findings += _findings(name, server, found, prefix_of(catalog.cache.catalog_id))
    return findings


async def _check_unfinished(catalog: Catalog) -> list[Finding]:
    left = await owned_databases.unfinished(catalog, limit=NAMES_SHOWN_MAX + 1)
    if not left:
        return []
    shown = _shown([f"{one.database_name} on {one.server_name}" for one in left])
    return [
        Finding(
            "unfinished tenants",
            State.WARNING,
            f"Their creation or removal was interrupted, and their databases are left: {shown}.",
            "A serving process removes them within 10 s: start one. If they stay, its log says why "
            "(`tenant not cleared yet`).",
        )
    ]


def _findings(name: str, server: Server, found: set[str], own_templates: str) -> list[Finding]:
    """Return a finding about the databases *found*, which this catalog does not know."""
    check = f"unknown databases {name}"
    templates = sorted(one for one in found if one.startswith(TEMPLATE))
    foreign = [one for one in templates if not one.startswith(own_templates)]
    unknown = sorted(found.difference(templates))
    if not unknown:
        return []
    if foreign:
        detail = (
            f"{len(unknown):,} are of no tenant and no job of this catalog. They can be those of "
            f"another catalog, which uses this server, too: {foreign[0]} is its template."
        )
        return [Finding(check, State.OK, detail)]
    commands = " ".join(server.removal(one) for one in unknown[:NAMES_SHOWN_MAX])
    return [
        Finding(
            check,
            State.WARNING,
            f"{len(unknown):,} are of no tenant and no job: {_shown(unknown)}. An interrupted "
            "creation can have left them; so can tenants that a restored catalog does not have.",
            f"If no other catalog uses this server, and their data are not needed: {commands}",
        )
    ]


def _shown(names: Sequence[str]) -> str:
    more = ", …" if len(names) > NAMES_SHOWN_MAX else ""
    return ", ".join(names[:NAMES_SHOWN_MAX]) + more
