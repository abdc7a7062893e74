"""The tenant server of a new tenant: by weight, among those that have room."""

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction

from tenantry.catalog import tenant_counts
from tenantry.catalog.session import CatalogSession
from tenantry.kit.errors import Conflict
from tenantry.kit.server_settings import TenantServer


class NoServerHasRoom(Conflict):
    """No tenant server has room: raise max_tenants of one, or add one with a weight."""


@dataclass(frozen=True, slots=True)
class Placement:
    """Chooses the tenant server of a new tenant."""

    servers: Mapping[str, TenantServer]

    async def choose(self, catalog: CatalogSession) -> str:
        """Return the name of the server with the fewest databases for its weight.

        Databases of deleted tenants, and of those that are being created, count. Nothing is
        locked: tenants that are created at the same time may be placed by the same counts. So
        a server can exceed its limit by as many as are created concurrently, less one.

        Raises:
            NoServerHasRoom: Every server with a weight has reached its limit.
        """
        counts = await tenant_counts.by_server(catalog)
        fills: dict[str, Fraction] = {}
        for name, server in self.servers.items():
            count = counts.get(name, 0)
            if server.weight and (server.max_tenants is None or count < server.max_tenants):
                fills[name] = Fraction(count + 1, server.weight)
        if not fills:
            raise NoServerHasRoom
        return min(sorted(fills), key=fills.__getitem__)
