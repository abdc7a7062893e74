"""The ``autocommit_block`` of a revision on PostgreSQL: statements outside its transaction.

Statements in the block cannot be rolled back. If the process is killed there, the next attempt
continues from what is left. This module does so for indexes that are created, dropped or rebuilt
``CONCURRENTLY`` over SQLAlchemy: before each, it adds an entry "begun" to the log of the database.
If the same statement was begun and its index is invalid, it is dropped and created again. If it is
valid, it was finished, and is not created again. The remains of ``REINDEX`` (``…_ccnew``,
``…_ccold``) are dropped.
"""

import contextlib
import hashlib
import re
import secrets
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import sqlalchemy as sa

from tenantry.db.postgres.session_settings import LIFT_IN_SESSION
from tenantry.kit.errors import Unavailable
from tenantry.migration import sql_text
from tenantry.migration.guard import BlockLeavesTransaction, Guard
from tenantry.migration.guarded_drivers import FAILED, IDLE
from tenantry.migration.lock_timeouts import lock_timeout_sql
from tenantry.migration.schema_state import BEGUN, log
from tenantry.migration.statements import AutocommitRevision

_NAME = r'(?:"(?:[^"]|"")+"|[\w$]+)'
_QUALIFIED = rf"{_NAME}(?:\s*\.\s*{_NAME})?"
_START = r"(?:\s|--[^\r\n]*[\r\n]|/\*(?:(?!/\*|\*/)[\s\S])*\*/)*"
_CREATE = re.compile(
    rf"{_START}CREATE\s+(?:UNIQUE\s+)?INDEX\s+CONCURRENTLY\s+(?:IF\s+NOT\s+EXISTS\s+)?"
    rf"(?P<index>{_NAME})\s+ON\s+(?:ONLY\s+)?(?P<table>{_QUALIFIED})(?![\w$]|\s*\.)",
    re.IGNORECASE,
)
_DROP = re.compile(
    rf"{_START}DROP\s+INDEX\s+CONCURRENTLY\s+(?:IF\s+EXISTS\s+)?(?P<index>{_QUALIFIED})"
    r"\s*(?:CASCADE|RESTRICT)?\s*;?\s*$",
    re.IGNORECASE,
)
_REINDEX = re.compile(
    rf"{_START}REINDEX\s*(?:\((?P<options>[^)]*)\)\s*)?(?P<kind>INDEX|TABLE|SCHEMA|DATABASE|SYSTEM)\b"
    rf"\s*(?P<word>CONCURRENTLY\b\s*)?(?P<name>{_QUALIFIED})?\s*;?\s*$",
    re.IGNORECASE,
)
_NOTHING = "SELECT 1"
# The column is an INTEGER.
POSITION_MAX = 2**31 - 1

# An index is in the schema of its table. The server folds and cuts its name.
_FIND_CREATED = sa.text("""
SELECT quote_ident(nspname) || '.' || quote_ident(relname), indisvalid
FROM pg_index
JOIN pg_class ON pg_class.oid = indexrelid
JOIN pg_namespace ON pg_namespace.oid = relnamespace
WHERE indrelid = to_regclass(:table) AND relname = CAST((parse_ident(:index))[1] AS name)
""")
_FIND_DROPPED = sa.text("SELECT CAST(to_regclass(:index) AS text)")
_FIND_LEFT = sa.text("""
SELECT quote_ident(nspname) || '.' || quote_ident(relname)
FROM pg_index
JOIN pg_class ON pg_class.oid = indexrelid
JOIN pg_namespace ON pg_namespace.oid = relnamespace
WHERE NOT indisvalid AND relname ~ '_cc(new|old)[0-9]*$' AND CASE CAST(:kind AS text)
    WHEN 'INDEX' THEN
        indrelid = (SELECT indrelid FROM pg_index WHERE indexrelid = to_regclass(:name))
    WHEN 'TABLE' THEN indrelid IN
        (SELECT unnest(ARRAY[oid, reltoastrelid]) FROM pg_class WHERE oid = to_regclass(:name))
    ELSE TRUE END
""")
_FIND_TABLES = sa.text("""
SELECT CAST(to_regclass(quote_ident(:own)) AS oid), CAST(to_regclass(quote_ident(:log)) AS oid),
    CAST(to_regclass(quote_ident(:user)) AS oid)
""")
# What is written after the block, when the block cannot be rolled back.
_HAS_RIGHTS = sa.text("""
SELECT has_table_privilege(:own, 'SELECT') AND has_table_privilege(:own, 'UPDATE')
    AND has_table_privilege(:log, 'SELECT') AND has_table_privilege(:log, 'INSERT')
    AND has_table_privilege(:log, 'DELETE')
    AND has_sequence_privilege(pg_get_serial_sequence(:log, 'position'), 'USAGE')
""")
_FIND_BEGUN = sa.select(log.c.position).where(
    log.c.stream == BEGUN, log.c.revision == sa.bindparam("what")
)
_READ_SESSION = sa.text(
    "SELECT current_setting('role') AS role, current_setting('search_path') AS path"
)
_SET_SESSION = sa.text(
    "SELECT set_config('role', :role, false), set_config('search_path', :path, false)"
)
_HARMLESS = {"SET", "RESET", "SHOW", "VACUUM"}


