"""The tenant databases that this process has open."""

import asyncio
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Protocol
from uuid import UUID

from tenantry.catalog.tenants import NotServed, Tenant
from tenantry.db.database import Database
from tenantry.db.servers import Server
from tenantry.db.sessions import Session
from tenantry.kit.errors import Forbidden, Unavailable
from tenantry.migration.schema_state import READ_VERSION

# Each is a few objects; connections have a separate budget.
DATABASES_MAX = 4_096

ELSEWHERE = "(attached)"
"""The server of attached databases that are on none of the tenant servers: no setting has such a
name. An error is of one database, and not of all."""
_URL_MARK = "://"  # the name of an attached database is its URL without secrets

SERVABLE_FROM = "0001"
"""The oldest revision of Tenantry's stream that this code can serve (compared as text)."""
WRITABLE_FROM = "0003"
"""The oldest revision at which users and posts can be changed. It has roles, one-time links and
schedules; before it, users are read as owners, and posts without schedules."""


class TenantKind:
    """Marks the sessions of a tenant's database."""


TenantSession = Session[TenantKind]
TenantDatabase = Database[TenantKind]


class TenantOutdated(Unavailable):
    """The tenant's database is waiting to be migrated."""


class TenantReadOnly(Forbidden):
    """The tenant is read-only: its data can be read, and every write is rejected."""


class ServerUnknown(Unavailable):
    """The tenant's database is on a server that this process is not configured for."""


class Detached(Unavailable):
    """The database was detached."""


class Placed(Protocol):
    """A tenant, or its row in a run."""

    @property
    def server_name(self) -> str: ...  # noqa: D102
    @property
    def database_name(self) -> str: ...  # noqa: D102


@dataclass(frozen=True, slots=True)
class Place:
    """Where a database is.

    Attributes:
        url: Its URL, with a password, if it has one.
        is_attached: Whether it is an attached database of a service.
    """

    url: str
    is_attached: bool = False


@dataclass(frozen=True)
class Attached:
    """What a service needs for its attached databases.

    Attributes:
        find_url: Returns the URL of one by the names of its server and of itself; None if there is
            none.
        elsewhere: The server `ELSEWHERE`.
    """

    find_url: Callable[[str, str], Awaitable[str | None]]
    elsewhere: Server


class TenantDatabases:
    """Opens tenant databases when they are needed, and keeps them.

    Args:
        servers: The servers, by the name that the catalog stores for each tenant.
        attached: For attached databases; None in a fleet, in which each server knows their URLs.
    """

    def __init__(self, servers: Mapping[str, Server], attached: Attached | None = None) -> None:
        self._servers = servers
        self._attached = attached
        # By the ids of the tenants, with the names of the server and of the database.
        self._opened: OrderedDict[UUID, tuple[TenantDatabase, str, str]] = OrderedDict()

    @property
    def server_names(self) -> frozenset[str]:
        """The names of the servers."""
        return frozenset(self._servers)

    def server(self, name: str) -> Server:
        """Return the server of this name.

        Raises:
            ServerUnknown: There is none.
        """
        found = self._servers.get(name)
        if found is None and name == ELSEWHERE and self._attached is not None:
            found = self._attached.elsewhere
        if found is None:
            raise ServerUnknown
        return found

    async def place_of(self, tenant: Placed) -> Place:
        """Return where the database of *tenant* is, to migrate it or to read its schema.

        Raises:
            ServerUnknown: This process is not configured for its server.
            Detached: It was an attached one.
            WrongSecretKey: It is an attached one, and its URL was sealed with another key.
            DatabaseUnavailable: It is an attached one, and the catalog cannot be reached.
        """
        server, name = self.server(tenant.server_name), tenant.database_name
        if self._attached is None or _URL_MARK not in name:
            return Place(server.url(name))
        url = await self._attached.find_url(tenant.server_name, name)
        if url is None:
            raise Detached
        return Place(url, is_attached=True)

    def opened(self) -> dict[UUID, TenantDatabase]:
        """Return the open databases by the ids of their tenants."""
        return {tenant_id: database for tenant_id, (database, _, _) in self._opened.items()}

    async def open(self, tenant: Tenant, *, writes: bool) -> TenantDatabase:
        """Return the database of *tenant*, as the catalog lists it; with *writes*, to write to it.

        Raises:
            NotServed: It is an attached database.
            TenantReadOnly: The caller may write, and the tenant is read-only.
            DatabaseUnavailable: It cannot be reached.
            TenantOutdated: Its schema is older than this code can serve.
        """
        if tenant.is_attached:
            raise NotServed
        if writes and tenant.is_read_only:
            raise TenantReadOnly
        found = self._opened.get(tenant.id)
        if found is None:
            database = self._add(tenant)
            if len(self._opened) > DATABASES_MAX:
                await self.forget(next(iter(self._opened)))
        elif found[1] == tenant.server_name and found[2] == tenant.database_name:
            database = found[0]
            self._opened.move_to_end(tenant.id)
        else:
            # A restore has given the tenant another database. Added before the wait below, so that
            # a concurrent request finds it.
            database = self._add(tenant)
            await found[0].close()
        if not database.revision:
            await _read_revision(database)
        return database

    async def forget(self, tenant_id: UUID) -> None:
        """Close the database of a tenant."""
        found = self._opened.pop(tenant_id, None)
        if found is not None:
            await found[0].close()

    async def close_unused(self) -> None:
        """Close connections that were not used for long; see `Server.close_unused`."""
        await asyncio.gather(*(server.close_unused() for server in self._servers.values()))

    async def close(self) -> None:
        """Close every database, concurrently: each may wait for a server that does not answer."""
        opened = list(self._opened.values())
        self._opened.clear()
        await asyncio.gather(*(database.close() for database, _, _ in opened))

    def _add(self, tenant: Tenant) -> TenantDatabase:
        database: TenantDatabase = self.server(tenant.server_name).open(tenant.database_name)
        self._opened[tenant.id] = database, tenant.server_name, tenant.database_name
        return database


async def require_revision(database: TenantDatabase, revision: str) -> None:
    """Check that an open database has *revision* of Tenantry's stream, or a later one.

    Raises:
        TenantOutdated: It is waiting to be migrated.
    """
    if database.revision < revision:
        await _read_revision(database, revision)


async def has_revision(database: TenantDatabase, revision: str) -> bool:
    """Return whether an open database has *revision* of Tenantry's stream, or a later one."""
    if database.revision < revision:
        await _read_revision(database)
    return database.revision >= revision


async def _read_revision(database: TenantDatabase, least: str = SERVABLE_FROM) -> None:
    found = await database.fetch_one(READ_VERSION)
    if found is None or found.version_num < least:
        raise TenantOutdated
    database.revision = found.version_num
