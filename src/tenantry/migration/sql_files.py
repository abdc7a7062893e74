"""Directories of plain SQL files: a linear history in the order of the numbers of the files.

Three styles of names are read, one in a folder:

* ``0001_name.sql``, with an optional ``0001_name.down.sql``;
* golang-migrate's ``1_name.up.sql``, with an optional ``1_name.down.sql``;
* dbmate's ``20240101120000_name.sql``, with the sections ``-- migrate:up`` and
  ``-- migrate:down``, and their option ``transaction:false``.

The id of a revision is the number, as it is written. A date is followed by the place of the file
among all, ``20240101120000.7``: otherwise a file that is added before one that databases have
already would never be applied to them, and nothing would say so.

``-- tenantry: no-transaction`` above the first statement of a file is what `autocommit_block` is to
a revision in Python.
"""

import contextlib
import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from alembic.operations import Operations
from alembic.script import Script, ScriptDirectory

from tenantry.kit.errors import Unavailable
from tenantry.migration import sql_text
from tenantry.migration.project import VERSIONS
from tenantry.migration.revisions import Revision

# Larger numbers are dates, such as 20240101: between them, none is missing.
CONSECUTIVE_MAX = 9_999_999

_NAME = re.compile(r"(?P<number>\d+)[_-][^\s/]*?(?P<way>\.up|\.down)?\.sql", re.ASCII)
_SECTION = re.compile(r"^--[ \t]*migrate:(?P<way>\S*)[ \t]*(?P<options>.*)$", re.MULTILINE)
_DIRECTIVE = re.compile(r"^\s*--\s*tenantry:\s*(?P<what>\S*)", re.MULTILINE)
_GUARDED = frozenset({"ATTACH", "DETACH", "PRAGMA"})
NO_TRANSACTION = "no-transaction"


class BadSqlFile(Unavailable):
    """A file of SQL cannot be a revision; the message has the file, the line and the reason."""

    def __init__(self, path: Path, line: int, reason: str) -> None:
        super().__init__(f"{path.name}, line {line}: {reason}.")


@dataclass(frozen=True)
class Part:
    """What a revision sends in one direction.

    Attributes:
        statements: One command each.
        is_outside: Whether they run outside a transaction on PostgreSQL.
    """

    statements: tuple[str, ...] = ()
    is_outside: bool = False


@dataclass(frozen=True)
class SqlRevision(Revision):
    """A revision in plain SQL.

    Attributes:
        up: What applies it.
        back: What undoes it; without statements if that is missing.
    """

    up: Part = Part()
    back: Part = Part()

    @property
    def part(self) -> Part:
        """What is sent: it is applied or undone."""
        return self.up if self.revealed is None else self.back

    @property
    def number(self) -> str:
        """The number in the name of its file."""
        return self.id.partition(".")[0]

    @property
    def back_name(self) -> str:
        """Where what undoes it is, or belongs: a section, or a file."""
        is_section = _SECTION.search(self.content.decode()) is not None
        return "its section `-- migrate:down`" if is_section else f"{self.name}.down.sql"

    def why_live(self, engine: str, version_table: str) -> str | None:
        """Return why the statements are sent one by one, and not as a recording, if they are."""
        if self.part.is_outside and engine == "postgresql":
            return "runs without a transaction"
        if any(version_table in one for one in self.part.statements):
            return f"names {version_table}"
        # The guard of a live revision decides what such a statement may do.
        sent = (sql_text.read(one).commands[:1] for one in self.part.statements)
        guarded = _GUARDED.intersection(words[0] for one in sent for words in one if words)
        return f"sends {min(guarded)}" if guarded and engine == "sqlite" else None

    def load(self) -> Any:
        """Return what takes the place of a module: functions that send the statements."""
        return SimpleNamespace(upgrade=self._send, downgrade=self._send)

    def _send(self, op: Operations) -> None:
        context, connection = op.get_context(), op.get_bind()
        outside = context.autocommit_block() if self.part.is_outside else contextlib.nullcontext()
        with outside:
            for sql in self.part.statements:
                # Without it, a driver takes `%` for the beginning of a parameter.
                connection.exec_driver_sql(sql, execution_options={"no_parameters": True})


class _SqlScript(Script):
    def __init__(self, revision: SqlRevision) -> None:
        module: Any = SimpleNamespace(down_revision=next(iter(revision.down), None))
        super().__init__(module, revision.id, str(revision.path))
        self.of = revision


class SqlDirectory(ScriptDirectory):
    """A folder of SQL files, as Alembic reads a history.

    Raises:
        BadSqlFile: When its revisions are read.
    """

    def __init__(self, folder: Path, stream: str) -> None:
        super().__init__(str(folder))
        self._folder = folder
        self._stream = stream

    def _load_revisions(self) -> Iterator[Script]:
        return map(_SqlScript, read_folder(self._folder, self._stream))


