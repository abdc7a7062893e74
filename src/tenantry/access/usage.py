"""Record when an API key or McpToken was last used: in memory first, and in the background.

It is written at most once a minute for each credential, never as part of a request.
"""

from datetime import datetime, timedelta
from uuid import UUID

from tenantry.catalog import credentials
from tenantry.catalog.credentials import ApiKey, McpToken
from tenantry.catalog.database import Catalog
from tenantry.db.sessions import DatabaseUnavailable

WRITTEN_EVERY = timedelta(seconds=60)
NOTED_MAX = 10_000


class Usage:
    """Records the last use of credentials."""

    def __init__(self, catalog: Catalog) -> None:
        self._catalog = catalog
        self._written: dict[UUID, datetime] = {}
        self._noted: dict[UUID, tuple[ApiKey | McpToken, datetime]] = {}

    def note(self, used: ApiKey | McpToken, now: datetime) -> None:
        """Record the use of a credential, in memory."""
        written = self._written.get(used.id)
        if written is not None and now - written < WRITTEN_EVERY:
            return
        if len(self._written) >= NOTED_MAX:
            self._written.clear()
        self._written[used.id] = now
        self._noted[used.id] = used, now

    async def write(self) -> None:
        """Write the recorded times. If the catalog is unavailable, they are dropped."""
        noted, self._noted = self._noted, {}
        try:
            for used, used_at in noted.values():
                await credentials.note_use(self._catalog, used, used_at)
        except DatabaseUnavailable:
            self._written.clear()
