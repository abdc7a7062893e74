"""Record a revision once, as statements that every database then runs.

``upgrade()`` runs with an ``op`` without a database. Text, DDL and inserts of plain values are
recorded, with the values as literals. Anything else stops the recording, and the revision runs
live: an access to the connection or to anything that depends on a database, any other kind of
statement or value, an ``except``, a difference between two recordings, and ``online = True``. In
doubt, a revision runs live.
"""

import ast
import contextlib
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from functools import lru_cache
from token import NAME
from tokenize import TokenError, tokenize
from typing import Any, TypeVar

import sqlalchemy as sa
from alembic.ddl.impl import DefaultImpl
from sqlalchemy.schema import ExecutableDDLElement
from sqlalchemy.sql import visitors
from sqlalchemy.sql.compiler import SQLCompiler
from sqlalchemy.sql.dml import Delete, Insert, Update

from tenantry.migration import sql_text
from tenantry.migration.alembic_modules import RevisionContext
from tenantry.migration.dialects import Unrecordable, refuse
from tenantry.migration.revisions import Revision, is_online, parse, upgrade

# A revision that computes for longer than this runs live.
RECORD_SECONDS_MAX = 2.0
INTEGER_MAX = 2**31 - 1

Result = TypeVar("Result")

_one_at_a_time = threading.Lock()

# Only these types, without subclasses: for them, the server treats a literal like a bound
# parameter, with any driver.
_TEXTS = {sa.String, sa.Text, sa.Unicode, sa.UnicodeText, sa.VARCHAR, sa.TEXT}
_INTEGERS = {sa.Integer, sa.INTEGER}
_OTHER_INTEGERS = {sa.BigInteger, sa.SmallInteger, sa.BIGINT, sa.SMALLINT}
_BOOLEANS = {sa.Boolean, sa.BOOLEAN}
_LIBRARIES = ("sqlalchemy.", "alembic.")
# A revision with one of these words is not recorded: it handles errors, which depend on the
# database, or it listens to events.
_LIVE_WORDS = frozenset(
    {"suppress", "__exit__", "contextmanager", "event", "listen", "listens_for", "run_async"}
)
# Any other import can catch errors, or keep state between two calls.
_KNOWN_IMPORTS = frozenset({"alembic", "sqlalchemy", *sys.stdlib_module_names})


class Unrecorded(Enum):
    """How a revision runs if it cannot be recorded.

    * LIVE: on the database itself, in the script's transaction.
    * AUTOCOMMIT: on the database itself, in a separate script, because it commits.
    """

    LIVE = "live"
    AUTOCOMMIT = "autocommit"


Recording = tuple[str, ...] | Unrecorded
"""The statements of a revision; or how it runs if it was not recorded."""


def record(revision: Revision, dialect: sa.Dialect) -> Recording:
    """Return the statements of *revision* on *dialect*, or how it must run."""
    source = _Source.of(revision)
    is_postgres = dialect.name == "postgresql"
    unrecorded = Unrecorded.AUTOCOMMIT if source.has_block and is_postgres else Unrecorded.LIVE
    if source.is_live:
        return unrecorded
    with _one_at_a_time:
        recordings = _in_time(lambda: [_record_once(revision, dialect) for _ in range(2)])
    first, second = recordings or (unrecorded, unrecorded)
    if isinstance(first, Unrecorded):
        return first if first is Unrecorded.AUTOCOMMIT else unrecorded
    return first if first == second else unrecorded


def _in_time(work: Callable[[], Result]) -> Result | None:
    """Return the result of *work*, or None after `RECORD_SECONDS_MAX`."""
    results: list[Result] = []
    thread = threading.Thread(target=lambda: results.append(work()), daemon=True)
    thread.start()
    thread.join(RECORD_SECONDS_MAX)
    return results[0] if results else None


def _record_once(revision: Revision, dialect: sa.Dialect) -> Recording:
    context = _RecordingContext(dialect)
    try:
        module = revision.load()
        if is_online(module):
            return Unrecorded.LIVE
        upgrade(module, context, on_shared_op=context.stop)
    except BaseException:  # noqa: BLE001 - the revision runs live, and reports the error there
        context.is_stopped = True
    if context.has_block:
        return Unrecorded.AUTOCOMMIT
    return Unrecorded.LIVE if context.is_stopped else tuple(context.statements)


