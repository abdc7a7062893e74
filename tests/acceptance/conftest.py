"""Commands to try, each with the settings of one test."""

import secrets
from collections.abc import Iterator
from pathlib import Path

import pytest

from tenantry.settings import Settings
from testkit.postgres import create_database
from testkit.programs import variables
from tests.acceptance.commands import Commands
from tests.acceptance.fleets import Fleet
from tests.catalogs import EmptyCatalog, FileCatalog
from tests.integration.projects import make_project
from tests.logs import logs_kept


@pytest.fixture(name="elsewhere")
def _elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder to be in, where a command may set up its logs."""
    monkeypatch.chdir(tmp_path)
    with logs_kept():
        yield tmp_path


@pytest.fixture(name="tenantry")
def _tenantry(
    settings: Settings, engine: str, elsewhere: Path, request: pytest.FixtureRequest
) -> Commands:
    """Runs commands on either engine."""
    catalog: EmptyCatalog = request.getfixturevalue(f"{engine}_catalog")
    return Commands(settings, elsewhere, variables(settings), catalog)


@pytest.fixture(name="alone")
def _alone(elsewhere: Path, sqlite_catalog: FileCatalog) -> Commands:
    """Runs commands on SQLite, where the engine does not matter."""
    return Commands(Settings(data_dir=elsewhere / "data"), elsewhere, {}, sqlite_catalog)


@pytest.fixture(name="fleet")
def _fleet(
    engine: str,
    elsewhere: Path,
    tenantry: Commands,
    request: pytest.FixtureRequest,
    monkeypatch: pytest.MonkeyPatch,
) -> Fleet:
    project = make_project(elsewhere / "project")
    monkeypatch.chdir(project.folder)
    server = None if engine == "sqlite" else request.getfixturevalue("postgres_url")

    def make_url(name: str) -> str:
        if server is not None:
            return create_database(server, f"test_{secrets.token_hex(4)}_{name}")
        (project.folder / f"{name}.db").touch()
        return f"sqlite:///{name}.db"

    return Fleet(project, Commands(tenantry.settings, elsewhere, {}), make_url)
