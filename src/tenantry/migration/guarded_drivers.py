"""Connections and cursors of the drivers that call their `Guard` first.

A revision can get the connection of the driver. These subclasses check what it sends there, and
reject a change of the connection itself. A program that goes around them (``raw.pgconn``,
``psycopg2.extensions.cursor(raw)``) is not checked.
"""

import sqlite3
from collections.abc import Callable
from functools import lru_cache, partial, update_wrapper, wraps
from typing import Any

from tenantry.migration.guard import (
    AuthorizerReplaced,
    BackupInTransaction,
    Guard,
    UnknownCursor,
)

# The methods of a cursor that send a text, and the names of its parameter.
_SENDING = ("execute", "executemany", "stream", "copy", "copy_expert")
_TEXTS = ("query", "statement", "sql")
# Those of psycopg2 without a text, and the command that they send.
_WITHOUT_TEXT = {"callproc": "SELECT", "copy_from": "COPY", "copy_to": "COPY"}
# The methods of a connection that change its transactions.
_CHANGING = ("set_autocommit", "set_isolation_level", "set_session", "reset")
# As libpq defines them.
IDLE = 0
FAILED = 3


class SqliteConnection(sqlite3.Connection):
    """A connection of sqlite3 with a guard."""

    guard = Guard()  # until its own is set

    def set_authorizer(self, *args: Any, **options: Any) -> None:
        """Set the authorizer, unless a revision is running."""
        self.guard.deny(AuthorizerReplaced())
        super().set_authorizer(*args, **options)

    def backup(self, *args: Any, **options: Any) -> None:
        """Copy the database, unless a revision is running."""
        self.guard.deny(BackupInTransaction())
        super().backup(*args, **options)


update_wrapper(SqliteConnection, sqlite3.Connection, updated=())  # a revision can print it


@lru_cache
def connection_class(driver: Any) -> Any:
    """Return the guarded class of the connections of *driver*, which is psycopg or psycopg2."""
    if driver.__name__ == "psycopg":
        return _psycopg(driver.Connection)
    return _psycopg2(driver.extensions.connection, driver.extensions.cursor)


@lru_cache
def cursor_class(base: Any) -> Any:
    """Return a subclass of a class of cursors that checks what it sends."""
    if hasattr(base, "is_guarded"):
        return base
    names = filter(partial(hasattr, base), (*_SENDING, *_WITHOUT_TEXT))
    sending = {name: _checked(name, getattr(base, name)) for name in names}
    guarded = type("GuardedCursor", (base,), {**sending, "is_guarded": True})
    return update_wrapper(guarded, base, updated=())


def _psycopg(base: Any) -> Any:
    class GuardedConnection(base):  # type: ignore[misc]
        guard = Guard()  # until its own is set

        def wait(self, gen: Any, *args: Any, **options: Any) -> Any:
            """Run an operation; a cursor without a guard has its text checked here."""
            if self.guard.is_watching:
                _check_unknown(self.guard, gen)
            return super().wait(gen, *args, **options)

    return _guarded(GuardedConnection, base)


def _check_unknown(guard: Guard, gen: Any) -> None:
    """Check what a cursor such as ``psycopg.ClientCursor(raw)`` sends."""
    import psycopg  # noqa: PLC0415 - who has the connection has imported it

    frame = getattr(gen, "gi_frame", None)  # None for a generator in C, which sends no text
    variables = frame.f_locals if frame else {}
    cursor = variables.get("self")
    if isinstance(cursor, psycopg.Cursor) and not hasattr(cursor, "is_guarded"):
        text = next((variables[name] for name in _TEXTS if name in variables), None)
        # Within a block, the guard would wait for the lock that the connection holds now.
        if text is None or guard.is_in_block:
            guard.refuse(UnknownCursor())
        guard.check_sql(text, cursor)


def _psycopg2(base: Any, plain_cursor: Any) -> Any:
    class GuardedConnection(base):  # type: ignore[misc]
        guard = Guard()  # until its own is set

        @property
        def autocommit(self) -> Any:
            return base.autocommit.__get__(self)

        @autocommit.setter
        def autocommit(self, value: Any) -> None:
            self.guard.check_mode()
            base.autocommit.__set__(self, value)

        def cursor(
            self, name: Any = None, cursor_factory: Any = None, *args: Any, **options: Any
        ) -> Any:
            """Return a cursor of a guarded class."""
            guarded = cursor_class(cursor_factory or self.cursor_factory or plain_cursor)
            return super().cursor(name, guarded, *args, **options)

    return _guarded(GuardedConnection, base)


def _guarded(guarded: Any, base: Any) -> Any:
    """Return a class of connections whose methods do not change the transaction of a revision."""
    for name in filter(partial(hasattr, base), ("rollback", *_CHANGING)):
        check = _check_end if name == "rollback" else _check_mode
        setattr(guarded, name, _denied(getattr(base, name), check))
    guarded.commit = _commit(base.commit)
    return update_wrapper(guarded, base, updated=())


def _checked(name: str, send: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(send)
    def checked(cursor: Any, *args: Any, **options: Any) -> Any:
        texts = [*args[:1], *(options[one] for one in _TEXTS if one in options)]
        if name in _WITHOUT_TEXT:
            texts = [_WITHOUT_TEXT[name]]
        for text in texts:
            cursor.connection.guard.check_sql(text, cursor)
            if not name.startswith("copy"):
                cursor.connection.guard.check_copy(text, cursor)
        return send(cursor, *args, **options)

    return checked


def _denied(change: Callable[..., Any], check: Callable[[Any], None]) -> Callable[..., Any]:
    @wraps(change)
    def denied(connection: Any, *args: Any, **options: Any) -> Any:
        check(connection)
        return change(connection, *args, **options)

    return denied


def _commit(commit: Callable[[Any], None]) -> Callable[[Any], None]:
    @wraps(commit)
    def checked(raw: Any) -> None:
        if not _is_idle(raw):
            raw.guard.check_commit()
        if not raw.guard.leaves_commit:
            commit(raw)

    return checked


def _is_idle(raw: Any) -> bool:
    return bool(raw.autocommit and raw.info.transaction_status == IDLE)


def _check_end(raw: Any) -> None:
    """Check that a revision does not end its transaction.

    In an autocommit block there may be none to end: SQLAlchemy rolls such a connection back after
    it has read the isolation level.
    """
    if not _is_idle(raw):
        raw.guard.check_end()


def _check_mode(raw: Any) -> None:
    raw.guard.check_mode()
