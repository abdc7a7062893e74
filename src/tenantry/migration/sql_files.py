"""Folders of plain SQL files: a linear history in the order of the numbers of the files.

Three styles of names are read, one in a folder:

* ``0001_name.sql``, with an optional ``0001_name.down.sql``;
* golang-migrate's ``1_name.up.sql``, with an optional ``1_name.down.sql``;
* dbmate's ``20240101120000_name.sql``, with the sections ``-- migrate:up`` and
  ``-- migrate:down``, and their option ``transaction:false``.

The id of a revision is the number, as it is written. A number that is not the place of the file
among all is followed by that place, ``20240101120000.7``: otherwise a file that is added before one
that databases have already would never be applied to them, and nothing would say so.

``-- tenantry: no-transaction`` above the first statement of a file is what `autocommit_block` is to
a revision in Python.
"""

import contextlib
import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

from alembic.operations import Operations
from alembic.script import Script, ScriptDirectory
from alembic.script.revision import RevisionMap

from tenantry.kit.errors import Unavailable
from tenantry.migration import sql_text
from tenantry.migration.project import VERSIONS
from tenantry.migration.revisions import Revision

# Larger numbers are dates, such as 20240101: between them, none is missing.
CONSECUTIVE_MAX = 9_999_999

_NAME = re.compile(r"(?P<number>\d+)[_-][^\s/]*?(?P<way>\.up|\.down)?\.sql", re.ASCII)
_SECTION = re.compile(r"^--[ \t]*migrate:(?P<way>\S*)[ \t]*(?P<options>.*)$", re.MULTILINE)
_DIRECTIVE = re.compile(r"^\s*--\s*tenantry:\s*+(?!allow\b)(\S*)", re.MULTILINE)
_GUARDED_ON_SQLITE = re.compile(r"(ATTACH|DETACH|PRAGMA)\b", re.IGNORECASE)
NO_TRANSACTION = "no-transaction"


class BadSqlFile(Unavailable):
    """A file of SQL cannot be a revision; the message has the file, the line and the reason."""

    def __init__(self, path: Path, line: int, reason: str) -> None:
        super().__init__(f"{path.name}, line {line}: {reason}.")


@dataclass(frozen=True)
class Part:
    """The statements of a revision in one direction.

    Attributes:
        statements: One command each.
        is_outside: Whether they run outside a transaction on PostgreSQL.
    """

    statements: tuple[str, ...] = ()
    is_outside: bool = False


@dataclass(frozen=True)
class SqlRevision(Revision):
    """A revision in plain SQL, which is its own module.

    Attributes:
        up: What applies it.
        back: What undoes it; without statements if that is missing.
        has_sections: Whether both are sections of its file.
    """

    up: Part = Part()
    back: Part = Part()
    has_sections: bool = False

    @property
    def number(self) -> str:
        """The number in the name of its file."""
        return self.id.partition(".")[0]

    @property
    def part(self) -> Part:
        """What is sent: it is applied or undone."""
        return self.up if self.revealed is None else self.back

    def why_live(self, engine: str, version_table: str) -> str | None:
        """Return why the statements are sent one by one, and not as a recording, if they are."""
        if self.part.is_outside and engine == "postgresql":
            return "runs without a transaction"
        if any(version_table in one for one in self.part.statements):
            return f"names {version_table}"
        # The guard of a live revision decides what such a statement may do.
        is_guarded = engine == "sqlite" and any(map(_GUARDED_ON_SQLITE.match, self.part.statements))
        return "sends a PRAGMA" if is_guarded else None

    def load(self) -> Any:
        """Return itself, with the functions that a module has."""
        return self

    def upgrade(self, op: Operations) -> None:
        """Send the statements."""
        context, connection = op.get_context(), op.get_bind()
        with context.autocommit_block() if self.part.is_outside else contextlib.nullcontext():
            for sql in self.part.statements:
                # Without it, a driver takes `%` for the beginning of a parameter.
                connection.exec_driver_sql(sql, execution_options={"no_parameters": True})

    downgrade = upgrade


def is_sql_folder(folder: Path) -> bool:
    """Return whether *folder* has SQL files, and no ``versions/`` and no file of Python."""
    has_python = (folder / VERSIONS).is_dir() or any(folder.glob("*.py"))
    return not has_python and any(folder.glob("*.sql"))


def read_directory(folder: Path, stream: str) -> ScriptDirectory:
    """Return a folder of SQL files as Alembic's; `BadSqlFile` is raised when it is read."""
    directory = ScriptDirectory(str(folder))
    directory.revision_map = RevisionMap(lambda: map(_script, read_folder(folder, stream)))
    return directory


def _script(revision: SqlRevision) -> Script:
    module: Any = revision
    vars(module)["down_revision"] = next(iter(revision.down), None)
    return Script(module, revision.id, str(revision.path))


