"""Watch a run while it goes on, whichever processes work on it."""

import asyncio
import contextlib
from collections.abc import AsyncGenerator
from dataclasses import dataclass, field
from uuid import UUID

from tenantry.catalog import runs
from tenantry.catalog.database import Catalog
from tenantry.catalog.runs import MigrationRun, RunTenant
from tenantry.catalog.waiting import AwayServer, away_servers
from tenantry.fleet.worker import Worker
from tenantry.kit.errors import Unavailable

# Each looks into the catalog now and then.
WATCHERS_MAX = 100
# How often, and how often at most when this process has written something down.
LOOK_SECONDS = 0.5
LOOK_SECONDS_MIN = 0.1


class TooManyWatchers(Unavailable):
    """Too many are watching migration runs here; the run goes on, and is in the history."""


@dataclass(frozen=True, slots=True)
class RunUpdate:
    """What is new since the last look; nothing, perhaps.

    Attributes:
        sequence: Of the last item that was told: where to go on from.
        items: Parts that have ended, in that order.
        run: The run, if it has changed, or what it waits for.
        away: The servers that its tenants wait for; with *run* alone.
    """

    sequence: int
    items: list[RunTenant] = field(default_factory=list)
    run: MigrationRun | None = None
    away: list[AwayServer] = field(default_factory=list)


class Watchers:
    """Those who watch runs, in this process.

    Args:
        catalog: Holds the runs.
        worker: Says when this process has written something down, and when it stops.
        watchers_max: How many there may be at once.
    """

    def __init__(
        self, catalog: Catalog, worker: Worker, *, watchers_max: int = WATCHERS_MAX
    ) -> None:
        self._catalog = catalog
        self._worker = worker
        self._most = watchers_max
        self._count = 0

    async def watch(self, run_id: UUID, *, after: int = 0) -> AsyncGenerator[RunUpdate, None]:
        """Yield the run as it is, the items that have ended, and then what happens.

        It ends with the run, whose last update comes last, or when this process stops. There is
        an update for each look, at least every `LOOK_SECONDS`.

        Args:
            run_id: Of the run.
            after: The sequence of an update: what came up to there is known. One that the run
                has not reached is none of its own, and counts as 0.

        Raises:
            MigrationRunNotFound: No run has this id.
            TooManyWatchers: There are as many as there may be.
            DatabaseUnavailable: The catalog cannot be reached.
        """
        run = await runs.get(self._catalog, run_id)
        if self._count >= self._most:
            raise TooManyWatchers
        self._count += 1
        try:
            sequence = after if after <= (run.last_sequence or 0) else 0
            away = await away_servers(self._catalog, run)
            yield RunUpdate(sequence, run=run, away=away)
            if run.last_sequence is None and run.finished_at is not None:
                # An older release ended it, and has left no order.
                async for items in runs.each_ended(self._catalog, run_id):
                    yield RunUpdate(sequence, items)
            async with contextlib.aclosing(self._follow(run, away, sequence)) as updates:
                async for update in updates:
                    yield update
        finally:
            self._count -= 1

    async def _follow(
        self, told: MigrationRun, told_away: list[AwayServer], sequence: int
    ) -> AsyncGenerator[RunUpdate, None]:
        while True:
            written = self._worker.written
            # Read before its items: what it counts has ended, and so is among them.
            run = await runs.get(self._catalog, told.id)
            while items := await runs.ended_after(self._catalog, run.id, sequence):
                sequence = items[-1].sequence or sequence
                yield RunUpdate(sequence, items)
            if run.finished_at is not None:
                yield RunUpdate(sequence, run=run)
                return
            if self._worker.is_stopping:
                return
            away = await away_servers(self._catalog, run)
            is_new = run != told or _names(away) != _names(told_away)
            yield RunUpdate(sequence, run=run if is_new else None, away=away)
            told, told_away = run, away
            await asyncio.sleep(LOOK_SECONDS_MIN)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(LOOK_SECONDS):
                    await written.wait()


def _names(away: list[AwayServer]) -> list[str]:
    return [one.server for one in away]
