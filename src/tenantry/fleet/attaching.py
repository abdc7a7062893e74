"""Attach a database to a service: it follows the operator's revisions, and is not served.

Nothing is changed in the database when it is attached, and nothing when it is detached.
"""

import asyncio
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field

import msgspec

from tenantry.access.sealing import Seal
from tenantry.catalog import attached
from tenantry.catalog.attached import Listed, NotAttached
from tenantry.catalog.labels import checked_labels
from tenantry.catalog.tenants import Tenant, TenantState
from tenantry.db import audit_log
from tenantry.db.outage_errors import driver_error, sqlstate_of
from tenantry.db.urls import SQLITE_PREFIX, sqlite_path
from tenantry.fleet.database_list import MAINTENANCE, is_maintenance, of_url
from tenantry.fleet.lifecycle import Lifecycle, new_tenant
from tenantry.kit import postgres_urls
from tenantry.kit.context import OperationContext
from tenantry.kit.errors import Conflict, Invalid, TenantryError, Unavailable
from tenantry.kit.server_settings import TenantServer
from tenantry.migration.errors import explain
from tenantry.migration.schema_state import BASE, Schema
from tenantry.migration.streams import Streams, UnknownRevision
from tenantry.tenant.databases import ELSEWHERE

# What a URL over HTTP can set, beside settings of the server: nothing that names a file.
_PARAMETERS = frozenset(
    {"application_name", "channel_binding", "connect_timeout", "gssencmode", "options", "sslmode"}
    | {"ssl_max_protocol_version", "ssl_min_protocol_version", "sslnegotiation"}
    | {"target_session_attrs"}
)
# A name or an address. libpq reads a comma as a list, and `/` or `@` at the beginning as a socket.
_HOST = re.compile(r"[\w.:-]+")
# Over HTTP, one reason for all: the real ones would disclose which machines and ports exist.
_SILENT = (
    "no PostgreSQL server has answered. Check host, port, `sslmode` and the network of the service."
)
_LOGGED = ("name", "database_name", "server_name", "labels")


class NotAttachable(Conflict):
    """The database cannot be attached; the message says why."""


class OtherDatabase(Conflict):
    """The URL has another place, options or settings: detach the database, and attach that one."""


class UrlOfServer(Invalid):
    """Over HTTP, a URL is `postgresql://USER:PASSWORD@HOST/DATABASE`: one host, and no files."""


def check_remote(url: str) -> None:
    """Check that *url* uses nothing of this machine, which an admin over HTTP must not choose.

    A file without content would become a database. A password in a file or in the environment could
    be sent anywhere, and a socket can let in the user of the process without one.

    Raises:
        UrlOfServer: It does, or is not of PostgreSQL.
        BadList: It is no URL.
    """
    listed = of_url(url)
    if sqlite_path(listed.url) is not None:
        raise UrlOfServer
    parts = postgres_urls.parse(listed.url)
    is_remote = len(parts.hosts) == 1 and _HOST.fullmatch(parts.hosts[0][0])
    is_login = parts.user and parts.password
    if not (is_remote and is_login and parts.parameters.keys() <= _PARAMETERS):
        raise UrlOfServer


