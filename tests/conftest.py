"""A world: the services over SQLite or PostgreSQL, with two tenants and their people."""

import contextlib
import gc
import os
import secrets
import signal
from collections.abc import AsyncIterator, Callable, Generator, Iterator
from dataclasses import dataclass, field, replace
from datetime import timedelta
from pathlib import Path
from types import FrameType
from typing import Any

import httpx
import hypothesis
import psycopg
import pytest
from psycopg.sql import SQL, Identifier
from pydantic import SecretStr
from starlette.types import ASGIApp

from tenantry.access import admins
from tenantry.access.principal import ALL_SCOPES, Person, Role
from tenantry.app import app_over
from tenantry.catalog.admins import Admin
from tenantry.fleet.lifecycle import Provisioned
from tenantry.kit import log
from tenantry.kit.clock import utc_now
from tenantry.kit.context import system_context
from tenantry.services import Services, open_services
from tenantry.settings import SERVER_DEFAULT, Settings
from tenantry.tenant import tokens
from tenantry.tenant.blog import posts
from tenantry.tenant.blog.writing import Author
from tenantry.tenant.users import NewUser
from testkit.faults import Faults
from testkit.postgres import create_database, database_url, find_binaries, memory, postgres
from testkit.request_samples import PASSWORD
from tests import catalogs, order, quick
from tests.catalogs import EmptyCatalog, FileCatalog, ServerCatalog
from tests.originals import Content, FileOriginal, Original, ServerOriginal
from tests.pgbouncer import MODE_VARIABLE, PgBouncer, pgbouncer

HOST = "tenantry.test"
SECRET_KEY = "a secret key that is used in tests alone"

HEAD, BEFORE_HEAD = "0003", "0002"
HEAD_NAME = "0003_add_roles_links_and_schedules"
# Reset a tenant's database to the revision before the newest one of Tenantry.
UNDO_HEAD = (
    "ALTER TABLE tenantry_user DROP COLUMN role",
    "DROP TABLE tenantry_link",
    "DROP TABLE tenantry_post_schedule",
    "DROP TABLE tenantry_preview_link",
    "ALTER TABLE tenantry_blog_state DROP COLUMN due_at",
    f"UPDATE tenantry_version SET version_num = '{BEFORE_HEAD}'",
)
# And to the first one.
UNDO_ALL = (
    *UNDO_HEAD,
    "DROP TABLE tenantry_draft_text",
    "DROP TABLE tenantry_post_version",
    "DROP TABLE tenantry_deleted_post",
    "DROP INDEX ix_tenantry_post_draft_slug",
    *(
        f"ALTER TABLE tenantry_post DROP COLUMN {column}"
        for column in ("version", "saved_at", "draft_slug")
    ),
    "UPDATE tenantry_version SET version_num = '0001'",
)


# Two busy cores are no reason for a test of inputs to fail.
hypothesis.settings.register_profile("tenantry", deadline=None)
hypothesis.settings.load_profile("tenantry")

# Structlog's own default draws every traceback, with all variables: seconds for each failure.
log.configure(log_format="json", level="error")


def pytest_addoption(parser: pytest.Parser) -> None:
    """Let the order of the tests be given."""
    order.add_option(parser)


def pytest_report_header(config: pytest.Config) -> str:
    """Say at the beginning which order it is: a session may be cut off."""
    return order.line(config.option.order)


@pytest.hookimpl(tryfirst=True)  # pytest then puts those together that share a fixture of a file
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Run the tests in any order, so that none needs another."""
    order.put_in_order(config, items)
    for item in items:
        if quick.is_slow(item):
            item.add_marker(pytest.mark.slow)


def pytest_configure(config: pytest.Config) -> None:
    """Keep the files of tests in memory: most of them are databases that are flushed often."""
    order.choose_seed(config)
    config.pluginmanager.register(order.History(config.option.order, config.option.markexpr))
    # Beside the default, asyncio sets its own for each fixture and test, for which Python formats
    # all that a fixture has returned: a quarter of the time of a `world`.
    signal.signal(signal.SIGINT, _interrupt)
    folder = memory()
    if config.option.basetemp is None and folder is not None:
        os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", str(folder))  # noqa: TID251


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:
    """Give the workers of pytest-xdist the order: they must have the same."""
    node.workerinput[order.OPTION] = node.config.option.order


def _interrupt(number: int, frame: FrameType | None) -> None:
    signal.default_int_handler(number, frame)


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Spare the garbage collector the thousands of tests, which stay till the end."""
    gc.disable()
    result = yield
    gc.freeze()
    gc.enable()
    return result


