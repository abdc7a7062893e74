"""``tenantry worker``: work on migration runs, without serving requests."""

import asyncio
import signal
from collections.abc import Callable
from uuid import UUID

import structlog
import typer

from tenantry.cli import options, output, server, session, signals
from tenantry.cli.commands import new_group
from tenantry.cli.exit_status import ExitStatus
from tenantry.db.urls import sqlite_path
from tenantry.kit import process
from tenantry.kit.errors import Unavailable
from tenantry.schemas.base import Schema
from tenantry.services import Services, open_services
from tenantry.settings import Settings

_log = structlog.get_logger(__name__)


class NoWorkToShare(Unavailable):
    """A worker needs a PostgreSQL catalog; on SQLite, the process that serves does the work."""


class Working(Schema, frozen=True):
    """A process that works, and how many tenants it migrates at once."""

    worker_id: UUID
    migrate_concurrency: int


group = new_group()


@group.command("worker")
def worker(*, as_json: options.Json = False) -> None:
    """Work on migration runs, without serving requests.

    SIGTERM or Ctrl-C ends it: tenants in work are finished, the rest is left to the other
    processes.
    """
    settings = session.configure(log_level="info")
    if sqlite_path(settings.catalog) is not None:
        raise NoWorkToShare

    def tell(services: Services) -> None:
        working = Working(services.heartbeat.worker_id, settings.migrate_concurrency)
        if as_json:
            output.show_json(working)
        else:
            count = working.migrate_concurrency
            output.show_line(f"Tenantry works on migration runs, {count} tenants at once.")
        _log.info("working", worker=str(working.worker_id))

    ended_by = process.run(_work(settings, tell))
    if ended_by is signal.SIGINT:
        raise typer.Exit(ExitStatus.INTERRUPTED)


async def _work(settings: Settings, tell: Callable[[Services], None]) -> signal.Signals | None:
    asked = asyncio.Event()
    with signals.heeded(asked.set) as stop:
        async with open_services(settings) as services:
            process.settle()
            with server.metrics_told(settings, services.metrics):
                tell(services)
                await asked.wait()
            _log.info("stopping", tenants_in_work=not services.worker.is_idle)
    return stop.by
