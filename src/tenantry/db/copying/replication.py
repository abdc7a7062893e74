"""Logical replication slots of PostgreSQL, by which the changes of a live database are followed.

A slot and a publication of the same name exist while a database is moved. A slot keeps the log of
the whole server until it is dropped: every cleanup of a move calls `end`.
"""

import asyncio
from uuid import UUID

import asyncpg

from tenantry.db.copying.survey import OWN, POSTGRES_TABLES
from tenantry.db.postgres.connector import Raw
from tenantry.db.postgres.visibility import CURRENT
from tenantry.db.servers import quoted
from tenantry.kit.clock import monotonic_seconds
from tenantry.kit.errors import Unavailable

PREFIX = "tenantry_move_"
LOCK_SECONDS_MAX = 5
# A slot waits for every transaction on the server that has written, in any database.
BEGIN_SECONDS_MAX = 60
END_SECONDS_MAX = 10
POLL_SECONDS = 0.05
_SEQUENCES = f"""
SELECT pg_catalog.format('%I.%I', nspname, relname) FROM pg_class
JOIN pg_namespace ON pg_namespace.oid = relnamespace WHERE relkind = 'S' AND {OWN}
"""  # noqa: S608 - constants
# By number: a table that was dropped and created again is another one.
_UNPUBLISHED = f"""
SELECT count(*) FROM pg_class JOIN pg_namespace ON pg_namespace.oid = relnamespace
WHERE relkind = 'r' AND {OWN} AND NOT EXISTS (
    SELECT FROM pg_publication_rel JOIN pg_publication ON pg_publication.oid = prpubid
    WHERE pubname = $1 AND prrelid = pg_class.oid)
"""  # noqa: S608 - constants
_LONG_TRANSACTIONS = """
SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()
    AND backend_type = 'client backend' AND pid <> pg_backend_pid()
    AND xact_start < clock_timestamp() - make_interval(secs => $1)
"""
# Every transaction that had begun when a snapshot was taken.
_HAS_ENDED = """
SELECT pg_snapshot_xmin(pg_current_snapshot()) >= pg_snapshot_xmax($1::text::pg_snapshot)
"""
_SLOTS = """
SELECT slot_name::text AS name, database::text FROM pg_replication_slots
WHERE pg_catalog.starts_with(slot_name, $1) ORDER BY 1
"""


class TransactionsTooLong(Unavailable):
    """A transaction on the tenant server lasts too long to begin an online move: try again."""


def name_of(job_id: UUID) -> str:
    """Return the name of the slot and of the publication of a job."""
    return f"{PREFIX}{job_id.hex}"


async def begin(source: Raw, name: str, *, seconds_max: float = BEGIN_SECONDS_MAX) -> None:
    """Create a publication of every table, and a slot.

    When this returns, each transaction is in the slot, or in every later snapshot, or in both.

    Args:
        source: A connection to the database.
        name: The name of both.
        seconds_max: How long to wait for transactions, twice.

    Raises:
        TransactionsTooLong: A transaction on the server, or a lock on a table, lasts too long.
        Exception: Any error of the driver.
    """
    tables = [str(row[0]) for row in await source.fetch(POSTGRES_TABLES)]
    listed = ", ".join(f"ONLY {one}" for one in tables)
    await source.execute(f"SET lock_timeout = '{LOCK_SECONDS_MAX}s'")
    try:
        await source.execute(
            f"CREATE PUBLICATION {quoted(name)} {f'FOR TABLE {listed}' if tables else ''}"
        )
        await source.execute("SET lock_timeout = 0")
        await source.execute(
            "SELECT pg_create_logical_replication_slot($1, 'pgoutput')",
            name,
            timeout=seconds_max,
        )
        await _wait_for_earlier(source, seconds_max)
    except (asyncpg.LockNotAvailableError, TimeoutError) as error:
        raise TransactionsTooLong from error


async def is_complete(source: Raw, name: str) -> bool:
    """Return whether a publication has every table: the slot has no changes of another one."""
    return not await source.fetchval(_UNPUBLISHED, name)


async def _wait_for_earlier(source: Raw, seconds_max: float) -> None:
    """Wait until every transaction that has begun before now is in all new snapshots.

    A transaction can be in the log as committed, and wait for a standby, before it is visible.
    """
    until = monotonic_seconds() + seconds_max
    before = await source.fetchval(CURRENT)
    while not await source.fetchval(_HAS_ENDED, before):
        if monotonic_seconds() > until:
            raise TransactionsTooLong
        await asyncio.sleep(POLL_SECONDS)


async def end(source: Raw, name: str) -> None:
    """Drop a slot and a publication, if they exist; a session that uses the slot is ended.

    Raises:
        Exception: Any error of the driver.
    """
    await source.execute("SET default_transaction_read_only = off")
    until = monotonic_seconds() + END_SECONDS_MAX
    query = "SELECT active_pid FROM pg_replication_slots WHERE slot_name = $1"
    while (found := await source.fetchrow(query, name)) is not None:
        if found["active_pid"] is not None:
            await source.execute("SELECT pg_terminate_backend($1)", found["active_pid"])
        try:
            await source.execute("SELECT pg_drop_replication_slot($1)", name)
        except asyncpg.UndefinedObjectError:
            break
        except asyncpg.ObjectInUseError:
            if monotonic_seconds() > until:
                raise
            await asyncio.sleep(POLL_SECONDS)
    await source.execute(f"DROP PUBLICATION IF EXISTS {quoted(name)}")


async def left(maintenance: Raw) -> list[tuple[str, str]]:
    """Return the slots of moves on a server, each with its database."""
    return [(one["name"], one["database"]) for one in await maintenance.fetch(_SLOTS, PREFIX)]


async def has_long_transactions(source: Raw, *, seconds: float) -> bool:
    """Return whether a transaction in the database has lasted longer than *seconds*."""
    return bool(await source.fetchval(_LONG_TRANSACTIONS, seconds))


async def copy_sequences(source: Raw, target: Raw) -> None:
    """Give every sequence of a copy the value of the original, which is not in the slot."""
    names = [str(row[0]) for row in await source.fetch(_SEQUENCES)]
    if not names:
        return
    await target.execute("SET synchronous_commit = on")
    query = " UNION ALL ".join(
        f"SELECT {at}, last_value, is_called FROM {one}"  # noqa: S608 - a quoted name
        for at, one in enumerate(names)
    )
    values = [(names[row[0]], row[1], row[2]) for row in await source.fetch(query)]
    await target.executemany("SELECT setval($1::text::regclass, $2, $3)", values)
