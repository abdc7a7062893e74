"""Random chains of revisions that can be undone, and a program that undoes them, to be killed.

``python -m tests.integration.undoing FILE FIRST``
"""

import asyncio
import json
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from uuid import UUID

from tenantry.migration.migrator import Migrator, TimeLimits
from tenantry.migration.streams import Stream, Streams
from tenantry.migration.undo import MovedOn, UndoScripts
from tenantry.tenant.stream import STREAM
from testkit.revisions import AlembicFolder

# They make a revision run live, or only slower, so that a kill finds it at work.
HEADS = ["", "", "online = True", "import time"]
SLEEP = "time.sleep({:.3f})\n"
BLOCK = "with op.get_context().autocommit_block():\n    "


@dataclass
class Chain:
    """A random chain of revisions; each has an exact inverse.

    Attributes:
        columns: The text columns of each table that there is.
        lengths: The length of its column ``text``.
    """

    folder: AlembicFolder
    random: Random
    columns: dict[str, list[str]] = field(default_factory=dict)
    lengths: dict[str, int] = field(default_factory=dict)
    names: int = 0
    count: int = 0

    def grow(self, revisions: int) -> None:
        """Add revisions, each with one to three operations."""
        for _ in range(revisions):
            self.count += 1
            head = self.random.choice(HEADS)
            if self.columns and self.random.random() < 0.15:
                pairs = [self._concurrent_index()]
            else:
                pairs = [self._operation() for _ in range(self.random.randint(1, 3))]
            if "time" in head:
                sleep = SLEEP.format(self.random.uniform(0.01, 0.04))
                pairs.insert(self.random.randint(0, len(pairs)), (sleep, sleep))
            up = "".join(f"{one.rstrip()}\n" for one, _ in pairs)
            down = "".join(f"{one.rstrip()}\n" for _, one in reversed(pairs))
            self.folder.add(f"u{self.count:02}_step", up, undo=down, head=head)

    def _operation(self) -> tuple[str, str]:
        kinds: list[Callable[[], tuple[str, str]]] = [self._table]
        if self.columns:
            kinds += [self._column, self._index, self._rows, self._text, self._rename, self._type]
        return self.random.choice(kinds)()

    def _name(self) -> str:
        self.names += 1
        return f"n{self.names}"

    def _table(self) -> tuple[str, str]:
        name = self._name()
        self.columns[name], self.lengths[name] = ["text"], 40
        create = (
            f"op.create_table({name!r}, sa.Column('id', sa.Integer, primary_key=True),"
            " sa.Column('text', sa.String(40), nullable=False, server_default='x'))"
        )
        return create, f"op.drop_table({name!r})"

    def _column(self) -> tuple[str, str]:
        table, name = self.random.choice(list(self.columns)), self._name()
        default = self.random.choice(["", ", server_default='d'", ", nullable=True"])
        self.columns[table].append(name)
        add = f"op.add_column({table!r}, sa.Column({name!r}, sa.String(){default}))"
        return add, f"op.drop_column({table!r}, {name!r})"

    def _index(self, more: str = "") -> tuple[str, str]:
        table, name = self.random.choice(list(self.columns)), f"ix_{self._name()}"
        column = self.columns[table][0]  # later ones may be dropped before the index
        create = f"op.create_index({name!r}, {table!r}, [{column!r}]{more})"
        return create, f"op.drop_index({name!r}, {table!r}{more})"

    def _concurrent_index(self) -> tuple[str, str]:
        up, down = self._index(", postgresql_concurrently=True")
        return BLOCK + up, BLOCK + down

    def _rows(self) -> tuple[str, str]:
        table, first = self.random.choice(list(self.columns)), self.random.randint(1, 10**6)
        last = first + self.random.randint(0, 50)
        rows = f"[{{'id': n}} for n in range({first * 100}, {last * 100}, 100)]"
        insert = f"op.bulk_insert(sa.table({table!r}, sa.column('id', sa.Integer)), {rows})"
        delete = f"op.execute('DELETE FROM {table} WHERE id >= {first * 100} AND id < {last * 100}"
        return insert if first < last else "pass", f"{delete} AND id % 100 = 0')"

    def _text(self) -> tuple[str, str]:
        table = self.random.choice(list(self.columns))
        column = self.columns[table][0]
        length = f"length({column}) - 1"
        return (
            f"op.execute(\"UPDATE {table} SET {column} = {column} || 'y'\")",
            f'op.execute("UPDATE {table} SET {column} = substr({column}, 1, {length})")',
        )

    def _rename(self) -> tuple[str, str]:
        old, new = self.random.choice(list(self.columns)), self._name()
        self.columns[new], self.lengths[new] = self.columns.pop(old), self.lengths.pop(old)
        return f"op.rename_table({old!r}, {new!r})", f"op.rename_table({new!r}, {old!r})"

    def _type(self) -> tuple[str, str]:
        """Return a change of a column, in batch mode on SQLite."""
        table = self.random.choice(list(self.columns))
        change = (
            f"with op.batch_alter_table({table!r}) as batch:\n"
            "    batch.alter_column('text', existing_type=sa.String({}), type_=sa.String({}))"
        )
        old, new = self.lengths[table], self.lengths[table] + 10
        self.lengths[table] = new
        return change.format(old, new), change.format(new, old)


@dataclass(frozen=True)
class Task:
    """A database and the run to undo there."""

    folder: str
    url: str
    undoes: str
    run_id: str


async def _undo(tasks: list[Task], first: int) -> None:
    """Undo each from *first* on, which may have begun before; print its outcome."""
    limits = TimeLimits(connect_seconds=5, deadline_seconds=30, lock_ms=400)
    with ThreadPoolExecutor(1) as threads:
        migrator = Migrator(threads, limits)
        for number, task in enumerate(tasks[first:], first):
            streams = Streams(STREAM, Stream("user", Path(task.folder)))
            scripts = UndoScripts(streams, UUID(task.undoes))
            print("begins", flush=True)  # noqa: T201 - for the test
            state = await migrator.migrate(
                task.url, scripts, run_id=UUID(task.run_id), is_first=number > first
            )
            outcome = "moved" if isinstance(state.error, MovedOn) else state.error or "done"
            print(outcome, len(state.applied), flush=True)  # noqa: T201 - for the test


if __name__ == "__main__":
    given = json.loads(Path(sys.argv[1]).read_text())
    asyncio.run(_undo([Task(**one) for one in given], int(sys.argv[2])))
