"""Check that a folder of revisions is an Alembic directory: one with ``versions/`` in it.

Alembic reads a folder that is none as a history without a revision, so that every database
would be at its head.
"""

import re
from pathlib import Path

VERSIONS = "versions"
CANDIDATES_MAX = 100
READ_BYTES_MAX = 65_536

_REVISION = re.compile(rb"^(?:down_)?revision\b[^\n=]*=", re.MULTILINE)


def find_mistake(folder: Path) -> str | None:
    """Return what is wrong with the layout of *folder*, and which one to name; or None."""
    if (folder / VERSIONS).is_dir():
        return None
    mistake = f"{folder} has no folder `{VERSIONS}` in it."
    if folder.name == VERSIONS or _has_revision(folder):
        if folder.parent.joinpath(VERSIONS) != folder:
            return f"{mistake} Move its revisions into {folder / VERSIONS}."
        return f"{mistake} Name the folder above it: {folder.parent}."
    below = [one.parent for one in sorted(folder.glob(f"*/{VERSIONS}"))[:CANDIDATES_MAX]]
    right = [one for one in below if has_revisions(one)]
    if right:
        return f"{mistake} Name the folder that has one: {right[0]}."
    return f"{mistake} Name the Alembic directory that has one."


def has_revisions(folder: Path) -> bool:
    """Tell whether a file of an Alembic directory looks like a revision."""
    return any(_is_revision(file) for file in (folder / VERSIONS).rglob("*.py"))


def _has_revision(folder: Path) -> bool:
    return any(_is_revision(file) for file in folder.glob("*.py"))


def _is_revision(file: Path) -> bool:
    try:
        with file.open("rb") as opened:
            return _REVISION.search(opened.read(READ_BYTES_MAX)) is not None
    except OSError:
        return False
