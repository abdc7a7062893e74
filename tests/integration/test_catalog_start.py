"""A process that starts migrates the catalog, also when several start at once."""

import asyncio
import stat

import pytest

from tenantry.access.signing import WrongSecretKey
from tenantry.catalog.stream import STREAM
from tenantry.catalog.upgrading import CatalogUnusable
from tenantry.kit.errors import TenantryError
from tenantry.services import open_services
from tenantry.settings import Settings
from testkit import raw_sql
from tests.conftest import provision
from tests.integration.engines import on_postgresql, on_sqlite
from tests.integration.programs import running


async def started(settings: Settings) -> None:
    async with open_services(settings) as services:
        assert services.catalog.cache.catalog_id


class TestStart:
    @pytest.mark.slow
    async def test_of_several_at_once_on_an_empty_catalog(self, settings: Settings):
        await asyncio.gather(*(started(settings) for _ in range(4)))

        assert raw_sql.rows(settings.catalog, "SELECT version_num FROM tenantry_version") == [
            (STREAM.head,)
        ]
        assert len(raw_sql.rows(settings.catalog, "SELECT id FROM catalog")) == 1
        assert len(raw_sql.rows(settings.catalog, "SELECT id FROM signing_key")) == 1

    @pytest.mark.slow
    @on_postgresql
    async def test_of_several_processes_at_once_on_an_empty_catalog(self, settings: Settings):
        async def start() -> tuple[str, int]:
            async with running("start", settings, waits=True) as process:
                await gate.wait()
                await process.begin()
                said = await process.line()
                status, _ = await process.ended()
                return said, status

        gate = asyncio.Barrier(3)

        assert await asyncio.gather(*(start() for _ in range(3))) == [("started", 0)] * 3
        assert len(raw_sql.rows(settings.catalog, "SELECT id FROM catalog")) == 1
        assert len(raw_sql.rows(settings.catalog, "SELECT id FROM signing_key")) == 1

    async def test_again_changes_nothing(self, settings: Settings):
        await started(settings)
        before = raw_sql.dump(settings.catalog)
        await started(settings)
        after = raw_sql.dump(settings.catalog)

        assert after.schema == before.schema
        assert {n: after.data[n] for n in ("catalog", "signing_key", "tenantry_version")} == {
            n: before.data[n] for n in ("catalog", "signing_key", "tenantry_version")
        }

    async def test_on_a_catalog_of_newer_code_is_good(self, settings: Settings):
        """Rolling upgrades: the old processes go on beside the new ones."""
        await started(settings)
        raw_sql.run(
            settings.catalog,
            "UPDATE tenantry_version SET version_num = '9999'",
            "ALTER TABLE tenant ADD COLUMN later integer",
        )

        async with open_services(settings) as services:
            assert (await provision(services, "acme")).tenant.name == "acme"

        assert raw_sql.rows(settings.catalog, "SELECT version_num FROM tenantry_version") == [
            ("9999",)
        ]

    @on_postgresql
    async def test_with_another_secret_key_is_refused_readably(self, settings: Settings):
        await started(settings)
        other = Settings(
            **{
                **settings.model_dump(),
                "secret_key": "another secret key that is long enough",
            }
        )

        with pytest.raises(WrongSecretKey) as caught:
            await started(other)

        assert "TENANTRY_SECRET_KEY" in caught.value.message
        assert "another" in caught.value.message
        assert "long enough" not in caught.value.message

    async def test_on_what_is_no_catalog_is_refused_readably(self, settings: Settings, engine: str):
        if engine == "sqlite":
            settings.data_dir.mkdir()
            (settings.data_dir / "catalog.db").write_bytes(b"no database at all" * 500)
        else:
            raw_sql.run(settings.catalog, "CREATE TABLE tenant (id integer)")

        with pytest.raises(CatalogUnusable) as caught:
            await started(settings)

        assert "The catalog cannot be used" in caught.value.message

    @on_postgresql
    async def test_without_a_server_is_refused_readably_and_without_the_password(
        self, settings: Settings
    ):
        values = settings.model_dump()
        values["catalog_url"] = "postgresql://somebody:hunter2@127.0.0.1:1/catalog"

        with pytest.raises(TenantryError) as caught:
            await started(Settings(**values))

        assert "cannot be reached" in caught.value.message
        assert "hunter2" not in caught.value.message

    @on_sqlite
    async def test_hides_its_files_from_other_people(self, settings: Settings):
        await started(settings)

        for name in ("secret-key", "catalog.db"):
            mode = (settings.data_dir / name).stat().st_mode
            assert stat.S_IMODE(mode) == 0o600
        assert stat.S_IMODE(settings.data_dir.stat().st_mode) == 0o700
