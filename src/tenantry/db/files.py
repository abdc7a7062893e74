"""SQLite files: made, copied, moved and removed. None of it belongs into the event loop."""

import contextlib
import os
import shutil
import sqlite3
import tempfile
from pathlib import Path

from tenantry.db import sqlite
from tenantry.db.sessions import DatabaseUnavailable
from tenantry.kit import private

SIDE_FILES = ("-wal", "-shm", "-journal")
# What must fit on the disk for a folder to count as writable: some pages of SQLite.
PROBE_BYTES = 65_536


def create(path: Path) -> None:
    """Make an empty database file, and its folder. WAL is a property of the file: set once.

    Raises:
        DatabaseUnavailable: The disk refuses.
    """
    try:
        private.make_folder(path.parent)
        private.make_file(path)  # its log gets the same mode
        with contextlib.closing(sqlite3.connect(sqlite.file_uri(path), uri=True)) as raw:
            raw.execute("PRAGMA journal_mode = WAL")
        sync_folder(path.parent)
    except (OSError, sqlite3.Error) as error:
        raise DatabaseUnavailable from error


def copy(template: Path, target: Path) -> bool:
    """Make *target* a copy of *template*; return False if there is none.

    Its name is durable, but what is in it is not yet.

    Raises:
        DatabaseUnavailable: The disk refuses.
    """
    try:
        private.make_folder(target.parent)
        with template.open("rb") as source, private.open_new(target) as copied:
            shutil.copyfileobj(source, copied)
        sync_folder(target.parent)
    except FileNotFoundError:
        return False
    except OSError as error:
        raise DatabaseUnavailable from error
    return True


def sync(path: Path) -> None:
    """Make what is in a file durable, that was written without care.

    Raises:
        DatabaseUnavailable: The disk refuses.
    """
    try:
        with path.open("rb") as file:
            os.fsync(file.fileno())
    except OSError as error:
        raise DatabaseUnavailable from error


def move(draft: Path, template: Path) -> None:
    """Give a file another name, in place of what has it."""
    private.make_folder(template.parent)
    # The last connection that closed has taken the WAL back into the file.
    draft.replace(template)
    sync_folder(template.parent)


def remove(path: Path) -> None:
    """Remove a file, and what SQLite keeps beside it; it need not be there."""
    for suffix in ("", *SIDE_FILES):
        Path(f"{path}{suffix}").unlink(missing_ok=True)


def check_folder(folder: Path) -> None:
    """Check that a folder holds something, and that `PROBE_BYTES` can be written there.

    A folder whose file system is not mounted is empty.

    Raises:
        OSError: It is missing, empty, full or read-only.
    """
    if not any(folder.iterdir()):
        raise FileNotFoundError
    with tempfile.TemporaryFile(dir=folder) as file:
        file.write(bytes(PROBE_BYTES))
        file.flush()
        os.fsync(file.fileno())


def sync_folder(folder: Path) -> None:
    """Make the names in a folder durable: a new one is not, when its file is."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
