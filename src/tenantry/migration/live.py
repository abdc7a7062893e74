"""Revisions that run live: Alembic and SQLAlchemy on an ordinary connection of a driver.

The driver is psycopg unless the operator names another one, and the sqlite3 module on SQLite.
The connection is in a transaction that the engine began, and that it alone commits.
"""

import contextlib
from collections.abc import Callable, Iterator
from typing import Any
from urllib.parse import parse_qsl, quote, urlencode, urlsplit

import psycopg
import sqlalchemy as sa
from alembic.runtime.migration import MigrationContext
from psycopg.conninfo import conninfo_to_dict
from sqlalchemy.pool import NullPool

from tenantry.kit.errors import Unavailable
from tenantry.migration.alembic_modules import RevisionContext
from tenantry.migration.guard import EndsTransaction, Guard, SecondConnection
from tenantry.migration.revisions import Revision, RevisionExited, RevisionFailed, upgrade

DRIVER_DEFAULT = "psycopg"
APPLICATION = "tenantry-migrate"
# Of these two the classes of the connection and its cursors can be given.
_GUARDED_DRIVERS = ("psycopg", "psycopg2")


class DriverMissing(Unavailable):
    """The driver in TENANTRY_MIGRATION_DRIVER is not installed, or SQLAlchemy does not know it."""


class OutsideTransaction(Unavailable):
    """The revision enters `autocommit_block` from where it cannot be seen: call it in the file."""


class LiveContext(RevisionContext):
    """Alembic's context of one revision, in a transaction that is not its own.

    Args:
        connection: In that transaction.
        heads: Of the stream before the revision.
        block: What `autocommit_block` does.
    """

    def __init__(
        self,
        connection: sa.Connection,
        heads: tuple[str, ...],
        block: Callable[[], contextlib.AbstractContextManager[None]] | None = None,
    ) -> None:
        super().__init__(connection.dialect, connection)
        self._heads = heads
        self._block = block

    def get_current_heads(self) -> tuple[str, ...]:
        """Return where the stream is: the table says so only at the end of the script."""
        return self._heads

    @contextlib.contextmanager
    def autocommit_block(self) -> Iterator[None]:
        """Leave the transaction while the block lasts. On SQLite nothing has to leave it."""
        if self._block is None and self.dialect.name == "postgresql":
            raise OutsideTransaction
        with self._block() if self._block else contextlib.nullcontext():
            yield

    def begin_transaction(self, *_: object) -> contextlib.AbstractContextManager[Any]:
        """Refuse on PostgreSQL, where Alembic commits at the end of the block."""
        if self.impl.transactional_ddl:
            raise EndsTransaction
        return contextlib.nullcontext()


def run(revision: Revision, context: MigrationContext) -> None:
    """Run a revision on the database itself, with an ``op`` of its own.

    Raises:
        RevisionFailed: It raised something.
    """
    try:
        upgrade(revision.load(), context)
    except SystemExit:
        raise RevisionFailed(revision.name) from RevisionExited()
    except BaseException as error:
        # A thread is neither cancelled nor interrupted: the revision itself has raised it.
        raise RevisionFailed(revision.name) from error


def open_sqlite(path: str, raw: Any, guard: Guard) -> sa.Engine:
    """Return an engine over *raw*, a connection of the sqlite3 module to the file at *path*."""
    engine = sa.create_engine(
        sa.URL.create("sqlite", database=path), poolclass=NullPool, hide_parameters=True
    )
    _guard_engine(engine, guard, lambda *_: raw)
    return engine


