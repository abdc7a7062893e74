"""Open connections of asyncpg: to one of several hosts, and behind a connection pooler."""

from collections.abc import AsyncIterator, Awaitable, Mapping
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import TypeAlias

import asyncpg

from tenantry.db.outage_errors import OF_TLS_FILE
from tenantry.db.postgres.session_settings import ALWAYS, FIND_UNMET, ORIGIN, SET_ORIGIN
from tenantry.kit import postgres_urls
from tenantry.kit.errors import Unavailable

Raw: TypeAlias = "asyncpg.Connection[asyncpg.Record]"

APPLICATION = "tenantry"
CLOSE_SECONDS_MAX = 2.0
# A pooler names a startup parameter that it does not accept.
# Source: PgBouncer's src/client.c; its SQLSTATE is that of any protocol violation.
REFUSED_PARAMETER = "unsupported startup parameter"

# Parameters that name a file, and the file in `~/.postgresql` that both drivers read without them.
TLS_FILES = {
    "sslcert": "postgresql.crt",
    "sslkey": "postgresql.key",
    "sslrootcert": "root.crt",
    "sslcrl": "root.crl",
}

# Of a pooler in transaction mode, without prepared statements.
_NOT_PREPARED = (asyncpg.InvalidSQLStatementNameError, asyncpg.DuplicatePreparedStatementError)
# The next host is tried after these: the host is down, or is not the primary.
_NEXT_HOST = (
    OSError,
    asyncpg.CannotConnectNowError,
    asyncpg.ConnectionDoesNotExistError,
    asyncpg.TargetServerAttributeNotMatched,
)


class SettingMissing(Unavailable):
    """The role of the pooler's sessions has a setting that Tenantry cannot use; it is named."""


class PostgresConnector:
    """Opens connections to one URL.

    asyncpg has one timeout for all hosts, so a first host that does not answer would use it up.
    Here each host has its share, and the host that answered last is tried first.

    Args:
        url: The URL of a database.
        timeout_seconds: How long to wait for a connection, over all hosts.

    Attributes:
        is_pooled: Whether the server, a pooler, rejected the settings of a session. From then on,
            connections are opened without them.
    """

    def __init__(self, url: str, *, timeout_seconds: float) -> None:
        self._url = postgres_urls.parse(url)
        self._hosts = self._url.hosts or (None,)
        self._first = 0
        seconds = min(timeout_seconds, self._url.connect_seconds or timeout_seconds)
        self._seconds_each = seconds / len(self._hosts)
        self.is_pooled = False

    async def connect(
        self,
        *,
        application: str = APPLICATION,
        session: Mapping[str, str] | None = None,
        command_seconds: float | None = None,
        database: str | None = None,
    ) -> Raw:
        """Open a connection.

        Args:
            application: The name of the program in the server's list of sessions.
            session: Settings of the session. A pooler rejects them, and then they are omitted.
            command_seconds: The deadline of each command.
            database: The name of another database; that of the URL if not given.

        Raises:
            Exception: Any error of the driver.
        """
        settings = {"application_name": application, **self._url.server_settings()}
        wanted = {**ALWAYS, **(session or {})}
        if not self.is_pooled:
            try:
                raw = await self._connect({**settings, **wanted}, command_seconds, database)
            except asyncpg.PostgresError as error:
                if not _is_refused(error, wanted):
                    raise
                self.is_pooled = True
            else:
                return await _prepared(raw, raw.execute(SET_ORIGIN))
        raw = await self._connect(settings, command_seconds, database)
        return await _prepared(raw, _check_settings(raw))

    async def _connect(
        self, settings: dict[str, str], command_seconds: float | None, database: str | None
    ) -> Raw:
        arguments = self._url.for_asyncpg()
        if database is not None:
            arguments["database"] = database
        first, count = self._first, len(self._hosts)
        for number in (*range(first, count), *range(first)):
            host = self._hosts[number]
            if host is not None:
                arguments |= {"host": [host[0]], "port": [host[1]]}
            try:
                raw: Raw = await asyncpg.connect(
                    **arguments,
                    timeout=self._seconds_each,
                    command_timeout=command_seconds,
                    server_settings=settings,
                )
            except _NEXT_HOST as error:
                has_tls = host is not None and not host[0].startswith("/")  # a socket has none
                if has_tls and isinstance(error, OF_TLS_FILE) and error.filename is None:
                    error.filename = self._unreadable_file()
                last_error = error
            else:
                self._first = number
                return raw
        raise last_error

    def _unreadable_file(self) -> str | None:
        """Return the file of TLS that cannot be read, if there is one: the ssl module omits it."""
        folder = Path("~/.postgresql")
        with suppress(RuntimeError):  # the user of a container may have no home
            folder = folder.expanduser()
        for name, file in TLS_FILES.items():
            path = Path(self._url.parameters.get(name) or folder / file)
            try:
                path.open("rb").close()
            except OSError as error:
                if name in self._url.parameters or not isinstance(error, FileNotFoundError):
                    return str(path)
        return None


async def _prepared(raw: Raw, preparing: Awaitable[object]) -> Raw:
    """Return *raw* after *preparing* it; abort it if that fails."""
    try:
        await preparing
    except BaseException:
        raw.terminate()
        raise
    return raw


async def _check_settings(raw: Raw) -> None:
    """Check the settings of a pooler's session, which other clients share.

    Raises:
        SettingMissing: A role or a database has another one.
    """
    name = None
    with suppress(*_NOT_PREPARED):  # then each statement of a request fails, too
        async with raw.transaction():
            name = await raw.fetchval(FIND_UNMET)
    if name is not None:
        value = (ALWAYS | ORIGIN)[name]
        raise SettingMissing(
            f"Behind a connection pooler, {name} of the role must be {value}: ALTER ROLE … SET."
        )


async def is_behind_pooler(raw: Raw) -> bool:
    """Return whether *raw* is a connection to a pooler.

    A pooler invents the process id that it sends to the client, for its own cancel requests.
    """
    try:
        return bool(await raw.fetchval("SELECT pg_backend_pid()") != raw.get_server_pid())
    except _NOT_PREPARED:
        return True


@asynccontextmanager
async def closing(connecting: Awaitable[Raw]) -> AsyncIterator[Raw]:
    """Open a connection, and close it after the block."""
    raw = await connecting
    try:
        yield raw
    finally:
        await raw.close(timeout=CLOSE_SECONDS_MAX)


def _is_refused(error: asyncpg.PostgresError, session: Mapping[str, str]) -> bool:
    message = str(error)
    return REFUSED_PARAMETER in message and any(name in message for name in session)
