"""Revisions that run live: Alembic and SQLAlchemy on an ordinary connection of a driver.

The driver is psycopg unless the operator sets another one; on SQLite it is the sqlite3 module.
The engine begins the transaction of the connection, and only the engine commits it.
"""

import contextlib
import copy
import importlib
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any

import sqlalchemy as sa
from sqlalchemy.pool import NullPool

from tenantry.kit import postgres_urls
from tenantry.kit.errors import Unavailable
from tenantry.migration.alembic_modules import RevisionContext
from tenantry.migration.dialects import SERVERS_REMEMBERED_MAX
from tenantry.migration.guard import EndsTransaction, Guard, SecondConnection
from tenantry.migration.guarded_drivers import connection_class, cursor_class

DRIVER_DEFAULT = "psycopg"
APPLICATION = "tenantry-migrate"
# These two accept custom classes of the connection and its cursors.
_GUARDED_DRIVERS = ("psycopg", "psycopg2")
# The values that the dialect for psycopg reads from a server when it is initialised.
_SERVER_FACTS = """
SELECT pg_catalog.version(), current_schema(), current_setting('transaction_isolation'),
    current_setting('standard_conforming_strings'),
    (SELECT ARRAY[oid, typarray]::text FROM pg_catalog.pg_type WHERE oid = to_regtype('hstore'))
"""


class DriverMissing(Unavailable):
    """TENANTRY_MIGRATION_DRIVER is not installed, or SQLAlchemy has no dialect for it."""


class OutsideTransaction(Unavailable):
    """The revision calls `autocommit_block` indirectly: call it in the file of the revision."""


class SchemasTranslated(Unavailable):
    """The revision sets schema_translate_map on its connection: name the schemas in operations."""


class LiveContext(RevisionContext):
    """Alembic's context of the live revisions of one upgrade, in the engine's transaction.

    Args:
        types: The types that the upgrade has created for tables, as Alembic remembers them.

    Attributes:
        heads: The heads of the stream before the revision.
        block: The implementation of `autocommit_block`, if the revision may use it.
    """

    def __init__(
        self,
        connection: sa.Connection,
        guard: Guard,
        types: dict[str, set[tuple[str | None, str]]],
        *,
        version_table: str,
    ) -> None:
        super().__init__(connection.dialect, connection, version_table)
        self.heads: tuple[str, ...] = ()
        self.block: Callable[[], contextlib.AbstractContextManager[None]] | None = None
        self._guard = guard
        self._metadata: sa.MetaData | None = None
        self.impl.memo = types
        self._initial = self._read()

    def use_metadata(self, metadata: sa.MetaData | None) -> None:
        """Set the ``target_metadata`` of the next revision, unless one has set another."""
        if self.opts.get("target_metadata") is self._metadata:
            self.opts["target_metadata"] = self._metadata = metadata

    def is_changed(self) -> bool:
        """Return whether a revision has changed what later revisions have in common with it.

        Raises:
            SchemasTranslated: It translates schemas, also that of the version table.
        """
        if "schema_translate_map" in self._sql.get_execution_options():
            self._guard.refuse(SchemasTranslated())
        return self._read() != self._initial

    @property
    def _sql(self) -> sa.Connection:
        connection = self.connection
        assert connection is not None
        return connection

    def _read(self) -> tuple[object, ...]:
        """Return the options of the context and the connection, and the listeners of the latter."""
        events: Any = self._sql.dispatch
        listeners = {name: tuple(getattr(events, name)) for name in events.local._event_names}  # noqa: SLF001
        options = dict(self.opts)
        if options.get("target_metadata") is self._metadata:
            options.pop("target_metadata", None)
        return options, dict(self._sql.get_execution_options()), listeners

    def get_current_heads(self) -> tuple[str, ...]:
        """Return the heads of the stream: the table has them only at the end of the script."""
        return self.heads

    @contextlib.contextmanager
    def autocommit_block(self) -> Iterator[None]:
        """Leave the transaction during the block. On SQLite this is not necessary."""
        if self.block is None and self.dialect.name == "postgresql":
            self._guard.refuse(OutsideTransaction())
        with self.block() if self.block else contextlib.nullcontext():
            yield

    def begin_transaction(self, *_: object) -> contextlib.AbstractContextManager[Any]:
        """Raise an error on PostgreSQL, where Alembic would commit at the end of the block."""
        if self.impl.transactional_ddl:
            self._guard.refuse(EndsTransaction())
        return contextlib.nullcontext()


class SharedDialects:
    """A cache of dialects for psycopg, by the values that SQLAlchemy initialises them with.

    SQLAlchemy reads these values in seven round trips on the first connection of an engine. Here
    one query reads them, and a database with the same values gets a copy of the dialect.
    """

    def __init__(self) -> None:
        self._dialects: dict[tuple[Any, ...], sa.Dialect] = {}

    def connect(self, raw: Any, url: str, guard: Guard) -> sa.Connection:
        """Return SQLAlchemy's connection over *raw*, a connection of psycopg to *url*.

        From now on, the first statement on *raw* begins a transaction.
        """
        facts = raw.execute(_SERVER_FACTS).fetchone()
        raw.autocommit = False
        named = _named(DRIVER_DEFAULT, _parameters(url))
        dialect = copy.copy(self._dialects.get(facts))
        if dialect is None:
            connection = _connect(_new_engine(named, guard, lambda: raw), guard)
            if len(self._dialects) >= SERVERS_REMEMBERED_MAX:
                self._dialects.clear()
            self._dialects[facts] = copy.copy(connection.dialect)  # before any revision can use it
            return connection
        on_connect: Any = dialect.on_connect_url(named)
        on_connect(raw)
        # As in `sa.create_engine`, without its reads from the server: see test_sqlalchemy.py.
        pool = NullPool(_once(guard, lambda: raw), dialect=dialect)
        return _connect(sa.Engine(pool, dialect, named, hide_parameters=True), guard)


