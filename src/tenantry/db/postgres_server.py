"""Databases on a PostgreSQL server."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Collection
from functools import partial
from typing import Any

import asyncpg

from tenantry.db import inspection, outage_errors, write_fence
from tenantry.db.copying import replication
from tenantry.db.database import Budget, Database
from tenantry.db.outage_errors import ServerAway
from tenantry.db.postgres import collations
from tenantry.db.postgres import connections as postgres
from tenantry.db.postgres.connector import (
    PostgresConnector,
    Raw,
    SettingMissing,
    closing,
    is_behind_pooler,
)
from tenantry.db.servers import (
    FENCE_SECONDS_MAX,
    PREFIX,
    PROBE_SECONDS_MAX,
    Server,
    checked_name,
    is_generated,
    quoted,
)
from tenantry.db.sessions import (
    STATEMENT_SECONDS_DEFAULT,
    Connection,
    DatabaseUnavailable,
    ServerFull,
    Session,
)
from tenantry.db.urls import with_database
from tenantry.kit.errors import Unavailable

POSTGRESQL_CONNECTIONS_MAX = 4
# An idle connection that other processes wait for is closed after this.
IDLE_SECONDS_MAX = 60.0

CREATE_SECONDS_MAX = 60.0
# How long a terminated CREATE DATABASE may take to end: it removes what it has copied.
END_PAUSE_SECONDS, END_TRIES_MAX = 0.2, 50

# PostgreSQL logs 32 values of a sequence ahead, and stores in the sequence how many are left.
# CREATE DATABASE copies that count, but not its place in the log: after a crash of the server
# the copy would return the same values again. `setval` sets the count to zero, so the first
# value that a copy returns is logged.
# Source: SEQ_LOG_VALS in PostgreSQL's src/backend/commands/sequence.c
_RESET_SEQUENCES = """
DO $$
DECLARE name regclass;
BEGIN
    FOR name IN SELECT oid FROM pg_class WHERE relkind = 'S' LOOP
        EXECUTE pg_catalog.format('SELECT setval(%L, last_value, is_called) FROM %s', name, name);
    END LOOP;
END $$
"""

# Settings of the URL, of one database or of a role are not those of the server.
_IS_READ_ONLY = """
SELECT pg_catalog.pg_is_in_recovery() OR EXISTS (SELECT FROM pg_catalog.pg_settings
    WHERE name = 'default_transaction_read_only' AND setting = 'on'
    AND source NOT IN ('client', 'database', 'user', 'database user'))
"""

# Grantee 0 is PUBLIC. A database without an ACL has the default one.
_PUBLIC = """
SELECT datname FROM pg_database,
    aclexplode(coalesce(datacl, acldefault('d', datdba))) AS granted
WHERE grantee = 0 AND privilege_type = 'CONNECT' ORDER BY datname
"""
# The third setting exists since PostgreSQL 16. The limits of a role and of a database do not apply
# to superusers. A negative one is none.
_CONNECTIONS_ALLOWED = """
SELECT least(current_setting('max_connections')::int
    - current_setting('superuser_reserved_connections')::int
    - coalesce(current_setting('reserved_connections', true)::int, 0),
    CASE WHEN rolconnlimit >= 0 AND NOT rolsuper THEN rolconnlimit END)
FROM pg_roles WHERE rolname = current_user
"""
_SIZES = """
    SELECT datname, pg_database_size(oid) FROM pg_database
    WHERE datname = ANY($1) AND has_database_privilege(oid, 'CONNECT')
"""
_LIMITED = """
SELECT datname, datconnlimit FROM pg_database WHERE datconnlimit >= 0
    AND NOT (SELECT rolsuper FROM pg_roles WHERE rolname = current_user)
