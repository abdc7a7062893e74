"""Record a revision once, as statements that every database then runs.

``upgrade()`` runs with an ``op`` without a database. Text, DDL and inserts of plain values are
recorded, with the values as literals. Anything else stops the recording, and the revision runs
live: an access to the connection or to anything that depends on a database, any other kind of
statement or value, a difference between two recordings, and ``online = True``. So does a revision
whose file has an import or a name that could handle an error, or depend on or act on anything but
the database: it is not even executed here. In doubt, a revision runs live.
"""

import contextlib
import re
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from enum import Enum
from functools import partial
from types import new_class
from typing import Any, TypeVar

import sqlalchemy as sa
from alembic.ddl.impl import DefaultImpl
from sqlalchemy.schema import ExecutableDDLElement
from sqlalchemy.sql import visitors
from sqlalchemy.sql.compiler import SQLCompiler
from sqlalchemy.sql.dml import Delete, Insert, Update
from sqlalchemy.sql.elements import ClauseElement
from sqlalchemy.sql.selectable import GenerativeSelect

from tenantry.migration import alembic_modules, sql_text
from tenantry.migration.alembic_modules import VERSION_TABLE, RevisionContext
from tenantry.migration.dialects import Unrecordable, refuse
from tenantry.migration.lint_rules import Sent
from tenantry.migration.live_code import read_source
from tenantry.migration.revisions import Revision, execute, line_in
from tenantry.migration.sql_files import SqlRevision
from tenantry.migration.statements import TypeName

# A revision that computes for longer than this runs live.
RECORD_SECONDS_MAX = 2.0
INTEGER_MAX, SMALL_INTEGER_MAX = 2**31 - 1, 2**15 - 1

Result = TypeVar("Result")

# Only these types, without subclasses: for them, the server treats a literal like a bound
# parameter, with any driver.
_TEXTS = {sa.String, sa.Text, sa.Unicode, sa.UnicodeText, sa.VARCHAR, sa.TEXT}
_INTEGERS = {sa.Integer, sa.INTEGER}
_SMALL_INTEGERS = {sa.SmallInteger, sa.SMALLINT}
_OTHER_INTEGERS = {sa.BigInteger, sa.BIGINT} | _SMALL_INTEGERS
_BOOLEANS = {sa.Boolean, sa.BOOLEAN}
_LIBRARIES = ("sqlalchemy.", "alembic.")
_GUARDED_ON_SQLITE = frozenset({"ATTACH", "BEGIN", "COMMIT", "DETACH", "END", "PRAGMA", "ROLLBACK"})
_BLOCK = "has an autocommit_block"
_NAMED_TYPE = re.compile("enum|domain", re.IGNORECASE)


class Unrecorded(Enum):
    """How a revision runs if it cannot be recorded.

    * LIVE: on the database itself, in the script's transaction.
    * AUTOCOMMIT: on the database itself, in a separate script, because it commits.
    """

    LIVE = "live"
    AUTOCOMMIT = "autocommit"


class TypeStatement(str):  # noqa: SLOT000 - it has an attribute of its own
    """The statement that creates a named type because a table that is created needs it.

    Alembic sends it once in an upgrade, even if several revisions create such tables.
    """

    named_type: TypeName


Recording = tuple[str, ...] | Unrecorded
"""The statements of a revision; or how it runs if it was not recorded."""


def named_type_of(sql: str) -> TypeName | None:
    """Return the type that a recorded statement creates, unless the upgrade has created it."""
    return sql.named_type if isinstance(sql, TypeStatement) else None


def may_name_type(revision: Revision) -> bool:
    """Return whether *revision* can have a `TypeStatement`, from its text."""
    return _NAMED_TYPE.search(revision.source) is not None


def record(
    revision: Revision, dialect: sa.Dialect, version_table: str = VERSION_TABLE
) -> Recording:
    """Return the statements of *revision* on *dialect*, or how it must run."""
    return examine(revision, dialect, version_table)[0]


