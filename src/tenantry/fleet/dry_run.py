"""Preview a run: inspect each tenant's database, or rehearse its pending revisions."""

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
    """The preview of one tenant.

    Attributes:
        current_revision: The revision of its database; None if it is unknown.
        pending_migrations: The pending revisions, separated by commas; None if nothing is pending,
            empty if that is unknown.
        error: Why the revision is unknown, or why the rehearsal failed or was not possible.
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
    """The preview of a run; ``total = pending + up_to_date + failed``.

    A tenant with revisions that cannot be rehearsed counts as pending, not as failed.
    """

    total: int
    pending: int
    up_to_date: int
    failed: int
    details: list[TenantPreview]


@dataclass(frozen=True, kw_only=True)
class Previewer:
    """Inspects or rehearses tenants' databases.

    Attributes:
        databases: Returns the servers of the databases.
        migrator: Inspects or rehearses one database, within the deadline of a migration.
        concurrency: How many databases are inspected concurrently.
    """

    databases: TenantDatabases
    migrator: Migrator
    concurrency: int

    async def preview(
        self, selected: list[Selected], scripts: RunScripts, *, rehearse: bool
    ) -> Preview:
        """Return the preview of the *selected* tenants.

        Args:
            selected: The tenants.
            scripts: The migration scripts.
            rehearse: Whether pending revisions are executed and rolled back. This takes the locks
                of a real run.
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
            found = await act(url, scripts)
        except Exception as error:  # noqa: BLE001 - one bad tenant must not hide the others
            return _previewed(tenant, None, "", error)
        names = ",".join(scripts.streams.display(one) for one in found.pending)
        pending = names if names or found.error else None
        return _previewed(tenant, str(found.revision), pending, found.error)


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
