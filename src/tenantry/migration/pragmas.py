"""What becomes of a PRAGMA that a revision sends to SQLite, inside the transaction of the script.

Alembic on SQLite sends most of them outside a transaction. Inside one, SQLite ignores
``foreign_keys`` and ``journal_mode``, and rejects some others.
"""

import re
import sqlite3
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from tenantry.kit.errors import Unavailable

_OFF = frozenset({"0", "off", "no", "false"})
# They concern the connection, or the files beside the database, not its content. Tenantry sets up
# its own connections, so they are not executed, and return no row.
_IGNORED = frozenset(
    {"busy_timeout", "locking_mode", "synchronous", "temp_store", "wal_checkpoint"}
)
# What sqlite3 begins a transaction before, as Alembic uses it: the first word of the text.
_BEGINS = re.compile(
    r"(?:\s|--[^\n]*\n|/\*.*?\*/)*(?:INSERT|UPDATE|DELETE|REPLACE)\b", re.IGNORECASE | re.DOTALL
)
# What a revision can do to a table or a column that keys refer to, in the words of the authorizer.
_DOES = {
    sqlite3.SQLITE_DROP_TABLE: "drops the table",
    sqlite3.SQLITE_DELETE: "deletes or replaces rows of the table",
    sqlite3.SQLITE_UPDATE: "updates keys of the table",
    sqlite3.SQLITE_INSERT: "inserts rows into the table",
}
_REPLACES = re.compile(r"\bREPLACE\b(?!\s*\()", re.IGNORECASE)  # no call of the function
# A trigger or the definition of a table can replace rows, too.
_FIND_REPLACING = "SELECT sql FROM sqlite_master WHERE sql LIKE '%replace%'"
_FIND_KEYS = """
SELECT child.name, lower(key."table"), lower(coalesce(key."to", primary_key.name)),
    key.on_update NOT IN ('NO ACTION', 'RESTRICT'), key.on_delete NOT IN ('NO ACTION', 'RESTRICT'),
    'SELECT 1 FROM "' || replace(child.name, '"', '""') || '" WHERE "'
    || replace(key."from", '"', '""') || '" IS NOT NULL LIMIT 1'
FROM sqlite_master AS child, pragma_foreign_key_list(child.name) AS key
LEFT JOIN pragma_table_info(key."table") AS primary_key
    ON key."to" IS NULL AND primary_key.pk = key.seq + 1
WHERE child.type = 'table'
"""


class ForeignKeysOn(Unavailable):
    """PRAGMA foreign_keys = ON needs PRAGMA foreign_keys = OFF before it, in the same revision."""


class JournalModeSet(Unavailable):
    """Tenantry keeps SQLite files in WAL mode: remove this PRAGMA journal_mode."""


class ForeignKeyBroken(Unavailable):
    """After PRAGMA foreign_keys = ON, rows of a table violate a foreign key."""


