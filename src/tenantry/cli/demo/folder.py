"""The demo's own folder: identified by a marker file, and emptied at each start."""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tenantry.cli.serving.server import LOCK_FILE, locked
from tenantry.kit import private
from tenantry.kit.errors import Unavailable

MARKER = ".tenantry-demo"
SAID = "`tenantry demo` created this folder, and empties it at each start.\n"


class FolderRefused(Unavailable):
    """The folder was not created by a demo, and is not changed; the message names it."""


@contextmanager
def fresh(folder: Path) -> Iterator[None]:
    """Create *folder*, or empty it, and hold its lock during the block.

    Raises:
        FolderRefused: It is not empty, and no demo has created it.
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
            f"{folder} exists, and no demo created it: use another --folder, or remove it."
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
