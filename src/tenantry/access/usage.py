"""When a key or token was used last: noted in memory, written now and then.

It is written at most once a minute for each credential, and not in a request's way.
"""

from datetime import datetime, timedelta
from uuid import UUID

from tenantry.catalog import credentials
from tenantry.catalog.database import Catalog
from tenantry.db.sessions import DatabaseUnavailable

WRITTEN_EVERY = timedelta(seconds=60)
NOTED_MAX = 10_000


class Usage:
    """Notes the use of credentials."""

    def __init__(self, catalog: Catalog) -> None:
        self._catalog = catalog
        self._written: dict[UUID, datetime] = {}
        self._keys: dict[UUID, datetime] = {}
        self._tokens: dict[UUID, datetime] = {}

    def note_key(self, key_id: UUID, now: datetime) -> None:
        """Note that an API key is used."""
        self._note(self._keys, key_id, now)

    def note_token(self, token_id: UUID, now: datetime) -> None:
        """Note that an McpToken is used."""
        self._note(self._tokens, token_id, now)

    async def write(self) -> None:
        """Write what was noted; what cannot be written now is dropped: it will be noted again."""
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
