"""The demo's world on PostgreSQL and back: every GET endpoint answers the same bytes."""

import contextlib
import io
import re
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from itertools import product
from pathlib import Path
from urllib.parse import urlencode

import httpx
import psycopg
import pytest

from tenantry.api.table import ENDPOINTS
from tenantry.app import app_over
from tenantry.backup import catalog_moving, moving
from tenantry.backup.catalog_moving import CatalogMove
from tenantry.backup.recovery import every_tenant
from tenantry.catalog.tenants import Tenant
from tenantry.cli.demo.stage import BROKEN, Stage, set_stage
from tenantry.kit.clock import utc_now
from tenantry.kit.context import system_context
from tenantry.kit.threads import DaemonThreads
from tenantry.migration.migrator import Migrator, TimeLimits
from tenantry.schemas.base import ZipFile
from tenantry.services import Services, open_services
from tenantry.settings import Settings
from tenantry.work.progress import Progress
from testkit import raw_sql
from testkit.postgres import find_binaries
from tests.conftest import SECRET_KEY, client_of

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]

TENANTS = 8
FILES, SERVER = "default", "another-server"
# About the process that answers, and not about what is stored.
# A preview of a draft is of now, and needs a token.
OF_THE_PROCESS = {"/metrics", "/api/admin/health", "/api/public/blog/preview"}
# A move is a job itself.
JOBS = {"/api/admin/jobs", "/api/admin/jobs/{jobId}"}
# Asking is a use of the key, and the engines take different space.
CHANGING = re.compile(rb'"lastUsedAt":"[^"]*"|"sizeBytes":\d+')
ORDERS = """
INSERT INTO orders (id, customer, total_cents, placed_at, currency)
VALUES (5, 'Ünï', 100, '2026-01-02 03:04:05.000006', 'EUR'), (9, 'a', 2, '2026-01-02 00:00:00', 'X')
"""


@dataclass
class Asking:
    """Asks every GET endpoint for everything that there is.

    Attributes:
        stage: The world.
        until: Entries of audit logs after this instant are left out: moves add some.
        places: Names of databases after the moves, and what they were before.
    """

    stage: Stage
    until: str
    places: dict[bytes, bytes] = field(default_factory=dict)

    async def answers(self, services: Services) -> dict[str, tuple[int, bytes]]:
        """Return the status and the body for each path."""
        app = app_over(services)
        key = self.stage.tenant.key.secret
        owner = {"email": self.stage.owner.email, "password": self.stage.owner.password}
        async with client_of(app, x_api_key=key) as client:
            login = await client.post("/api/tenant/auth/login", json=owner)
            bearer = f"Bearer {login.json()['data']['token']}"
        clients = {
            "/api/tenant/": client_of(app, x_api_key=key, authorization=bearer),
            "/api/public/": client_of(app, x_api_key=key),
            "/api/admin/": client_of(app, authorization=f"Bearer {self.stage.admin_token}"),
            "/": client_of(app),
        }
        found = {}
        async with contextlib.AsyncExitStack() as stack:
            for client in clients.values():
                await stack.enter_async_context(client)
            ids = await _ids(clients)
            for path in self._paths(ids):
                client = next(one for start, one in clients.items() if path.startswith(start))
                answer = await client.get(path)
                found[path] = (answer.status_code, self._normal(answer.content))
        return found

    def _paths(self, ids: dict[str, list[str]]) -> list[str]:
        found = []
        for endpoint in ENDPOINTS:
            if endpoint.method != "GET" or endpoint.path in OF_THE_PROCESS | JOBS:
                continue
            if endpoint.response is ZipFile:
                continue  # an export has the values as the engine stores them
            names = re.findall(r"\{(\w+)\}", endpoint.path)
            for values in product(*(ids[name] for name in names)):
                path = endpoint.path
                for name, value in zip(names, values, strict=True):
                    path = path.replace(f"{{{name}}}", value)
                found += [f"{path}{query}" for query in self._queries(endpoint.path)]
        return found

    def _queries(self, path: str) -> list[str]:
        if "audit-log" in path:
            return [f"?{urlencode({'until': self.until})}"]
        if path == "/api/tenant/blog/posts":
            searches = [f"?{urlencode({'search': one})}" for one in ("the", "ü", "%", "_", "zzz")]
            return ["", "?pageSize=2&page=2", "?status=draft", *searches]
        if path == "/api/admin/tenants":
            return ["", "?pageSize=3&page=2", "?search=K", "?isFailing=true"]
        return [""]

    def _normal(self, body: bytes) -> bytes:
        """Return a body with the places of databases as they were before the moves."""
        for new, old in self.places.items():
            body = body.replace(new, old)
        body = body.replace(SERVER.encode(), FILES.encode())
        return CHANGING.sub(b"", body)