def read_folder(folder: Path, stream: str) -> list[SqlRevision]:
    """Return the revisions of a folder, in order.

    Raises:
        BadSqlFile: A file cannot be a revision, or the files are not one history.
    """
    ups: dict[int, tuple[str, Path]] = {}
    backs: dict[int, tuple[str, Path]] = {}
    for path in sorted(folder.rglob("*.sql")):
        named = _NAME.fullmatch(path.name)
        if named is None or path.parent != folder:
            reason = "its name must be a number, _ and text, directly in the folder"
            raise BadSqlFile(path, 1, reason)
        files, number = backs if named["way"] == ".down" else ups, int(named["number"])
        _, other = files.setdefault(number, (named["number"], path))
        if other != path:
            raise BadSqlFile(path, 1, f"{other.name} has the same number")
    for number in backs.keys() - ups.keys():
        raise BadSqlFile(backs[number][1], 1, "there is no file of this number that it undoes")
    for before, after in pairwise(sorted(ups)):
        if before + 1 < after <= CONSECUTIVE_MAX:
            raise BadSqlFile(ups[after][1], 1, f"number {before + 1} is missing before it")
    found: list[SqlRevision] = []
    for place, number in enumerate(sorted(ups), start=1):
        written, path = ups[number]
        revision_id = written if number == place else f"{written}.{place}"
        of = Revision(stream, revision_id, frozenset(one.id for one in found[-1:]), path)
        found.append(_read_revision(of, backs[number][1] if number in backs else None))
        first, last = found[0], found[-1]
        if (first.has_sections, suffix_of(first)) != (last.has_sections, suffix_of(last)):
            raise BadSqlFile(path, 1, f"{first.path.name} has another style")
    return found


def suffix_of(revision: Revision) -> str:
    """Return the end of the names of files in the style of a revision."""
    return revision.path.name.removeprefix(revision.path.stem.removesuffix(".up"))


def _read_revision(of: Revision, back: Path | None) -> SqlRevision:
    text = _read(of.path)
    sections = [*_SECTION.finditer(text)]
    ends = [*(one.start() for one in sections), len(text)]
    parts = [_part(of.path, text, 0, ends[0])]
    content = text
    if sections:
        ways = [one["way"] for one in sections]
        if parts.pop().statements or back or ways not in (["up"], ["up", "down"]):
            reason = "it must have `-- migrate:up`, perhaps `-- migrate:down` after it, and no more"
            raise _bad(of.path, text, ends[-2], reason)
        for one, end in zip(sections, ends[1:], strict=True):
            parts.append(_part(of.path, text, one.end(), end, one["options"].split()))
    elif back:
        other = _read(back)
        parts.append(_part(back, other, 0, len(other)))
        content += f"\0{other}"
    if not parts[0].statements:
        raise BadSqlFile(of.path, 1, "it has no statement")
    up, undo = [*parts, Part()][:2]
    revision = SqlRevision(
        of.stream, of.id, of.down, of.path, up=up, back=undo, has_sections=bool(sections)
    )
    vars(revision)["content"] = content.encode()  # read once: executed, and hashed
    return revision


def _read(path: Path) -> str:
    content = path.read_bytes()
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = 1 + content.count(b"\n", 0, error.start)
        raise BadSqlFile(path, line, "it is not encoded in UTF-8") from None


def _part(path: Path, text: str, begin: int, end: int, options: Sequence[str] = ()) -> Part:
    """Return the statements of a part of the *text* of a file."""
    statements: list[str] = []
    first = end
    try:
        for index, sql in sql_text.split(text[begin:end]):
            first = min(first, begin + index)
            statements.append(sql)
            reason = "Tenantry begins and ends the transaction: leave BEGIN and COMMIT out"
            if sql_text.needs_client(sql):
                reason = "COPY with the rows in the file works in psql only: use INSERT"
            elif not sql_text.begins_or_ends_transaction(sql):
                continue
            raise _bad(path, text, begin + index, reason)
    except sql_text.NotSplit as error:
        at = begin + error.index
        reason = "a literal, a comment, a parenthesis or BEGIN is not closed"
        if text[at] == "\\":
            reason = "commands of psql, such as \\copy, are not SQL"
        raise _bad(path, text, at, reason) from None
    said = [*options, *_DIRECTIVE.findall(text, begin, first)]
    if unknown := set(said) - {"transaction:true", "transaction:false", NO_TRANSACTION}:
        reason = f"{min(unknown)} is not known; there is `-- tenantry: {NO_TRANSACTION}`"
        raise _bad(path, text, begin, reason)
    return Part(tuple(statements), not {"transaction:false", NO_TRANSACTION}.isdisjoint(said))


def _bad(path: Path, text: str, index: int, reason: str) -> BadSqlFile:
    return BadSqlFile(path, 1 + text.count("\n", 0, index), reason)