@dataclass(frozen=True)
class _Source:
    """What the text of a revision implies for the way in which it can run.

    Attributes:
        is_live: Whether it catches errors, or listens to events.
        has_block: Whether it has an ``autocommit_block``.
    """

    is_live: bool
    has_block: bool

    @classmethod
    def of(cls, revision: Revision) -> "_Source":
        """Read the text of *revision*."""
        try:
            with revision.path.open("rb") as file:
                tokens = [token for token in tokenize(file.readline) if token.type == NAME]
            text = revision.path.read_bytes()
            tree = parse(text)
        except (OSError, SyntaxError, ValueError, TokenError):  # it runs live, and reports this
            return cls(is_live=True, has_block=False)
        names = {token.string for token in tokens}
        if not _imported(tree) <= _KNOWN_IMPORTS or b"alembic_version" in text:
            return cls(is_live=True, has_block="autocommit_block" in names)
        # An `except` at the top level (around imports) does not concern the database.
        catches = any(token.string == "except" and token.start[1] > 0 for token in tokens)
        return cls(catches or bool(names & _LIVE_WORDS), "autocommit_block" in names)


def _imported(tree: ast.Module) -> set[str]:
    """Return the packages that a module imports, at any level."""
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            found.add((node.module or "").partition(".")[0])
    return found


class _RecordingContext(RevisionContext):
    """A context without a connection, which records statements."""

    _is_open = False

    def __init__(self, dialect: sa.Dialect) -> None:
        super().__init__(dialect, None)
        self.statements: list[str] = []
        self.has_block = self.is_stopped = False
        self.impl.__class__ = _recording_impl(type(self.impl))
        self.impl.connection = _EventConnection(self)  # type: ignore[assignment]
        vars(self.impl)["recording"] = self
        self._is_open = True

    @property
    def connection(self) -> Any:
        """Stop the recording: there is no connection."""
        return self.stop() if self._is_open else None

    @connection.setter
    def connection(self, _value: object) -> None:
        """Ignore what Alembic sets."""

    @property
    def dialect(self) -> Any:
        """The part of the dialect that does not depend on a database: its name."""
        return _Dialect(self) if self._is_open else self._dialect

    @dialect.setter
    def dialect(self, value: sa.Dialect) -> None:
        """Store the dialect that Alembic sets."""
        self._dialect = value

    @contextlib.contextmanager
    def autocommit_block(self) -> Iterator[None]:
        """Stop the recording on PostgreSQL; SQLite needs no block."""
        if self.dialect.name == "postgresql":
            self.has_block = True
            self.stop()
        yield

    def stop(self, *_: object, **__: object) -> Any:
        """Stop the recording, even if the revision catches the error."""
        self.is_stopped = True
        refuse()

    begin_transaction = get_current_heads = get_current_revision = stop
    _in_connection_transaction = run_migrations = stamp = stop


class _Dialect:
    """The part of the dialect that is the same for every database and driver."""

    def __init__(self, context: _RecordingContext) -> None:
        self._context = context
        self.name = context.impl.dialect.name

    def __getattr__(self, _name: str) -> Any:
        self._context.stop()


@lru_cache
def _recording_impl(base: type[DefaultImpl]) -> type[DefaultImpl]:
    """Return a subclass of Alembic's implementation for one engine that records statements."""
    members = {
        "_exec": _record_statement,
        "bind": property(lambda impl: impl.recording.stop()),
        "static_output": refuse,
    }
    metaclass: Any = type(base)
    recording: type[DefaultImpl] = metaclass(f"Recording{base.__name__}", (base,), members)
    return recording


