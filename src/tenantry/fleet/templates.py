"""Templates: an empty database on each server that is copied for new tenants.

A template contains Tenantry's tables, and the user's revisions up to the first one that may do
more than define the schema. That revision and the later ones run on the copy.
"""

import asyncio
import contextlib
from collections import defaultdict
from collections.abc import AsyncIterator
from uuid import UUID

import sqlalchemy as sa

from tenantry.catalog.jobs import TEMPLATE as TEMPLATE_JOB
from tenantry.db.servers import Server
from tenantry.kit.context import OperationContext
from tenantry.kit.errors import Unavailable
from tenantry.kit.ids import new_id
from tenantry.migration.ddl_only import is_ddl_only
from tenantry.migration.migrator import Migrator
from tenantry.migration.run_scripts import RunScripts
from tenantry.migration.schema_state import Schema
from tenantry.migration.streams import Streams
from tenantry.work.ledger import Ledger, finish, new_job
from tenantry.work.running import running

TEMPLATE = "tenantry_template_"
CATALOG_CHARS = 12
FINGERPRINT_CHARS = 16


class TemplateReplaced(Unavailable):
    """Another release replaced the template for new tenants at the same time; try again."""


class Templates:
    """Creates databases for new tenants, as copies of a template that is created when needed.

    The name of a template contains the catalog's id and a fingerprint of the revisions, so that an
    edited revision results in a new template. Its creation is a job.
    """

    def __init__(self, ledger: Ledger, migrator: Migrator) -> None:
        self._ledger = ledger
        self._migrator = migrator
        self._creating: defaultdict[str, asyncio.Lock] = defaultdict(asyncio.Lock)

    async def copy(
        self, ctx: OperationContext, server_name: str, *, scripts: RunScripts, to: str
    ) -> None:
        """Create the database *to* as a copy of the current template.

        Raises:
            TemplateReplaced: Another release replaced the template at the same time.
            Exception: Any error of the drivers and the revisions.
        """
        prefix = prefix_of(self._ledger.catalog.cache.catalog_id)
        streams, server = scripts.streams, self._ledger.databases.server(server_name)
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
            url = server.url(draft)
            dialect = await self._migrator.read_dialect(url, streams)
            scripts = RunScripts(await asyncio.to_thread(_shared, streams, dialect))
            await self._migrator.initialise(url, scripts, run_id=new_id())
            await server.publish(draft, template)

    async def read_schema(
        self, ctx: OperationContext, server_name: str, *, streams: Streams
    ) -> Schema:
        """Return the schema that all revisions define, from a database that is dropped again.

        Raises:
            Exception: Any error of the drivers and the revisions.
        """
        async with self._draft(ctx, server_name) as (draft, server):
            url = server.url(draft)
            await self._migrator.initialise(url, RunScripts(streams), run_id=new_id())
            schema = await self._migrator.read_schema(url, streams)
            await server.drop(draft)
        return schema

    @contextlib.asynccontextmanager
    async def _draft(
        self, ctx: OperationContext, server_name: str
    ) -> AsyncIterator[tuple[str, Server]]:
        """Create an empty database, which the block renames or drops, as a job."""
        server, ledger = self._ledger.databases.server(server_name), self._ledger
        name = f"tenantry_draft_{new_id().hex}"
        job = new_job(ctx, TEMPLATE_JOB, database=(server_name, name))
        async with running(ledger, job):
            await server.create(name)
            yield name, server
            async with ledger.catalog.begin() as session:
                await finish(session, ledger, job)


def prefix_of(catalog_id: UUID) -> str:
    """Return the beginning of the names of a catalog's templates."""
    return f"{TEMPLATE}{catalog_id.hex[-CATALOG_CHARS:]}_"


def _shared(streams: Streams, dialect: sa.Dialect) -> Streams:
    """Return the streams up to the first user revision that does more than define the schema."""
    if streams.user is None:
        return streams
    table = streams.user_table
    user = streams.user.while_each(lambda revision: is_ddl_only(revision, dialect, table))
    return Streams(streams.own, user, table)
