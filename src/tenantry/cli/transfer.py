"""Archives on the command line: where they are, and the progress of a job."""

import asyncio
import sys
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import AbstractContextManager, asynccontextmanager, contextmanager, nullcontext
from pathlib import Path
from typing import BinaryIO

from rich.progress import (
    BarColumn,
    DownloadColumn,
    MofNCompleteColumn,
    Progress,
    ProgressColumn,
    TextColumn,
    TransferSpeedColumn,
)

from tenantry.backup.archive import ArchiveNotFound, ArchiveReader
from tenantry.backup.archives import open_existing, open_target
from tenantry.backup.opening import existing_keys
from tenantry.backup.targets import BUFFER_BYTES, Target
from tenantry.cli import session
from tenantry.cli.exit_status import Misuse
from tenantry.cli.printing import output
from tenantry.cli.prompts import interruptible
from tenantry.cli.serving import signals
from tenantry.services import Services
from tenantry.settings import Settings
from tenantry.work.progress import Progress as Counter

STREAM = "-"
POLL_SECONDS = 0.2


def output_stream() -> BinaryIO:
    """Return standard output for an archive.

    Raises:
        Misuse: It is a terminal.
    """
    if output.results().isatty():
        raise Misuse(
            "An archive is not written to a terminal: redirect standard output, or use --to FOLDER."
        )
    return output.results().buffer


def source_of(settings: Settings, place: str | None) -> Target:
    """Return the target to read from: the one that is given, or that of the settings.

    Raises:
        FolderMissing: The folder that is given does not exist.
    """
    return open_existing(place) if place else open_target(settings.archives)


@contextmanager
def opened_archive(settings: Settings, archive: str, place: str | None) -> Iterator[BinaryIO]:
    """Open an archive: a name in the target, a path, or `-` for standard input.

    Raises:
        ArchiveNotFound: There is no such archive.
    """
    if archive == STREAM:
        yield sys.stdin.buffer
        return
    target, path = source_of(settings, place), Path(archive)
    if archive in target.names():
        with target.reading(archive) as file:
            yield file
        return
    if not path.is_file():
        raise ArchiveNotFound
    with path.open("rb", buffering=BUFFER_BYTES) as file:
        yield file


@contextmanager
def opened_reader(
    settings: Settings, archive: str, place: str | None, *, accepts_foreign: bool = False
) -> Iterator[ArchiveReader]:
    """Open an archive, and read its header, before anything else is opened.

    So a damaged archive, or a wrong secret key on a new machine, leaves no new catalog.

    Raises:
        ArchiveNotFound: There is no such archive.
        ArchiveDamaged, ArchiveForeign, ArchiveNewer: It cannot be used.
    """
    with opened_archive(settings, archive, place) as file:
        with interruptible():  # standard input can be slow
            reader = ArchiveReader(file, existing_keys(settings), accepts_foreign=accepts_foreign)
        yield reader


@asynccontextmanager
async def job(
    settings: Settings, *, shows_bytes: bool = True
) -> AsyncIterator[tuple[Services, Counter]]:
    """Open the services for a job in the block, and cancel it at the first signal.

    Yields the services, and the progress of the job. It is shown, unless *shows_bytes* is False.
    """
    async with session.opened(settings) as services:
        await services.job_worker.reap()
        counter = Counter()
        with cancelled_by_signals(), shown(counter) if shows_bytes else nullcontext():
            yield services, counter


@contextmanager
def cancelled_by_signals() -> Iterator[None]:
    """Cancel the current task at the first signal to end."""
    task = asyncio.current_task()
    assert task is not None
    with signals.handled(task.cancel):
        yield


def shown(counter: Counter) -> AbstractContextManager[None]:
    """Show the bytes of a job while the block runs, on a terminal."""
    columns = (TextColumn("Copying"), BarColumn(), DownloadColumn(), TransferSpeedColumn())
    return _bar(columns, lambda: counter.bytes_done)


def counted(what: str, read: Callable[[], int], *, total: int) -> AbstractContextManager[None]:
    """Show how many of *total* are done while the block runs, on a terminal."""
    return _bar((TextColumn(what), BarColumn(), MofNCompleteColumn()), read, total=total)


@contextmanager
def _bar(
    columns: Sequence[ProgressColumn], read: Callable[[], int], *, total: int | None = None
) -> Iterator[None]:
    """Show a progress bar while the block runs, on a terminal; *read* returns how much is done."""
    console = output.progress()
    if not console.is_terminal:
        yield
        return
    with Progress(*columns, console=console, transient=True) as progress:
        line = progress.add_task("", total=total)

        async def follow() -> None:
            while True:
                progress.update(line, completed=read())
                await asyncio.sleep(POLL_SECONDS)

        following = asyncio.get_running_loop().create_task(follow())
        try:
            yield
        finally:
            following.cancel()
