"""Migrate many databases from a Python program: a start-up, a task queue, a test, a notebook.

    from tenantry.fleet_api import migrate

    result = migrate(["postgresql://…/acme", "postgresql://…/globex"], "migrations")
    result.check()

Each call works in a thread of its own, with an event loop of its own, so it can be made from any
thread, and while an event loop runs. Calls at the same time with the same state share the work.
`migrate_async` does the same, and leaves the caller's event loop free.
"""

import asyncio
import getpass
import socket
import threading
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any
from uuid import UUID

import structlog

from tenantry.catalog import runs
from tenantry.catalog.attached import ListChanges, Listed
from tenantry.catalog.runs import MigrationRun, RunContinues
from tenantry.db.sessions import DatabaseUnavailable
from tenantry.db.urls import SQLITE_PREFIX
from tenantry.fleet import database_list
from tenantry.fleet.attached import AttachedFleet, FleetOptions, open_fleet
from tenantry.fleet.run_options import Hold, RunOptions
from tenantry.kit.clock import monotonic_seconds, utc_now
from tenantry.kit.context import OperationContext
from tenantry.kit.errors import Conflict, TenantryError
from tenantry.kit.ids import new_id
from tenantry.migration.environment import find_version_table
from tenantry.migration.run_scripts import RunScripts

__all__ = [
    "DatabaseResult",
    "DatabasesFailed",
    "Progress",
    "RunResult",
    "RunStopped",
    "TenantryError",
    "migrate",
    "migrate_async",
]

STATE_DEFAULT = "tenantry-fleet.db"
POLL_SECONDS = 0.1

Database = str | Mapping[str, object]
"""A URL, or a mapping with a ``url``, perhaps a ``name``, and labels."""


class DatabasesFailed(Conflict):
    """Databases of the run failed; the message names the first ones."""


