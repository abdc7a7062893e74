"""The sizes of tenants' databases, for the order of a run."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from uuid import UUID

import msgspec

from tenantry.catalog.plans import Selected
from tenantry.fleet.run_options import BadRunOptions
from tenantry.tenant.databases import ELSEWHERE, TenantDatabases

SIZED_MAX = 20_000
"""Tenants of a run that is ordered by size: each is measured when the run or its plan is made."""
DATABASES_MEASURED = 500
"""Databases that one query measures."""
_DIGITS = 20
_BYTES_MAX = 10**_DIGITS - 1


async def sort_keys(
    databases: TenantDatabases, selected: Sequence[Selected], *, largest_first: bool
) -> Mapping[UUID, str]:
    """Return what orders these tenants by size; those that cannot be measured are left out.

    Raises:
        BadRunOptions: There are more than `SIZED_MAX` tenants.
        DatabaseUnavailable: A tenant server cannot be reached.
    """
    if len(selected) > SIZED_MAX:
        raise BadRunOptions(
            f"`order` by size measures each database: at most {SIZED_MAX:,} tenants. Choose some."
        )
    servers: dict[str, dict[str, UUID]] = defaultdict(dict)
    for one in selected:
        if one.server_name == ELSEWHERE:
            continue  # each is on a server of its own
        servers[one.server_name][one.database_name] = one.tenant_id
    keys: dict[UUID, str] = {}
    for server_name, tenants in servers.items():
        names = list(tenants)
        for at in range(0, len(names), DATABASES_MEASURED):
            some = names[at : at + DATABASES_MEASURED]
            sizes = await databases.server(server_name).sizes(some)
            for name, size in sizes.items():
                rank = _BYTES_MAX - size if largest_first else size
                keys[tenants[name]] = f"{rank:0{_DIGITS}}"
    return keys


def with_keys(selected: Sequence[Selected], keys: Mapping[UUID, str]) -> list[Selected]:
    """Return the tenants with what orders them now."""
    return [
        msgspec.structs.replace(one, sort_key=keys.get(one.tenant_id, one.sort_key))
        for one in selected
    ]
