"""The ``autocommit_block`` of a revision on PostgreSQL: it leaves its transaction.

What is in the block has no transaction to be rolled back with. A process that is killed there
leaves something behind, and the next attempt has to continue from it. For an index that is
made, dropped or rebuilt ``CONCURRENTLY`` this module sees to that: before each, the log of
the database says that it was begun. An index that was begun and is not valid is dropped and
made again; one that is valid was finished, and is not made again. What ``REINDEX`` leaves
behind (``…_ccnew``, ``…_ccold``) is dropped.
"""

import contextlib
import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import sqlalchemy as sa

from tenantry.migration.guard import Guard
from tenantry.migration.schema_state import BEGUN, insert_log, log
from tenantry.migration.statements import AutocommitRevision

_NAME = r'(?:"(?:[^"]|"")+"|[\w$]+)'
_QUALIFIED = rf"{_NAME}(?:\s*\.\s*{_NAME})?"
_CREATE = re.compile(
    rf"\s*CREATE\s+(?:UNIQUE\s+)?INDEX\s+CONCURRENTLY\s+(?:IF\s+NOT\s+EXISTS\s+)?(?P<index>{_NAME})"
    rf"\s+ON\s+(?:ONLY\s+)?(?P<table>{_QUALIFIED})",
    re.IGNORECASE,
)
_DROP = re.compile(
    rf"\s*DROP\s+INDEX\s+CONCURRENTLY\s+(?:IF\s+EXISTS\s+)?(?P<index>{_QUALIFIED})"
    r"\s*(?:CASCADE|RESTRICT)?\s*;?\s*$",
    re.IGNORECASE,
)
_REINDEX = re.compile(
    r"\s*REINDEX\s*(?:\((?P<options>[^)]*)\)\s*)?(?P<kind>INDEX|TABLE|SCHEMA|DATABASE|SYSTEM)\b"
    rf"\s*(?P<word>CONCURRENTLY\b\s*)?(?P<name>{_QUALIFIED})?",
    re.IGNORECASE,
)
_NOTHING = "SELECT 1"

# An index is in the schema of its table.
_FIND_CREATED = sa.text("""
SELECT quote_ident(nspname) || '.' || quote_ident(relname), indisvalid
FROM pg_index
JOIN pg_class ON pg_class.oid = indexrelid
JOIN pg_namespace ON pg_namespace.oid = relnamespace
WHERE indrelid = to_regclass(:table) AND relname = :index
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
_FIND_BEGUN = sa.select(log.c.position).where(
    log.c.stream == BEGUN, log.c.revision == sa.bindparam("what")
)
# A role's own timeouts are for its traffic, and there is no transaction to set them in.
_TIMEOUTS_OFF = "SET statement_timeout = 0; SET idle_in_transaction_session_timeout = 0"


class AutocommitBlock:
    """The block of one revision, on one database.

    Args:
        step: The revision.
        connection: SQLAlchemy's.
        raw: The driver's connection under it.
        guard: Watches the revision.
    """

    def __init__(
        self, step: AutocommitRevision, connection: sa.Connection, raw: Any, guard: Guard
    ) -> None:
        self._step = step
        self._connection = connection
        self._raw = raw
        self._guard = guard
        self._reindexed: list[dict[str, str]] = []

    @contextmanager
    def enter(self) -> Iterator[None]:
        """Commit what was before the block, and begin a transaction after it."""
        timeouts = self._step.timeouts
        with self._guard.pausing():
            self._raw.commit()
            self._raw.autocommit = True
            self._command(_TIMEOUTS_OFF)
            self._set_lock_timeout(timeouts.lock_ms)
        sa.event.listen(self._connection, "before_cursor_execute", self._before, retval=True)
        try:
            yield
        except BaseException:
            with self._guard.pausing(), contextlib.suppress(Exception):
                self._drop_left()
            raise
        finally:
            sa.event.remove(self._connection, "before_cursor_execute", self._before)
            with self._guard.pausing(), contextlib.suppress(Exception):
                # A connection that is lost says so with the next statement.
                self._raw.autocommit = False
                self._set_lock_timeout(timeouts.lock_ms)

    def _before(
        self, _connection: object, _cursor: object, sql: str, parameters: Any, *_: object
    ) -> tuple[str, Any]:
        """Return what to send instead of a statement of the block."""
        if not self._guard.is_watching:
            return sql, parameters
        with self._guard.pausing():
            is_done = self._prepare(sql)
        return (_NOTHING, ()) if is_done else (sql, parameters)

    def _prepare(self, sql: str) -> bool:
        """Return whether *sql* was done by an earlier attempt; if not, make way for it."""
        # What is concurrent waits for transactions to end, with no traffic behind it.
        self._set_lock_timeout(self._step.timeouts.swap_ms)
        if created := _CREATE.match(sql):
            return self._is_created(_folded(created["index"]), created["table"])
        if dropped := _DROP.match(sql):
            is_there = self._scalar(_FIND_DROPPED, index=dropped["index"]) is not None
            return self._begin(f"drop {dropped['index']}") and not is_there
        rebuilt = _REINDEX.match(sql)
        if rebuilt and (rebuilt["word"] or "CONCURRENTLY" in (rebuilt["options"] or "").upper()):
            kind, name = rebuilt["kind"].upper(), rebuilt["name"] or ""
            self._reindexed.append({"kind": kind, "name": name})
            if self._begin(f"reindex {kind} {name}"):
                self._drop_left()
        else:
            self._set_lock_timeout(self._step.timeouts.lock_ms)
        return False

    def _is_created(self, index: str, table: str) -> bool:
        found = self._connection.execute(_FIND_CREATED, {"table": table, "index": index})
        row = found.one_or_none()
        is_begun = self._begin(f"create {index}")
        if row is None:
            return False
        name, is_valid = row
        if not is_valid:
            self._command(f"DROP INDEX CONCURRENTLY {name}")
            return False
        return is_begun  # else it is another revision's, and this one fails for it

    def _drop_left(self) -> None:
        """Drop the indexes that a REINDEX has begun and not finished."""
        for one in self._reindexed:
            for (name,) in self._connection.execute(_FIND_LEFT, one).all():
                self._command(f"DROP INDEX CONCURRENTLY IF EXISTS {name}")

    def _begin(self, what: str) -> bool:
        """Log that *what* is begun, and return whether it was before."""
        what = f"{self._step.revision.name}: {what}"
        if self._scalar(_FIND_BEGUN, what=what) is not None:
            return True
        self._connection.execute(insert_log(self._step.run_id, sa.literal(BEGUN), what))
        return False

    def _scalar(self, statement: Any, **values: object) -> Any:
        return self._connection.execute(statement, values).scalar()

    def _set_lock_timeout(self, milliseconds: int) -> None:
        self._command(f"SET lock_timeout = {milliseconds}")

    def _command(self, sql: str) -> None:
        cursor = self._raw.cursor()
        cursor.execute(sql)
        cursor.close()


def _folded(name: str) -> str:
    """Return a name as the server has it."""
    if name.startswith('"'):
        return name[1:-1].replace('""', '"')
    return name.lower()
