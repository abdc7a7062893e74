"""The URLs of the databases that are attached to a service, sealed with its secret key."""

from dataclasses import dataclass

from tenantry.access.sealing import Seal
from tenantry.access.signing import WrongSecretKey
from tenantry.catalog.attached import find_sealed
from tenantry.catalog.database import Catalog
from tenantry.catalog.session import CatalogSession

_CACHED = "url of an attached database"


@dataclass(frozen=True)
class AttachedUrls:
    """Opens the URLs in the catalog. They can have passwords."""

    catalog: Catalog
    seal: Seal

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
            content, _ = self.seal.open(found.sealed_url, found.id.bytes)
            if content is None:
                raise WrongSecretKey
            return content.decode()

        return await self.catalog.cache.get((_CACHED, server_name, database_name), read)
