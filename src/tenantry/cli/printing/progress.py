"""Progress of a run, in this process or another: a bar, or lines in a log file."""

import asyncio
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import import_module
from uuid import UUID

from rich.console import Console

from tenantry.catalog import run_results, runs
from tenantry.catalog.activity import Activity, AwayServer, activity_of
from tenantry.catalog.database import Catalog
from tenantry.catalog.run_results import Cause
from tenantry.catalog.runs import MigrationRun, RunContinues, RunTenant
from tenantry.cli.printing import output
from tenantry.cli.serving import signals
from tenantry.cli.wording import named
from tenantry.db.sessions import DatabaseUnavailable
from tenantry.kit.clock import monotonic_seconds

POLL_SECONDS = 0.1
LINE_SECONDS = 10.0
CATALOG_LOST_SECONDS_MAX = 60.0
HELD_SECONDS_MAX = 30.0
"""How long a command waits while no process has the files of its run."""

LEFT = "No process works on it. To go on: `tenantry migrate continue RUN`."

Show = Callable[[MigrationRun, str], None]
"""Shows a run, and what it waits for."""


@dataclass(frozen=True, slots=True)
class Found:
    """A run: the result of each tenant, the causes of failures, and the undos of the run."""

    run: MigrationRun
    items: Sequence[RunTenant]
    causes: Sequence[Cause]
    activity: Activity
    undos: Sequence[MigrationRun] = ()


async def found(catalog: Catalog, run: MigrationRun) -> Found:
    """Return *run* with its details in the catalog."""
    # Causes first: each refers to an item, and items are only added while the run continues.
    causes = await run_results.failure_causes(catalog, run.id) if run.failed_count else []
    activity = await activity_of(catalog, run)
    undos = await runs.undos(catalog, [run.id])
    return Found(run, await runs.ended(catalog, run.id), causes, activity, undos)


def waiting_text(run: MigrationRun, activity: Activity) -> str:
    """Return why a run does not go on, or with which servers, since when and why."""
    if activity.is_left:
        return named(LEFT)
    away = "; ".join(f"waiting {reason_to_wait(one)}" for one in activity.away)
    return run.held_because or away


def reason_to_wait(away: AwayServer) -> str:
    """Return which server a run waits for, since when and why."""
    cause = f" ({away.cause})" if away.cause else ""
    return f"for server {away.server} since {output.minute(away.since)} UTC{cause}"


class WatchLeft(RunContinues):
    """This process received a signal to stop watching; processes that work on the run go on."""


async def watch(catalog: Catalog, run_id: UUID) -> None:
    """Show the progress of a run in another process until it has ended.

    Raises:
        MigrationRunNotFound: No run has this id.
        WatchLeft: This process received a signal to stop.
        DatabaseUnavailable: The catalog has not answered for `CATALOG_LOST_SECONDS_MAX`.
    """
    with signals.handled() as stop, shown_on(output.progress()) as show:
        await follow(
            catalog, run_id, show=show, left=lambda: WatchLeft() if stop.received else None
        )


async def follow(
    catalog: Catalog,
    run_id: UUID,
    *,
    show: Show,
    left: Callable[[], RunContinues | None],
    lost_seconds_max: float = CATALOG_LOST_SECONDS_MAX,
    until_held: bool = False,
) -> MigrationRun:
    """Poll the run and return it when it has ended; raise the error that *left* returns.

    With *until_held*, also when only a person can continue it: see `_Hold`.
    """
    seen_at, hold = monotonic_seconds(), _Hold()
    while True:
        try:
            run = await runs.get(catalog, run_id)
            activity = await activity_of(catalog, run)
        except DatabaseUnavailable:
            if monotonic_seconds() - seen_at > lost_seconds_max:
                raise
        else:
            seen_at = monotonic_seconds()
            show(run, waiting_text(run, activity))
            if run.finished_at is not None or (until_held and hold.lasts(run)):
                return run
        leaving = left()
        if leaving is not None:
            raise leaving
        await asyncio.sleep(POLL_SECONDS)


class _Hold:
    """Whether a run is left to a person.

    It holds after a wave, or no process has had its files for `HELD_SECONDS_MAX`: a deployment
    replaces them one process after the other.
    """

    def __init__(self) -> None:
        self._since: float | None = None

    def lasts(self, run: MigrationRun) -> bool:
        """Return whether it is, as of this read."""
        if run.held_because is None or run.holding_wave is not None:
            self._since = None
            return run.is_left_to_person
        now = monotonic_seconds()
        self._since = now if self._since is None else self._since
        return now - self._since > HELD_SECONDS_MAX


@contextmanager
def shown_on(console: Console) -> Iterator[Show]:
    """Yield a function that shows a run on *console*, during the block."""
    if not console.is_terminal:
        yield _Lines(console)
        return
    # Imported on demand: it takes a while, and a log file shows no bar.
    with import_module("tenantry.cli.printing.bar").shown_on(console) as show:
        yield show


class _Lines:
    """A line every `LINE_SECONDS`, for a log file."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._next_at = monotonic_seconds() + LINE_SECONDS

    def __call__(self, run: MigrationRun, waiting: str) -> None:
        """Print a line if `LINE_SECONDS` have passed."""
        if monotonic_seconds() < self._next_at:
            return
        self._next_at = monotonic_seconds() + LINE_SECONDS
        done = run.success_count + run.failed_count
        text = named(f"{done} of {run.total_count} tenants, {run.failed_count} failed")
        # A line of a log file is found by its words, however wide it is.
        self._console.print(f"{text}; {waiting}" if waiting else text, soft_wrap=True)
