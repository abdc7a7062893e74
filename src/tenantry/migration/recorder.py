"""Record a revision once, as statements that every database then runs.

``upgrade()`` runs on SQLAlchemy itself, over a driver that only writes down what it is
given. So what is recorded is to the letter what a live run would send. What asks the
database anything (rows, a row count, whether a table exists) cannot be known ahead, and
is left to run live; so is what records differently twice, what catches errors, and what
says ``online = True`` because it reads files, the environment or the network.
"""

import contextlib
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from enum import Enum
from token import NAME
from tokenize import TokenError, tokenize
from typing import Any, NoReturn, TypeVar, cast

import sqlalchemy as sa
from sqlalchemy.pool import NullPool

from tenantry.migration.live import engine_over
from tenantry.migration.streams import OutsideTransaction, Revision, is_online, upgrade

# A revision that computes for longer is no worse off live.
RECORD_SECONDS_MAX = 2.0

Answer = TypeVar("Answer")

_one_at_a_time = threading.Lock()


class Way(Enum):
    """How a revision runs that cannot be recorded.

    * LIVE: on the database itself, in the script's transaction.
    * OUTSIDE: on the database itself, in a step of its own, some of it in no transaction.
    """

    LIVE = "live"
    OUTSIDE = "outside"


@dataclass(frozen=True)
class Recorded:
    """A statement, as it goes to the driver.

    Attributes:
        sql: In the form of the driver.
        rows: The parameters, converted for the driver; one row of them, unless it is for many.
        many: It is sent once for each row.
    """

    sql: str
    rows: tuple[tuple[object, ...], ...]
    many: bool = False


Recording = tuple[Recorded, ...] | Way


class Unrecordable(BaseException):
    """The revision needs an answer from the database. It is nobody's to catch."""


def record(revision: Revision, dialect: sa.Dialect) -> Recording:
    """Return the statements of *revision* on *dialect*, or how it has to run."""
    source = _Source.of(revision)
    unrecorded = Way.OUTSIDE if source.has_block and dialect.name == "postgresql" else Way.LIVE
    if source.catches:
        return unrecorded
    with _one_at_a_time:
        recordings = _in_time(lambda: [_record_once(revision, dialect) for _ in range(2)])
    first, second = recordings or (None, None)
    # By their representation too: 1, True and 1.0 are equal, and are not the same in a row.
    if first is None or first != second or repr(first) != repr(second):
        return unrecorded
    return first


def _in_time(work: Callable[[], Answer]) -> Answer | None:
    """Return what *work* returns, or None when it takes too long."""
    answers: list[Answer] = []
    thread = threading.Thread(target=lambda: answers.append(work()), daemon=True)
    thread.start()
    thread.join(RECORD_SECONDS_MAX)
    return answers[0] if answers else None


def _record_once(revision: Revision, dialect: sa.Dialect) -> Recording | None:
    tape = _Tape()
    engine = engine_over(dialect, NullPool(cast("Any", tape.connect)))
    block = tape.block if dialect.name == "postgresql" else contextlib.nullcontext
    try:
        module = revision.load()
        if is_online(module):
            return None
        with _Recorder(engine, tape) as connection:
            upgrade(module, connection, block)
    except BaseException:  # noqa: BLE001 - it may read, or be wrong: live it will tell
        return Way.OUTSIDE if tape.is_outside else None
    if tape.is_outside:  # and the revision went on
        return Way.OUTSIDE
    return None if tape.was_read else tuple(tape.statements)


@dataclass(frozen=True)
class _Source:
    """What the text of a revision says of how it can run.

    Attributes:
        catches: It catches errors, and an error is an answer of the database.
        has_block: It has an ``autocommit_block``.
    """

    catches: bool
    has_block: bool

    @classmethod
    def of(cls, revision: Revision) -> "_Source":
        """Read it."""
        try:
            with revision.path.open("rb") as file:
                tokens = [token for token in tokenize(file.readline) if token.type == NAME]
        except (OSError, SyntaxError, TokenError):  # live it will tell
            return cls(catches=True, has_block=False)
        names = {token.string for token in tokens}
        # What the module does around its imports is no matter of the database.
        catches = any(token.string == "except" and token.start[1] > 0 for token in tokens)
        return cls(catches or "suppress" in names, "autocommit_block" in names)


