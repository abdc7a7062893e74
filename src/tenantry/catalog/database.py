"""The catalog database: reading it, and changing the values that processes cache."""

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from types import MappingProxyType
from typing import Any, NewType
from uuid import UUID

import sqlalchemy as sa

from tenantry.catalog import audit
from tenantry.catalog.cache import CatalogCache
from tenantry.catalog.outbox import Subscribed
from tenantry.catalog.pace import PACE, Pace
from tenantry.catalog.session import CatalogKind, CatalogSession
from tenantry.catalog.tables import catalog
from tenantry.db.database import Budget, Database
from tenantry.db.factory import single_connector
from tenantry.db.sessions import STATEMENT_SECONDS_DEFAULT
from tenantry.db.statements import Statement
from tenantry.kit.context import OperationContext

CatalogChange = NewType("CatalogChange", CatalogSession)
"""A session of `Catalog.change`. Functions that change cached values require it."""

_BUMP = Statement[Any](sa.update(catalog).values(epoch=catalog.c.epoch + 1))


class Unchanged(Exception):
    """Raised in the block of `Catalog.change`: nothing is to change."""


class Catalog(Database[CatalogKind]):
    """The catalog: a session for reading, and `change` for cached values.

    Args:
        url: The URL of the database.
        connections_max: The most connections of this process.
        timeout_seconds: How long to wait for a connection.
        synchronous: ``FULL`` or ``NORMAL``, on SQLite.
        statement_seconds: The deadline of each statement.
        pace: How often the cache is checked.
        subscribed: The events that each target of notifications gets, by its name.
    """

    def __init__(
        self,
        url: str,
        *,
        connections_max: int,
        timeout_seconds: float,
        synchronous: str,
        statement_seconds: float = STATEMENT_SECONDS_DEFAULT,
        pace: Pace = PACE,
        subscribed: Subscribed = MappingProxyType({}),
    ) -> None:
        self.subscribed = subscribed
        connect, most = single_connector(
            url,
            connections_max=connections_max,
            timeout_seconds=timeout_seconds,
            synchronous=synchronous,
            statement_seconds=statement_seconds,
        )
        self.budget = Budget(most)
        super().__init__(connect, self.budget, most, wait_seconds_max=timeout_seconds)
        self.cache = CatalogCache(self, pace)

    @asynccontextmanager
    async def change(
        self,
        ctx: OperationContext,
        action: str,
        target: object,
        *,
        tenant_id: UUID | None = None,
        changes: Sequence[Mapping[str, object]] = (),
    ) -> AsyncIterator[CatalogChange]:
        """Open an audited transaction that invalidates the caches of all processes.

        If the block raises `Unchanged`, the transaction is rolled back, without an entry, and the
        code after the block continues.

        Args:
            ctx: Identifies the actor.
            action: The action, as ``noun.verb``.
            target: The id of what is changed.
            tenant_id: The tenant concerned, if any.
            changes: The changed fields (`audit_log.changes_between`). The block may add to the
                list.
        """
        try:
            async with self.begin() as session:
                yield CatalogChange(session)
                await audit.LOG.add(
                    session, ctx, action, target, tenant_id=tenant_id, changes=changes
                )
                # Last, because it blocks other changes until this transaction ends.
                await session.execute(_BUMP)
        except Unchanged:
            pass
        finally:
            self.cache.clear()
