"""Detect a connection pooler, such as PgBouncer, and how it is configured."""

import asyncio
import contextlib
from dataclasses import dataclass
from typing import Any

import psycopg

from tenantry.kit import postgres_urls
from tenantry.kit.ids import new_id

APPLICATION = "tenantry-doctor"
# In transaction mode, two connections get the same session of the server nearly every time.
TRIES = 5
# In session mode, a full pool lets the second connection wait.
WAIT_SECONDS_MAX = 2.0
# The prefix of the names that psycopg gives; a pooler that keeps statements gives its own.
NAMED_BY_DRIVER = "_pg3_"

# psycopg sends a query without parameters in one message, which every pooler forwards.
_PROCESS_ID = "SELECT pg_backend_pid()"
# Sessions of the same pool: of this role in this database, from the machine of the pooler.
_IN_POOL = """
SELECT count(*) FROM pg_stat_activity JOIN pg_stat_activity AS own ON own.pid = pg_backend_pid()
WHERE (pg_stat_activity.datid, pg_stat_activity.usesysid) = (own.datid, own.usesysid)
AND pg_stat_activity.client_addr IS NOT DISTINCT FROM own.client_addr
"""
_FIND_PREPARED = "SELECT name FROM pg_prepared_statements WHERE statement LIKE '%{}%'"

Raw = psycopg.AsyncConnection[tuple[Any, ...]]


@dataclass(frozen=True, slots=True)
class Pooler:
    """A connection pooler.

    Attributes:
        shares_sessions: Whether a connection gets another session of the server for each
            transaction: PgBouncer's ``pool_mode = transaction``.
        keeps_statements: Whether prepared statements can be used nevertheless.
    """

    shares_sessions: bool
    keeps_statements: bool

    @property
    def is_usable(self) -> bool:
        """Whether requests can use it."""
        return self.keeps_statements or not self.shares_sessions


async def find_pooler(url: str, *, timeout_seconds: float) -> Pooler | None:
    """Return the pooler at *url*; None if the server is reached directly.

    Raises:
        psycopg.Error: It cannot be reached.
    """
    async with await _connect(url, timeout_seconds) as first:
        if await _process_id(first) == first.info.backend_pid:
            return None
        shares = any([await _shares_session(url, first) for _ in range(TRIES)])
        return Pooler(shares, not shares or await _keeps_statements(first))


async def count_served(url: str, count: int, *, timeout_seconds: float) -> int:
    """Return how many of *count* connections at the same time the pooler at *url* serves.

    In session mode each has a session of the server, and those of running processes count, too:
    they fill the same pool.

    Raises:
        psycopg.Error: It cannot be reached.
    """
    async with contextlib.AsyncExitStack() as stack:
        first = await stack.enter_async_context(await _connect(url, timeout_seconds))
        await _process_id(first)
        opening = (_open_served(url, stack) for _ in range(count - 1))
        served = 1 + sum(await asyncio.gather(*opening))
        sessions = await _value(first, _IN_POOL)
        assert isinstance(sessions, int)
        return min(max(served, sessions), count)


async def _open_served(url: str, stack: contextlib.AsyncExitStack) -> bool:
    """Open a connection until *stack* ends; return whether it is served."""
    try:
        async with asyncio.timeout(WAIT_SECONDS_MAX):
            raw = await _connect(url, WAIT_SECONDS_MAX)
            stack.push_async_callback(raw.close)
            await _process_id(raw)
    except (TimeoutError, psycopg.OperationalError):
        return False
    return True


async def _connect(url: str, timeout_seconds: float) -> Raw:
    parameters: dict[str, Any] = {
        "application_name": APPLICATION,
        **postgres_urls.parse(url).for_libpq(),
        "connect_timeout": max(2, round(timeout_seconds)),
    }
    return await psycopg.AsyncConnection.connect(**parameters, autocommit=True)


async def _shares_session(url: str, first: Raw) -> bool:
    """Return whether a second connection gets the session that the first one has used."""
    process_id = await _process_id(first)
    try:
        async with asyncio.timeout(WAIT_SECONDS_MAX):
            second = await _connect(url, WAIT_SECONDS_MAX)
            async with second:
                return await _process_id(second) == process_id
    except (TimeoutError, psycopg.OperationalError):
        return False


async def _process_id(raw: Raw) -> object:
    return await _value(raw, _PROCESS_ID)


async def _keeps_statements(raw: Raw) -> bool:
    marker = new_id().hex
    try:
        await raw.execute(f"SELECT 1 /* {marker} */".encode(), prepare=True)
        for _ in range(TRIES):
            name = await _value(raw, _FIND_PREPARED.format(marker))
            if name is not None:
                return not str(name).startswith(NAMED_BY_DRIVER)
    except (psycopg.errors.InvalidSqlStatementName, psycopg.errors.DuplicatePreparedStatement):
        pass
    return False


async def _value(raw: Raw, sql: str) -> object:
    row = await (await raw.execute(sql.encode())).fetchone()
    return row[0] if row else None
