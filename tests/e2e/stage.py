"""A fleet for the console: tenants in SQLite files, some of them outdated or broken."""

import contextlib
import secrets
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from uuid import UUID

from tenantry.access import admins
from tenantry.cli.demo.samples import SampleTenant, sample_tenants
from tenantry.db.urls import sqlite_path
from tenantry.kit.context import system_context
from tenantry.kit.ids import new_id
from tenantry.services import Services, open_services
from tenantry.settings import Settings
from tenantry.tenant.users import NewUser

TENANTS = 200
ADMIN = "ada@example.com"
PASSWORD = "correct horse battery staple"

# Tenants of these places fail, for one of two reasons.
TAKEN = (3, 40, 77, 114, 151, 188)
GONE = (20, 120)

BIRTH = '''"""Create the orders."""
from alembic.operations import Operations
revision, down_revision = "0001", None


def upgrade(op: Operations) -> None:
    """Create the table."""
    op.execute("CREATE TABLE orders (id INTEGER PRIMARY KEY, note TEXT)")
'''
# Slow enough to be watched.
NEXT = '''"""Create the invoices."""
import time
from alembic.operations import Operations
revision, down_revision = "0002", "0001"
online = True


def upgrade(op: Operations) -> None:
    """Take a while, and create the table."""
    time.sleep(0.1)
    op.execute("CREATE TABLE invoices (id INTEGER PRIMARY KEY, order_id INTEGER)")
'''


@dataclass(frozen=True)
class Seeded:
    """A tenant of the stage, and the file that holds its database."""

    id: UUID
    name: str
    file: Path

    def run(self, statement: str) -> None:
        """Run a statement in its database, as an operator does by hand."""
        with contextlib.closing(sqlite3.connect(self.file)) as raw, raw:
            raw.execute(statement)

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Let a migration of it wait, for up to 80 s: no run of it ends before the block does."""
        with contextlib.closing(sqlite3.connect(self.file, isolation_level=None)) as writer:
            writer.execute("BEGIN IMMEDIATE")
            yield
            writer.execute("ROLLBACK")

    def fall_behind(self) -> None:
        """Take back the last revision."""
        self.run("DROP TABLE IF EXISTS invoices")
        self.run("UPDATE alembic_version SET version_num = '0001'")


async def set_small_stage(settings: Settings) -> Seeded:
    """Make an admin and one tenant."""
    async with open_services(settings) as services:
        await create_admin(services)
        return await _seed(services, sample_tenants(1)[0])


async def set_stage(settings: Settings, count: int = TENANTS) -> list[Seeded]:
    """Make an admin and the tenants, let them fall behind, and break some."""
    assert settings.tenant_migrations is not None
    versions = settings.tenant_migrations / "versions"
    versions.mkdir(parents=True)
    (versions / "0001_create_orders.py").write_text(BIRTH, encoding="utf-8")
    async with open_services(settings) as services:
        await create_admin(services)
        seeded = [await _seed(services, sample) for sample in sample_tenants(count)]
    (versions / "0002_create_invoices.py").write_text(NEXT, encoding="utf-8")
    for place in TAKEN:
        seeded[place].run("CREATE TABLE invoices (id INTEGER PRIMARY KEY)")
    for place in GONE:
        seeded[place].file.unlink()
    return seeded


async def create_admin(services: Services) -> None:
    """Make the admin."""
    context = system_context("test")
    passwords = services.passwords
    await admins.create(context, services.catalog, passwords, email=ADMIN, password=PASSWORD)


async def _seed(services: Services, sample: SampleTenant) -> Seeded:
    owner = NewUser(email=sample.email, full_name=sample.owner, password=PASSWORD)
    made = await services.lifecycle.provision(
        system_context("test"), name=sample.name, owner=owner, module_keys=None
    )
    tenant = made.tenant
    file = sqlite_path(services.databases.server(tenant.server_name).url(tenant.database_name))
    assert file is not None
    return Seeded(tenant.id, tenant.name, Path(file))


def add_rows(settings: Settings, like: UUID, count: int) -> None:
    """Add tenants to the catalog alone, each like the one with the id *like*."""
    with contextlib.closing(sqlite3.connect(settings.data_dir / "catalog.db")) as raw, raw:
        raw.row_factory = sqlite3.Row
        row = dict(raw.execute("SELECT * FROM tenant WHERE id = ?", [like.hex]).fetchone())
        marks = ", ".join(f":{name}" for name in row)
        rows = [{**row, **_names(place)} for place in range(count)]
        raw.executemany(f"INSERT INTO tenant ({', '.join(row)}) VALUES ({marks})", rows)


def _names(place: int) -> dict[str, str]:
    name = f"Customer {place:05}"
    return {
        "id": new_id().hex,
        "name": name,
        "canonical_name": name.lower(),
        "database_name": f"tenantry_{secrets.token_hex(8)}",
    }
