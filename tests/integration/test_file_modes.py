"""Files that Tenantry creates are private to its user, whatever the umask is."""

import os
import shutil
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from tenantry.cli.demo import folder as demo_folder
from tenantry.cli.doctor.exposure import check_modes
from tenantry.cli.doctor.findings import State
from tenantry.cli.serving.server import locked
from tenantry.services import open_services
from tenantry.settings import Settings
from tests.conftest import provision
from tests.integration.engines import on_sqlite


@pytest.fixture(name="umask", params=[0o000, 0o022], ids=["000", "022"])
def _umask(request: pytest.FixtureRequest) -> Iterator[int]:
    before = os.umask(request.param)
    yield request.param
    os.umask(before)


@pytest.fixture(name="nested")
def _nested(settings: Settings, tmp_path: Path) -> Settings:
    """Settings with a data folder below missing parents."""
    return settings.model_copy(update={"data_dir": tmp_path / "srv" / "one" / "data"})


def modes(top: Path) -> dict[str, set[int]]:
    """Return the modes of the folders and of the files in *top*, itself included."""
    found: dict[str, set[int]] = {"folders": set(), "files": set()}
    for path in (top, *top.rglob("*")):
        mode = path.stat().st_mode
        found["folders" if stat.S_ISDIR(mode) else "files"].add(stat.S_IMODE(mode))
    return found


PRIVATE = {"folders": {0o700}, "files": {0o600}}


@on_sqlite
@pytest.mark.usefixtures("umask")
class TestUmask:
    async def test_opens_nothing_of_a_running_service(self, nested: Settings):
        """The catalog, tenants, their logs, the secret key, the lock."""
        top = nested.data_dir.parents[1]
        with locked(nested.data_dir):
            async with open_services(nested) as services:
                made = await provision(services, "acme")
                await services.databases.open(made.tenant, writes=True)

                assert modes(top) == PRIVATE
                names = {path.name for path in top.rglob("*")}
                assert {"secret-key", "catalog.db", "catalog.db-wal", "catalog.db-shm"} <= names
                assert f"{made.tenant.database_name}.db-wal" in names

    async def test_opens_nothing_of_an_adopted_copy(self, nested: Settings, tmp_path: Path):
        async with open_services(nested) as services:
            made = await provision(services, "acme")
            source = services.databases.server("default")
            path = Path(source.url(made.tenant.database_name).removeprefix("sqlite:///"))
            foreign = tmp_path / "foreign.db"
            shutil.copyfile(path, foreign)
            await source.adopt_database(str(foreign), "adopted_1234")

        assert modes(nested.data_dir) == PRIVATE

    async def test_opens_nothing_of_the_demo(self, nested: Settings):
        with demo_folder.fresh(nested.data_dir):
            assert modes(nested.data_dir.parents[1]) == PRIVATE


@on_sqlite
class TestDoctor:
    async def test_finds_nothing_that_is_open(self, settings: Settings):
        async with open_services(settings) as services:
            await provision(services, "acme")

        assert [one.state for one in check_modes(settings)] == [State.OK]

    @pytest.mark.parametrize("name", ["", "catalog.db", "secret-key", "tenants"])
    async def test_names_what_is_open(self, settings: Settings, name: str):
        async with open_services(settings) as services:
            await provision(services, "acme")
        path = settings.data_dir / name
        path.chmod(0o755 if path.is_dir() else 0o640)

        [found] = check_modes(settings)

        assert found.state is State.WARNING
        assert str(path) in found.detail
        assert found.advice == f"Run: chmod -R go= {path}"

    async def test_names_the_folder_of_a_tenant_that_is_open(self, settings: Settings):
        async with open_services(settings) as services:
            await provision(services, "acme")
        folder = settings.data_dir / "tenants"
        next(folder.rglob("*.db")).chmod(0o644)

        [found] = check_modes(settings)

        assert found.advice == f"Run: chmod -R go= {folder}"

    def test_says_nothing_before_the_first_start(self, settings: Settings):
        assert check_modes(settings) == []