def open_postgres(url: str, driver: str, guard: Guard, *, timeout_seconds: float) -> sa.Engine:
    """Return an engine that connects once, to the database at *url*, over *driver*.

    Raises:
        DriverMissing: It cannot be imported.
    """
    drivername = f"postgresql+{driver}"
    try:
        if driver not in _GUARDED_DRIVERS:
            named = sa.make_url(url).set(drivername=drivername)
            engine = sa.create_engine(named, poolclass=NullPool, hide_parameters=True)
            _guard_engine(engine, guard, None)
            return engine
        parameters = _parameters(url)
        name, port = parameters.get("dbname"), str(parameters.get("port", ""))
        named = sa.URL.create(
            drivername,
            username=parameters.get("user"),
            host=parameters.get("host"),
            port=int(port) if port.isdigit() else None,
            database=name,
        )
        engine = sa.create_engine(named, poolclass=NullPool, hide_parameters=True)
    except (ImportError, sa.exc.NoSuchModuleError) as error:
        raise DriverMissing from error
    parameters |= {
        "application_name": parameters.get("application_name", APPLICATION),
        "connect_timeout": max(2, round(timeout_seconds)),
    }

    def connect(_dialect: object, _record: object, _args: Any, found: dict[str, Any]) -> Any:
        connection, cursor = _guarded_classes(engine.dialect.loaded_dbapi, guard)
        if driver == "psycopg2":
            classes = {"connection_factory": connection, "cursor_factory": cursor}
            return engine.dialect.loaded_dbapi.connect(**parameters, **classes)
        # A statement that is prepared goes stale with the next change of its table.
        return connection.connect(
            **parameters,
            context=found.get("context"),
            cursor_factory=cursor,
            prepare_threshold=None,
        )

    _guard_engine(engine, guard, connect)
    return engine


def cancel(raw: Any) -> None:
    """Cancel what a connection to PostgreSQL is doing, from another thread."""
    if isinstance(raw, psycopg.Connection):
        raw.cancel_safe(timeout=1.0)
    elif hasattr(raw, "cancel"):
        raw.cancel()


def _guard_engine(engine: sa.Engine, guard: Guard, connect: Any) -> None:
    connected: list[bool] = []

    def connect_once(*args: Any) -> Any:
        if connected:
            guard.refuse(SecondConnection())
        connected.append(True)
        return None if connect is None else connect(*args)

    def check_sql(_connection: object, _cursor: object, sql: str, *_: object) -> None:
        guard.check_sql(sql)

    sa.event.listen(engine, "do_connect", connect_once)
    sa.event.listen(engine, "commit", guard.check_end)
    sa.event.listen(engine, "rollback", guard.check_end)
    if engine.dialect.name == "postgresql":  # SQLite has its own: an authorizer
        sa.event.listen(engine, "before_cursor_execute", check_sql)


def _guarded_classes(dbapi: Any, guard: Guard) -> tuple[Any, Any]:
    """Return classes of a driver's connection and cursors that ask the guard first."""
    connection_class: Any = getattr(dbapi, "Connection", None) or dbapi.extensions.connection
    cursor_class: Any = getattr(dbapi, "Cursor", None) or dbapi.extensions.cursor

    class GuardedCursor(cursor_class):  # type: ignore[misc]
        def execute(self, query: Any, *args: Any, **options: Any) -> Any:
            guard.check_sql(query)
            return super().execute(query, *args, **options)

        def executemany(self, query: Any, *args: Any, **options: Any) -> Any:
            guard.check_sql(query)
            return super().executemany(query, *args, **options)

    class GuardedConnection(connection_class):  # type: ignore[misc]
        def commit(self) -> None:
            guard.check_end()
            super().commit()

        def rollback(self) -> None:
            guard.check_end()
            super().rollback()

    for guarded, base in ((GuardedConnection, connection_class), (GuardedCursor, cursor_class)):
        guarded.__module__, guarded.__qualname__ = base.__module__, base.__qualname__
        guarded.__name__ = base.__name__
    return GuardedConnection, GuardedCursor


def _parameters(url: str) -> dict[str, Any]:
    """Return the parameters of a connection, as libpq names them.

    A URL may set what only the server knows (``?search_path=app``); libpq takes that as an option.
    """
    parts = urlsplit(url)
    known = {one.keyword.decode() for one in psycopg.pq.Conninfo.get_defaults()}
    query = dict(parse_qsl(parts.query, keep_blank_values=True))
    settings = [f"-c {name}={value}" for name, value in query.items() if name not in known]
    kept = {name: value for name, value in query.items() if name in known}
    if settings:
        kept["options"] = " ".join([*filter(None, [kept.get("options")]), *settings])
    return dict(conninfo_to_dict(parts._replace(query=urlencode(kept, quote_via=quote)).geturl()))
