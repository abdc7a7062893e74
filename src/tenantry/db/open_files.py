"""The SQLite file that a connection has open. Later its path can lead to another file, or to none.

A file that is removed or replaced stays open, and anything written to it is lost when the last
connection closes. So the file at the path is compared with the open file before each use.

Source: https://www.sqlite.org/howtocorrupt.html#unlinking_or_renaming_a_database_file_while_in_use
"""

import os
from dataclasses import dataclass
from pathlib import Path

import structlog

from tenantry.kit.errors import Unavailable

LOG_HEADER_BYTES = 32  # they include two random salts

_log = structlog.get_logger(__name__)

Identity = tuple[int, int]
"""The device and the inode of a file. They are not reused while the file is open."""


class FileMissing(Unavailable):
    """The database file does not exist, or cannot be opened."""


class FileReplaced(Unavailable):
    """The database file was replaced by another file."""


class LogLeftBehind(FileReplaced):
    """The database file was replaced while it was in use: the operator must restore it."""


@dataclass(frozen=True, slots=True)
class OpenFile:
    """A database file, and its write-ahead log, as they were when *path* was opened."""

    path: str
    identity: Identity
    log: Identity | None = None

    @property
    def is_there(self) -> bool:
        """Whether the path still leads to this file. This costs one system call."""
        try:
            found = os.stat(self.path)  # noqa: PTH116 - half the time of Path.stat
        except OSError:
            return False
        return (found.st_dev, found.st_ino) == self.identity

    def check(self) -> None:
        """Check that the path still leads to this file.

        Raises:
            FileMissing, FileReplaced: It does not.
        """
        if not self.is_there:
            raise FileReplaced if _identity(self.path) else FileMissing

    def log_left_behind(self) -> "LeftLog | None":
        """Return the log of this file if the log still exists, but the file does not."""
        log = _log_of(self.path)
        if self.log is None or self.is_there or _identity(log) != self.log:
            return None
        header = _read_header(log)
        return LeftLog(self, header) if header else None


@dataclass(frozen=True, slots=True)
class LeftLog:
    """The write-ahead log of a database file that was replaced.

    SQLite would apply it to the new file, and corrupt that file.

    Attributes:
        header: The first `LOG_HEADER_BYTES` of the log.
    """

    file: OpenFile
    header: bytes

    def check(self) -> None:
        """Check that no other database file is at the path of this log.

        Raises:
            LogLeftBehind: There is another file.
        """
        path = self.file.path
        if not self.file.is_there and _read_header(_log_of(path)) == self.header:
            _log.error(
                "a database file was replaced, but the -wal file of the old one is still there: "
                "restore the old file, or remove the -wal and -shm files",
                path=path,
            )
            raise LogLeftBehind


def find(path: Path) -> OpenFile:
    """Return the file at *path*, before it is opened.

    Raises:
        FileMissing: There is no file.
    """
    identity = _identity(str(path))
    if identity is None:
        raise FileMissing
    return OpenFile(str(path), identity)


def with_log(file: OpenFile) -> OpenFile:
    """Return *file*, which is open now, with the log that SQLite has created for it."""
    return OpenFile(file.path, file.identity, _identity(_log_of(file.path)))


def _log_of(path: str) -> str:
    return f"{path}-wal"


def _identity(path: str) -> Identity | None:
    try:
        found = os.stat(path)  # noqa: PTH116 - as above
    except OSError:
        return None
    return found.st_dev, found.st_ino


def _read_header(path: str) -> bytes:
    try:
        with Path(path).open("rb") as file:
            return file.read(LOG_HEADER_BYTES)
    except OSError:
        return b""