def examine(
    revision: Revision, dialect: sa.Dialect, version_table: str = VERSION_TABLE
) -> tuple[Recording, str | None]:
    """Return what `record` does, and the reason, such as ``imports requests``, if it runs live."""
    reason, has_block = read_source(revision, version_table, dialect.name)
    is_autocommit = has_block and dialect.name == "postgresql"
    unrecorded = Unrecorded.AUTOCOMMIT if is_autocommit else Unrecorded.LIVE
    if reason is not None:
        return unrecorded, reason
    if isinstance(revision, SqlRevision):
        return revision.part.statements, None
    once = partial(record_once, revision, dialect, version_table)  # a late one begins no second
    if (one := in_time(once)) is None or (other := in_time(once)) is None:
        return unrecorded, f"takes more than {RECORD_SECONDS_MAX:g} s to record"
    (first, reason), (second, _) = one, other
    if reason is not None:
        return Unrecorded.AUTOCOMMIT if reason.startswith(_BLOCK) else unrecorded, reason
    texts = tuple(one.sql for one in first)
    is_same = texts == tuple(one.sql for one in second)
    return (texts, None) if is_same else (unrecorded, "is different the second time")


def in_time(work: Callable[[], Result]) -> Result | None:
    """Return the result of *work*, or None after `RECORD_SECONDS_MAX`."""
    results: list[Result] = []
    thread = threading.Thread(target=lambda: results.append(work()), daemon=True)
    thread.start()
    thread.join(RECORD_SECONDS_MAX)
    return results[0] if results else None


def record_once(
    revision: Revision, dialect: sa.Dialect, version_table: str, *, in_blocks: bool = False
) -> tuple[list[Sent], str | None]:
    """Return the statements of *revision*, and the reason if it was stopped after them."""
    context = _RecordingContext(dialect, version_table, revision)
    context.in_blocks = in_blocks
    attributes = set(vars(context))
    try:
        with alembic_modules.noting(partial(context.stop, "uses context of Alembic's env.py")):
            module = revision.load()
            if getattr(module, "online", False):
                return [], "has online = True"
            execute(
                revision,
                module,
                context,
                on_shared_op=partial(context.stop, "uses op in another module"),
            )
    except Unrecordable:
        context.reason = context.reason or "uses the default schema or the driver"
    except BaseException as error:  # noqa: BLE001 - the revision runs live, and reports it there
        context.reason = context.reason or f"raises {type(error).__name__} without a database"
    if vars(context).keys() != attributes:  # a later revision can read what this one has set
        context.reason = context.reason or "sets an attribute of the context"
    return context.statements, context.reason


class _RecordingContext(RevisionContext):
    """A context without a connection, which records statements."""

    def __init__(self, dialect: sa.Dialect, version_table: str, revision: Revision) -> None:
        super().__init__(dialect, None, version_table)
        self.opts["target_metadata"] = revision.metadata
        self.statements: list[Sent] = []
        self.in_blocks = self.in_block = False  # whether to record in autocommit blocks
        self.reason: str | None = None  # for which the recording was stopped
        self.file = revision.path
        self.named_type: TypeName | None = None  # that the next statement creates for a table
        del self.connection  # see `__getattr__`
        impl: Any = self.impl
        impl.__class__ = new_class("Recording", (_RecordingImpl, type(impl)))
        impl.connection, impl.recording = _EventConnection(self), self

    def __getattr__(self, name: str) -> Any:
        """Stop the recording at the connection, and at what an earlier revision may have set."""
        if not name.startswith("__"):
            self.stop(f"uses {name} of the context")
        return super().__getattr__(name)

    @contextlib.contextmanager
    def autocommit_block(self) -> Iterator[None]:
        """Stop the recording on PostgreSQL, unless it is for the linter; SQLite needs no block."""
        if self.dialect.name == "postgresql" and not self.in_blocks:
            self.stop(_BLOCK)
        self.in_block = self.dialect.name == "postgresql"
        yield
        self.in_block = False

    def stop(self, reason: str, *_: object) -> Any:
        """Stop the recording for a *reason*, even if the revision catches the error."""
        line = line_in(self.file)
        self.reason = self.reason or reason + (f" (line {line})" if line else "")
        refuse()

    def _stop(self, *_: object, **__: object) -> Any:
        self.stop("uses the transaction or the version")

    begin_transaction = get_current_heads = get_current_revision = _stop
    _in_connection_transaction = run_migrations = stamp = _stop