@dataclass(frozen=True)
class World:
    """Two tenants, acme and globex, each with an owner and a published post, and an admin.

    Whatever belongs to a tenant has the tenant's canary in its text.
    """

    services: Services
    app: ASGIApp
    acme: Provisioned
    globex: Provisioned
    admin_account: Admin
    canaries: dict[str, str] = field(default_factory=dict)

    def client(self, **headers: str) -> httpx.AsyncClient:
        """Return a client that sends *headers* (``x_api_key`` for ``x-api-key``)."""
        return client_of(self.app, **headers)

    def stranger(self) -> httpx.AsyncClient:
        return self.client()

    async def admin(self) -> httpx.AsyncClient:
        return self.client(authorization=f"Bearer {await self.admin_token()}")

    async def owner(self, of: Provisioned, *, key: str | None = None) -> httpx.AsyncClient:
        """Return a client of a tenant's owner, with the tenant's key or another's."""
        token = await self.token(of)
        return self.client(authorization=f"Bearer {token}", x_api_key=key or of.key.secret)

    def public(self, of: Provisioned) -> httpx.AsyncClient:
        return self.client(x_api_key=of.key.secret)

    async def admin_token(self) -> str:
        account = self.admin_account
        person = Person(account.id, account.email, Role.ADMIN, account.generation)
        return (await self.services.tokens.issue(person, now=utc_now())).token

    async def token(self, of: Provisioned, *, generation: int = 0) -> str:
        person = Person(
            of.owner.id, of.owner.email, Role.TENANT_USER, generation, tenant_id=of.tenant.id
        )
        return (await self.services.tokens.issue(person, now=utc_now())).token

    async def mcp_token(
        self, of: Provisioned, *scopes: str, bound: bool = True, minutes: float = 5
    ) -> str:
        """Return an McpToken of a tenant: with all scopes unless some are named."""
        issued = await tokens.issue(
            system_context("test"),
            self.services.catalog,
            await self.services.databases.open(of.tenant, writes=True),
            of.tenant.id,
            name="assistant",
            user_id=of.owner.id if bound else None,
            scopes=frozenset(scopes) or ALL_SCOPES,
            expires_at=utc_now() + timedelta(minutes=minutes),
        )
        return issued.secret

    async def provision(self, name: str, **owner: str) -> Provisioned:
        return await provision(self.services, name, **owner)

    def with_services(self, **changed: object) -> "World":
        """Return this world with other services in the place of some."""
        services = replace(self.services, **changed)  # type: ignore[arg-type]
        return replace(self, services=services, app=app_over(services))


def client_of(app: ASGIApp, **headers: str) -> httpx.AsyncClient:
    return httpx.AsyncClient(
        transport=httpx.ASGITransport(app=app),
        base_url=f"http://{HOST}",
        headers={name.replace("_", "-"): value for name, value in headers.items()},
    )


async def provision(services: Services, name: str, **owner: str) -> Provisioned:
    details = {
        "email": f"owner@{name}.example.com",
        "full_name": "Owner",
        "password": PASSWORD,
        **owner,
    }
    return await services.lifecycle.provision(
        system_context("test"), name=name, owner=NewUser(**details), module_keys=None
    )


@pytest.fixture(name="faults")
def _faults() -> Iterator[Faults]:
    faults = Faults()
    yield faults
    faults.restore()


@pytest.fixture(name="server_url", scope="session")
def _server_url() -> Iterator[str]:
    with postgres() as url:
        yield url


@pytest.fixture(name="postgres_url", scope="module")
def _postgres_url(server_url: str) -> Iterator[str]:
    """A PostgreSQL server. What the tests of a module have left there ends with the module.

    A database takes 8 MB, and there is a thousand of them in the end: in memory.
    """
    before = _databases(server_url)
    yield server_url
    with psycopg.connect(server_url, autocommit=True) as connection:
        for name in _databases(server_url) - before:
            with contextlib.suppress(psycopg.errors.ObjectInUse):
                connection.execute(SQL("DROP DATABASE {}").format(Identifier(name)))


def _databases(server_url: str) -> set[str]:
    """Return the databases that are ours by their names; a server may hold others, too."""
    with psycopg.connect(server_url) as connection:
        found = connection.execute("SELECT datname FROM pg_database").fetchall()
    return {name for (name,) in found if name.startswith(("tenantry_", "test_"))}


@pytest.fixture(name="engine", params=["sqlite", "postgresql"])
def _engine(request: pytest.FixtureRequest) -> str:
    """Each test that touches a database runs on both engines."""
    return str(request.param)


@pytest.fixture(name="new_database")
def _new_database(engine: str, tmp_path: Path, request: pytest.FixtureRequest) -> Callable[[], str]:
    """Makes empty databases, and returns their URLs."""

    def make() -> str:
        name = f"test_{secrets.token_hex(8)}"
        if engine == "sqlite":
            (tmp_path / f"{name}.db").touch()
            return f"sqlite:///{tmp_path / name}.db"
        return create_database(request.getfixturevalue("postgres_url"), name)

    return make


@pytest.fixture(name="pooler", scope="session")
def _pooler(server_url: str) -> Iterator[PgBouncer | None]:
    """The pooler that requests go through, if the environment says so."""
    mode = os.environ.get(MODE_VARIABLE)  # noqa: TID251 - it is for the tests alone
    if not mode:
        yield None
        return
    with pgbouncer(server_url, mode) as pooler:
        yield pooler


