"""A revision that leaves its transaction, on PostgreSQL: ``autocommit_block``.

What is in the block has no transaction to be taken back with. So whoever is killed there
leaves something behind, and the next one has to go on from it. For an index that is made
or dropped ``CONCURRENTLY`` this module sees to that: before each, the log of the database
says that it was begun. An index that was begun and is not valid is dropped and made anew;
one that is valid was ended, and is not made again.
"""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import sqlalchemy as sa

from tenantry.kit.clock import utc_now
from tenantry.migration.dialects import OURS
from tenantry.migration.schema_state import BEGUN, log
from tenantry.migration.statements import Outside
from tenantry.migration.streams import upgrade_live

_NAME = r'(?:"(?:[^"]|"")+"|[\w$]+)'
_CREATE = re.compile(
    rf"\s*CREATE\s+(?:UNIQUE\s+)?INDEX\s+CONCURRENTLY\s+(?:IF\s+NOT\s+EXISTS\s+)?(?P<index>{_NAME})"
    rf"\s+ON\s+(?:ONLY\s+)?(?P<table>{_NAME}(?:\s*\.\s*{_NAME})?)",
    re.IGNORECASE,
)
_DROP = re.compile(
    rf"\s*DROP\s+INDEX\s+CONCURRENTLY\s+(?:IF\s+EXISTS\s+)?(?P<index>{_NAME}(?:\s*\.\s*{_NAME})?)"
    r"\s*(?:CASCADE|RESTRICT)?\s*;?\s*$",
    re.IGNORECASE,
)
_NOTHING = "SELECT 1"

# An index is in the schema of its table.
_FIND_CREATED = """
SELECT quote_ident(nspname) || '.' || quote_ident(relname), indisvalid
FROM pg_index
JOIN pg_class ON pg_class.oid = indexrelid
JOIN pg_namespace ON pg_namespace.oid = relnamespace
WHERE indrelid = to_regclass($1) AND relname = $2
"""
_FIND_DROPPED = "SELECT to_regclass($1)::text"


def upgrade_outside(outside: Outside, connection: sa.Connection) -> None:
    """Run a revision that ends the transaction it begins in, and leaves another one open.

    Raises:
        RevisionFailed: It raised something. What it had done until then may have stayed.
    """
    block = _Block(outside, connection)
    upgrade_live(outside.revision, connection, block.enter)


class _Block:
    """The ``autocommit_block`` of one revision, on one database."""

    def __init__(self, outside: Outside, connection: sa.Connection) -> None:
        self._outside = outside
        self._connection = connection
        self._is_ours = False

    @contextmanager
    def enter(self) -> Iterator[None]:
        """Commit what was before the block, and begin a transaction after it."""
        self._run("COMMIT")
        self._set_lock_timeout(self._outside.limits.lock_ms)
        sa.event.listen(self._connection, "before_cursor_execute", self._before, retval=True)
        try:
            yield
        finally:
            sa.event.remove(self._connection, "before_cursor_execute", self._before)
            self._run("BEGIN")
            self._set_lock_timeout(self._outside.limits.lock_ms, local=True)

    def _before(
        self, _c: object, _cursor: object, sql: str, parameters: Any, *_: object
    ) -> tuple[str, Any]:
        """Return what to send instead of a statement of the block."""
        if self._is_ours:
            return sql, parameters
        if created := _CREATE.match(sql):
            is_done = self._is_created(_folded(created["index"]), created["table"])
        elif dropped := _DROP.match(sql):
            is_done = self._is_dropped(dropped["index"])
        else:
            self._set_lock_timeout(self._outside.limits.lock_ms)
            return sql, parameters
        # It waits for transactions to end, with nobody's traffic behind.
        self._set_lock_timeout(self._outside.limits.swap_ms)
        return (_NOTHING, ()) if is_done else (sql, parameters)

    def _is_created(self, index: str, table: str) -> bool:
        found = self._run(_FIND_CREATED, table, index).one_or_none()
        is_begun = self._begin(f"create {index}")
        if found is None:
            return False
        name, is_valid = found
        if not is_valid:
            self._set_lock_timeout(self._outside.limits.swap_ms)
            self._run(f"DROP INDEX CONCURRENTLY {name}")
            return False
        return is_begun  # else it is somebody else's, and the revision is told so

    def _is_dropped(self, index: str) -> bool:
        is_there = self._run(_FIND_DROPPED, index).scalar() is not None
        return self._begin(f"drop {index}") and not is_there

    def _begin(self, what: str) -> bool:
        """Write down that *what* is begun, and return whether it was before."""
        what = f"{self._outside.revision.name}: {what}"
        table = f"{log.name} WHERE stream = '{BEGUN}' AND revision = $1"
        if self._run(f"SELECT 1 FROM {table}", what).first():  # noqa: S608 - constants
            return True
        values = (self._outside.run_id, BEGUN, what, utc_now())
        columns = "run_id, stream, revision, applied_at"
        self._run(f"INSERT INTO {log.name} ({columns}) VALUES ($1, $2, $3, $4)", *values)  # noqa: S608
        return False

    def _set_lock_timeout(self, milliseconds: int, *, local: bool = False) -> None:
        self._run(f"SET {'LOCAL ' if local else ''}lock_timeout = {milliseconds}")

    def _run(self, sql: str, *parameters: object) -> Any:
        self._is_ours = True
        try:
            return self._connection.exec_driver_sql(sql, parameters, execution_options=OURS)
        finally:
            self._is_ours = False


def _folded(name: str) -> str:
    """Return a name as the server has it."""
    if name.startswith('"'):
        return name[1:-1].replace('""', '"')
    return name.lower()
