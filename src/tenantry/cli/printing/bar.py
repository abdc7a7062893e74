"""A bar with the progress of a run, on a terminal."""

from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    ProgressColumn,
    Task,
    TextColumn,
    TimeRemainingColumn,
)
from rich.text import Text

from tenantry.catalog.runs import MigrationRun
from tenantry.cli.printing.progress import Show


class _Speed(ProgressColumn):
    """Tenants per second."""

    def render(self, task: Task) -> Text:
        """Return the speed of *task*."""
        speed = task.finished_speed or task.speed
        return Text("" if speed is None else f"{speed:,.0f}/s")


@contextmanager
def shown_on(console: Console) -> Iterator[Show]:
    """Yield a function that shows a run as a bar on *console*, during the block."""
    columns = (
        TextColumn("Migrating"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.fields[failed]}"),
        _Speed(),
        TimeRemainingColumn(compact=True),
        TextColumn("{task.fields[waiting]}"),
    )
    with Progress(*columns, console=console) as progress:
        bar = progress.add_task("", visible=False)

        def update(run: MigrationRun, waiting: str) -> None:
            progress.update(
                bar,
                total=run.total_count,
                completed=run.success_count + run.failed_count,
                failed=f"[{'red' if run.failed_count else 'dim'}]{run.failed_count:,} failed",
                waiting=waiting,
                visible=True,
            )

        yield update