class _EventConnection:
    """The connection that Alembic passes to events of a table, which create its enums."""

    def __init__(self, context: _RecordingContext) -> None:
        self._context = context
        self.dialect = context.dialect

    def in_transaction(self) -> bool:
        """Return True, as when the revision runs live."""
        return True

    def execute(self, construct: Any, *parameters: object) -> None:
        """Record DDL; stop at anything else."""
        if parameters or not isinstance(construct, ExecutableDDLElement):
            self._context.stop()
        _record_statement(self._context.impl, construct)

    def _run_ddl_visitor(self, visitor: Any, element: Any, **options: Any) -> None:
        if options.get("checkfirst"):
            self._context.stop()
        visitor(dialect=self.dialect, connection=self, **options).traverse_single(element)

    def __getattr__(self, _name: str) -> Any:
        self._context.stop()


def _record_statement(
    impl: Any,
    construct: Any,
    execution_options: Mapping[str, Any] | None = None,
    multiparams: Sequence[Mapping[str, Any]] | None = None,
    params: Mapping[str, Any] | None = None,
) -> None:
    """Replace `DefaultImpl._exec`, which every operation calls."""
    recording: _RecordingContext = impl.recording
    if execution_options or params:
        recording.stop()
    if isinstance(construct, str):
        construct = sa.text(construct)
    constructs = [construct]
    if multiparams is not None:
        if any(row.keys() != multiparams[0].keys() for row in multiparams):
            recording.stop()
        constructs = [construct.values(**row) for row in multiparams]
    for one in constructs:
        try:
            text = _render(one, impl.dialect)
        except Unrecordable:
            recording.stop()
        is_postgres = impl.dialect.name == "postgresql"  # in SQLite, a trigger has an END, too
        if "\0" in text or (is_postgres and sql_text.read(text).ends_transaction):
            recording.stop()
        recording.statements.append(text)


def _render(construct: Any, dialect: sa.Dialect) -> str:
    """Return the text of a statement that has the same meaning on every database."""
    if type(construct) is sa.TextClause:
        compiled = construct.compile(dialect=dialect)
        if compiled.params:
            raise Unrecordable
        return str(compiled)
    if isinstance(construct, ExecutableDDLElement):
        _check_is_known(construct)
        text = str(construct.compile(dialect=dialect))
    elif isinstance(construct, Insert | Update | Delete):
        text = _render_dml(construct, dialect)
    else:
        raise Unrecordable
    if "\\" in text and dialect.name == "postgresql":
        # The server parses it according to `standard_conforming_strings`.
        raise Unrecordable
    return text


def _render_dml(construct: Any, dialect: sa.Dialect) -> str:
    for element in visitors.iterate(construct):
        _check_is_known(element)
    compiled = construct.compile(dialect=dialect)
    assert isinstance(compiled, SQLCompiler)
    if construct._returning or compiled.insert_prefetch or compiled.update_prefetch:  # noqa: SLF001
        raise Unrecordable  # it returns rows, or Python computes a default
    for bind in compiled.binds.values():
        _check_value(bind, is_postgres=dialect.name == "postgresql")
    literal = construct.compile(dialect=dialect, compile_kwargs={"literal_binds": True})
    return str(literal)


def _check_is_known(element: object) -> None:
    if not type(element).__module__.startswith(_LIBRARIES):
        raise Unrecordable


def _check_value(bind: sa.BindParameter[Any], *, is_postgres: bool) -> None:
    """Check that a value has the same meaning as a literal and as a parameter."""
    if bind.required or bind.callable:
        raise Unrecordable
    type_ = type(bind.type)
    values = bind.effective_value if bind.expanding else [bind.effective_value]
    if not isinstance(values, list | tuple):
        raise Unrecordable
    is_assigned = bind._is_crud  # noqa: SLF001 - a column's value, not a part of an expression
    for value in values:
        if not (
            (type(value) is bool and type_ in _BOOLEANS)
            or (type(value) is int and _is_integer(type_, value, is_assigned=is_assigned))
            # PostgreSQL compares an untyped literal differently from a VARCHAR.
            or (type(value) is str and type_ in _TEXTS and (is_assigned or not is_postgres))
            or (value is None and is_assigned and type_ in _TEXTS | _INTEGERS | _BOOLEANS)
        ):
            raise Unrecordable


def _is_integer(type_: type[Any], value: int, *, is_assigned: bool) -> bool:
    if abs(value) > INTEGER_MAX:
        return False
    return type_ in _INTEGERS or (is_assigned and type_ in _OTHER_INTEGERS)
