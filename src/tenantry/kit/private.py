"""Folders and files that only their owner can open, independent of the umask."""

import contextlib
import errno
import io
import os
import stat
from collections.abc import Iterator
from itertools import takewhile
from pathlib import Path
from typing import Any, BinaryIO

FOLDER_MODE = 0o700
FILE_MODE = 0o600
OTHERS = 0o077


def make_folder(folder: Path) -> None:
    """Create *folder* and missing parents; an existing one keeps its mode.

    Raises:
        OSError: It cannot be created, or a file has the name.
    """
    missing = list(takewhile(lambda one: not one.exists(), (folder, *folder.parents)))
    for one in reversed(missing):
        with contextlib.suppress(FileExistsError):  # another process was faster
            one.mkdir(mode=FOLDER_MODE)
    # Another process may have removed it again; the caller finds out when it uses it.
    if folder.exists() and not folder.is_dir():
        raise FileExistsError(errno.EEXIST, "Not a folder", str(folder))


def make_file(path: Path) -> None:
    """Create an empty file; an existing one keeps its mode.

    It is not opened: to close any handle of a file ends the locks of SQLite in this process.
    Source: https://www.sqlite.org/howtocorrupt.html
    """
    with contextlib.suppress(FileExistsError):
        os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, FILE_MODE))


def open_new(path: Path) -> BinaryIO:
    """Create a file and open it for writing.

    Raises:
        FileExistsError: It exists.
    """
    return io.BufferedWriter(_Named(path, "xb", opener=_create))


def _create(path: str, flags: int) -> int:
    return os.open(path, flags, FILE_MODE)


class _Named(io.FileIO):
    """A file with errors that name it, as those of opening it do."""

    def write(self, data: Any) -> int:
        with naming(self.name):
            return super().write(data)


@contextlib.contextmanager
def naming(path: Any) -> Iterator[None]:
    """Put *path* into the errors of the system in the block, which concern an open file."""
    try:
        yield
    except OSError as error:
        error.filename = error.filename or str(path)
        raise


def sync(file: BinaryIO) -> None:
    """Make the contents of an open file durable.

    Raises:
        OSError: They cannot be written; it names the file.
    """
    with naming(file.name):
        file.flush()
        os.fsync(file.fileno())


def sync_folder(folder: Path) -> None:
    """Make the names in a folder durable: syncing a new file does not sync its name."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        with naming(folder):
            os.fsync(handle)
    finally:
        os.close(handle)


def is_open_to_others(path: Path) -> bool:
    """Return whether the mode of *path* gives access to its group or to other users."""
    try:
        found = path.lstat()
    except FileNotFoundError:
        return False
    # The mode of a symbolic link means nothing.
    return not stat.S_ISLNK(found.st_mode) and bool(found.st_mode & OTHERS)
