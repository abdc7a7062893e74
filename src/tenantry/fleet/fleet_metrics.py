"""Read what monitoring shows of the whole service: tenants behind, runs, backups, the queue."""

import asyncio
from collections.abc import Callable

import structlog

from tenantry.catalog import job_metrics, runs, tenant_counts
from tenantry.catalog.session import CatalogSession
from tenantry.db.sessions import DatabaseUnavailable
from tenantry.kit.metrics import FleetState, Metrics
from tenantry.migration.errors import explain
from tenantry.migration.streams import BadStream, Streams

# Four statements each time, in every process that works; all of them use an index or a small table.
READ_SECONDS = 15.0

_log = structlog.get_logger(__name__)


async def keep_reading(
    catalog: CatalogSession, streams: Callable[[], Streams], metrics: Metrics
) -> None:
    """Update the metrics of the service every `READ_SECONDS`, until cancelled.

    While the catalog or the revisions cannot be read, they have no samples.
    """
    while True:
        try:
            metrics.fleet = await read(catalog, streams())
        except (DatabaseUnavailable, BadStream) as error:
            metrics.fleet = None
            _log.info("metrics of the service not read", cause=explain(error))
        await asyncio.sleep(READ_SECONDS)


async def read(catalog: CatalogSession, streams: Streams) -> FleetState:
    """Return the state of the service.

    Raises:
        BadStream: The directory of revisions cannot be read.
        DatabaseUnavailable: The catalog cannot be reached.
    """
    head = str(await asyncio.to_thread(lambda: streams.head))
    counts = await tenant_counts.by_revision(catalog)
    unfinished = await runs.unfinished(catalog)
    queue = await job_metrics.queue(catalog)
    return FleetState(
        tenants_behind=sum(one.count for one in counts if one.revision != head),
        tenants_failing=sum(one.failing for one in counts),
        queued_jobs=queue.count,
        oldest_job_at=queue.oldest_at,
        oldest_run_at=min((one.started_at for one in unfinished), default=None),
        last_backup_at=await job_metrics.last_backup_at(catalog),
    )
