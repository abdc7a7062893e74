"""The database of the simulated catalog: SQLite in memory, which remembers what it has found.

Idle workers ask the same again and again. A statement that has changed nothing finds the same, and
changes nothing again, until a table is changed that it reads or writes. So its rows are kept until
then. SQLite itself says which tables these are, and whether the statement reads the time.

Most statements that read the time only ask which workers are silent. These are not repeated until
another worker is.
"""

import re
import sqlite3
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from harness.simulate.clock import CLOCK

CACHED_STATEMENTS = 512
VARYING = frozenset({"julianday", "random", "randomblob", "datetime", "strftime"})
"""A statement that calls one of these functions may find something else at each time."""
_ALIVE = re.compile(
    r"worker\.seen_at_ms >= CAST\(\(julianday\('now'\) - 2440587\.5\) \* 86400000 AS INTEGER\) - \?"
)
"""The workers that are not silent, as the product asks for them."""
_SET = re.compile(r"\bUPDATE \w+ SET (.*?) (?:FROM|WHERE) ", re.DOTALL)
_SAVEPOINTS = {
    "BEGIN": ["SAVEPOINT step"],
    "COMMIT": ["RELEASE step"],
    "ROLLBACK": ["ROLLBACK TO step", "RELEASE step"],
}
_SEEN = "SELECT id, seen_at_ms FROM worker"
_WRITES = frozenset({sqlite3.SQLITE_INSERT, sqlite3.SQLITE_UPDATE, sqlite3.SQLITE_DELETE})
_TOUCHES = _WRITES | {sqlite3.SQLITE_READ}

Rows = Sequence[Any]


class _Tables(NamedTuple):
    """What a statement depends on, and what it may change.

    Attributes:
        all: The tables that it reads or writes.
        written: Those that it writes; None is all of them: a deletion may cascade.
        is_repeatable: Whether its result depends on these tables and its values only, and, of
            the workers, on who is silent.
        silence_at: Which of its values says how many milliseconds silence is.
        new_values: Which of its values are only written: what it finds does not depend on them.
    """

    all: tuple[str, ...]
    written: tuple[str, ...] | None
    is_repeatable: bool
    silence_at: int | None
    new_values: slice


_LEARNED: dict[str, _Tables] = {}
"""By statement; kept for all histories."""


