"""Where archives are stored: a folder, or S3. These functions block: call them in a thread."""

import contextlib
import fcntl
import os
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from contextvars import copy_context
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import BinaryIO

from tenantry.backup.archive import (
    SUFFIX,
    TAIL_BYTES,
    ArchiveDamaged,
    ArchiveNewer,
    ArchiveNotFound,
    ArchiveReader,
    Header,
    Keys,
    checked_name,
    is_name,
    is_tail,
)
from tenantry.backup.s3 import S3Target
from tenantry.kit import private
from tenantry.kit.errors import Unavailable

PARTIAL = ".partial"
BUFFER_BYTES = 2**20
READERS = 8
"""Archives whose beginning and end are read at the same time."""
# The header of an archive, with its code.
START_BYTES = 2**14


@dataclass(frozen=True, slots=True)
class Stored:
    """An archive in a target.

    Attributes:
        header: What it is of; None if it cannot be read.
        fault: Why it cannot be used here; None if nothing is wrong.
    """

    name: str
    size: int
    header: Header | None
    fault: str | None


class StreamTarget:
    """A stream, which gets one archive."""

    folder = None
    names_at_once = True

    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream

    def place(self, name: str) -> str:
        """Return a hyphen: the archive has no name."""
        del name
        return "-"

    @contextmanager
    def writing(self, name: str) -> Iterator[BinaryIO]:
        """Yield the stream, and flush it at the end."""
        del name
        yield self._stream
        self._stream.flush()


class FolderTarget:
    """A folder of archives. Only complete archives have a name that ends in `SUFFIX`.

    Args:
        folder: Created when it is needed; files in it have the mode 0600.

    Attributes:
        folder: The free space of its disk can be read.
        names_at_once: Whether an archive gets its name in a moment, which no cancellation ends.
    """

    names_at_once = True

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def place(self, name: str) -> str:
        """Return where the archive *name* is, for people: its path."""
        return str(self.folder / name)

    @contextmanager
    def writing(self, name: str) -> Iterator[BinaryIO]:
        """Yield a new file, which gets its name when the block ends without error.

        Raises:
            OSError: It cannot be written.
        """
        private.make_folder(self.folder)
        self.remove_partial()
        partial = self.folder / f".{name}{PARTIAL}"
        try:
            with _open_locked(partial) as file:
                yield file
                private.sync(file)
                partial.rename(self.folder / name)
        except BaseException:
            partial.unlink(missing_ok=True)
            raise
        private.sync_folder(self.folder)

    def names(self) -> list[str]:
        """Return the names of the archives."""
        paths = self.folder.glob(f"*{SUFFIX}")
        return sorted(one.name for one in paths if is_name(one.name) and one.is_file())

    def size(self, name: str) -> int:
        """Return the size of an archive in bytes.

        Raises:
            ArchiveNotFound: There is none of this name.
        """
        try:
            return (self.folder / name).stat().st_size
        except FileNotFoundError as error:
            raise ArchiveNotFound from error

    @contextmanager
    def reading(self, name: str, *, buffer_bytes: int = BUFFER_BYTES) -> Iterator[BinaryIO]:
        """Open an archive of this folder. *name* is never a path; *buffer_bytes* are read at once.

        Raises:
            ArchiveNotFound: There is none of this name.
        """
        path = self.folder / checked_name(name)
        if not path.is_file():
            raise ArchiveNotFound
        with path.open("rb", buffering=buffer_bytes) as file:
            yield file

    def tail(self, name: str, size: int) -> bytes:
        """Return the last `TAIL_BYTES` of an archive of *size* bytes.

        Raises:
            ArchiveNotFound: There is none of this name.
        """
        with self.reading(name, buffer_bytes=TAIL_BYTES) as file:
            file.seek(max(size - TAIL_BYTES, 0))
            return file.read(TAIL_BYTES)

    def remove(self, name: str) -> None:
        """Remove an archive."""
        (self.folder / name).unlink(missing_ok=True)

    def remove_partial(self) -> list[str]:
        """Remove the incomplete archives of processes that were killed; return their names."""
        removed = []
        ignored = (FileNotFoundError, BlockingIOError, PermissionError)  # of another user
        for path in self.folder.glob(f".*{SUFFIX}{PARTIAL}"):
            with contextlib.suppress(*ignored), path.open("rb") as file:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                if _is_linked(file):  # else the name is already that of another file
                    path.unlink()
                    removed.append(path.name)
        return removed


Target = FolderTarget | S3Target
"""Where archives are stored. Only complete archives are listed."""
Destination = Target | StreamTarget
"""Where an archive is written to."""


def _open_locked(path: Path) -> BinaryIO:
    """Create a file, locked as long as this process lives, so that no other one removes it.

    Another process can remove it before it is locked; then it is created again.

    Raises:
        OSError: It cannot be created.
    """
    while True:
        file = private.open_new(path)
        fcntl.flock(file, fcntl.LOCK_EX)
        if _is_linked(file):
            return file
        file.close()


def _is_linked(file: BinaryIO) -> bool:
    return os.fstat(file.fileno()).st_nlink > 0


def stored(target: Target, keys: Keys) -> list[Stored]:
    """Return the archives of a target, the newest first, then those that cannot be read.

    Only the beginning and the end of each are read; `verify` reads all of it.
    """
    found = read_starts(target, target.names(), keys)
    return sorted(found, key=_newest_first)


def read_starts(target: Target, names: Sequence[str], keys: Keys) -> list[Stored]:
    """Return these archives, in their order; up to `READERS` are read at the same time."""
    context = copy_context()  # with the `Stop` of this work
    with ThreadPoolExecutor(READERS) as threads:
        found = threads.map(lambda name: context.copy().run(_stored, target, name, keys), names)
        return [one for one in found if one is not None]


def expired(archives: list[Stored], *, before: datetime, keep_last: int) -> list[Stored]:
    """Return the archives to remove: older than *before*, and not of the newest *keep_last*.

    Each tenant, and the catalog, is counted separately. Archives that are incomplete or cannot be
    read, and those of another installation, are not counted and never removed.
    """
    counts: dict[object, int] = {}
    chosen = []
    for one in archives:
        if one.header is None or one.fault is not None:
            continue
        of = one.header.tenant_id or one.header.kind
        counts[of] = counts.get(of, 0) + 1
        if counts[of] > keep_last and one.header.created_at < before:
            chosen.append(one)
    return chosen


def _stored(target: Target, name: str, keys: Keys) -> Stored | None:
    size = 0
    try:
        size = target.size(name)
        with target.reading(name, buffer_bytes=START_BYTES) as file:
            reader = ArchiveReader(file, keys, accepts_foreign=True)
        is_whole = is_tail(target.tail(name, size))
    except ArchiveNotFound:  # it was removed in the meantime
        return None
    except ArchiveDamaged:
        return Stored(name, size, None, "damaged")
    except ArchiveNewer:
        return Stored(name, size, None, "newer release")
    except (OSError, Unavailable):  # of S3; if all of it is away, `names` has raised that
        return Stored(name, size, None, "cannot be read")
    fault = "another secret key" if reader.is_foreign else None
    return Stored(name, size, reader.header, fault if is_whole else "incomplete")


def _newest_first(one: Stored) -> tuple[float, str]:
    return (-one.header.created_at.timestamp() if one.header else 0.0, one.name)