def is_sql_folder(folder: Path) -> bool:
    """Return whether *folder* has SQL files, and no ``versions/`` and no file of Python."""
    has_python = (folder / VERSIONS).is_dir() or any(folder.glob("*.py"))
    return not has_python and any(folder.glob("*.sql"))


def revision_of(script: Script) -> SqlRevision | None:
    """Return the revision in plain SQL of a *script*; None if it is one in Python."""
    return script.of if isinstance(script, _SqlScript) else None


def style_of(revision: SqlRevision) -> tuple[str, bool]:
    """Return the end of the names in the style of a revision, and whether it has sections."""
    text = revision.content.decode()
    is_up = revision.path.stem.endswith(".up")
    return ".up.sql" if is_up else ".sql", _SECTION.search(text) is not None


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
    numbers = sorted(ups)
    for before, after in pairwise(numbers):
        if before + 1 < after <= CONSECUTIVE_MAX:
            missing = str(before + 1).zfill(len(ups[after][0]))
            raise BadSqlFile(ups[after][1], 1, f"{missing} is missing before it: leave no gap")
    found: list[SqlRevision] = []
    for place, number in enumerate(numbers, start=1):
        written, path = ups[number]
        revision_id = written if number <= CONSECUTIVE_MAX else f"{written}.{place}"
        of = Revision(stream, revision_id, frozenset(one.id for one in found[-1:]), path)
        revision = _read_revision(of, backs[number][1] if number in backs else None)
        if found and style_of(revision) != style_of(found[0]):
            raise BadSqlFile(revision.path, 1, f"{found[0].path.name} has another style")
        found.append(revision)
    return found


def _read_revision(of: Revision, back: Path | None) -> SqlRevision:
    path = of.path
    files = [path, back] if back else [path]
    texts = [_read(one) for one in files]
    if _SECTION.search(texts[0]) is None:
        parts = [_part(one, text, 0) for one, text in zip(files, texts, strict=True)]
    elif back is None:
        parts = _parts_of_sections(path, texts[0])
    else:
        raise BadSqlFile(back, 1, f"{path.name} has sections: write it there")
    if not parts[0].statements:
        raise BadSqlFile(path, 1, "it has no statement")
    revision = SqlRevision(of.stream, of.id, of.down, path, None, None, *parts)
    # Read once: this is what is executed, and what the hash is of.
    vars(revision)["content"] = "\0".join(texts).encode()
    return revision


def _read(path: Path) -> str:
    content = path.read_bytes()
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = 1 + content.count(b"\n", 0, error.start)
        raise BadSqlFile(path, line, "it is not encoded in UTF-8") from None
    if "\0" in text:
        raise BadSqlFile(path, _line(text, text.index("\0")), "it has a NUL character")
    return text


def _line(text: str, index: int) -> int:
    return 1 + text.count("\n", 0, index)


def _parts_of_sections(path: Path, text: str) -> list[Part]:
    """Return the parts of a file with sections."""
    sections = list(_SECTION.finditer(text))
    if [one["way"] for one in sections] not in (["up"], ["up", "down"]):
        reason = "the sections must be `-- migrate:up`, and perhaps `-- migrate:down` after it"
        raise BadSqlFile(path, _line(text, sections[-1].start()), reason)
    if _part(path, text[: sections[0].start()], 0).statements:
        raise BadSqlFile(path, 1, "there is a statement before `-- migrate:up`")
    parts: list[Part] = []
    ends = [one.start() for one in sections[1:]] + [len(text)]
    for section, end in zip(sections, ends, strict=True):
        options, line = section["options"].split(), _line(text, section.start())
        if not {"transaction:true", "transaction:false"}.issuperset(options):
            raise BadSqlFile(path, line, "the only option is `transaction:false`")
        part = _part(path, text[section.end() : end], line - 1)
        is_outside = part.is_outside or "transaction:false" in options
        parts.append(Part(part.statements, is_outside))
    return parts


def _part(path: Path, text: str, lines_before: int) -> Part:
    """Return the statements of a text, which follows *lines_before* lines of its file."""
    statements: list[str] = []
    first = len(text)
    try:
        for index, sql in sql_text.split(text):
            if sql_text.begins_or_ends_transaction(sql):
                reason = "Tenantry begins and ends the transaction: leave BEGIN and COMMIT out"
                raise sql_text.NotSplit(index, reason)  # noqa: TRY301 - it has the place
            if sql_text.needs_client(sql):
                reason = "COPY with the rows in the file works in psql only: use INSERT"
                raise sql_text.NotSplit(index, reason)  # noqa: TRY301
            first = min(first, index)
            statements.append(sql)
    except sql_text.NotSplit as error:
        raise BadSqlFile(path, lines_before + _line(text, error.index), error.reason) from None
    said = [(one["what"], one.end()) for one in _DIRECTIVE.finditer(text[:first])]
    for what, end in said:
        if what != NO_TRANSACTION:
            reason = f"`-- tenantry: {what}` is not known; there is `{NO_TRANSACTION}`"
            raise BadSqlFile(path, lines_before + _line(text, end), reason)
    return Part(tuple(statements), bool(said))
