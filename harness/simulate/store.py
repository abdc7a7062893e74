"""The catalog that the simulated processes share: one database in memory, with its faults."""

import asyncio
import random
import sqlite3
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from pydantic import SecretStr

from harness.simulate.clock import CLOCK
from harness.simulate.engine import Engine
from tenantry.catalog.cache import CatalogCache
from tenantry.catalog.database import Catalog
from tenantry.db.database import Budget, Database
from tenantry.db.sessions import Connection, DatabaseUnavailable
from tenantry.db.sqlite.connections import conflict_of
from tenantry.db.statements import Row, Statement
from tenantry.kit.hook_settings import Hook

CONNECTIONS_MAX = 4
DELAYS_SECONDS = (0.03, 0.03, 0.3)
"""A transaction takes up to one of these times to begin, and its answer to arrive."""
BUSY_PAUSE_SECONDS = 0.001
TARGET = "target"
HOOK = Hook(url=SecretStr("https://target.example"), secret=SecretStr("whsec_" + "c2VjcmV0" * 4))
"""The target of notifications: see `World.receive`."""


class Store:
    """The database, and what happens to it.

    Args:
        image: A catalog at the head, serialized.
        chance: Chooses delays and faults.

    Attributes:
        engine: Runs the statements.
        committed: Called after each transaction that has changed something, with the process.
        out_until: Until when the catalog cannot be reached.
        cut_until: Until when a process cannot reach it.
        runs_read_at: When a process has last read the states of runs.
        lost_share: Of the transactions, how many are rolled back, or lose their answer.
        delay_seconds: How long a transaction takes to begin, and its answer to arrive, at most.
    """

    def __init__(self, image: bytes) -> None:
        self.engine = Engine(image)
        self.chance = random.Random(0)  # noqa: S311 - no secret
        self.committed: Callable[[str], None] = lambda _: None
        self.writer: Connection | None = None
        self.out_until = 0.0
        self.cut_until: dict[str, float] = {}
        self.runs_read_at: dict[str, float] = {}
        self.lost_share = 0.0
        self.delay_seconds = DELAYS_SECONDS[0]
        self._changes = 0

    def reset(self, chance: random.Random, lost_share: float) -> None:
        """Begin with the image again."""
        self.engine.reset()
        self.chance, self.lost_share, self.out_until = chance, lost_share, 0.0
        self.delay_seconds = chance.choice(DELAYS_SECONDS)
        self.cut_until.clear()
        self.runs_read_at.clear()
        self.writer = None
        self._changes = self.engine.changes

    def note_commit(self, process: str) -> None:
        """Call `committed` if something was changed since the last call."""
        if self.engine.changes != self._changes:
            self._changes = self.engine.changes
            self.committed(process)

    def roll_back(self) -> None:
        """Roll the transaction back."""
        self.engine.command("ROLLBACK")
        self.writer = None

    def is_lost(self) -> bool:
        """Return whether a fault of the connection happens now."""
        return self.lost_share > 0 and self.chance.random() < self.lost_share

    async def delay(self) -> None:
        """Wait for a moment, so that other processes may come first."""
        await asyncio.sleep(self.chance.random() * self.delay_seconds)


class StoreConnection(Connection):
    """A connection of one process. A transaction is one step: nothing comes between."""

    begin_sql = "BEGIN IMMEDIATE"

    def __init__(self, store: Store, process: str) -> None:
        self._store = store
        self._process = process
        self._is_open = True

    async def fetch(self, statement: Statement[Row], values: Mapping[str, object]) -> list[Row]:
        """Return every row."""
        compiled, first = statement.sqlite, statement.sqlite_first
        is_alone = await self._begin_alone()
        if first is not None:
            self._store.engine.run(first.sql, first.arguments(values))
        try:
            found = self._store.engine.run(compiled.sql, compiled.arguments(values))
        except sqlite3.IntegrityError as error:
            raise conflict_of(statement.conflicts, error) from error
        if self._store.engine.touches(compiled.sql, "migration_run"):
            self._store.runs_read_at[self._process] = CLOCK.now
        if is_alone:
            await self._end_alone()
        return compiled.rows(statement.row, found)

    async def execute_many(
        self, statement: Statement[Any], rows: Sequence[Mapping[str, object]]
    ) -> None:
        """Run a statement for each of *rows*, in a transaction that has begun."""
        compiled = statement.sqlite
        try:
            self._store.engine.run_many(compiled.sql, [compiled.arguments(one) for one in rows])
        except sqlite3.IntegrityError as error:
            raise conflict_of(statement.conflicts, error) from error

    async def command(self, sql: str) -> None:
        """Begin or end a transaction."""
        store = self._store
        if sql == self.begin_sql:
            await self._wait()
            store.engine.command("BEGIN")
            store.writer = self
            return
        assert store.writer is self
        is_lost = store.is_lost()
        rolls_back = sql == "ROLLBACK" or (is_lost and store.chance.random() < 0.5)
        store.engine.command("ROLLBACK" if rolls_back else sql)
        store.writer = None
        if not rolls_back:
            store.note_commit(self._process)
        await store.delay()
        if is_lost and sql == "COMMIT":
            self._is_open = False
            raise DatabaseUnavailable

    async def _begin_alone(self) -> bool:
        """Wait for the turn of a statement outside a transaction; return whether it is one."""
        if self._store.writer is self:
            return False
        await self._wait()
        return True

    async def _end_alone(self) -> None:
        self._store.note_commit(self._process)
        if self._store.is_lost():
            self._is_open = False
            await self._store.delay()
            raise DatabaseUnavailable

    async def _wait(self) -> None:
        store = self._store
        await store.delay()
        while store.writer is not None:  # noqa: ASYNC110 - other loops cannot wake this one
            await asyncio.sleep(BUSY_PAUSE_SECONDS)
        if CLOCK.now < max(store.out_until, store.cut_until.get(self._process, 0.0)):
            raise DatabaseUnavailable

    @property
    def is_reusable(self) -> bool:
        """Whether the connection is open, and in no transaction."""
        return self._is_open and self._store.writer is not self

    def retire(self) -> None:
        """Make the connection unusable."""
        self._is_open = False

    async def close(self) -> None:
        """Close it; a transaction is rolled back."""
        self._is_open = False
        if self._store.writer is self:
            self._store.roll_back()


class StoreCatalog(Catalog):
    """The catalog as one process has it open."""

    def __init__(self, store: Store, process: str) -> None:
        async def connect() -> Connection:
            return StoreConnection(store, process)

        self.subscribed = {TARGET: HOOK.events}
        self.budget = Budget(CONNECTIONS_MAX)
        Database.__init__(self, connect, self.budget, CONNECTIONS_MAX)
        self.cache = CatalogCache(self)
