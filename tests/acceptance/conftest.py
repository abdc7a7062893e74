"""Commands to try, each with the settings of one test."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tenantry.settings import Settings
from testkit.programs import variables
from tests.acceptance.commands import Commands
from tests.logs import logs_kept


@pytest.fixture(name="elsewhere")
def _elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder to be in, where a command may set up its logs."""
    monkeypatch.chdir(tmp_path)
    with logs_kept():
        yield tmp_path


@pytest.fixture(name="tenantry")
def _tenantry(settings: Settings, elsewhere: Path) -> Commands:
    """Runs commands on either engine."""
    return Commands(settings, elsewhere, variables(settings))


@pytest.fixture(name="alone")
def _alone(elsewhere: Path) -> Commands:
    """Runs commands on SQLite, where the engine does not matter."""
    return Commands(Settings(data_dir=elsewhere / "data"), elsewhere, {})