class Engine:
    """Runs the statements of all simulated processes.

    A history is one transaction, which is rolled back at its end, and its transactions are
    savepoints: so statements stay prepared. No constraint of the catalog is deferred.

    Args:
        image: A catalog at the head, serialized.

    Attributes:
        is_verified: Whether each statement that was remembered is run all the same, and compared.
        wrong: The first one that has found something else then.
    """

    is_verified = False
    wrong: str | None = None

    def __init__(self, image: bytes) -> None:
        self._image = sqlite3.connect(":memory:")
        self._image.deserialize(image)
        self._raw = sqlite3.connect(
            ":memory:", isolation_level=None, cached_statements=CACHED_STATEMENTS
        )
        self._image.backup(self._raw)
        self._raw.create_function("julianday", 1, CLOCK.julian_day)
        self._raw.execute("PRAGMA foreign_keys = ON")
        self._raw.execute("BEGIN")
        self._found: dict[tuple[Any, ...], tuple[int, Rows]] = {}
        self._now = 0
        self._all_changed_at = 0
        self._changed_at: dict[str, int] = {}

    def reset(self) -> None:
        """Begin with the image again."""
        self._raw.execute("ROLLBACK")
        self._raw.execute("BEGIN")
        self._found.clear()
        self._note_changed(None)

    @property
    def changes(self) -> int:
        """How many rows were ever changed."""
        return self._raw.total_changes

    @property
    def now(self) -> int:
        """A number that grows with each change, for `has_changed`."""
        return self._now

    def has_changed(self, table: str, since: int) -> bool:
        """Return whether a table may have changed since `now` was *since*."""
        return max(self._all_changed_at, self._changed_at.get(table, 0)) > since

    @staticmethod
    def touches(sql: str, table: str) -> bool:
        """Return whether a statement that was run before reads or writes a table."""
        return table in _LEARNED[sql].all

    def run(self, sql: str, arguments: Sequence[Any]) -> Rows:
        """Run a statement, or return what is known, and return all rows."""
        tables = _LEARNED.get(sql) or self._learn(sql, arguments)
        if not tables.is_repeatable:
            return self._run(sql, arguments, tables)
        at = tables.new_values
        alive = None if tables.silence_at is None else self._alive(arguments[tables.silence_at])
        key = (sql, alive, *arguments[: at.start], *arguments[at.stop :])
        known = self._found.get(key)
        if known is not None and not any(self.has_changed(one, known[0]) for one in tables.all):
            if self.is_verified:
                self._verify(known, sql, arguments)
            return known[1]
        before = self._now
        rows = self._run(sql, arguments, tables)
        if self._now == before:
            self._found[key] = (before, rows)
        return rows

    def _run(self, sql: str, arguments: Sequence[Any], tables: _Tables) -> Rows:
        before = self._raw.total_changes
        rows = self._raw.execute(sql, arguments).fetchall()
        if self._raw.total_changes != before:
            self._note_changed(tables.written)
        return rows

    def _verify(self, known: tuple[int, Rows], sql: str, arguments: Sequence[Any]) -> None:
        before = self.changes
        if self._raw.execute(sql, arguments).fetchall() != known[1] or self.changes != before:
            self.wrong = self.wrong or f"was remembered wrongly: {sql}"

    def _alive(self, silence_ms: int) -> frozenset[str]:
        now_ms = int((CLOCK.julian_day("now") - 2440587.5) * 86400000)
        return frozenset(
            one for one, seen_ms in self.run(_SEEN, ()) if seen_ms >= now_ms - silence_ms
        )

    def run_many(self, sql: str, many: Sequence[Sequence[Any]]) -> None:
        """Run a statement for each of *many*."""
        self._raw.executemany(sql, many)
        self._note_changed(None)

    def command(self, sql: str) -> None:
        """Begin or end a transaction."""
        for one in _SAVEPOINTS[sql]:
            self._raw.execute(one)
        if sql == "ROLLBACK":
            self._note_changed(None)

    def read(self, sql: str) -> Iterable[Any]:
        """Return the rows of a query of the checks."""
        return self._raw.execute(sql)

    def _note_changed(self, tables: Iterable[str] | None) -> None:
        self._now += 1
        if tables is None:
            self._all_changed_at = self._now
        else:
            self._changed_at.update(dict.fromkeys(tables, self._now))

    def _learn(self, sql: str, arguments: Sequence[Any]) -> _Tables:
        found: set[tuple[int, str, str]] = set()

        def note(action: int, first: str | None, second: str | None, *_: object) -> int:
            found.add((action, first or "", second or ""))
            return sqlite3.SQLITE_OK

        self._image.set_authorizer(note)
        try:
            self._image.execute(f"EXPLAIN {sql}", arguments).fetchall()
        finally:
            self._image.set_authorizer(None)
        called = {
            second.lower() for action, _, second in found if action == sqlite3.SQLITE_FUNCTION
        }
        all_tables = {first for action, first, _ in found if action in _TOUCHES}
        written = {first for action, first, _ in found if action in _WRITES}
        columns = {second for _, first, second in found if first == "worker"}
        alive = _ALIVE.search(sql)
        silence_at = None
        if alive and sql.count("julianday") == 1 and columns <= {"id", "seen_at_ms"}:
            silence_at = sql.count("?", 0, alive.end()) - 1
            called.discard("julianday")
            all_tables.discard("worker")
        new = _SET.search(sql)
        first, last = new.span(1) if new else (0, 0)
        learned = _Tables(
            all=tuple(sorted(all_tables)),
            written=None
            if any(one[0] == sqlite3.SQLITE_DELETE for one in found)
            else tuple(written),
            is_repeatable=not called & VARYING,
            silence_at=silence_at,
            new_values=slice(sql.count("?", 0, first), sql.count("?", 0, last)),
        )
        _LEARNED[sql] = learned
        return learned