async def _ids(clients: dict[str, httpx.AsyncClient]) -> dict[str, list[str]]:
    async def listed(start: str, path: str, name: str) -> list[str]:
        answer = await clients[start].get(path, params={"pageSize": 100})
        return [str(one[name]) for one in answer.json()["data"]["items"]]

    tenants = await listed("/api/admin/", "/api/admin/tenants", "id")
    return {
        "tenantId": tenants,
        "userId": await listed("/api/admin/", f"/api/admin/tenants/{tenants[0]}/users", "id"),
        "number": ["1"],
        "runId": await listed("/api/admin/", "/api/admin/migration-runs", "id"),
        "planId": await listed("/api/admin/", "/api/admin/plans", "id"),
        "postId": await listed("/api/tenant/", "/api/tenant/blog/posts", "id"),
        "slug": await listed("/api/public/", "/api/public/blog/posts", "slug"),
    }


@pytest.fixture(name="settings")
def _settings(tmp_path: Path, postgres_url: str) -> Settings:
    """The settings of the demo, with a server of PostgreSQL."""
    return Settings(
        data_dir=tmp_path / "data",
        secret_key=SECRET_KEY,
        tenant_migrations=tmp_path / "migrations",
        tenant_servers={SERVER: {"url": postgres_url}},
        pg_tools=find_binaries(),
        password_min_length=8,
        token_minutes=60,
    )


@contextlib.asynccontextmanager
async def opened(settings: Settings) -> AsyncIterator[Services]:
    async with open_services(settings, works=False) as services:
        yield services


async def repair(settings: Settings) -> None:
    """Repair the tenant that the demo has broken, and add rows to the tables of its revisions."""
    async with open_services(settings) as services:
        for tenant in await every_tenant(services.copying):
            url = url_of(services, tenant)
            if tenant.name == BROKEN:
                raw_sql.run(url, "DROP TABLE invoices")
                await services.lifecycle.bring_to_head(tenant)
            raw_sql.run(url, ORDERS)


def url_of(services: Services, tenant: Tenant) -> str:
    return services.databases.server(tenant.server_name).url(tenant.database_name)


async def move_tenants(settings: Settings, to: str) -> dict[bytes, bytes]:
    """Move every tenant; return the old name of each new database."""
    async with opened(settings) as services:
        before = await every_tenant(services.copying)
        ended = await moving.move_all(
            system_context("test"), services.copying, before, server_name=to, progress=Progress()
        )
        names = {one.id: one.database_name for one in before}
        assert all(isinstance(one, moving.Moved) for one in ended), ended
        return {one.tenant.database_name.encode(): names[one.tenant.id].encode() for one in ended}


async def move_catalog(settings: Settings, to: str) -> Settings:
    threads = DaemonThreads(1, "migrate")
    migrator = Migrator(threads, TimeLimits(connect_seconds=5, deadline_seconds=60, lock_ms=1_000))
    work = CatalogMove(source=settings.catalog, target=to, migrator=migrator, synchronous="FULL")
    await catalog_moving.move_catalog(system_context("test"), work, count=lambda _size: None)
    threads.shutdown()
    values = settings.model_dump(exclude_unset=True)
    return Settings(**{**values, "catalog_url": to})


async def test_every_endpoint_answers_the_same_after_a_move_to_postgresql_and_back(
    settings: Settings, postgres_url: str, tmp_path: Path
):
    with contextlib.redirect_stderr(io.StringIO()):
        stage = await set_stage(settings, tenants_wanted=TENANTS)
    await repair(settings)
    asking = Asking(stage, until=utc_now().isoformat())
    async with opened(settings) as services:
        await asking.answers(services)  # the first use of a key is noted, in the background
    async with opened(settings) as services:
        before = await asking.answers(services)
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        connection.execute("CREATE DATABASE test_moved_catalog TEMPLATE template0")

    asking.places = await move_tenants(settings, SERVER)
    there = await move_catalog(settings, postgres_url.rpartition("/")[0] + "/test_moved_catalog")
    async with opened(there) as services:
        compare(await asking.answers(services), before)

    asking.places = {
        new: asking.places[old] for new, old in (await move_tenants(there, FILES)).items()
    }
    back = await move_catalog(there, f"sqlite:///{tmp_path / 'data' / 'catalog-2.db'}")
    async with opened(back) as services:
        compare(await asking.answers(services), before)


def compare(found: dict[str, tuple[int, bytes]], expected: dict[str, tuple[int, bytes]]) -> None:
    assert len(expected) > 100
    # A user of the first tenant is none of the others.
    assert all(status == 200 for path, (status, _) in expected.items() if "/users/" not in path)
    assert list(found) == list(expected)
    assert [path for path in found if found[path] != expected[path]] == []