class _Tape:
    """What a revision has given to the driver, and whether it has asked for anything."""

    def __init__(self) -> None:
        self.statements: list[Recorded] = []
        self.was_read = False
        self.is_outside = False
        self._is_connected = False

    def connect(self) -> "_Connection":
        """Return a connection; a second one would be the database's own matter."""
        if self._is_connected:
            self.read()
        self._is_connected = True
        return _Connection(self)

    def read(self, *_: object, **__: object) -> NoReturn:
        """Refuse to answer."""
        self.was_read = True
        raise Unrecordable

    @contextlib.contextmanager
    def block(self) -> Iterator[None]:
        """Refuse to leave the transaction."""
        self.is_outside = True
        raise OutsideTransaction
        yield


class _Recorder(sa.Connection):
    """A connection whose results nobody may look at."""

    def __init__(self, engine: sa.Engine, tape: _Tape) -> None:
        super().__init__(engine)
        self._tape = tape

    def execute(self, statement: Any, *args: Any, **options: Any) -> Any:
        """Write down what the driver is given."""
        if isinstance(statement, sa.Insert) and not statement._returning:  # noqa: SLF001
            # Nobody may ask for the key of the new row, so it need not be fetched.
            statement = statement.inline()
        super().execute(statement, *args, **options)
        return _Unknown(self._tape)

    def exec_driver_sql(self, *args: Any, **options: Any) -> Any:
        """Write down what the driver is given."""
        super().exec_driver_sql(*args, **options)
        return _Unknown(self._tape)

    def _refuse(self, *_: object, **__: object) -> Any:
        self._tape.read()

    scalar = scalars = begin_nested = get_isolation_level = _refuse


class _Unknown:
    """An answer that is not known while recording."""

    def __init__(self, tape: _Tape) -> None:
        vars(self)["tape"] = tape

    def __getattr__(self, _name: str) -> Any:
        vars(self)["tape"].read()

    def _refuse(self, *_: object) -> Any:
        vars(self)["tape"].read()

    __iter__ = __bool__ = __len__ = __getitem__ = __eq__ = __contains__ = __enter__ = _refuse
    __hash__ = None  # type: ignore[assignment]


class _Connection:
    """A driver's connection to no database."""

    def __init__(self, tape: _Tape) -> None:
        self._tape = tape

    def cursor(self) -> "_Cursor":
        """Return a cursor."""
        return _Cursor(self._tape)

    def __getattr__(self, _name: str) -> NoReturn:
        self._tape.read()


class _Cursor:
    """A driver's cursor that writes down what it is given."""

    # What SQLAlchemy itself looks at after a statement that returns no rows.
    description = None
    rowcount = -1
    lastrowid = 0

    def __init__(self, tape: _Tape) -> None:
        self._tape = tape

    def execute(self, sql: str, parameters: Sequence[object] = ()) -> None:
        """Write a statement down."""
        self._tape.statements.append(Recorded(sql, (_row(parameters),)))

    def executemany(self, sql: str, rows: Sequence[Sequence[object]]) -> None:
        """Write down a statement for many rows."""
        self._tape.statements.append(Recorded(sql, tuple(map(_row, rows)), many=True))

    def close(self) -> None:
        """Do nothing."""

    def _refuse(self, *_: object) -> Any:
        self._tape.read()

    fetchone = fetchmany = fetchall = _refuse


def _row(parameters: Sequence[object]) -> tuple[object, ...]:
    # Two views of the same bytes are not the same.
    return tuple(bytes(one) if isinstance(one, memoryview) else one for one in parameters)
