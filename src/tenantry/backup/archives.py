"""The archives of the target that the settings name: listed, and opened by name."""

import asyncio
import re
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from tenantry.backup.archive import SUFFIX, ArchiveReader, Header, Keys, label_of
from tenantry.backup.s3 import SCHEME, S3Target
from tenantry.backup.targets import START_BYTES, FolderTarget, Stored, Target, read_starts
from tenantry.kit.errors import NotFound, Unavailable
from tenantry.kit.pages import Page, Window
from tenantry.kit.stopping import Stop, entered_in_thread, run_in_thread, start_thread
from tenantry.kit.text import checked_text

Result = TypeVar("Result")

# Each has a thread, which cannot be stopped while a network folder is silent.
LISTINGS_MAX = 2
# Shorter than the deadline of a request that reads archives.
LISTING_SECONDS_MAX = 25.0
# The longest name of an archive, and more than that of a tenant.
SEARCH_CHARS_MAX = 256
# The time in the name of an archive.
_STAMP = re.compile(r"-(\d{8}T\d{6}Z)-[0-9a-f]{8}\.tar$")


def open_target(place: str) -> Target:
    """Return the target at *place*: a folder, or a URL of S3.

    Raises:
        S3Missing: It is a URL, and the library is not installed.
    """
    return S3Target(place) if place.startswith(SCHEME) else FolderTarget(Path(place))


class FolderMissing(NotFound):
    """There is no folder of archives of this name; the message has the name."""


def open_existing(place: str) -> Target:
    """Return the target at *place*, which a caller has named to read from it.

    Raises:
        FolderMissing: The folder does not exist: a mistyped name would be an empty list.
        S3Missing: As for `open_target`.
    """
    if not place.startswith(SCHEME) and not Path(place).is_dir():
        raise FolderMissing(f"There is no folder {place}.")
    return open_target(place)


class TargetUnavailable(Unavailable):
    """The archives cannot be read; the message says why."""


@dataclass(frozen=True)
class Archives:
    """Archives of the target that the settings name.

    Attributes:
        place: The target: a folder, or a URL of S3.
    """

    place: str
    keys: Keys
    _listing: asyncio.Semaphore = field(
        default_factory=lambda: asyncio.Semaphore(LISTINGS_MAX), init=False
    )

    async def target(self) -> Target:
        """Return the target.

        Raises:
            S3Missing: The library for S3 is not installed.
        """
        return await asyncio.to_thread(open_target, self.place)

    async def page(self, window: Window, *, search: str | None = None) -> Page[Stored]:
        """Return some archives, the newest first by the time in their names.

        Args:
            window: Which of them; only their beginnings and ends are read.
            search: Part of the name of a tenant at the time of its backup, or of an archive.

        Raises:
            BadText: The search is too long.
            S3Missing, S3Unavailable, TargetUnavailable: The target cannot be read.
        """
        wanted = checked_text("search", search or "", chars_max=SEARCH_CHARS_MAX)
        label = label_of(wanted.removesuffix(SUFFIX))
        return await self._read(lambda: self._page(window, label))

    @asynccontextmanager
    async def reading(self, name: str) -> AsyncIterator[ArchiveReader]:
        """Open an archive of this installation.

        Raises:
            ArchiveNotFound: There is none of this name.
            ArchiveForeign, ArchiveDamaged, ArchiveNewer: It is not used.
            S3Missing, S3Unavailable, OSError: The target cannot be read.
        """
        target = await self.target()
        async with entered_in_thread(target.reading(name)) as file:
            yield await run_in_thread(lambda _stop: ArchiveReader(file, self.keys))

    async def header(self, name: str) -> Header:
        """Return the header of an archive of this installation.

        Raises:
            ArchiveNotFound: There is none of this name.
            ArchiveForeign, ArchiveDamaged, ArchiveNewer: It is not used.
            S3Missing, S3Unavailable, TargetUnavailable: The target cannot be read.
        """

        def read() -> Header:
            with open_target(self.place).reading(name, buffer_bytes=START_BYTES) as file:
                return ArchiveReader(file, self.keys).header

        return await self._read(read)

    async def _read(self, work: Callable[[], Result]) -> Result:
        stop = Stop()
        try:
            async with asyncio.timeout(LISTING_SECONDS_MAX):
                await self._listing.acquire()
                reading = start_thread(work, stop)
                reading.add_done_callback(self._end)  # also if the caller has given up
                return await asyncio.shield(reading)
        except TimeoutError as error:
            limit = f"{LISTING_SECONDS_MAX:.0f} s"
            raise TargetUnavailable(f"{self.place} could not be read in {limit}.") from error
        except OSError as error:
            raise TargetUnavailable(f"The archives cannot be read: {error.strerror}.") from error
        finally:
            stop.set()

    def _end(self, reading: "asyncio.Future[Any]") -> None:
        self._listing.release()
        if not reading.cancelled():
            reading.exception()  # the caller has it, or nobody

    def _page(self, window: Window, label: str) -> Page[Stored]:
        target = open_target(self.place)
        names = [name for name in target.names() if label in label_of(name)]
        names.sort(key=_newest_first, reverse=True)
        shown = names[window.offset : window.offset + window.size]
        return Page(read_starts(target, shown, self.keys), window, len(names))


def _newest_first(name: str) -> tuple[str, str]:
    stamp = _STAMP.search(name)
    return (stamp.group(1) if stamp else "", name)
