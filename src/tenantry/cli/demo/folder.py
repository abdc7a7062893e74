"""The demo's own folder: known by a marker, and emptied at each start."""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tenantry.cli.server import LOCK_FILE, locked
from tenantry.kit import private
from tenantry.kit.errors import Unavailable

MARKER = ".tenantry-demo"
SAID = "`tenantry demo` made this folder, and empties it whenever it starts.\n"


class FolderRefused(Unavailable):
    """The folder is not the demo's, and is left alone; the message says which."""


@contextmanager
def fresh(folder: Path) -> Iterator[None]:
    """Make *folder*, or empty it, and hold its lock while the block lasts.

    Raises:
        FolderRefused: It holds something, and no demo has made it.
        FolderInUse: Another demo is running in it.
    """
    _claim(folder)
    with locked(folder):
        _empty(folder)
        yield


def _claim(folder: Path) -> None:
    marker = folder / MARKER
    if marker.is_file():
        return
    if folder.exists() and not (folder.is_dir() and not any(folder.iterdir())):
        raise FolderRefused(
            f"{folder} is there, and no demo made it: name another with --folder, or remove it."
        )
    private.make_folder(folder)
    private.make_file(marker)
    marker.write_text(SAID)


def _empty(folder: Path) -> None:
    for one in folder.iterdir():
        if one.name in {MARKER, LOCK_FILE}:
            continue
        if one.is_dir() and not one.is_symlink():
            shutil.rmtree(one)
        else:
            one.unlink()
