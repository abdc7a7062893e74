"""A project of django-tenants: a schema for each tenant, in one database.

It is not equivalent: it connects again for each schema, but always to one database: its
catalog PostgreSQL keeps in memory.
"""

import asyncio
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from textwrap import dedent
from urllib.parse import urlsplit

import asyncpg

from harness.bench.fleet.peers.programs import run
from harness.fleet.history import HAS_BOOKMARKS, HISTORY, IS_AT_HEAD, PENDING, write_django
from harness.fleet.tenants import NotMigrated, copy_databases
from harness.postgres import careless
from testkit.postgres import create_database

DATABASE, BEHIND_TEMPLATE, HEAD_TEMPLATE = (
    "bench_django",
    "bench_django_behind",
    "bench_django_head",
)
PROCESSES = 2
FILES = {
    "manage.py": """
        import sys
        from django.core.management import execute_from_command_line
        execute_from_command_line(sys.argv)
    """,
    "site_settings.py": """
        SECRET_KEY = "none"
        USE_TZ = False
        INSTALLED_APPS = ["django_tenants", "django.contrib.contenttypes", "customers", "content"]
        SHARED_APPS = ["django_tenants", "django.contrib.contenttypes", "customers"]
        TENANT_APPS = ["content"]
        TENANT_MODEL = "customers.Client"
        TENANT_DOMAIN_MODEL = "customers.Domain"
        DATABASE_ROUTERS = ["django_tenants.routers.TenantSyncRouter"]
        DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
        TENANT_MULTIPROCESSING_MAX_PROCESSES = {processes}
        DATABASES = {{"default": {{
            "ENGINE": "django_tenants.postgresql_backend",
            "NAME": "{database}", "USER": "{user}", "HOST": "{host}", "PORT": "{port}",
        }}}}
    """,
    "content/__init__.py": "",
    "content/models.py": "",
    "customers/__init__.py": "",
    "customers/models.py": """
        from django.db import models
        from django_tenants.models import DomainMixin, TenantMixin

        class Client(TenantMixin):
            name = models.CharField(max_length=100)

        class Domain(DomainMixin):
            pass
    """,
    "customers/migrations/__init__.py": "",
}


@dataclass(frozen=True)
class Project:
    """A project with its database.

    Attributes:
        folder: Of its files.
        server_url: Of a superuser.
        count: How many schemas there are.
    """

    folder: Path
    server_url: str
    count: int

    def reset(self, *, at_head: bool = False) -> None:
        """Put the database back; see `Tenants.reset`."""
        with careless(self.server_url):
            template = HEAD_TEMPLATE if at_head else BEHIND_TEMPLATE
            copy_databases(self.server_url, template, [DATABASE])
            asyncio.run(_fetch(self.url, "SELECT 1"))

    def migrate(self, executor: str) -> float:
        """Return the seconds that ``migrate_schemas`` takes for all schemas, its start included."""
        began = time.perf_counter()
        self.manage("migrate_schemas", "--tenant", f"--executor={executor}")
        return time.perf_counter() - began

    def check_at_head(self) -> None:
        """Check that every schema is at the head.

        Raises:
            NotMigrated: One of them is not.
        """
        checks = [
            query.replace("FROM ", f"FROM tenant{number}.")
            for number in range(self.count)
            for query in (IS_AT_HEAD, HAS_BOOKMARKS)
        ]
        found = asyncio.run(_fetch(self.url, *checks))
        if found != [True, 0] * self.count:
            raise NotMigrated("a schema of django-tenants is not at the head")

    @property
    def url(self) -> str:
        """The URL of the database with the schemas."""
        return f"{self.server_url.rpartition('/')[0]}/{DATABASE}"

    def manage(self, *arguments: str) -> None:
        """Run a command of ``manage.py``."""
        added = {"DJANGO_SETTINGS_MODULE": "site_settings", "PYTHONPATH": str(self.folder)}
        program = [sys.executable, "manage.py", *arguments, "--verbosity=0", "--skip-checks"]
        run(program, folder=self.folder, added=added)


def make_project(folder: Path, server_url: str, count: int) -> Project:
    """Return a new project with *count* schemas, at where there is something pending."""
    project = Project(folder, server_url, count)
    create_database(server_url, DATABASE)
    where = urlsplit(server_url)
    values = {
        "database": DATABASE,
        "processes": PROCESSES,
        "user": where.username,
        "host": where.hostname,
        "port": where.port,
    }
    for name, text in FILES.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        clean = dedent(text).lstrip()
        path.write_text(clean.format(**values) if name == "site_settings.py" else clean)
    write_django(folder / "content" / "migrations", HISTORY)
    project.manage("makemigrations", "customers")
    with careless(server_url):
        project.manage("migrate_schemas", "--shared")
        asyncio.run(_fetch(project.url, *_schemas(count)))
        project.manage("migrate_schemas", "--tenant", "--executor=multiprocessing")
        copy_databases(server_url, DATABASE, [BEHIND_TEMPLATE])
        write_django(folder / "content" / "migrations", PENDING)
        project.manage("migrate_schemas", "--tenant", "--executor=multiprocessing")
        copy_databases(server_url, DATABASE, [HEAD_TEMPLATE])
    return project


def _schemas(count: int) -> list[str]:
    names = [f"tenant{number}" for number in range(count)]
    return [
        *(f"CREATE SCHEMA {name}" for name in names),
        *(
            f"INSERT INTO customers_client (schema_name, name) VALUES ('{name}', '{name}')"
            for name in names
        ),
    ]


async def _fetch(url: str, *statements: str) -> list[object]:
    connection = await asyncpg.connect(url)
    try:
        return [await connection.fetchval(sql) for sql in statements]
    finally:
        await connection.close()