class RunStopped(RunContinues):
    """The call was cancelled before the run has ended: the next call with its state goes on."""


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a run is.

    Attributes:
        total: The databases of the run.
        succeeded: Those at the head.
        failed: Those that failed, or were not attempted.
    """

    run_id: UUID
    total: int
    succeeded: int
    failed: int


@dataclass(frozen=True, slots=True)
class DatabaseResult:
    """The result of one database.

    Attributes:
        url: Its file, or user, hosts, ports and database as a URL in one spelling: no password, and
            no parameters. Find a database by its name.
        applied: The names of the revisions that the run has applied, or undone, in order.
        error: Why it failed, or was not attempted; None for a success.
    """

    name: str
    url: str
    applied: Sequence[str]
    error: str | None


@dataclass(frozen=True, slots=True)
class RunResult(Progress):
    """A run that has ended, or holds after a wave.

    Attributes:
        state: `RunState`: ``success``, ``failed``, ``stopped``, ``cancelled``, or ``holding``.
        databases: The databases that have ended.
        changes: What the list has changed: which databases are new, and which have left it.
    """

    state: str
    databases: Sequence[DatabaseResult]
    changes: ListChanges

    def check(self) -> None:
        """Raise an error if a database has failed.

        Raises:
            DatabasesFailed: One has.
        """
        failed = [one for one in self.databases if one.error is not None]
        if failed:
            first = "; ".join(f"{one.name}: {one.error}" for one in failed[:3])
            raise DatabasesFailed(f"{len(failed)} of {self.total} databases failed: {first}")


OnProgress = Callable[[Progress], None]


async def migrate_async(
    databases: Iterable[Database],
    migrations: str | Path,
    *,
    state: str | Path = STATE_DEFAULT,
    where: str | None = None,
    waves: Sequence[int | str] | None = None,
    hold: Hold = False,
    max_failures: int | str | None = None,
    retry_of: UUID | None = None,
    plan_id: UUID | None = None,
    label: str | None = None,
    on_progress: OnProgress | None = None,
    **options: Any,
) -> RunResult:
    """Migrate databases to the newest revision, and return the result of each.

    Args:
        databases: All databases of the fleet: each a URL, or a mapping with a ``url``, perhaps a
            ``name``, and labels. One that has left the list is kept in the state.
        migrations: The Alembic directory, with ``versions/`` in it. Its ``env.py`` is not run.
        state: Where runs are recorded: the path of a SQLite file, or a URL.
        where: Only the databases that this selects: ``plan=free and region!=eu``.
        waves: As in `RunOptions`.
        hold: As in `RunOptions`.
        max_failures: As in `RunOptions`.
        retry_of: As in `RunOptions`.
        label: As in `RunOptions`.
        plan_id: Run exactly this plan.
        on_progress: Called ten times a second, in the thread of the run.
        options: Further fields of `FleetOptions`: ``has_log``, ``concurrency``, ``version_table``…

    Raises:
        TenantryError: An argument, the list, the state or the revisions are wrong; nothing started.
        asyncio.CancelledError: It was cancelled; databases in work were finished first.
    """
    chosen = RunOptions(
        where=where,
        waves=waves,
        hold=hold,
        max_failures=max_failures,
        retry_of=retry_of,
        label=label,
    )
    _log_to_logging()
    stopped = threading.Event()
    fleet, listed = _options(migrations, state, options), database_list.of_urls(databases)
    work = partial(_work, listed, fleet, chosen, plan_id=plan_id, on_progress=on_progress)
    running = _start(lambda: work(stopped=stopped))
    waiting = asyncio.wrap_future(running)
    try:
        return await asyncio.shield(waiting)
    except asyncio.CancelledError:
        stopped.set()
        await asyncio.gather(waiting, return_exceptions=True)
        raise


def migrate(databases: Iterable[Database], migrations: str | Path, **options: Any) -> RunResult:
    """Migrate databases to the newest revision: `migrate_async`, with the same arguments."""
    return _start(lambda: migrate_async(databases, migrations, **options)).result()


async def _work(
    listed: Sequence[Listed],
    fleet: FleetOptions,
    chosen: RunOptions,
    *,
    plan_id: UUID | None,
    on_progress: OnProgress | None,
    stopped: threading.Event,
) -> RunResult:
    """Open the fleet, start a run, and return its result."""
    ctx = _context()
    async with open_fleet(fleet, ctx, listed) as opened:
        await asyncio.to_thread(RunScripts(opened.streams()).head)
        run_id = await opened.fleet.plan(
            ctx, triggered_by=ctx.actor, options=chosen, plan_id=plan_id
        )
        run = await _follow(opened, run_id, on_progress, stopped)
        if run is not None:
            return await _result(opened, run)
    raise RunStopped  # an error in the block would not wait for the databases in work


async def _result(opened: AttachedFleet, run: MigrationRun) -> RunResult:
    items = await runs.ended(opened.catalog, run.id)
    return RunResult(
        *_counts(run),
        state=run.state.value,
        databases=[
            DatabaseResult(
                one.tenant_name,
                one.database_name,
                tuple(one.applied.split(",")) if one.applied else (),
                one.error,
            )
            for one in items
        ],
        changes=opened.changes,
    )


async def _follow(
    opened: AttachedFleet, run_id: UUID, on_progress: OnProgress | None, stopped: threading.Event
) -> MigrationRun | None:
    """Return a run when it has ended, or is left to a person; None if it was *stopped* before."""
    seen_at = monotonic_seconds()
    while not stopped.is_set():
        try:
            run = await runs.get(opened.catalog, run_id)
        except DatabaseUnavailable:
            if monotonic_seconds() - seen_at > opened.patience_seconds:
                raise
        else:
            seen_at = monotonic_seconds()
            if on_progress is not None:
                on_progress(Progress(*_counts(run)))
            if run.finished_at is not None or run.is_left_to_person:
                return run
        await asyncio.sleep(POLL_SECONDS)
    return None


def _options(migrations: str | Path, state: str | Path, options: Mapping[str, Any]) -> FleetOptions:
    folder, text = Path(migrations).absolute(), str(state)
    url = text if "://" in text else f"{SQLITE_PREFIX}{text}"
    table = {} if "version_table" in options else find_version_table(folder)
    found: dict[str, Any] = {**table, **options}
    return FleetOptions(state=url, migrations=folder, **found)


def _start(work: Callable[[], Coroutine[Any, Any, RunResult]]) -> "Future[RunResult]":
    """Start *work* in a thread of its own, with an event loop of its own."""
    future: Future[RunResult] = Future()

    def run() -> None:
        try:
            future.set_result(asyncio.run(work()))
        except BaseException as error:  # noqa: BLE001 - the caller gets it
            future.set_exception(error)

    threading.Thread(target=run, name="tenantry-fleet", daemon=True).start()
    return future


def _counts(run: MigrationRun) -> tuple[UUID, int, int, int]:
    return run.id, run.total_count, run.success_count, run.failed_count


def _context() -> OperationContext:
    actor = f"python:{getpass.getuser()}@{socket.gethostname()}"
    return OperationContext(request_id=str(new_id()), now=utc_now(), actor=actor, address="local")


def _log_to_logging() -> None:
    """Send logs to the module `logging`, unless the program has configured structlog itself."""
    if not structlog.is_configured():
        structlog.configure(
            processors=[structlog.stdlib.render_to_log_kwargs],
            wrapper_class=structlog.stdlib.BoundLogger,
            logger_factory=structlog.stdlib.LoggerFactory(),
        )
