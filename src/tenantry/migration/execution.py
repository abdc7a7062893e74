"""Read the schema state of one database, and execute scripts on it, over one connection.

Everything here is synchronous and runs in one thread for each database (`Migrator`).
"""

import contextlib
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from typing import Any
from uuid import UUID

import sqlalchemy as sa

from tenantry.db.copying.schema_listing import LISTINGS, objects_in
from tenantry.db.outage_errors import is_missing_table
from tenantry.migration import alembic_modules, live, schema_state
from tenantry.migration.autocommit import AutocommitBlock
from tenantry.migration.guard import Guard
from tenantry.migration.revisions import execute
from tenantry.migration.schema_state import HasOtherTables, NoVersion, Schema, SchemaState, Undo
from tenantry.migration.statements import (
    AutocommitRevision,
    CreatedTypes,
    LiveRevision,
    RecordedRevision,
    SchemaMoved,
    Statement,
    Step,
    TypeName,
    messages,
)


class Execution(ABC):
    """Reads the schema state of one database, and executes scripts on it.

    It belongs to one thread; other threads may only call `stop`.

    Args:
        user_table: The version table of the user's stream; None without such a stream.
        attached_at: Of an attached database, which has only the user's stream: the revision of
            Tenantry's stream at which it counts, `BASE` in a fleet. None of any other one.

    Attributes:
        guard: Watches the revisions, and raises an error after `stop`.
    """

    def __init__(self, user_table: str | None, *, attached_at: str | None) -> None:
        self.guard = Guard()
        self._user_table = user_table
        self._attached_at = attached_at
        self._is_attached = attached_at is not None
        self._raw: Any = None
        # What an upgrade keeps from one revision to the next: see `live.LiveContext`.
        self._types: dict[str, set[tuple[str | None, str]]] = {}
        self._context: live.LiveContext | None = None

    @property
    @abstractmethod
    def dialect(self) -> sa.Dialect:
        """The engine and its version, which scripts are compiled for."""

    @abstractmethod
    def execute(
        self,
        steps: Sequence[Step],
        *,
        wait_ms: int,
        rehearses: bool = False,
        has_next: bool = False,
    ) -> None:
        """Execute *steps* in one transaction, which is rolled back on an error.

        Args:
            steps: The steps to send.
            wait_ms: How long to wait for another run on the same database.
            rehearses: Whether to roll back at the end.
            has_next: Whether another script follows, which must have the same session.

        Raises:
            RevisionFailed: A revision raised an error.
            SchemaMoved: A guard did not find the expected version.
        """

    @abstractmethod
    def stop(self) -> None:
        """Interrupt the execution, from another thread: it commits nothing after this."""

    def close(self) -> None:
        """Close the connection."""
        raw, self._raw = self._raw, None
        if raw is not None:
            raw.close()

    def read_state(self, run_id: UUID | None = None, undo: Undo | None = None) -> SchemaState:
        """Return the revision of the database, and the revisions that a run, if any, has logged.

        With *undo*, also what can be undone.

        Raises:
            NoVersion: The database has no revision of Tenantry, and is not attached.
            DatabaseOfTenantry: It is attached, and has one.
        """
        state = self._read_state(run_id, undo)
        if state.undoable and not state.revision.heads:
            # The user's version table was committed between the two queries of the first read.
            state = self._read_state(run_id, undo)
        return state

    def _read_state(self, run_id: UUID | None, undo: Undo | None) -> SchemaState:
        error: Exception | None = None
        user = self._user_table
        tries: list[tuple[str | None, UUID | None, Undo | None]] = [(user, run_id, undo)]
        without = [(user, None, None), (None, None, None)]
        tries += without if self._is_attached else [(None, run_id, undo)]
        for tables in dict.fromkeys(tries):
            try:
                query = schema_state.find(self.dialect, *tables, is_attached=self._is_attached)
                rows = self._fetch(query)
            except Exception as missing:
                if not is_missing_table(missing):
                    raise
                error = missing
            else:
                has_user = self._user_table is not None
                return schema_state.state_in(rows, has_user=has_user, attached_at=self._attached_at)
        raise NoVersion from error

    def read_schema(self) -> Schema:
        """Return the revision of the database, and the objects of its schema.

        Raises:
            SchemaMoved: It was migrated at the same time.
            SchemaTooLarge: It has too many objects.
            NoVersion: The database has no revision of Tenantry.
        """
        revision = self.read_state().revision
        rows = self._list_objects(LISTINGS[self.dialect.name])
        if self.read_state().revision != revision:
            raise SchemaMoved
        objects = objects_in(rows)
        if self._is_attached:  # one that Alembic alone has migrated has no log
            objects = [one for one in objects if schema_state.log.name not in one.name]
        return Schema(revision, objects)

    def check_empty(self) -> None:
        """Check that a database without a revision of Tenantry has no tables.

        Raises:
            HasOtherTables: It has some.
        """
        if self._has_version():
            return
        objects = objects_in(self._list_objects(LISTINGS[self.dialect.name]))
        # Asked again: another process may have created Tenantry's tables since.
        if any(one.kind.endswith("table") for one in objects) and not self._has_version():
            raise HasOtherTables

    def _has_version(self) -> bool:
        try:
            self.read_state()
        except NoVersion:
            return False
        return True

    def count_lost(self, table: str, column: str | None, most: int) -> tuple[int, bool]:
        """Return how many rows a table has, or values a column, among its first *most* rows.

        Also whether it has more rows than those.

        Raises:
            Exception: Any error of the drivers; there may be no such table.
        """
        name = ".".join(map(_quoted, table.split(".")))
        value = "1 AS value" if column is None else f"{_quoted(column)} AS value"
        some = f"(SELECT {value} FROM {name} LIMIT {most + 1}) AS counted"  # noqa: S608 - quoted
        [(rows, values)] = self._fetch(f"SELECT count(*), count(value) FROM {some}")  # noqa: S608
        return min(values, most), rows > most

    @abstractmethod
    def _connect(self) -> Any:
        """Return the connection of the driver, which is opened at the first call."""

    def _fetch(self, query: str) -> Any:
        """Return the rows of Tenantry's own query, outside a transaction."""
        return self._connect().execute(query).fetchall()

    def _list_objects(self, listing: str) -> Any:
        """Return the rows of a query of the system catalogs."""
        return self._fetch(listing)

    @abstractmethod
    def _check_open(self, raw: Any) -> None:
        """Check after a revision that its transaction is open."""

    def _check_commit(self) -> None:
        """Check that the transaction may be committed."""
        self.guard.check_stopped()
        if self.guard.before_commit is not None:
            self.guard.before_commit()

    def _transact(self, raw: Any, steps: Sequence[Step], connection: sa.Connection | None) -> None:
        """Execute *steps* on a driver's connection, and commit them or roll them back.

        Its transaction has begun, or *steps* begin it. *connection* is that of SQLAlchemy over
        *raw*; None if nothing runs live.
        """
        self.guard.is_final = False
        types = {kind: set(names) for kind, names in self._types.items()}
        try:
            sent = self._sent(steps)
            self._send(raw, messages(sent) if live.takes_several(raw) else sent, connection)
            self._check_commit()
            raw.rollback() if self.guard.rehearses else raw.commit()
        except BaseException:
            self._types = types
            if self._context is not None:
                self._context.impl.memo = types
            with contextlib.suppress(Exception):  # keep the first error
                raw.rollback()
            raise

    def _sent(self, steps: Iterable[Step]) -> Iterator[Statement | LiveRevision]:
        """Yield what is sent for *steps*, which depends on the revisions that have run.

        A type that the upgrade has created for a table is not created again. If a live revision has
        changed the connection or the context, the later revisions run live.
        """
        for step in steps:
            if isinstance(step, CreatedTypes):
                for name in step.names:
                    self._is_new_type(name)
            elif not isinstance(step, RecordedRevision):
                yield step
            elif self._is_changed():
                yield step.live
            else:
                yield from (
                    one
                    for one in step.statements
                    if one.named_type is None or self._is_new_type(one.named_type)
                )

    def _is_new_type(self, name: TypeName) -> bool:
        """Return whether the upgrade has not created a type for a table yet; remember it."""
        names = self._types.setdefault(name[0], set())
        is_new = name[1:] not in names
        names.add(name[1:])
        return is_new

    def _is_changed(self) -> bool:
        """Return whether the upgrade so far requires that recorded revisions run live."""
        return self._context is not None and self._context.is_changed()

    def _send(
        self,
        raw: Any,
        steps: Iterable[Statement | LiveRevision],
        connection: sa.Connection | None,
    ) -> None:
        for step in steps:
            self.guard.check_stopped()
            # These take the lock of a migration, or change what it has locked already.
            self.guard.awaits_other = step.revision is None and step.guard is SchemaMoved
            with self.guard.watching(step):
                if isinstance(step, Statement):
                    _send_statement(raw, step)
                else:
                    assert connection is not None
                    self._upgrade(step, connection, raw)
                if step.revision is not None:
                    self._check_open(raw)
            self.guard.awaits_other = False

    def _upgrade(self, step: LiveRevision, connection: sa.Connection, raw: Any) -> None:
        guard = self.guard
        if self._context is None or self._context.connection is not connection:
            table = self._user_table or alembic_modules.VERSION_TABLE
            self._context = live.LiveContext(connection, guard, self._types, version_table=table)
        context = self._context
        context.heads, context.block = step.heads, None
        context.use_metadata(step.code.metadata)
        with alembic_modules.noting(guard.note):
            module = step.code.load()
            if not isinstance(step, AutocommitRevision):
                execute(step.code, module, context)
            else:
                block = AutocommitBlock(step, connection, raw, guard)
                context.block = block.enter
                with guard.calling(block.before, accepts_commit=live.takes_several(raw)):
                    execute(step.code, module, context)
                block.check_tables()
            context.is_changed()


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _send_statement(raw: Any, statement: Statement) -> None:
    cursor = raw.cursor()
    cursor.execute(statement.sql)
    if statement.guard is not None:
        live.take_last_result(cursor)
        found = len(cursor.fetchall()) if cursor.description else cursor.rowcount
        if found != 1:
            raise statement.guard
    cursor.close()
