"""Tenantry as it is: the catalog, the run and its rows, the outcomes, the history.

The services run in this process, as `tenantry migrate all` runs them, on the event loop of
the limit. What is timed is what the caller of migrate-all waits for; a service is started
long before.
"""

import asyncio
import json
import time
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from http.client import HTTPConnection
from pathlib import Path
from uuid import UUID

from harness.api import MIGRATE_ALL, as_admin
from harness.fleet.history import HISTORY, PENDING, write_alembic
from harness.fleet.tenants import NotMigrated, Tenants, make_templates
from harness.world import World, settings_of
from tenantry.catalog import runs, tenants
from tenantry.catalog.runs import MigrationRun
from tenantry.catalog.tenants import Tenant, TenantState
from tenantry.kit import process
from tenantry.kit.clock import utc_now
from tenantry.kit.context import system_context
from tenantry.kit.ids import new_id
from tenantry.services import Services, open_services
from tenantry.settings import Settings

ADDED_AT_ONCE = 50
CALL_SECONDS_MAX = 300


@dataclass(frozen=True)
class Ran:
    """A run that has ended.

    Attributes:
        seconds: That its caller waited.
        ends: When each tenant was ready, in order.
    """

    seconds: float
    ends: Sequence[datetime]


@dataclass(frozen=True)
class Ours:
    """A catalog, and its tenants.

    Attributes:
        world: With one tenant that was provisioned; the others are copies of it.
        folder: For the directories of revisions.
        ids: Of its tenants.
        tenants: Their databases.
    """

    world: World
    folder: Path
    ids: Sequence[UUID]
    tenants: Tenants

    @cached_property
    def revisions(self) -> Path:
        """The directory with everything in it."""
        return write_alembic(self.folder / "revisions", [*HISTORY, *PENDING])

    @cached_property
    def live_revisions(self) -> Path:
        """The same, where the pending ones say that they run live."""
        folder = write_alembic(self.folder / "live", HISTORY)
        return write_alembic(folder, PENDING, live=True)

    def environment(self) -> dict[str, str]:
        """Return the settings of a server over these tenants."""
        return {**self.world.environment, "TENANTRY_TENANT_MIGRATIONS": str(self.revisions)}

    def migrate_all(self, count: int, *, live: bool = False) -> Ran:
        """Migrate every tenant in a run of its own.

        Raises:
            NotMigrated: It has failed, or was over other tenants.
        """
        folder = self.live_revisions if live else self.revisions
        ran, run = process.run(
            _migrate_all(settings_of(self.world.environment, tenant_migrations=folder))
        )
        if (run.total_count, run.success_count) != (count, count):
            raise NotMigrated(f"{run.success_count} of {run.total_count} succeeded, not {count}")
        return ran


def call_migrate_all(port: int, ours: Ours) -> None:
    """Call migrate-all of the server on *port*, and wait for the end.

    A long answer has chunks, and no length.

    Raises:
        NotMigrated: The answer is another than that everything succeeded.
    """
    with closing(HTTPConnection("127.0.0.1", port, timeout=CALL_SECONDS_MAX)) as connection:
        connection.request("POST", MIGRATE_ALL, headers=as_admin(ours.world))
        response = connection.getresponse()
        body = response.read()
    if response.status != 200 or json.loads(body)["data"]["failed"]:
        raise NotMigrated(f"{response.status}: {body[:500]!r}")


def make(world: World, folder: Path, count: int, server_url: str | None) -> Ours:
    """Return *count* tenants: one that was provisioned and migrated, and copies of it.

    Args:
        world: With the one.
        folder: For revisions and templates.
        count: How many there are to be.
        server_url: Of the superuser on PostgreSQL.
    """
    folder.mkdir(exist_ok=True)
    revisions = write_alembic(folder / "history", HISTORY)
    made = asyncio.run(
        _multiply(settings_of(world.environment, tenant_migrations=revisions), count)
    )
    ids, urls = zip(*made, strict=True)
    return Ours(world, folder, ids, make_templates(urls[0], server_url, folder)(urls))


def set_active(ours: Ours, count: int) -> None:
    """Let the first *count* tenants be active, and the others not."""
    asyncio.run(_set_active(settings_of(ours.environment()), ours.ids, count))


async def _set_active(settings: Settings, ids: Sequence[UUID], count: int) -> None:
    async with open_services(settings, works=False) as services:
        ctx = system_context("bench")
        async with services.catalog.change(ctx, "bench", "all") as session:
            for number, tenant_id in enumerate(ids):
                await tenants.update(
                    session, tenant_id, name=None, is_active=number < count, modules=None
                )


async def _migrate_all(settings: Settings) -> tuple[Ran, MigrationRun]:
    async with open_services(settings) as services:
        process.settle()
        began = time.perf_counter()
        run_id = await services.fleet.plan(system_context("bench"), triggered_by="bench")
        run = await services.fleet.wait(run_id)
        took = time.perf_counter() - began
        parts = await runs.ended(services.catalog, run_id)
        return Ran(took, sorted(one.finished_at for one in parts if one.finished_at)), run


async def _multiply(settings: Settings, count: int) -> list[tuple[UUID, str]]:
    async with open_services(settings) as services:
        run_id = await services.fleet.plan(system_context("bench"), triggered_by="bench")
        run = await services.fleet.wait(run_id)
        assert run.success_count == 1, "the history cannot be applied"
        (part,) = await runs.ended(services.catalog, run_id)
        first = await tenants.get(services.catalog, part.tenant_id)
        copies = [_copy(first, number) for number in range(1, count)]
        for start in range(0, len(copies), ADDED_AT_ONCE):
            await asyncio.gather(
                *(_add(services, one) for one in copies[start : start + ADDED_AT_ONCE])
            )
        server = services.databases.server(first.server_name)
        return [(one.id, server.url(one.database_name)) for one in (first, *copies)]


def _copy(first: Tenant, number: int) -> Tenant:
    tenant_id = new_id()
    return Tenant(
        id=tenant_id,
        name=f"Copy {number}",
        database_name=f"tenantry_{tenant_id.hex}",
        server_name=first.server_name,
        state=TenantState.PROVISIONING.value,
        is_active=True,
        modules=first.modules,
        created_at=utc_now(),
        schema_revision=None,
    )


async def _add(services: Services, tenant: Tenant) -> None:
    worker_id = services.heartbeat.worker_id
    await tenants.add(services.catalog, tenant, worker_id=worker_id)
    async with services.catalog.change(system_context("bench"), "bench", tenant.id) as session:
        await tenants.set_ready(session, tenant.id, worker_id=worker_id, revision="0012")
