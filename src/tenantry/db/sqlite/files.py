"""Create, copy, move and remove SQLite files. These functions block: call them in a thread."""

import contextlib
import errno
import os
import shutil
import sqlite3
import tempfile
import time
from pathlib import Path

from tenantry.db.sessions import DatabaseUnavailable
from tenantry.db.sqlite import connections as sqlite
from tenantry.kit import private
from tenantry.kit.clock import monotonic_seconds

DISK_ERRORS = frozenset({errno.EDQUOT, errno.EFBIG, errno.EIO, errno.ENOSPC, errno.EROFS})
"""Errors of a disk, and not of a connection to a server."""
FILE_ERRORS = DISK_ERRORS | {
    errno.EACCES,
    errno.EEXIST,
    errno.EISDIR,
    errno.ENAMETOOLONG,
    errno.ENOENT,
    errno.ENOTDIR,
    errno.EPERM,
}
"""Errors of a file; the others of the operating system are those of connections."""
SIDE_FILES = ("-wal", "-shm", "-journal")
# What must fit on the disk for a folder to count as writable: some pages of SQLite.
PROBE_BYTES = 65_536
# How long `create` waits for others that create the same file, and between two tries.
CREATE_SECONDS_MAX = 5
CREATE_POLL_SECONDS = 0.01


def create(path: Path) -> None:
    """Create an empty database file, and its folder; a file with content remains as it is.

    WAL mode is stored in the file, so set once. Several processes may do so at once.

    Raises:
        DatabaseUnavailable: The file cannot be written.
    """
    try:
        private.make_folder(path.parent)
        # SQLite gives the log the same mode. The target of a link may be missing, too.
        private.make_file(path.resolve())
        if path.stat().st_size:
            return
        with contextlib.closing(sqlite3.connect(sqlite.file_uri(path), uri=True)) as raw:
            _set_wal(raw)
        private.sync_folder(path.parent)
    except (OSError, sqlite3.Error) as error:
        raise DatabaseUnavailable from error


def _set_wal(raw: sqlite3.Connection) -> None:
    """Set WAL mode, and wait for others that set it: SQLite rejects one of two, without a wait.

    The pragma reads before it writes, and two readers that want to write would wait for each other.
    Source: https://www.sqlite.org/c3ref/busy_handler.html
    """
    until = monotonic_seconds() + CREATE_SECONDS_MAX
    while True:
        try:
            raw.execute("PRAGMA journal_mode = WAL")
        except sqlite3.OperationalError as error:
            busy = error.sqlite_errorcode & 0xFF == sqlite3.SQLITE_BUSY
            if not busy or monotonic_seconds() > until:
                raise
            time.sleep(CREATE_POLL_SECONDS)
        else:
            return


def copy(template: Path, target: Path) -> bool:
    """Copy *template* to *target*; return False if *template* does not exist.

    The name of *target* is durable, its contents are not yet (see `sync`).

    Raises:
        DatabaseUnavailable: The file cannot be written.
    """
    try:
        private.make_folder(target.parent)
        with template.open("rb") as source, private.open_new(target) as copied:
            shutil.copyfileobj(source, copied)
        private.sync_folder(target.parent)
    except FileNotFoundError:
        return False
    except OSError as error:
        raise DatabaseUnavailable from error
    return True


def sync(path: Path) -> None:
    """Make the contents of a file durable that was written without fsync.

    Raises:
        DatabaseUnavailable: The file cannot be synced.
    """
    try:
        with path.open("rb") as file:
            private.sync(file)
    except OSError as error:
        raise DatabaseUnavailable from error


def check_complete(path: Path) -> None:
    """Check that a database file which no connection has open is complete without its log.

    The last connection moves the log into the file when it closes, and does not report a failure.

    Raises:
        DatabaseUnavailable: That failed.
    """
    if Path(f"{path}-wal").exists():
        raise DatabaseUnavailable from OSError(
            errno.EIO, "The log cannot be moved into the file", str(path)
        )


def move(draft: Path, template: Path) -> None:
    """Rename *draft* to *template*, and replace the file of that name.

    Raises:
        DatabaseUnavailable: A part of *draft* is still in its log.
    """
    private.make_folder(template.parent)
    check_complete(draft)
    draft.replace(template)
    private.sync_folder(template.parent)


def remove(path: Path) -> None:
    """Remove a database file and SQLite's -wal, -shm and -journal files, if they exist."""
    for suffix in ("", *SIDE_FILES):
        Path(f"{path}{suffix}").unlink(missing_ok=True)


def check_folder(folder: Path) -> None:
    """Check that a folder is not empty, and that `PROBE_BYTES` can be written there.

    An empty folder can be the mount point of a file system that is not mounted.

    Raises:
        OSError: It is missing, empty, full or read-only.
    """
    if not any(folder.iterdir()):
        raise FileNotFoundError
    with tempfile.TemporaryFile(dir=folder) as file:
        file.write(bytes(PROBE_BYTES))
        file.flush()
        os.fsync(file.fileno())