class _Named:
    """A connection, an engine or a dialect, of which only the name of the dialect can be read."""

    _context: _RecordingContext

    def __init__(self, context: _RecordingContext, **values: object) -> None:
        vars(self).update(values, _context=context)

    def _stop(self, *_: object) -> Any:
        self._context.stop("uses its connection")

    __getattr__ = __setattr__ = __repr__ = __str__ = _stop
    __class__ = property(_stop)  # `isinstance` reads it


def _bind(context: _RecordingContext) -> _Named:
    name = context.dialect.name
    dialect = _Named(context, name=name)
    return _Named(context, dialect=dialect, engine=_Named(context, name=name, dialect=dialect))


class _RecordingImpl(DefaultImpl):
    """Alembic's implementation of the operations, which records statements."""

    recording: _RecordingContext
    bind = property(lambda impl: _bind(impl.recording))
    static_output = refuse

    def _exec(
        self,
        construct: Any,
        execution_options: Mapping[str, Any] | None = None,
        multiparams: Sequence[Mapping[str, Any]] | None = None,
        params: Mapping[str, Any] | None = None,
    ) -> None:
        recording = self.recording
        if isinstance(construct, str):
            construct = sa.text(construct)
        if execution_options or params or construct.get_execution_options():
            recording.stop("sends options or parameters")
        constructs = [construct]
        dialect = self.dialect
        if multiparams is not None:
            # Other drivers than psycopg may send one insert of all rows, as a trigger can see.
            is_joined = len(multiparams) > 1 and getattr(dialect, "joins_rows", False)
            if is_joined or not _are_plain(multiparams):
                recording.stop("inserts rows whose text depends on the driver")
            constructs = [construct.values(**row) for row in multiparams]
        for one in constructs:
            try:
                text = _render(one, dialect)
            except Unrecordable:
                recording.stop("has a value or a construct without an equal text")
            if "\0" in text or _needs_guard(text, dialect.name):
                recording.stop("sends a PRAGMA, or a command about the transaction")
            if recording.named_type:
                text = TypeStatement(text)
                text.named_type = recording.named_type
            recording.statements.append(Sent(text, line_in(recording.file), recording.in_block))


def _needs_guard(text: str, engine: str) -> bool:
    """Return whether a statement can end the transaction, or change the connection."""
    read = sql_text.read(text)
    if engine == "postgresql":
        return read.ends_transaction
    # SQLite takes one command in a statement. More are the body of a trigger, which has an END.
    return bool(read.commands) and not _GUARDED_ON_SQLITE.isdisjoint(read.commands[0][:1])


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
            self._context.stop("uses its connection")
        self._context.impl.execute(construct)

    def _run_ddl_visitor(self, visitor: Any, element: Any, **options: Any) -> None:
        if options.get("checkfirst"):
            self._context.stop("reads whether a type exists")
        # As `NamedType._check_for_name_in_memos` of SQLAlchemy 2.1 writes it.
        kind = f"pg_{element.__visit_name__}"
        self._context.named_type = (kind, element.schema, element.name)
        visitor(dialect=self.dialect, connection=self, **options).traverse_single(element)
        self._context.named_type = None

    def __getattr__(self, _name: str) -> Any:
        self._context.stop("uses its connection")