"""


_OWN = """
SELECT datname FROM pg_database
WHERE pg_catalog.starts_with(datname, $1) AND pg_get_userbyid(datdba) = current_user
"""
# The server continues a CREATE DATABASE after its client was killed. Only sessions of roles that
# our role belongs to are terminated, and only for a name that Tenantry has made up.
_END_CREATION = """
SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity
WHERE state = 'active' AND pg_catalog.starts_with(query, $1) AND pg_has_role(usesysid, 'MEMBER')
"""


class StillCreated(Unavailable):
    """The server is still creating the database."""


class BehindPooler(Unavailable):
    """The tenant server is behind a connection pooler: set its admin_url, without the pooler."""


class PostgresServer(Server):
    """A PostgreSQL server, through a role that may create databases.

    Args:
        url: The URL for requests; it can be a pooler's.
        admin_url: The URL of the maintenance database, without a pooler.
        budget: The limit of connections from this process to the server.
        timeout_seconds: How long to wait for a connection.
        statement_seconds: The deadline of each statement of a request.
    """

    can_restart = True

    def __init__(
        self,
        url: str,
        budget: Budget,
        *,
        admin_url: str,
        timeout_seconds: float,
        statement_seconds: float = STATEMENT_SECONDS_DEFAULT,
    ) -> None:
        self._url = admin_url
        self._requests = PostgresConnector(url, timeout_seconds=timeout_seconds)
        self._administration = (
            self._requests
            if admin_url == url
            else PostgresConnector(admin_url, timeout_seconds=timeout_seconds)
        )
        self._is_direct = False
        self.budget = budget
        self.timeout_seconds = timeout_seconds
        self._statement_seconds = statement_seconds

    def url(self, name: str) -> str:
        """Return the URL of the database *name*, without a pooler."""
        return with_database(self._url, name)

    def url_before(self, name: str) -> str:
        """Return the URL of the maintenance database, without a pooler."""
        del name
        return self._url

    async def probe(self) -> None:
        """Connect to the maintenance database, and check that it accepts writes."""
        try:
            async with asyncio.timeout(PROBE_SECONDS_MAX), self._connected() as raw:
                is_read_only = await raw.fetchval(_IS_READ_ONLY)
        except TimeoutError as error:
            raise ServerAway from error
        except DatabaseUnavailable as error:
            cause = error.__cause__
            is_late = isinstance(cause, TimeoutError)
            if is_late or (cause is not None and outage_errors.is_outage(cause)):
                raise ServerAway from error
            return  # the server answers; it only rejects this database, or the URL is wrong
        if is_read_only:
            raise ServerAway("The server is read-only: it is a standby, or set to be.")

    def open(self, name: str) -> Database[Any]:
        """Return the database *name*."""
        return Database(
            partial(self._connect, name, self._requests),
            self.budget,
            POSTGRESQL_CONNECTIONS_MAX,
            wait_seconds_max=self.timeout_seconds,
        )

    async def create(self, name: str) -> None:
        """Create the empty database *name*."""
        # template0, because a single idle session on template1 would block this.
        async with self._maintenance() as raw:
            await raw.execute(f"{_creating(name)}TEMPLATE template0 ENCODING 'UTF8'")
            await _close_to_public(raw, name)

    async def copy(self, template: str, name: str) -> bool:
        """Create the database *name* as a copy of *template*; return False if that is missing.

        A template with an outdated version of its collation is dropped, and then missing.
        """
        async with self._maintenance() as raw:
            try:
                await raw.execute(f"{_creating(name)}TEMPLATE {_generated(template)}")
            except asyncpg.InvalidCatalogNameError:
                return False
            except asyncpg.InternalServerError:
                # After an upgrade of ICU or libc, the server copies no older database.
                if not await collations.find_outdated(raw, [template]):
                    raise
                await raw.execute(f"DROP DATABASE IF EXISTS {_generated(template)}")
                return False
            await _close_to_public(raw, name)
        return True

    @contextlib.asynccontextmanager
    async def filling(self, name: str) -> AsyncIterator[Session[Any]]:
        """Open a session on the database *name*, outside the budget."""
        connection = await self._connect(name, self._administration)
        try:
            yield connection
        finally:
            await connection.close()

    async def publish(self, draft: str, template: str) -> None:
        """Rename the database *draft* to *template*, or drop it if *template* exists."""
        async with self._connected(draft) as raw:
            await raw.execute(_RESET_SEQUENCES)
        async with self._maintenance() as raw:
            await raw.execute(f"ALTER DATABASE {_generated(draft)} ALLOW_CONNECTIONS false")
            try:
                await raw.execute(
                    f"ALTER DATABASE {_generated(draft)} RENAME TO {_generated(template)}"
                )
            except asyncpg.DuplicateDatabaseError:
                await raw.execute(f"DROP DATABASE {_generated(draft)}")

    async def names(self, prefix: str) -> list[str]:
        """Return the names of the databases that begin with *prefix*."""
        async with self._maintenance() as raw:
            sql = "SELECT datname FROM pg_database WHERE pg_catalog.starts_with(datname, $1)"
            return [str(row[0]) for row in await raw.fetch(sql, checked_name(prefix))]

    async def own_names(self) -> set[str]:
        """Return the generated names of the databases that Tenantry's role owns."""
        async with self._maintenance() as raw:
            rows = await raw.fetch(_OWN, PREFIX)
        return {name for row in rows if is_generated(name := str(row[0]))}

    def removal(self, name: str) -> str:
        """Return an SQL statement, which fails while there are connections to the database."""
        return f"DROP DATABASE {quoted(name)};"

    async def public_names(self) -> list[str]:
        """Return the names of the databases to which every role of the server may connect."""
        async with self._maintenance() as raw:
            return [str(row[0]) for row in await raw.fetch(_PUBLIC)]

    async def missing(self, names: Collection[str]) -> set[str]:
        """Return the *names* that have no database."""
        async with self._maintenance() as raw:
            rows = await raw.fetch("SELECT datname FROM pg_database")
        return set(names) - {str(row[0]) for row in rows}

    async def sizes(self, names: Collection[str]) -> dict[str, int]:
        """Return the sizes of the databases to which Tenantry's role may connect."""
        async with self._maintenance() as raw:
            rows = await raw.fetch(_SIZES, list(names))
        return {str(row[0]): int(row[1]) for row in rows if row[1] is not None}

    async def connections_allowed(self) -> int:
        """Return `max_connections` without the reserved ones, or the limit of the role."""
        async with self._maintenance() as raw:
            return int(await raw.fetchval(_CONNECTIONS_ALLOWED))

    async def limited(self) -> dict[str, int]:
        """Return the databases with a `CONNECTION LIMIT`."""
        async with self._maintenance() as raw:
            return {str(row[0]): int(row[1]) for row in await raw.fetch(_LIMITED)}

    async def close_unused(self) -> None:
        """Close connections that were idle for `IDLE_SECONDS_MAX`."""
        await self.budget.close_idle(seconds=IDLE_SECONDS_MAX)

    async def drop(self, name: str) -> None:
        """Drop the database *name*."""
        async with self._maintenance() as raw:
            if is_generated(name):
                await _end_creation(raw, name)
            await raw.execute(f"DROP DATABASE IF EXISTS {quoted(name)} WITH (FORCE)")

    async def reject_writes(self, name: str, *, wait_seconds: float = FENCE_SECONDS_MAX) -> None:
        """Make the database *name* reject every write."""
        async with self._maintenance() as raw:
            await write_fence.fence_postgres(raw, name, wait_seconds=wait_seconds)
        async with self._connected(name) as raw:
            await write_fence.check_fence(raw)

    async def accept_writes(self, name: str) -> None:
        """Let the database *name* accept writes again."""
        async with self._maintenance() as raw:
            await write_fence.lift_postgres(raw, name)

    async def stop_following(self, name: str, slot: str) -> None:
        """Drop the replication slot and the publication *slot* of the database *name*."""
        if await self.missing([name]):  # its slots were dropped with it
            return
        async with self._connected(name) as raw:
            await replication.end(raw, slot)

    async def check_listed(self, database: str) -> None:
        """Check the properties of the database *database* in the server's list."""
        async with self._maintenance() as raw:
            await inspection.check_listed(raw, database)

    def foreign_url(self, database: str) -> str:
        """Return the URL of the database *database*."""
        return self.url(database)

    def adopted_name(self, database: str, generated: str) -> str:
        """Return *database*: the database keeps its name."""
        del generated
        return database

    async def adopt_database(self, database: str, name: str) -> None:
        """Do nothing: the database is on this server."""

    @contextlib.asynccontextmanager
    async def _maintenance(self) -> AsyncIterator[Raw]:
        """Connect to the maintenance database.

        Raises:
            BehindPooler: The connection is a pooler's.
        """
        async with self._connected() as raw:
            if not self._is_direct:
                if await is_behind_pooler(raw):
                    raise BehindPooler
                self._is_direct = True
            yield raw

    async def _connect(self, name: str, connector: PostgresConnector) -> Connection:
        return await postgres.connect(
            connector, database=name, statement_seconds=self._statement_seconds
        )

    async def _administer(self, database: str | None) -> Raw:
        """Connect; if the server is full, close the idle connections of requests, and retry."""
        connect = partial(
            self._administration.connect,
            session={"client_min_messages": "warning"},
            command_seconds=CREATE_SECONDS_MAX,
            database=database,
        )
        try:
            return await connect()
        except asyncpg.TooManyConnectionsError:
            await self.budget.close_idle()
            return await connect()

    @contextlib.asynccontextmanager
    async def _connected(self, database: str | None = None) -> AsyncIterator[Raw]:
        try:
            async with closing(self._administer(database)) as raw:
                yield raw
        except asyncpg.TooManyConnectionsError as error:
            raise ServerFull from error
        except (asyncpg.PostgresError, SettingMissing, *postgres.UNAVAILABLE) as error:
            raise DatabaseUnavailable from error


async def _end_creation(raw: Raw, name: str) -> None:
    """Terminate the sessions that create the database *name*, and wait for their end.

    Raises:
        StillCreated: They have not ended.
    """
    for _ in range(END_TRIES_MAX):
        if not await raw.fetchval(_END_CREATION, _creating(name)):
            return
        await asyncio.sleep(END_PAUSE_SECONDS)
    raise StillCreated


async def _close_to_public(raw: Raw, name: str) -> None:
    """Revoke the access of PUBLIC to a new database: a copy does not inherit the ACL."""
    await raw.execute(f"REVOKE CONNECT, TEMPORARY ON DATABASE {_generated(name)} FROM PUBLIC")


def _creating(name: str) -> str:
    """Return the beginning of the statement that creates the database *name*."""
    return f"CREATE DATABASE {_generated(name)} "


def _generated(name: str) -> str:
    return quoted(checked_name(name))
