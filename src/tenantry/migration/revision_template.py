"""Write the file of a new revision, for a developer to complete."""

import re
from collections.abc import Sequence
from pathlib import Path

from tenantry.kit.clock import utc_now
from tenantry.kit.errors import Conflict, Invalid
from tenantry.kit.ids import new_id
from tenantry.migration.project import VERSIONS, find_mistake
from tenantry.migration.revisions import Revision
from tenantry.migration.schema_state import BASE
from tenantry.migration.sql_files import is_sql_folder, read_folder, suffix_of
from tenantry.migration.streams import NoRevisions, Stream

SLUG_CHARS_MAX = 40
ID_CHARS = 12  # as in Alembic's revision ids

_TEMPLATE = '''\
"""{message}"""

import sqlalchemy as sa
from alembic import op

revision = "{revision}"
down_revision = {down_revision}


def upgrade() -> None:
    """Change the database of one tenant. It runs for each tenant, in a transaction."""
    raise NotImplementedError
'''


class BadMessage(Invalid):
    """The message must be one line with Latin letters or digits, without quotes or backslashes."""


class DraftExists(Conflict):
    """The file exists already."""


def write_draft(folder: Path, message: str) -> Revision:
    """Write the file of a new revision that follows the head of *folder*, and return it.

    The new revision raises an error until it is completed: an empty one would be applied.
    In a numbered history (``0007_add_terms.py``) its id is the next number; otherwise it is
    random, as in Alembic. In a folder of plain SQL it is a file in the style of the others, and
    has the time as its number if they have.

    Args:
        folder: The folder of the revisions; it and its ``versions/`` are created if missing.
        message: What the revision does.

    Raises:
        BadMessage: It is not one line, or has no characters for a file name.
        BadStream, BadSqlFile: The existing revisions cannot be read, or have several heads.
        DraftExists: The file exists already.
    """
    slug = re.sub(r"\W+", "_", message.lower(), flags=re.ASCII)[:SLUG_CHARS_MAX].strip("_")
    if not slug or not message.isprintable() or set(message) & set('"\\'):
        raise BadMessage
    if is_sql_folder(folder):
        return _write_sql(folder, message, slug)
    versions = folder / VERSIONS
    if folder.is_dir() and any(folder.iterdir()) and (mistake := find_mistake(folder)):
        raise NoRevisions(f"The user revisions cannot be read: {mistake}")
    versions.mkdir(parents=True, exist_ok=True)
    stream = Stream("user", folder)
    head, revisions = _read(stream)
    revision_id = _id_after(head)
    text = _TEMPLATE.format(
        message=message,
        revision=revision_id,
        down_revision="None" if head == BASE else f'"{head}"',
    )
    path = versions / f"{revision_id}_{slug}.py"
    if revisions:  # in the folder of the newest one: some histories have a folder for each year
        beside = revisions[-1].path.parent.relative_to(versions.resolve())
        path = versions / beside / path.name
    _write(path, text)
    return Revision(stream.name, revision_id, frozenset({head} - {BASE}), path)


def _write_sql(folder: Path, message: str, slug: str) -> Revision:
    """Write a file in the style of the newest one; a comment alone is no statement."""
    newest = read_folder(folder, "user")[-1]
    number = _id_after(newest.number)
    if len(number) == len(now := f"{utc_now():%Y%m%d%H%M%S}"):
        number = max(number, now)
    path = folder / f"{number}_{slug}{suffix_of(newest)}"
    text = f"-- {message}\n"
    _write(path, f"-- migrate:up\n{text}\n-- migrate:down\n" if newest.has_sections else text)
    return Revision(newest.stream, number, frozenset({newest.id}), path)


def _write(path: Path, text: str) -> None:
    try:
        with path.open("x", encoding="utf-8") as file:
            file.write(text)
    except FileExistsError as error:
        raise DraftExists(f"The file {path} exists already.") from error


def _read(stream: Stream) -> tuple[str, Sequence[Revision]]:
    try:
        return stream.head, stream.revisions
    except NoRevisions:
        return BASE, []


def _id_after(head: str) -> str:
    if head == BASE:
        return "0001"
    if head.isascii() and head.isdigit():
        return str(int(head) + 1).zfill(len(head))
    return new_id().hex[-ID_CHARS:]