def _render(construct: Any, dialect: sa.Dialect) -> str:
    """Return the text of a statement that has the same meaning on every database."""
    if type(construct) is sa.TextClause:
        compiled = construct.compile(dialect=dialect)
        if compiled.params or _has_places(compiled):
            raise Unrecordable
        text = str(compiled)
    elif isinstance(construct, ExecutableDDLElement):
        _check_is_known(construct)
        text = str(construct.compile(dialect=dialect))
    elif isinstance(construct, Insert | Update | Delete):
        text = _render_dml(construct, dialect)
    else:
        raise Unrecordable
    if "\\" in text and dialect.name == "postgresql":
        # The server parses it according to `standard_conforming_strings`, which an earlier command
        # in the same message can change.
        raise Unrecordable
    return text


def _are_plain(rows: Sequence[Mapping[str, Any]]) -> bool:
    """Return whether *rows* have the same columns, and values that a driver accepts.

    A driver rejects a SQL expression as a value, but in a single insert it would be rendered.
    """
    return bool(rows) and all(
        row.keys() == rows[0].keys() and not any(map(_is_expression, row.values())) for row in rows
    )


def _is_expression(value: object) -> bool:
    return isinstance(value, ClauseElement) or hasattr(value, "__clause_element__")


def _render_dml(construct: Any, dialect: sa.Dialect) -> str:
    for element in visitors.iterate(construct):
        _check_is_known(element)
        if isinstance(element, GenerativeSelect):
            _check_has_no_positions(element)
    compiled = construct.compile(dialect=dialect)
    assert isinstance(compiled, SQLCompiler)
    if construct._returning or compiled.insert_prefetch or compiled.update_prefetch:  # noqa: SLF001
        raise Unrecordable  # it returns rows, or Python computes a default
    for bind in compiled.binds.values():
        _check_value(bind, dialect.name)
    literal = construct.compile(dialect=dialect, compile_kwargs={"literal_binds": True})
    text = str(literal)
    # A parameter that is left, such as an index on the left side of SET; and the minus of an
    # expression and that of a value.
    if literal.binds or _has_places(literal) or sql_text.has_comment(text):
        raise Unrecordable
    return text


def _has_places(compiled: Any) -> bool:
    """Return whether a statement has a place for a parameter.

    SQLAlchemy before 2.0.58 takes the text `%(x)s` for one on SQLite, and replaces it.
    """
    return bool(compiled.positiontup)


def _check_has_no_positions(select: GenerativeSelect) -> None:
    """Check that *select* sorts and groups by no value: as a literal, it is a column's position."""
    clauses = [*select._order_by_clauses, *select._group_by_clauses]  # noqa: SLF001
    clauses += getattr(select, "_distinct_on", ())
    elements = (element for clause in clauses for element in visitors.iterate(clause))
    if any(isinstance(element, sa.BindParameter) for element in elements):
        raise Unrecordable


def _check_is_known(element: object) -> None:
    if not type(element).__module__.startswith(_LIBRARIES):
        raise Unrecordable


def _check_value(bind: sa.BindParameter[Any], engine: str) -> None:
    """Check that a value has the same meaning as a literal and as a parameter."""
    if bind.required or bind.callable:
        raise Unrecordable
    type_ = type(bind.type._variant_mapping.get(engine, bind.type))  # noqa: SLF001
    values = bind.effective_value if bind.expanding else [bind.effective_value]
    if not isinstance(values, list | tuple):
        raise Unrecordable
    is_assigned = bind._is_crud  # noqa: SLF001 - a column's value, not a part of an expression
    for value in values:
        if not (
            (type(value) is bool and type_ in _BOOLEANS)
            or (type(value) is int and _is_integer(type_, value, is_assigned=is_assigned))
            # PostgreSQL compares an untyped literal differently from a VARCHAR.
            or (type(value) is str and type_ in _TEXTS and (is_assigned or engine == "sqlite"))
            or (value is None and is_assigned and type_ in _TEXTS | _INTEGERS | _BOOLEANS)
        ):
            raise Unrecordable


def _is_integer(type_: type[Any], value: int, *, is_assigned: bool) -> bool:
    if abs(value) > (SMALL_INTEGER_MAX if type_ in _SMALL_INTEGERS else INTEGER_MAX):
        return False
    return type_ in _INTEGERS or (is_assigned and type_ in _OTHER_INTEGERS)
