"""Read what monitoring shows of the whole service: tenants behind, runs, backups, the queue."""

import asyncio
from collections.abc import Callable, Collection
from datetime import timedelta
from pathlib import Path

import structlog

from tenantry.catalog import job_queue, outbox, runs, tenant_counts
from tenantry.catalog.session import CatalogSession
from tenantry.db.sessions import DatabaseUnavailable
from tenantry.kit.clock import utc_now
from tenantry.kit.metrics import FleetState, Metrics
from tenantry.migration.errors import explain
from tenantry.migration.project_files import Signature, signature_of
from tenantry.migration.streams import BadStream, Streams

# Six statements each time, in every process that works; all of them use an index or a small table.
READ_SECONDS = 15.0
FAILED_WITHIN = timedelta(hours=1)

_log = structlog.get_logger(__name__)


async def keep_reading(
    catalog: CatalogSession,
    streams: Callable[[], Streams],
    metrics: Metrics,
    hooks: Collection[str],
) -> None:
    """Update the metrics of the service every `READ_SECONDS`, until cancelled.

    *hooks* are the targets of notifications.
    While the catalog or the revisions cannot be read, they have no samples.
    """
    head = Head(streams)
    while True:
        try:
            head_now = await asyncio.to_thread(head.read)
            metrics.fleet = await read(catalog, head_now, hooks)
        except (DatabaseUnavailable, BadStream) as error:
            metrics.fleet = None
            # An operator corrects the revisions; the catalog comes back by itself.
            log = _log.warning if isinstance(error, BadStream) else _log.info
            log("metrics of the service not read", cause=explain(error))
        await asyncio.sleep(READ_SECONDS)


class Head:
    """The head of the streams, for which the revisions are imported only if a file has changed."""

    def __init__(self, streams: Callable[[], Streams]) -> None:
        self._streams = streams
        self._head: str | None = None
        self._places: set[Path] = set()
        self._signature: Signature = {}

    def read(self) -> str:
        """Return the head.

        Raises:
            BadStream: The directory of revisions cannot be read.
        """
        # Before the files are read: one that is replaced at the same time is read again.
        signature = signature_of(self._places)
        if self._head is None or signature != self._signature:
            streams = self._streams()
            self._head, self._places = str(streams.head), streams.places
            self._signature = signature
        return self._head


async def read(catalog: CatalogSession, head: str, hooks: Collection[str] = ()) -> FleetState:
    """Return the state of the service; its streams end at *head*.

    Only notifications of the targets *hooks* count.

    Raises:
        DatabaseUnavailable: The catalog cannot be reached.
    """
    counts = await tenant_counts.by_revision(catalog)
    unfinished = await runs.unfinished(catalog)
    queue = await job_queue.length(catalog)
    targets = await outbox.counts(catalog, hooks) if hooks else {}
    waiting = [one.oldest_at for one in targets.values() if one.oldest_at is not None]
    return FleetState(
        tenants_behind=sum(one.count for one in counts if one.revision != head),
        tenants_failing=sum(one.failing for one in counts),
        held_runs=sum(_is_held(one) for one in unfinished),
        queued_jobs=queue.count,
        failed_jobs=await job_queue.failed_since(catalog, utc_now() - FAILED_WITHIN),
        oldest_job_at=queue.oldest_at,
        oldest_run_at=min((one.started_at for one in unfinished), default=None),
        last_backup_at=await job_queue.last_backup_at(catalog),
        oldest_notification_at=min(waiting, default=None),
    )


def _is_held(run: runs.MigrationRun) -> bool:
    """Return whether a run goes on only after an operator has acted."""
    return run.held_because is not None and (run.holding_wave is None or run.is_left_to_person)
