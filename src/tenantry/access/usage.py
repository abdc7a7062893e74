"""Record when an API key or McpToken was last used: in memory first, and in the background.

It is written at most once a minute for each credential, never as part of a request.
"""

from datetime import datetime, timedelta
from uuid import UUID

from tenantry.catalog import credentials
from tenantry.catalog.database import Catalog
from tenantry.db.sessions import DatabaseUnavailable

WRITTEN_EVERY = timedelta(seconds=60)
NOTED_MAX = 10_000


class Usage:
    """Records the last use of credentials."""

    def __init__(self, catalog: Catalog) -> None:
        self._catalog = catalog
        self._written: dict[UUID, datetime] = {}
        self._keys: dict[UUID, datetime] = {}
        self._tokens: dict[UUID, datetime] = {}

    def note_key(self, key_id: UUID, now: datetime) -> None:
        """Record the use of an API key, in memory."""
        self._note(self._keys, key_id, now)

    def note_token(self, token_id: UUID, now: datetime) -> None:
        """Record the use of an McpToken, in memory."""
        self._note(self._tokens, token_id, now)

    async def write(self) -> None:
        """Write the recorded times. If the catalog is unavailable, they are dropped."""
        keys, self._keys = self._keys, {}
        tokens, self._tokens = self._tokens, {}
        try:
            for key_id, used_at in keys.items():
                await credentials.note_key_use(self._catalog, key_id, used_at)
            for token_id, used_at in tokens.items():
                await credentials.note_token_use(self._catalog, token_id, used_at)
        except DatabaseUnavailable:
            self._written.clear()

    def _note(self, noted: dict[UUID, datetime], credential_id: UUID, now: datetime) -> None:
        written = self._written.get(credential_id)
        if written is not None and now - written < WRITTEN_EVERY:
            return
        if len(self._written) >= NOTED_MAX:
            self._written.clear()
        self._written[credential_id] = noted[credential_id] = now
