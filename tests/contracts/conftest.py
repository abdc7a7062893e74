"""Worlds shared by a module, one on each engine, because these tests send many requests."""

import secrets
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from tenantry.services import Services, open_services
from tenantry.settings import Settings
from testkit.postgres import database_url
from testkit.request_samples import FAR
from tests.catalogs import EmptyCatalog
from tests.conftest import HOST, SECRET_KEY, make_world
from tests.contracts.cast import Cast, assemble
from tests.contracts.ledger import Ledger
from tests.contracts.stage import Stage, set_up


@pytest.fixture(name="module_settings", scope="module", params=["sqlite", "postgresql"])
def _module_settings(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Settings:
    """The settings of a new service that allows many failed logins."""
    values: dict[str, object] = {
        "data_dir": tmp_path_factory.mktemp("data"),
        "secret_key": SECRET_KEY,
        "host": HOST,
        "password_threads": 2,
        "login_tries": 100,
        "job_concurrency": 0,
        "tenant_servers": {FAR: {"url": "sqlite:////nonexistent/far"}},  # for moves in the queue
        "login_account_hourly": 100_000,
        "login_address_minutely": 100_000,
    }
    if request.param == "postgresql":
        url: str = request.getfixturevalue("postgres_url")
        values["catalog_url"] = database_url(url, f"test_{secrets.token_hex(8)}")
        values["tenant_server_url"] = url
        values["tenant_connections"] = 16
    settings = Settings(**values)  # type: ignore[arg-type]
    catalog: EmptyCatalog = request.getfixturevalue(f"{request.param}_catalog")
    catalog.copy_to(settings)
    return settings


@pytest_asyncio.fixture(name="module_services", scope="module", loop_scope="module")
async def _module_services(module_settings: Settings) -> AsyncIterator[Services]:
    async with open_services(module_settings) as services:
        yield services


@pytest_asyncio.fixture(name="stage", scope="module", loop_scope="module")
async def _stage(module_services: Services) -> AsyncIterator[Stage]:
    ledger = Ledger(module_services)
    try:
        yield await set_up(await make_world(module_services), ledger)
    finally:
        ledger.close()


@pytest_asyncio.fixture(name="cast", scope="module", loop_scope="module")
async def _cast(stage: Stage) -> Cast:
    return await assemble(stage)