def connect_sqlite(path: str, raw: Any, guard: Guard) -> sa.Connection:
    """Return SQLAlchemy's connection over *raw*, of the sqlite3 module, to the file at *path*."""
    url = sa.URL.create("sqlite", database=path)
    return _connect(_new_engine(url, guard, lambda: raw), guard)


def connect_psycopg(url: str, guard: Guard, *, timeout_seconds: float) -> Any:
    """Return a connection of psycopg to the database at *url*, in autocommit mode.

    Raises:
        psycopg.Error: It cannot connect.
    """
    import psycopg  # noqa: PLC0415 - SQLite does not need it, and it is slow to import

    raw = connection_class(psycopg).connect(
        # A prepared statement becomes invalid with the next change of its table.
        **_parameters(url, timeout_seconds),
        autocommit=True,
        cursor_factory=cursor_class(psycopg.Cursor),
        prepare_threshold=None,
    )
    raw.server_cursor_factory = cursor_class(psycopg.ServerCursor)
    raw.guard = guard
    return raw


def connect_other(url: str, driver: str, guard: Guard, *, timeout_seconds: float) -> sa.Connection:
    """Return a connection over another *driver* to the database at *url*.

    Its engine opens no second connection.

    Raises:
        DriverMissing: The driver cannot be imported.
    """
    try:
        if driver == "psycopg2":
            dbapi = importlib.import_module(driver)
            parameters = _parameters(url, timeout_seconds)
            named = _named(driver, parameters)
            factory = connection_class(dbapi)
            connect = partial(dbapi.connect, **parameters, connection_factory=factory)
        else:
            named = sa.make_url(url).set(drivername=f"postgresql+{driver}")
            dialect = named.get_dialect()
            arguments, options = dialect().create_connect_args(named)
            connect = partial(dialect.import_dbapi().connect, *arguments, **options)
    except (ImportError, sa.exc.NoSuchModuleError) as error:
        raise DriverMissing from error

    def connect_guarded() -> Any:
        raw = connect()
        if takes_several(raw):
            raw.guard = guard
        return raw

    return _connect(_new_engine(named, guard, connect_guarded), guard)


def cancel(raw: Any) -> None:
    """Cancel the running statement of a connection to PostgreSQL, from another thread."""
    if hasattr(raw, "cancel_safe"):  # of psycopg
        raw.cancel_safe(timeout=1.0)
    elif hasattr(raw, "cancel"):
        raw.cancel()


def takes_several(raw: Any) -> bool:
    """Return whether a connection accepts several commands in a message."""
    return type(raw).__module__.partition(".")[0] in _GUARDED_DRIVERS


def take_last_result(cursor: Any) -> None:
    """Move to the result of the last command of a message; only psycopg needs this."""
    if hasattr(cursor, "set_result"):
        cursor.set_result(-1)


def _new_engine(url: sa.URL, guard: Guard, connect: Callable[[], Any]) -> sa.Engine:
    creator = _once(guard, connect)
    return sa.create_engine(url, poolclass=NullPool, creator=creator, hide_parameters=True)


def _once(guard: Guard, connect: Callable[[], Any]) -> Callable[[], Any]:
    """Return a function that calls *connect* once, and raises an error after that."""
    connects = [connect]

    def connect_once() -> Any:
        if not connects:
            guard.refuse(SecondConnection())
        return connects.pop()()

    return connect_once


def _connect(engine: sa.Engine, guard: Guard) -> sa.Connection:
    def check_sql(_connection: object, _cursor: object, sql: str, *_: object) -> None:
        guard.check_sql(sql)

    connection = engine.connect()
    sa.event.listen(engine, "commit", guard.check_commit)
    sa.event.listen(engine, "rollback", guard.check_end)
    if engine.dialect.name == "postgresql":  # on SQLite, an authorizer checks it
        sa.event.listen(engine, "before_cursor_execute", check_sql)
    return connection


def _named(driver: str, parameters: Mapping[str, Any]) -> sa.URL:
    """Return the URL of the engine, which a revision can read: without a password."""
    port = str(parameters.get("port", ""))
    return sa.URL.create(
        f"postgresql+{driver}",
        username=parameters.get("user"),
        host=parameters.get("host"),
        port=int(port) if port.isdigit() else None,
        database=parameters.get("dbname"),
    )


def _parameters(url: str, timeout_seconds: float = 0) -> dict[str, Any]:
    """Return the parameters of a connection, with the names of libpq."""
    parsed = postgres_urls.parse(url)
    seconds = min(timeout_seconds, parsed.connect_seconds or timeout_seconds)
    return {
        "application_name": APPLICATION,
        **parsed.for_libpq(),
        "connect_timeout": max(2, round(seconds)),
    }
