"""The heartbeat of this process. Without it, other processes take over its claims."""

import asyncio
import contextlib
from collections.abc import Callable
from uuid import UUID

import structlog

from tenantry.catalog import workers
from tenantry.catalog.database import Catalog
from tenantry.catalog.pace import PACE, Pace
from tenantry.catalog.workers import SILENCE_MS, Report
from tenantry.db.sessions import DatabaseUnavailable
from tenantry.kit.clock import monotonic_seconds
from tenantry.kit.ids import new_id
from tenantry.migration.errors import explain

_log = structlog.get_logger(__name__)


class Heartbeat:
    """Writes the heartbeat of this process into the catalog.

    Attributes:
        lapses: How often it was silent for so long that others could take over what it held.
    """

    def __init__(self, catalog: Catalog, pace: Pace = PACE) -> None:
        self.worker_id: UUID = new_id()
        self._catalog = catalog
        self._pace = pace
        self._beaten_at = monotonic_seconds()
        self.lapses = 0
        self._report: Callable[[], Report] = Report

    def silent_seconds(self) -> float:
        """Return for how long this process has written none, or has existed."""
        return monotonic_seconds() - self._beaten_at

    async def beat(self, report: Report = Report()) -> None:  # noqa: B008 - it is frozen
        """Write one heartbeat, with a report.

        Raises:
            DatabaseUnavailable: The catalog cannot be reached.
        """
        began_at = monotonic_seconds()
        await workers.beat(self._catalog, self.worker_id, report)
        self.lapses += self._has_lapsed
        self._beaten_at = began_at

    def has_lapsed_since(self, lapses: int) -> bool:
        """Return whether others can have taken over what it has held since it had so many lapses.

        It was paused, or cut off from the catalog.
        """
        return self.lapses != lapses or self._has_lapsed

    @property
    def _has_lapsed(self) -> bool:
        return self.silent_seconds() * 1000 > SILENCE_MS

    async def renew(self) -> None:
        """Write one if other processes may take over what this one claims: it was paused.

        Raises:
            DatabaseUnavailable: The catalog cannot be reached.
        """
        if self._has_lapsed:
            await self.beat(self._report())

    async def keep_beating(self, report: Callable[[], Report]) -> None:
        """Write a heartbeat with the current report every `Pace.beat_seconds`, until cancelled."""
        self._report = report
        while True:
            await asyncio.sleep(self._pace.beat_seconds)
            try:
                await self.beat(report())
            except DatabaseUnavailable as error:
                _log.warning("heartbeat missed", worker=str(self.worker_id), cause=explain(error))

    async def end(self) -> None:
        """Remove the heartbeat, so that other processes do not wait until it expires."""
        with contextlib.suppress(DatabaseUnavailable):
            await workers.remove(self._catalog, self.worker_id)
