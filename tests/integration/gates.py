"""Runs under control: each tenant waits at a gate in its migration, or fails there."""

import asyncio
from dataclasses import dataclass
from pathlib import Path

from tenantry.catalog.tenants import Tenant
from tenantry.services import Services
from tenantry.settings import Settings
from testkit import raw_sql
from testkit.revisions import AlembicFolder
from tests.conftest import provision

WAIT_SECONDS_MAX = 60
HEAD = """
    import pathlib, time, uuid
    online = True
"""


@dataclass(frozen=True)
class Gate:
    """A revision that waits until the gate opens; `note` is the table that it makes.

    Attributes:
        folder: Gets the revision.
        path: A file that is there when the gate is open.
    """

    folder: AlembicFolder
    path: Path

    def build(self, name: str = "g1_gate") -> None:
        """Add the revision."""
        self._reached.mkdir(exist_ok=True)
        body = f"""
            pathlib.Path({str(self._reached)!r}, uuid.uuid4().hex).touch()
            while not pathlib.Path({str(self.path)!r}).exists():
                time.sleep(0.01)
            op.create_table("note", sa.Column("id", sa.Integer, primary_key=True))
        """
        self.folder.add(name, body, head=HEAD)

    def open(self) -> None:
        """Let all tenants continue."""
        self.path.touch()

    async def reached(self, count: int) -> None:
        """Wait until the migrations of so many tenants have come to the gate."""
        async with asyncio.timeout(WAIT_SECONDS_MAX):
            while len(list(self._reached.iterdir())) < count:  # noqa: ASYNC110 - by others
                await asyncio.sleep(0.02)

    @property
    def _reached(self) -> Path:
        return self.path.with_name(f"{self.path.name}_reached")


async def tenants(services: Services, count: int) -> list[Tenant]:
    """Return new tenants, in the order of their making."""
    return [(await provision(services, f"tenant{number:02}")).tenant for number in range(count)]


def url_of(services: Services, tenant: Tenant) -> str:
    return services.databases.server(tenant.server_name).url(tenant.database_name)


def spoil(services: Services, *spoilt: Tenant) -> None:
    """Make the gate's revision fail for these tenants: its table exists already."""
    for tenant in spoilt:
        raw_sql.run(url_of(services, tenant), "CREATE TABLE note (id INTEGER)")


def mend(services: Services, *mended: Tenant) -> None:
    """Undo `spoil`."""
    for tenant in mended:
        raw_sql.run(url_of(services, tenant), "DROP TABLE note")


def is_migrated(services: Services, tenant: Tenant) -> bool:
    """Return whether the tenant is past its first revision."""
    found = raw_sql.rows(url_of(services, tenant), "SELECT version_num FROM alembic_version")
    return found != [("begin",)]


async def until_held(settings: Settings, count: int) -> None:
    """Wait until processes have claimed so many tenants of runs."""
    sql = "SELECT count(*) FROM tenant_migration WHERE worker_id IS NOT NULL"
    async with asyncio.timeout(WAIT_SECONDS_MAX):
        while raw_sql.rows(settings.catalog, sql)[0][0] < count:  # noqa: ASYNC110 - by others
            await asyncio.sleep(0.02)