class VersionMoved(Unavailable):
    """The revision changes which table the name of the version table means (search_path)."""


class RoleWithoutRights(Unavailable):
    """The role of the revision may not write Tenantry's tables: RESET ROLE before the block."""


class BlockNotRepeated(Unavailable):
    """The block failed after statements that may remain: see what they have done, and run again."""


class AutocommitBlock:
    """The block of one revision, on one database.

    What is sent before and in the block remains if the revision fails later. An index is continued
    by the next attempt. Any other statement could be executed twice, so a run does not try again,
    not even if the statement itself has failed; an operator can, as with Alembic.
    """

    def __init__(
        self, step: AutocommitRevision, connection: sa.Connection, raw: Any, guard: Guard
    ) -> None:
        self._step = step
        self._connection = connection
        self._raw = raw
        self._guard = guard
        self._reindexed: list[dict[str, str]] = []
        self._begun: set[str] = set()
        self._tables = self._find_tables()
        self._has_sent = False  # a statement that must not be repeated
        self._prepared: str | None = None
        self._run = f"{step.revision}: statements of {step.run_id}"
        self._session: dict[str, str] = {}
        with guard.pausing():
            if self._scalar(_FIND_BEGUN, what=self._run) is not None:
                guard.refuse(BlockNotRepeated())

    def before(self, sql: str) -> None:
        """Store that a statement is sent which an attempt of the same run must not repeat."""
        if self._is_repeatable(sql):
            return
        if self._guard.is_in_block and not self._has_sent:
            with self._session_of_before():
                self._log(self._run)
            self._guard.is_final = True
        # A transaction of the driver, `raw.transaction()`, can roll the entry back.
        self._has_sent |= not self._guard.is_in_block or _is_idle(self._raw)

    def _is_repeatable(self, sql: str) -> bool:
        """Return whether a statement changes nothing, or is continued by the next attempt."""
        text = sql_text.read(sql)
        if sql in {self._prepared, _NOTHING}:
            return True
        return text.is_whole and all({*words[:1]} <= _HARMLESS for words in text.commands)

    def check_tables(self) -> None:
        """Check that the names of the version tables and of the log mean the same tables as before.

        Raises:
            VersionMoved: They do not. The revision has changed the search path, for example.
        """
        if self._find_tables() != self._tables:
            self._guard.refuse(VersionMoved())

    @contextmanager
    def enter(self) -> Iterator[None]:
        """Commit the transaction before the block, and begin another one after it."""
        timeouts = self._step.timeouts
        self._guard.check_refused()
        self.check_tables()
        with self._guard.pausing():
            if not self._scalar(_HAS_RIGHTS, own=self._step.own_table, log=log.name):
                self._guard.refuse(RoleWithoutRights())
            if self._has_sent:
                self._log(self._run)
                self._guard.is_final = True
            self._session = self._connection.execute(_READ_SESSION).one()._asdict()
            self._raw.commit()
            self._raw.autocommit = True
            self._guard.enter_block()
            # A role's own limits are for requests. Without a transaction, SET LOCAL has no effect.
            self._command(LIFT_IN_SESSION)
            self._set_lock_timeout(timeouts.lock_ms)
        sa.event.listen(self._connection, "before_cursor_execute", self._replace, retval=True)
        try:
            yield
            if not _is_idle(self._raw):
                self._guard.refuse(BlockLeavesTransaction())
        except BaseException:
            with self._guard.pausing(), contextlib.suppress(Exception):
                self._raw.rollback()  # a transaction of the block's own, which has failed
                self._drop_left()
            raise
        finally:
            self._guard.is_in_block = False
            sa.event.remove(self._connection, "before_cursor_execute", self._replace)
            with self._guard.pausing(), contextlib.suppress(Exception):
                # If the connection is lost, the next statement raises the error.
                self._raw.autocommit = False
                self._set_lock_timeout(timeouts.lock_ms)

    def _replace(
        self, _connection: object, _cursor: object, sql: str, parameters: Any, *_: object
    ) -> tuple[str, Any]:
        """Return the statement to send in place of one of the block."""
        # After an error in a transaction of the block, the server accepts nothing but its end.
        if not self._guard.is_watching or _status(self._raw) == FAILED:
            return sql, parameters
        with self._guard.pausing():
            is_done = self._prepare(sql)
        return (_NOTHING, ()) if is_done else (sql, parameters)

    def _prepare(self, sql: str) -> bool:
        """Return whether an earlier attempt completed *sql*; if not, remove what it left."""
        is_alone = len(sql_text.read(sql).commands) == 1
        patterns = (_CREATE, _DROP, _REINDEX) if is_alone else ()
        match = next(filter(None, (one.match(sql) for one in patterns)), None)
        self._prepared = sql if match else None
        if match is None or not _is_concurrent(match):
            self._set_lock_timeout(self._step.timeouts.lock_ms)
            return False
        # A concurrent command waits for transactions to end, and blocks no traffic.
        self._set_lock_timeout(self._step.timeouts.swap_ms)
        if match.re is _CREATE:
            return self._is_created(sql, match["index"], match["table"])
        if match.re is _DROP:
            exists = self._scalar(_FIND_DROPPED, index=match["index"]) is not None
            return self._begin(sql, is_logged=exists) and not exists
        self._reindexed.append({"kind": match["kind"].upper(), "name": match["name"] or ""})
        if self._begin(sql):
            self._drop_left()
        return False

    def _is_created(self, sql: str, index: str, table: str) -> bool:
        found = self._connection.execute(_FIND_CREATED, {"table": table, "index": index})
        row = found.one_or_none()
        # If there is one that was not begun, it is another revision's, and this statement fails.
        if not self._begin(sql, is_logged=row is None) or row is None:
            return False
        name, is_valid = row
        if not is_valid:
            self._command(f"DROP INDEX CONCURRENTLY {name}")
        return bool(is_valid)

    def _drop_left(self) -> None:
        """Drop the indexes that an unfinished REINDEX has left."""
        for one in self._reindexed:
            for (name,) in self._connection.execute(_FIND_LEFT, one).all():
                self._command(f"DROP INDEX CONCURRENTLY IF EXISTS {name}")

    def _begin(self, sql: str, *, is_logged: bool = True) -> bool:
        """Log that *sql* is begun; return whether an earlier attempt has begun it."""
        with self._session_of_before() as path:
            # A corrected statement is another one; so is the same one in another schema.
            digest = hashlib.sha256(f"{path} {sql}".encode()).hexdigest()
            what = f"{self._step.revision}: {digest}"
            if what in self._begun:
                return False
            self._begun.add(what)
            if self._scalar(_FIND_BEGUN, what=what) is not None:
                return True
            if is_logged:
                self._log(what)
        return False

    @contextmanager
    def _session_of_before(self) -> Iterator[str]:
        """Use the role and the search path of before the block, which the revision may change.

        Yield the search path that it has set.
        """
        now = self._connection.execute(_READ_SESSION).one()
        self._connection.execute(_SET_SESSION, self._session)
        try:
            yield now.path
        finally:
            self._connection.execute(_SET_SESSION, now._asdict())

    def _log(self, what: str) -> None:
        # The next value of the sequence would change what `lastval()` returns to the revision.
        position = -1 - secrets.randbelow(POSITION_MAX)
        values = {"run_id": self._step.run_id, "stream": BEGUN, "revision": what}
        self._connection.execute(sa.insert(log).values(position=position, **values))

    def _find_tables(self) -> Sequence[Any]:
        names = {"own": self._step.own_table, "log": log.name, "user": self._step.user_table}
        with self._guard.pausing():
            return self._connection.execute(_FIND_TABLES, names).one()

    def _scalar(self, statement: Any, **values: object) -> Any:
        return self._connection.execute(statement, values).scalar()

    def _set_lock_timeout(self, milliseconds: int) -> None:
        self._command(lock_timeout_sql(milliseconds, is_local=False))

    def _command(self, sql: str) -> None:
        cursor = self._raw.cursor()
        cursor.execute(sql)
        cursor.close()


def _is_concurrent(match: re.Match[str]) -> bool:
    if match.re is not _REINDEX:
        return True
    return bool(match["word"]) or "CONCURRENTLY" in (match["options"] or "").upper()


def _is_idle(raw: Any) -> bool:
    """Return whether no transaction is open; psycopg alone can open one in a block."""
    return _status(raw) == IDLE


def _status(raw: Any) -> int:
    return int(getattr(getattr(raw, "info", None), "transaction_status", IDLE))
