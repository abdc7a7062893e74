"""The URLs of the databases that are attached to a service, sealed with its secret key."""

from dataclasses import dataclass
from uuid import UUID

from tenantry.access.signing import SigningKeys, WrongSecretKey
from tenantry.catalog.attached import find_sealed
from tenantry.catalog.database import Catalog
from tenantry.catalog.session import CatalogSession

_CACHED = "url of an attached database"


@dataclass(frozen=True)
class AttachedUrls:
    """Seals URLs for the catalog, and opens those in it. They can have passwords."""

    catalog: Catalog
    keys: SigningKeys

    def sealed(self, tenant_id: UUID, url: str) -> bytes:
        """Return *url* sealed for this tenant."""
        return self.keys.seal.close(url.encode(), tenant_id.bytes)

    async def find(self, server_name: str, database_name: str) -> str | None:
        """Return the URL of an attached database; None if there is none of this name.

        Raises:
            WrongSecretKey: It cannot be opened.
            DatabaseUnavailable: The catalog cannot be reached.
        """

        async def read(session: CatalogSession) -> str | None:
            found = await find_sealed(session, server_name=server_name, database_name=database_name)
            if found is None:
                return None
            content, _ = self.keys.seal.open(found.sealed_url, found.id.bytes)
            if content is None:
                raise WrongSecretKey
            return content.decode()

        return await self.catalog.cache.get((_CACHED, server_name, database_name), read)
