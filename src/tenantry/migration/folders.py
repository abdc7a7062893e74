"""Check that a folder of revisions is an Alembic directory: that it contains ``versions/``.

Alembic reads any other folder as a history without revisions. Then every database would be at
its head.
"""

import re
from pathlib import Path

VERSIONS = "versions"
CANDIDATES_MAX = 100
READ_BYTES_MAX = 65_536

_REVISION = re.compile(rb"^(?:down_)?revision\b[^\n=]*=", re.MULTILINE)


def find_mistake(folder: Path) -> str | None:
    """Return what is wrong with the layout of *folder*, and which folder to set; or None."""
    if (folder / VERSIONS).is_dir():
        return None
    mistake = f"{folder} contains no folder `{VERSIONS}`."
    if folder.name == VERSIONS or _has_revision(folder):
        if folder.parent.joinpath(VERSIONS) != folder:
            return f"{mistake} Move its revisions into {folder / VERSIONS}."
        return f"{mistake} Use its parent folder: {folder.parent}."
    below = [one.parent for one in sorted(folder.glob(f"*/{VERSIONS}"))[:CANDIDATES_MAX]]
    right = [one for one in below if has_revisions(one)]
    if right:
        return f"{mistake} Use the folder that contains it: {right[0]}."
    return f"{mistake} Use the Alembic directory that contains it."


def has_revisions(folder: Path) -> bool:
    """Return whether any file of an Alembic directory has the form of a revision."""
    return any(_is_revision(file) for file in (folder / VERSIONS).rglob("*.py"))


def _has_revision(folder: Path) -> bool:
    return any(_is_revision(file) for file in folder.glob("*.py"))


def _is_revision(file: Path) -> bool:
    try:
        with file.open("rb") as opened:
            return _REVISION.search(opened.read(READ_BYTES_MAX)) is not None
    except OSError:
        return False