@pytest.fixture(name="settings")
def _settings(
    engine: str, new_database: Callable[[], str], tmp_path: Path, request: pytest.FixtureRequest
) -> Settings:
    """The settings of a service that has never run; see `catalogs` for its catalog."""
    folder = tmp_path / "data"
    is_copied_later = "copied" in request.fixturenames
    is_copied = not is_copied_later and catalogs.begins_with_one(request.node.nodeid)
    if engine == "sqlite":
        settings = Settings(data_dir=folder, host=HOST)
    else:
        url: str = request.getfixturevalue("postgres_url")
        is_copy = is_copied or is_copied_later
        catalog = database_url(url, f"test_{secrets.token_hex(8)}") if is_copy else new_database()
        settings = _settings_on(url, folder, catalog)
        pooler: PgBouncer | None = request.getfixturevalue("pooler")
        settings = settings if pooler is None else _through(pooler, settings)
    if is_copied:
        _copy_catalog(settings, engine, request)
    return settings


def _copy_catalog(settings: Settings, engine: str, request: pytest.FixtureRequest) -> None:
    catalog: EmptyCatalog = request.getfixturevalue(f"{engine}_catalog")
    catalog.copy_to(settings)


def _settings_on(server_url: str, folder: Path, catalog_url: str) -> Settings:
    return Settings(
        data_dir=folder,
        catalog_url=SecretStr(catalog_url),
        tenant_server_url=SecretStr(server_url),
        secret_key=SecretStr(SECRET_KEY),
        host=HOST,
        tenant_connections=16,
        pg_tools=find_binaries(),
    )


def _through(pooler: PgBouncer, settings: Settings) -> Settings:
    direct = settings.tenant_server_url.get_secret_value()
    values = settings.model_dump(exclude_unset=True, exclude={"tenant_server_url"})
    values["tenant_servers"] = {
        SERVER_DEFAULT: {"url": pooler.through(direct), "admin_url": direct}
    }
    values["catalog_url"] = pooler.through(settings.catalog)
    return Settings(**values)


@pytest.fixture(name="sqlite_original", scope="session")
def _sqlite_original(tmp_path_factory: pytest.TempPathFactory) -> FileOriginal:
    folder = tmp_path_factory.mktemp("original")
    return FileOriginal(Settings(data_dir=folder, host=HOST), make_content)


@pytest.fixture(name="postgresql_original", scope="session")
def _postgresql_original(
    server_url: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[ServerOriginal]:
    catalog_url = create_database(server_url, f"test_{secrets.token_hex(8)}")
    folder = tmp_path_factory.mktemp("original")
    original = ServerOriginal(_settings_on(server_url, folder, catalog_url), make_content)
    yield original
    original.drop()


@pytest.fixture(name="sqlite_catalog", scope="session")
def _sqlite_catalog(tmp_path_factory: pytest.TempPathFactory) -> FileCatalog:
    return FileCatalog(tmp_path_factory.mktemp("catalog"))


@pytest.fixture(name="postgresql_catalog", scope="session")
def _postgresql_catalog(server_url: str) -> Iterator[ServerCatalog]:
    catalog = ServerCatalog(server_url)
    yield catalog
    catalog.drop()


@pytest.fixture(name="copied")
def _copied(settings: Settings, engine: str, request: pytest.FixtureRequest) -> Content | None:
    """The content of a copied world, if the test has a `world` or `content` that can be a copy.

    Without it, the catalog is a copy of an empty one.
    """
    if not {"world", "content"}.isdisjoint(request.fixturenames):
        original: Original = request.getfixturevalue(f"{engine}_original")
        if (content := original.copy_to(settings)) is not None:
            return content
    _copy_catalog(settings, engine, request)
    return None


@pytest.fixture(name="services")
async def _services(settings: Settings, copied: Content | None) -> AsyncIterator[Services]:
    _ = copied  # first
    async with open_services(settings) as services:
        yield services


@pytest.fixture(name="world")
async def _world(services: Services, copied: Content | None) -> World:
    return world_of(services, copied or await make_content(services))


async def make_world(services: Services) -> World:
    return world_of(services, await make_content(services))


def world_of(services: Services, content: Content) -> World:
    return World(
        services=services,
        app=app_over(services),
        acme=content.acme,
        globex=content.globex,
        admin_account=content.admin_account,
        canaries={name: f"{name}-canary" for name in ("acme", "globex")},
    )


async def make_content(services: Services) -> Content:
    admin = await admins.create(
        system_context("test"),
        services.catalog,
        services.passwords,
        email="ada@example.com",
        password=PASSWORD,
    )
    content = Content(
        acme=await provision(services, "acme", full_name="Owner acme-canary"),
        globex=await provision(services, "globex", full_name="Owner globex-canary"),
        admin_account=admin,
    )
    for of in (content.acme, content.globex):
        name = of.tenant.name
        await posts.write_new(
            await services.databases.open(of.tenant, writes=True),
            title=f"Hello from {name}",
            content=f"The content is {name}-canary.",
            tags=["news", f"{name}-canary"],
            author=Author(of.owner.id, of.owner.full_name),
            now=utc_now(),
        )
    return content
