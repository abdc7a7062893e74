"""What becomes of a PRAGMA that a revision sends to SQLite, inside the transaction of the script.

Alembic on SQLite sends most of them outside a transaction. Inside one, SQLite ignores
``foreign_keys`` and ``journal_mode``, and rejects some others.
"""

import sqlite3

from tenantry.kit.errors import Unavailable

_OFF = frozenset({"0", "off", "no", "false"})
# They concern the connection, or the files beside the database, not its content. Tenantry sets up
# its own connections, so they are not executed, and return no row.
_IGNORED = frozenset(
    {"busy_timeout", "locking_mode", "synchronous", "temp_store", "wal_checkpoint"}
)


_WRITES = frozenset({sqlite3.SQLITE_INSERT, sqlite3.SQLITE_UPDATE})
_REFERENCES = """
SELECT child.name, lower(key."table"), 'SELECT 1 FROM "' || replace(child.name, '"', '""')
    || '" WHERE "' || replace(key."from", '"', '""') || '" IS NOT NULL'
FROM sqlite_master AS child, pragma_foreign_key_list(child.name) AS key
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

    With Alembic, ``PRAGMA foreign_keys = ON`` has an effect unless the revision has written rows
    before, and it lasts for the later revisions. Here it has none, so what would differ fails: a
    violated key, and a table that is dropped although rows refer to it.

    Args:
        mode: The journal mode of the file, which a transaction cannot change.

    Attributes:
        is_on: Whether foreign keys would be on with Alembic.
    """

    def __init__(self, mode: str) -> None:
        self._mode = mode
        self.is_on = False
        self.begin_revision()

    def begin_revision(self) -> None:
        """Forget the revision before, except that it has switched foreign keys on."""
        self._checks_keys, self._has_off, self._has_written = self.is_on, False, False
        self._dropped: set[str] = set()

    def authorize(self, action: int, name: str, value: str | None) -> int:
        """Return the answer of an authorizer of sqlite3: execute the statement, or ignore it.

        Raises:
            ForeignKeysOn: The revision switches foreign keys on that it has not switched off.
            JournalModeSet: It asks for another journal mode than the file's, and than WAL.
        """
        if action == sqlite3.SQLITE_PRAGMA:
            return self._authorize_pragma(name.lower(), (value or "").lower())
        if action in _WRITES and not name.startswith("sqlite_"):
            self._has_written = True
        if action == sqlite3.SQLITE_DROP_TABLE and self.is_on:
            self._dropped.add(name.lower())
        return sqlite3.SQLITE_OK

    def _authorize_pragma(self, name: str, value: str) -> int:
        if name == "foreign_keys" and value:
            is_on = value not in _OFF
            self._has_off |= not is_on
            if not self._has_off:
                raise ForeignKeysOn
            self._checks_keys = is_on
            self.is_on = self.is_on if self._has_written else is_on
        if name == "journal_mode" and value not in {"", self._mode}:
            if value != "wal":
                raise JournalModeSet
            return sqlite3.SQLITE_IGNORE  # Tenantry switches to WAL when it opens the file
        is_ignored = name in _IGNORED and (value != "" or name == "wal_checkpoint")
        return sqlite3.SQLITE_IGNORE if is_ignored else sqlite3.SQLITE_OK

    def check_keys(self, raw: sqlite3.Connection) -> None:
        """Check at the end of a revision that foreign keys are as if they had been on.

        Raises:
            ForeignKeyBroken: They are not.
        """
        if not self._checks_keys:
            return
        for table, _, parent, _ in raw.execute("PRAGMA foreign_key_check").fetchmany(1):
            raise ForeignKeyBroken(
                f"After PRAGMA foreign_keys = ON, rows of the table {table} violate a foreign key "
                f"to {parent}: correct or delete them in the revision."
            )
        for table, parent, find in raw.execute(_REFERENCES).fetchall() if self._dropped else ():
            if parent in self._dropped and raw.execute(find).fetchone():
                raise ForeignKeyBroken(
                    f"After PRAGMA foreign_keys = ON, the revision drops the table {parent}, and "
                    f"rows of the table {table} refer to it: send PRAGMA foreign_keys = OFF before."
                )