class Pragmas:
    """The pragmas of one script, whose foreign keys are off.

    With Alembic, ``PRAGMA foreign_keys = ON`` has an effect unless the revision has begun a
    transaction before, and it lasts for the later revisions. Here it has none, so what would differ
    fails: a violated key, a table that is dropped although rows refer to it, and any change to
    which a foreign key would react with an action, such as ON DELETE CASCADE.

    Args:
        mode: The journal mode of the file, which a transaction cannot change.
        place: Returns the place in the revision that is executed now, as ``(file, line 3)``.

    Attributes:
        is_on: Whether foreign keys would be on with Alembic.
    """

    def __init__(self, mode: str, place: Callable[[], str] = str) -> None:
        self._mode = mode
        self._place = place
        self.is_on = self._checks_keys = self._has_off = self._has_begun = False
        self._is_prepared = False  # the next statement that `trace` reports was authorized last
        self._written: set[str] = set()  # the tables, by this statement
        # What the revision does while keys are on, and where: see `_DOES`.
        self._done: dict[tuple[int, str, str], str] = {}
        self._keys: list[list[Any]] = []

    def begin_revision(self, raw: sqlite3.Connection) -> None:
        """Forget the revision before, except that it has switched foreign keys on."""
        self._keys = _keys(raw)
        self._checks_keys, self._has_off, self._has_begun = self.is_on, False, False
        self._written, self._done = set(), {}

    def authorize(self, action: int, name: str, value: str | None) -> int:
        """Return the answer of an authorizer of sqlite3: execute the statement, or ignore it.

        Raises:
            ForeignKeysOn: The revision switches foreign keys on that it has not switched off.
            JournalModeSet: It asks for another journal mode than the file's, and than WAL.
        """
        self._is_prepared = True
        if action == sqlite3.SQLITE_PRAGMA:
            return self._authorize_pragma(name.lower(), (value or "").lower())
        if action in _DOES and self.is_on and not name.startswith("sqlite_"):
            table = name.lower()
            column = (value or "").lower() if action == sqlite3.SQLITE_UPDATE else ""
            self._done.setdefault((action, table, column), self._place())
            self._written.add(table)
        return sqlite3.SQLITE_OK

    def trace(self, sql: str) -> None:
        """Read the text of a statement that is executed: the authorizer does not get it."""
        if not self._is_prepared:  # of a trigger, or executed again
            return
        self._has_begun = self._has_begun or _BEGINS.match(sql) is not None
        if self._written and _REPLACES.search(sql):
            for table in self._written:
                self._done.setdefault((sqlite3.SQLITE_DELETE, table, ""), self._place())
        self._is_prepared, self._written = False, set()

    def _authorize_pragma(self, name: str, value: str) -> int:
        if name == "foreign_keys" and value:
            is_on = value not in _OFF
            self._has_off |= not is_on
            if not self._has_off:
                raise ForeignKeysOn
            self._checks_keys = is_on
            self.is_on = self.is_on if self._has_begun else is_on
        if name == "journal_mode" and value not in {"", self._mode}:
            if value != "wal":
                raise JournalModeSet
            return sqlite3.SQLITE_IGNORE  # Tenantry switches to WAL when it opens the file
        is_ignored = name in _IGNORED and (value != "" or name == "wal_checkpoint")
        return sqlite3.SQLITE_IGNORE if is_ignored else sqlite3.SQLITE_OK

    def check_keys(self, raw: sqlite3.Connection) -> None:
        """Check at the end of a revision that foreign keys are as if they had been on.

        Raises:
            ForeignKeyBroken: They are not, or may not be.
        """
        self._check_actions(raw)
        if not self._checks_keys:
            return
        for table, _, parent, _ in _fetch(raw, "PRAGMA foreign_key_check"):
            raise ForeignKeyBroken(
                f"After PRAGMA foreign_keys = ON, rows of the table {table} violate a foreign key "
                f"to {parent}: correct or delete them in the revision."
            )

    def _check_actions(self, raw: sqlite3.Connection) -> None:
        """Check that no foreign key would have reacted to what the revision has done."""
        if not self._done:
            return
        if any(_REPLACES.search(sql) for (sql,) in _fetch(raw, _FIND_REPLACING)):
            for (action, table, _), place in list(self._done.items()):
                if action in {sqlite3.SQLITE_INSERT, sqlite3.SQLITE_UPDATE}:
                    self._done.setdefault((sqlite3.SQLITE_DELETE, table, ""), place)
        # A key can exist, or have rows, only at the beginning of the revision or only at its end.
        for keys, is_end in ((self._keys, False), (_keys(raw), True)):
            for key in keys:
                for what in _reacts_to(key, is_end=is_end):
                    if what in self._done:
                        raise ForeignKeyBroken(
                            f"After PRAGMA foreign_keys = ON, the revision {_DOES[what[0]]} "
                            f"{what[1]}{self._done[what]}, and rows of the table {key[0]} refer to "
                            "it: send PRAGMA foreign_keys = OFF before, and change these rows in "
                            "the revision."
                        )


def _reacts_to(key: Sequence[Any], *, is_end: bool) -> Iterator[tuple[int, str, str]]:
    """Yield what a foreign key reacts to; without an action, it is broken by a DROP at most."""
    _, parent, column, acts_on_update, acts_on_delete = key
    if acts_on_delete or is_end:
        yield sqlite3.SQLITE_DROP_TABLE, parent, ""
    if acts_on_delete:
        yield sqlite3.SQLITE_DELETE, parent, ""
    if acts_on_update:
        yield sqlite3.SQLITE_UPDATE, parent, column
        yield sqlite3.SQLITE_UPDATE, parent, "rowid"


def _keys(raw: sqlite3.Connection) -> list[list[Any]]:
    """Return the foreign keys that have rows, as `_reacts_to` reads them."""
    return [key for *key, find in _fetch(raw, _FIND_KEYS) if _fetch(raw, find)]


def _fetch(raw: sqlite3.Connection, query: str) -> list[tuple[Any, ...]]:
    """Return rows as tuples, whatever the revision has set on the connection."""
    cursor = raw.cursor()
    cursor.row_factory = None
    return cursor.execute(query).fetchall()
