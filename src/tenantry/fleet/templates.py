"""Templates: an empty database of each server, of which new tenants are copies.

It holds Tenantry's own tables, and yours up to the first revision that could leave something
else in another database. That one and those after it run on the new tenant's own database.
"""

import asyncio
import contextlib
from collections import defaultdict
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
from tenantry.migration.definitions import only_defines
from tenantry.migration.migrator import Migrator
from tenantry.migration.run_scripts import RunScripts
from tenantry.migration.streams import Stream, Streams

CATALOG_CHARS = 12
FINGERPRINT_CHARS = 16


class TemplateGone(Unavailable):
    """Another release replaced the template of new tenants at this moment; try again."""


class Templates:
    """Makes databases for new tenants, as copies of a template that is made when needed.

    A template is named by its catalog and by what its revisions say, so that an edited
    revision makes another one. A draft is listed in the catalog like a tenant that is
    being made, so that what a crash leaves is cleared like one.
    """

    def __init__(self, catalog: Catalog, migrator: Migrator, worker_id: UUID) -> None:
        self._catalog = catalog
        self._migrator = migrator
        self._worker_id = worker_id
        self._making: defaultdict[str, asyncio.Lock] = defaultdict(asyncio.Lock)

    async def copy(
        self,
        ctx: OperationContext,
        server: Server,
        *,
        server_name: str,
        scripts: RunScripts,
        to: str,
    ) -> None:
        """Make the database *to*, migrated as far as a template can be.

        Raises:
            Exception: Whatever the drivers and the revisions raise.
        """
        prefix = f"tenantry_template_{self._catalog.cache.catalog_id.hex[-CATALOG_CHARS:]}_"
        streams = scripts.streams
        template = prefix + await asyncio.to_thread(_fingerprint, streams)
        if await server.copy(template, to):
            return
        async with self._making[server_name]:
            if await server.copy(template, to):
                return
            await self._make(ctx, server, server_name, streams, template)
            for name in await server.names(prefix):
                if name != template:
                    await server.drop(name)
            if not await server.copy(template, to):
                raise TemplateGone

    async def _make(
        self,
        ctx: OperationContext,
        server: Server,
        server_name: str,
        streams: Streams,
        template: str,
    ) -> None:
        draft = _draft(ctx, server_name)
        name, worker_id = draft.database_name, self._worker_id
        try:
            await tenants.add(self._catalog, draft, worker_id=worker_id)
            await server.create(name)
            url = server.url(name)
            dialect = await self._migrator.read_dialect(url, streams)
            scripts = RunScripts(await asyncio.to_thread(_shared, streams, dialect))
            await self._migrator.initialise(url, scripts, run_id=draft.id)
            await server.publish(name, template)
        except BaseException:
            with contextlib.suppress(DatabaseUnavailable):
                await tenants.abandon(self._catalog, draft.id, worker_id=worker_id)
            raise
        await tenants.remove_unseen(self._catalog, draft.id, worker_id=worker_id)


def _draft(ctx: OperationContext, server_name: str) -> Tenant:
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


def _fingerprint(streams: Streams) -> str:
    items = [stream.fingerprint for stream in (streams.own, streams.user) if stream is not None]
    return Stream.combine(items)[:FINGERPRINT_CHARS]


def _shared(streams: Streams, dialect: sa.Dialect) -> Streams:
    """Return the streams as far as they leave the same in every database."""
    if streams.user is None:
        return streams
    user = streams.user.while_each(lambda revision: only_defines(revision, dialect))
    return Streams(streams.own, user, streams.user_table)
