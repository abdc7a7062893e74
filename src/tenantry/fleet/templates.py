"""Templates: an empty database on each server that is copied for new tenants.

A template contains Tenantry's tables, and the user's revisions up to the first one that may do
more than define the schema. That revision and the later ones run on the copy.
"""

import asyncio
import contextlib
from collections import defaultdict
from collections.abc import AsyncIterator, Awaitable, Callable
from uuid import UUID

import sqlalchemy as sa

from tenantry.catalog import tenants
from tenantry.catalog.database import Catalog
from tenantry.catalog.tenants import Tenant, TenantState
from tenantry.db.servers import Server
from tenantry.db.sessions import DatabaseUnavailable
from tenantry.kit.context import OperationContext
from tenantry.kit.errors import Unavailable
from tenantry.kit.ids import new_id
from tenantry.migration.ddl_only import is_ddl_only
from tenantry.migration.migrator import Migrator
from tenantry.migration.run_scripts import RunScripts
from tenantry.migration.schema_state import Schema
from tenantry.migration.streams import Streams
from tenantry.tenant.databases import TenantDatabases

TEMPLATE = "tenantry_template_"
CATALOG_CHARS = 12
FINGERPRINT_CHARS = 16


class TemplateReplaced(Unavailable):
    """Another release replaced the template for new tenants at the same time; try again."""


class Templates:
    """Creates databases for new tenants, as copies of a template that is created when needed.

    The name of a template contains the catalog's id and a fingerprint of the revisions, so that an
    edited revision results in a new template. A template that is being created is listed in the
    catalog like a tenant in provisioning, so that it is removed in the same way after a crash.

    Attributes:
        uncleared: Templates in creation with a row that could not be released. `Lifecycle.reap`
            removes them, because others do not remove what a live process owns.
    """

    def __init__(
        self, catalog: Catalog, databases: TenantDatabases, migrator: Migrator, worker_id: UUID
    ) -> None:
        self._catalog = catalog
        self._databases = databases
        self._migrator = migrator
        self._worker_id = worker_id
        self.uncleared: dict[UUID, Tenant] = {}
        self._creating: defaultdict[str, asyncio.Lock] = defaultdict(asyncio.Lock)

    async def copy(
        self, ctx: OperationContext, server_name: str, *, scripts: RunScripts, to: str
    ) -> None:
        """Create the database *to* as a copy of the current template.

        Raises:
            TemplateReplaced: Another release replaced the template at the same time.
            Exception: Any error of the drivers and the revisions.
        """
        prefix = prefix_of(self._catalog.cache.catalog_id)
        streams, server = scripts.streams, self._databases.server(server_name)
        fingerprint = await asyncio.to_thread(lambda: streams.fingerprint)
        template = prefix + fingerprint[:FINGERPRINT_CHARS]
        if await server.copy(template, to):
            return
        async with self._creating[server_name]:
            if await server.copy(template, to):
                return
            await self._create(ctx, server_name, streams, template)
            for name in await server.names(prefix):
                if name != template:
                    await server.drop(name)
            if not await server.copy(template, to):
                raise TemplateReplaced

    async def _create(
        self, ctx: OperationContext, server_name: str, streams: Streams, template: str
    ) -> None:
        async with self._draft(ctx, server_name) as (draft, server):
            url = server.url(draft.database_name)
            dialect = await self._migrator.read_dialect(url, streams)
            scripts = RunScripts(await asyncio.to_thread(_shared, streams, dialect))
            await self._migrator.initialise(url, scripts, run_id=draft.id)
            await server.publish(draft.database_name, template)

    async def read_schema(
        self, ctx: OperationContext, server_name: str, *, streams: Streams
    ) -> Schema:
        """Return the schema that all revisions define, from a database that is dropped again.

        Raises:
            Exception: Any error of the drivers and the revisions.
        """
        async with self._draft(ctx, server_name) as (draft, server):
            url = server.url(draft.database_name)
            await self._migrator.initialise(url, RunScripts(streams), run_id=draft.id)
            schema = await self._migrator.read_schema(url, streams)
            await server.drop(draft.database_name)
        return schema

    @contextlib.asynccontextmanager
    async def _draft(
        self, ctx: OperationContext, server_name: str
    ) -> AsyncIterator[tuple[Tenant, Server]]:
        """Create an empty database, which the block renames or drops; it is listed until then.

        After an error it stays listed, and any process drops it.
        """
        draft, worker_id = _new_draft(ctx, server_name), self._worker_id
        server = self._databases.server(server_name)
        try:
            await tenants.add(self._catalog, draft, worker_id=worker_id)
            await server.create(draft.database_name)
            yield draft, server
        except BaseException:
            await self._end(tenants.abandon, draft)
            raise
        await self._end(tenants.remove_unseen, draft)

    async def _end(self, end: Callable[..., Awaitable[None]], draft: Tenant) -> None:
        try:
            await end(self._catalog, draft, worker_id=self._worker_id)
        except BaseException as error:
            self.uncleared[draft.id] = draft
            if not isinstance(error, DatabaseUnavailable):
                raise


def prefix_of(catalog_id: UUID) -> str:
    """Return the beginning of the names of a catalog's templates."""
    return f"{TEMPLATE}{catalog_id.hex[-CATALOG_CHARS:]}_"


def _new_draft(ctx: OperationContext, server_name: str) -> Tenant:
    draft_id = new_id()
    name = f"tenantry_draft_{draft_id.hex}"
    return Tenant(
        id=draft_id,
        name=name,
        database_name=name,
        server_name=server_name,
        state=TenantState.PROVISIONING.value,
        is_active=False,
        modules=frozenset(),
        created_at=ctx.now,
        schema_revision=None,
    )


def _shared(streams: Streams, dialect: sa.Dialect) -> Streams:
    """Return the streams up to the first user revision that does more than define the schema."""
    if streams.user is None:
        return streams
    table = streams.user_table
    user = streams.user.while_each(lambda revision: is_ddl_only(revision, dialect, table))
    return Streams(streams.own, user, table)
