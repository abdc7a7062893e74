"""Write audit entries of concurrent requests together: one commit for all that wait.

A change in a tenant's database is recorded in the catalog before it is committed. Without this,
each such request would cost a commit of its own in the one database that all tenants share.
"""

import asyncio
import contextlib

from tenantry.catalog import audit
from tenantry.catalog.audit import AuditEntry
from tenantry.catalog.planes import CatalogSession

# Entries in one transaction. Not more than so many requests wait for one write.
BATCH_MAX = 100


class AuditWriter:
    """Writes entries; the callers of `write` wait until theirs is committed.

    Args:
        session: Of the catalog.
    """

    def __init__(self, session: CatalogSession) -> None:
        self._session = session
        self._waiting: list[tuple[AuditEntry, asyncio.Future[None]]] = []
        self._task: asyncio.Task[None] | None = None

    async def write(self, entry: AuditEntry) -> None:
        """Write *entry*; return when it is committed.

        Raises:
            DatabaseUnavailable: It may not have been written.
        """
        written: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append((entry, written))
        if self._task is None:
            self._task = asyncio.create_task(self._write_waiting())
        await written

    async def close(self) -> None:
        """Wait for the entries that are being written."""
        if self._task is not None:
            with contextlib.suppress(asyncio.CancelledError):
                await self._task

    async def _write_waiting(self) -> None:
        try:
            while self._waiting:
                batch = self._waiting[:BATCH_MAX]
                del self._waiting[:BATCH_MAX]
                await self._write_batch(batch)
        finally:
            self._task = None

    async def _write_batch(self, batch: list[tuple[AuditEntry, "asyncio.Future[None]"]]) -> None:
        error: Exception | None = None
        try:
            await audit.add_all(self._session, [entry for entry, _ in batch])
        except Exception as raised:  # noqa: BLE001 - raised again in each caller
            error = raised
        for _, written in batch:
            if written.done():  # its caller was cancelled
                continue
            if error is None:
                written.set_result(None)
            else:
                written.set_exception(error)