@dataclass(frozen=True, kw_only=True)
class Attaching:
    """Attaches databases to a service, and forgets them.

    Attributes:
        seal: Seals their URLs, each for the id of its tenant: see `AttachedUrls`.
        servers: The tenant servers. A database on one of them waits with it for the end of an
            outage, and its drift is found by comparing with a new database there.
        reading: Held by the one that is read: a message of a hostile server can have 1 GB.
    """

    lifecycle: Lifecycle
    seal: Seal
    servers: Mapping[str, TenantServer]
    reading: asyncio.Lock = field(default_factory=asyncio.Lock)

    async def attach(
        self,
        ctx: OperationContext,
        *,
        name: str,
        url: str,
        labels: Mapping[str, str],
        is_remote: bool = False,
    ) -> Tenant:
        """Add the database at *url*, which can have a password; return it.

        It is at one of the operator's revisions, or empty. Runs apply those that are pending. If
        *is_remote*, the message does not say why no server has answered.

        Raises:
            NothingToFollow: The operator has no revisions.
            BadText, BadLabels, BadList: The name, a label or the URL breaks a rule.
            NotAttachable: It cannot be read, is one of Tenantry, is at an unknown revision, or has
                tables and no revision.
            TenantNameInUse, DatabaseInUse: There is a tenant of this name, or it is attached.
            BadStream: The directory of revisions cannot be read.
        """
        listed = _under_one_name(of_url(url))
        tenant = msgspec.structs.replace(
            new_tenant(ctx, name, [], self._server_of(listed)),
            database_name=listed.place,
            state=TenantState.READY.value,
            labels=checked_labels(labels),
            is_attached=True,
        )
        streams = self.lifecycle.streams().of(is_attached=True)
        found = await self._read(listed, streams, is_remote=is_remote)
        await _check_revision(listed, found, streams)
        tenant = msgspec.structs.replace(tenant, schema_revision=str(found.revision))
        sealed = self.seal.close(listed.url.encode(), tenant.id.bytes)
        changes = audit_log.changes_between(None, tenant, *_LOGGED)
        async with self.lifecycle.catalog.change(
            ctx, "tenant.attach", tenant.id, tenant_id=tenant.id, changes=changes
        ) as session:
            await attached.add_sealed(session, tenant, sealed)
        return tenant

    async def replace_url(
        self, ctx: OperationContext, tenant: Tenant, url: str, *, is_remote: bool = False
    ) -> None:
        """Replace the URL of an attached database by *url*, with another password.

        Its place must be the same, so it is the same database, but for two servers of this machine
        that share a port: one on 127.0.0.1 and one on ::1 count as one (`PostgresUrl.servers`). If
        *is_remote*, the message does not say why no server has answered.

        Raises:
            NotAttached: The tenant is none, or was detached at the same time.
            BadList: The URL breaks a rule.
            OtherDatabase: It is of another place, or selects another schema.
            NotAttachable: It cannot be read with *url*.
        """
        if not tenant.is_attached:
            raise NotAttached
        listed = of_url(url)
        if listed.place != attached.place_of(tenant.database_name):
            raise OtherDatabase
        streams = self.lifecycle.streams().of(is_attached=True)
        await self._read(listed, streams, is_remote=is_remote)
        sealed = self.seal.close(listed.url.encode(), tenant.id.bytes)
        async with self.lifecycle.catalog.change(
            ctx, "tenant.replace-url", tenant.id, tenant_id=tenant.id
        ) as session:
            await attached.reseal(session, {tenant.id: sealed})

    async def detach(self, ctx: OperationContext, tenant: Tenant) -> None:
        """Forget an attached database, with its labels; its runs stay in the history.

        Raises:
            NotAttached: The tenant is none.
        """
        if not tenant.is_attached:
            raise NotAttached
        changes = audit_log.changes_between(tenant, None, *_LOGGED)
        async with self.lifecycle.catalog.change(
            ctx, "tenant.detach", tenant.id, tenant_id=tenant.id, changes=changes
        ) as session:
            await attached.detach(session, tenant.id)

    def _server_of(self, listed: Listed) -> str:
        if sqlite_path(listed.url) is not None:
            return ELSEWHERE
        servers = postgres_urls.parse(listed.url).servers
        for name, server in self.servers.items():
            address = server.admin_address
            if sqlite_path(address) is None and postgres_urls.parse(address).servers == servers:
                return name
        return ELSEWHERE

    async def _read(self, listed: Listed, streams: Streams, *, is_remote: bool) -> Schema:
        try:
            async with self.reading:
                return await self.lifecycle.migrator.read_schema(listed.url, streams)
        except Exception as error:
            reason = explain(error) if not is_remote or _has_answered(error) else _SILENT
            raise NotAttachable(f"The database cannot be read: {reason}") from error


def _under_one_name(listed: Listed) -> Listed:
    """Return a file with its true path, whatever links to it."""
    path = sqlite_path(listed.url)
    return listed if path is None else of_url(f"{SQLITE_PREFIX}{os.path.realpath(path)}")


def _has_answered(error: Exception) -> bool:
    """Return whether a PostgreSQL server has sent *error*, or we have found it in a database."""
    if isinstance(error, TenantryError):
        return not isinstance(error, Unavailable)
    # asyncpg itself uses class 08, for connections that are closed.
    return not (sqlstate_of(driver_error(error)) or "08").startswith("08")


async def _check_revision(listed: Listed, found: Schema, streams: Streams) -> None:
    """Check that the next run would apply what is pending, and nothing else.

    Raises:
        NotAttachable: It would not.
    """
    try:
        await asyncio.to_thread(streams.pending, found.revision)
    except UnknownRevision as error:
        raise NotAttachable(
            f"The database is at revision {found.revision.user!r}, which is not in "
            "TENANTRY_TENANT_MIGRATIONS. If it is of another project, use `tenantry fleet migrate`."
        ) from error
    is_foreign = is_maintenance(listed) or found.has_tables(streams.user_table)
    if found.revision.user == BASE and is_foreign:
        raise NotAttachable(
            f"The database has tables, or is {MAINTENANCE}, and no revision in "
            f"{streams.user_table}: the next run would apply every revision to it. Write its "
            "revision first: `alembic stamp REVISION`."
        )
