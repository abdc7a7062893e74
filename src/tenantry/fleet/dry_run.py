"""Preview a run: what is pending in each tenant's database, by looking there."""

import asyncio
from collections.abc import Iterator
from dataclasses import dataclass
from uuid import UUID

from tenantry.catalog.plans import Selected
from tenantry.migration.errors import explain
from tenantry.migration.guard import NotRehearsable
from tenantry.migration.migrator import Migrator
from tenantry.migration.run_scripts import RunScripts
from tenantry.tenant.databases import TenantDatabases


@dataclass(frozen=True, kw_only=True, slots=True)
class TenantPreview:
    """What a run would find at one tenant.

    Attributes:
        current_revision: Where its database stands; None when that cannot be told.
        pending_migrations: Names with commas between them; None when nothing is pending,
            empty when that cannot be told.
        error: Why that is unknown, or why the rehearsal failed or was not possible; or None.
        is_rehearsable: False if a pending revision cannot be rolled back.
    """

    tenant_id: UUID
    tenant_name: str
    current_revision: str | None
    pending_migrations: str | None
    error: str | None
    is_rehearsable: bool = True


@dataclass(frozen=True, kw_only=True)
class Preview:
    """What a run would find; ``total = pending + up_to_date + failed``.

    A tenant whose revisions cannot be rehearsed is pending: nothing is wrong with it.
    """

    total: int
    pending: int
    up_to_date: int
    failed: int
    details: list[TenantPreview]


@dataclass(frozen=True, kw_only=True)
class Previewer:
    """Looks into tenants' databases.

    Attributes:
        databases: Knows where they are.
        migrator: Looks into one, under the deadline of a migration.
        concurrency: How many at once.
    """

    databases: TenantDatabases
    migrator: Migrator
    concurrency: int

    async def preview(
        self, selected: list[Selected], scripts: RunScripts, *, rehearse: bool
    ) -> Preview:
        """Look into the database of each tenant that is *selected*.

        Args:
            selected: The tenants.
            scripts: Of the run that would be.
            rehearse: Whether what is pending is run, and rolled back: it takes the same locks.
        """
        details: dict[UUID, TenantPreview] = {}
        todo = iter(selected)

        async def preview_each(shared: Iterator[Selected]) -> None:
            for tenant in shared:
                details[tenant.tenant_id] = await self._preview_one(
                    tenant, scripts, rehearse=rehearse
                )

        async with asyncio.TaskGroup() as group:
            for _ in range(self.concurrency):
                group.create_task(preview_each(todo))
        found = [details[tenant.tenant_id] for tenant in selected]
        failed = sum(one.error is not None and one.is_rehearsable for one in found)
        up_to_date = sum(one.pending_migrations is None for one in found)
        return Preview(
            total=len(found),
            pending=len(found) - failed - up_to_date,
            up_to_date=up_to_date,
            failed=failed,
            details=found,
        )

    async def _preview_one(
        self, tenant: Selected, scripts: RunScripts, *, rehearse: bool
    ) -> TenantPreview:
        act = self.migrator.rehearse if rehearse else self.migrator.inspect
        try:
            url = self.databases.server(tenant.server_name).url(tenant.database_name)
            looked = await act(url, scripts)
        except Exception as error:  # noqa: BLE001 - one bad tenant must not hide the others
            return _previewed(tenant, None, "", error)
        names = ",".join(scripts.streams.display(one) for one in looked.pending)
        pending = names if names or looked.error else None
        return _previewed(tenant, str(looked.revision), pending, looked.error)


def _previewed(
    tenant: Selected, revision: str | None, pending: str | None, error: Exception | None
) -> TenantPreview:
    return TenantPreview(
        tenant_id=tenant.tenant_id,
        tenant_name=tenant.tenant_name,
        current_revision=revision,
        pending_migrations=pending,
        error=None if error is None else explain(error),
        is_rehearsable=not _is_not_rehearsable(error),
    )


def _is_not_rehearsable(error: BaseException | None) -> bool:
    while error is not None:
        if isinstance(error, NotRehearsable):
            return True
        error = error.__cause__
    return False
