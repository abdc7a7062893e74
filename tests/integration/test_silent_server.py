"""A server that falls silent: each statement has a deadline on the client's side, too."""

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Callable
from typing import Any

import psycopg
import pytest
import sqlalchemy as sa

from tenantry.db.database import Budget, Database
from tenantry.db.factory import single_connector
from tenantry.db.postgres.connections import SILENCE_SECONDS
from tenantry.db.sessions import DatabaseUnavailable
from tenantry.db.statements import Count, Statement
from tests.black_hole import BlackHole, black_hole
from tests.integration.engines import on_postgresql
from tests.own_time import own_seconds

pytestmark = [pytest.mark.slow, on_postgresql]

# Long enough for a busy machine while the server answers.
STATEMENT_SECONDS = 2.0
CONNECT_SECONDS = 3.0
LATE_SECONDS_MAX = 1.0
RECOVERY_SECONDS_MAX = 30.0
HANGS_SECONDS = 60
SLOTS = 3
ONE = Statement(sa.select(sa.literal_column("1", sa.Integer).label("count")), Count)


@pytest.fixture(name="hole")
async def _hole(new_database: Callable[[], str]) -> AsyncIterator[BlackHole]:
    async with black_hole(new_database()) as hole:
        yield hole


@pytest.fixture(name="budget")
def _budget() -> Budget:
    return Budget(SLOTS)


@pytest.fixture(name="database")
async def _database(hole: BlackHole, budget: Budget) -> AsyncIterator[Database[Any]]:
    connect, _ = single_connector(
        hole.url,
        connections_max=SLOTS,
        timeout_seconds=CONNECT_SECONDS,
        synchronous="NORMAL",
        statement_seconds=STATEMENT_SECONDS,
    )
    database: Database[Any] = Database(connect, budget, SLOTS, wait_seconds_max=CONNECT_SECONDS)
    yield database
    hole.come_back()
    await database.close()


@contextlib.asynccontextmanager
async def ends_within(seconds: float) -> AsyncIterator[None]:
    with own_seconds() as took:
        async with asyncio.timeout(HANGS_SECONDS):
            yield
        assert took() < seconds + LATE_SECONDS_MAX


class TestSilentServer:
    async def test_ends_a_statement_at_its_deadline(
        self, database: Database[Any], hole: BlackHole, budget: Budget
    ):
        await database.fetch_one(ONE)
        hole.fall_silent()

        async with ends_within(STATEMENT_SECONDS + SILENCE_SECONDS):
            with pytest.raises(DatabaseUnavailable):
                await database.fetch_one(ONE)
        assert budget.open_count == 0, "the connection is dropped"

    async def test_ends_a_transaction_at_its_deadline(
        self, database: Database[Any], hole: BlackHole, budget: Budget
    ):
        async def read_twice() -> None:
            async with database.begin() as session:
                await session.fetch_one(ONE)
                hole.fall_silent()
                await session.fetch_one(ONE)

        async with ends_within(STATEMENT_SECONDS + SILENCE_SECONDS):
            with pytest.raises(DatabaseUnavailable):
                await read_twice()
        assert budget.open_count == 0

    async def test_ends_a_commit_at_its_deadline(
        self, database: Database[Any], hole: BlackHole, budget: Budget
    ):
        async def read() -> None:
            async with database.begin() as session:
                await session.fetch_one(ONE)
                hole.fall_silent()

        async with ends_within(STATEMENT_SECONDS + SILENCE_SECONDS):
            with pytest.raises(DatabaseUnavailable):
                await read()
        assert budget.open_count == 0

    async def test_is_not_waited_for_longer_than_a_connection(
        self, database: Database[Any], hole: BlackHole, budget: Budget
    ):
        """Whether a request waits for its turn, or for the server: there are more than slots."""
        hole.fall_silent()

        async with ends_within(CONNECT_SECONDS):
            answers = await asyncio.gather(
                *(database.fetch_one(ONE) for _ in range(4 * SLOTS)), return_exceptions=True
            )
        assert {type(answer) for answer in answers} == {DatabaseUnavailable}
        assert budget.open_count == 0

    async def test_costs_one_deadline_in_all_and_not_one_per_idle_connection(
        self, database: Database[Any], hole: BlackHole
    ):
        """After a silence, the other connections are not reused: they may be lost, too."""
        await asyncio.gather(*(database.fetch_one(ONE) for _ in range(SLOTS)))
        hole.fall_silent()
        with pytest.raises(DatabaseUnavailable):
            await database.fetch_one(ONE)

        hole.cut()
        hole.come_back()
        async with ends_within(0):
            assert await database.fetch_one(ONE) == Count(1)

    async def test_is_used_again_when_it_comes_back(
        self, database: Database[Any], hole: BlackHole, budget: Budget
    ):
        """Nothing leaked: there are as many connections as before."""
        hole.fall_silent()
        for _ in range(2):
            await asyncio.gather(
                *(database.fetch_one(ONE) for _ in range(2 * SLOTS)), return_exceptions=True
            )
        hole.come_back()

        async with ends_within(RECOVERY_SECONDS_MAX):
            for _ in range(3):
                await asyncio.gather(*(database.fetch_one(ONE) for _ in range(2 * SLOTS)))
        assert budget.open_count == budget.idle_count <= SLOTS

    async def test_leaves_no_connection_behind(
        self, database: Database[Any], hole: BlackHole, postgres_url: str
    ):
        await database.fetch_one(ONE)
        hole.fall_silent()
        with pytest.raises(DatabaseUnavailable):
            await database.fetch_one(ONE)
        hole.come_back()
        await database.close()

        name = hole.url.rpartition("/")[2]
        count = "SELECT count(*) FROM pg_stat_activity WHERE datname = %s"
        async with await psycopg.AsyncConnection.connect(postgres_url, autocommit=True) as raw:
            deadline = time.monotonic() + RECOVERY_SECONDS_MAX
            while (await (await raw.execute(count, [name])).fetchone()) != (0,):
                assert time.monotonic() < deadline
                await asyncio.sleep(0.05)
