"""``tenantry worker``: work on migration runs, without serving requests."""

import asyncio
import signal
from uuid import UUID

import structlog
import typer

from tenantry.cli import session
from tenantry.cli.commands import new_group
from tenantry.cli.exit_status import ExitStatus
from tenantry.cli.printing import output
from tenantry.cli.serving import server, signals
from tenantry.db.urls import sqlite_path
from tenantry.kit import process, tracing
from tenantry.kit.errors import Unavailable
from tenantry.schemas.base import Schema
from tenantry.services import open_services
from tenantry.settings import Settings

_log = structlog.get_logger(__name__)


class NoWorkToShare(Unavailable):
    """A worker needs a PostgreSQL catalog; with SQLite, the serving process does the work."""


class Working(Schema, frozen=True):
    """A worker, and how many tenants it migrates concurrently."""

    worker_id: UUID
    migrate_concurrency: int


group = new_group()


@group.command("worker")
def worker() -> None:
    """Work on migration runs and queued jobs, without serving requests.

    It runs until SIGTERM or Ctrl-C. Then it finishes the tenants in work, and leaves the rest to
    other processes.
    """
    settings = session.configure(log_level="info")
    if sqlite_path(settings.catalog) is not None:
        raise NoWorkToShare

    ended_by = process.run(_work(settings))
    if ended_by is signal.SIGINT:
        raise typer.Exit(ExitStatus.INTERRUPTED)


async def _work(settings: Settings) -> signal.Signals | None:
    stopped = asyncio.Event()
    with signals.handled(stopped.set) as stop, tracing.exporting():
        async with open_services(settings) as services:
            process.settle()
            with server.serving_metrics(settings, services.metrics.registry):
                working = Working(services.heartbeat.worker_id, settings.migrations_max)
                if not output.shown_as_json(working):
                    most = f"up to {working.migrate_concurrency} tenants at a time"
                    output.show_line(f"Tenantry works on migration runs, {most}.")
                _log.info("working", worker=str(working.worker_id))
                await stopped.wait()
            _log.info("stopping", tenants_in_work=not services.worker.is_idle)
    return stop.received
