"""A command that only reads imports the catalog, and nothing that only other commands need."""

import subprocess
import sys
from pathlib import Path

import pytest

from tenantry.catalog import opening, stream
from tenantry.cli.fleet_place import FleetPlace
from tenantry.migration.project import find_folder
from tenantry.settings import Settings
from tests.integration.projects import make_project

HEAVY = {
    "alembic",
    "mako",
    "pygments",
    "psycopg",
    "starlette",
    "uvicorn",
    "tenantry.api",
    "tenantry.backup",
    "tenantry.services",
}
"""What migrations, archives and the server need; each takes a tenth of a second or more."""

READING = (
    "admin list",
    "audit export",
    "audit list",
    "audit list --inside acme",
    "backup jobs",
    "drift list",
    "key list acme",
    "migrate history",
    "migrate plans",
    "signing-key list",
    "tenant list",
    "tenant list --deleted",
    "tenant show acme",
    "token list acme",
    "user list acme",
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with a catalog, and the tenant `acme`."""
    folder = tmp_path_factory.mktemp("imports")
    _imported(folder, "tenant create acme --owner-email owner@acme.example")
    return folder


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of an Alembic project, with a database that was migrated."""
    made = make_project(tmp_path_factory.mktemp("imports") / "project").folder
    (made / "one.db").touch()
    _imported(made, "fleet migrate --glob one.db", has_settings=False)
    return made


@pytest.mark.parametrize(
    "command",
    [READING[0], *(pytest.param(command, marks=pytest.mark.slow) for command in READING[1:])],
)
def test_a_command_that_only_reads_imports_nothing_heavy(folder: Path, command: str) -> None:
    assert _imported(folder, command) & HEAVY == set()


def test_the_status_imports_alembic_for_the_revisions_and_nothing_else(folder: Path) -> None:
    assert _imported(folder, "migrate status") & HEAVY <= {"alembic", "mako", "pygments"}


@pytest.mark.parametrize(
    "command",
    [
        "fleet migrate --glob one.db --migrations migrations",
        pytest.param("fleet plan --glob one.db", marks=pytest.mark.slow),
        pytest.param("fleet status", marks=pytest.mark.slow),
        pytest.param("fleet history", marks=pytest.mark.slow),
    ],
)
def test_a_command_of_a_fleet_imports_alembic_and_nothing_else(project: Path, command: str) -> None:
    """On SQLite, and without settings: the first database has to be reached in 0.6 s."""
    # `pygments` is asked for, and refused.
    unwanted = HEAVY - {"alembic", "mako", "pygments"}
    unwanted |= {"pygments.lexers", "pydantic", "pydantic_settings", "mcp"}
    unwanted |= {"prometheus_client", "rich.progress"}

    assert _imported(project, command, has_settings=False) & unwanted == set()


def test_the_defaults_of_a_fleet_are_those_of_the_settings(project: Path) -> None:
    """Without a setting, `tenantry fleet` does not import them."""
    settings = Settings(_env_file=None)  # type: ignore[call-arg] # of pydantic-settings
    place = FleetPlace(state="tenantry-fleet.db", migrations=find_folder(project))

    assert place.options(None) == place.options(settings)
    assert settings.log_format == "auto"


def test_the_head_of_the_catalog_is_known_without_alembic() -> None:
    assert stream.STREAM.head == opening.HEAD


def test_the_description_of_the_api_is_not_made_at_the_start() -> None:
    program = "import tenantry.app, tenantry.api.table as it; print(it.description.cache_info())"

    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )

    assert "currsize=0" in done.stdout


def _imported(folder: Path, command: str, *, has_settings: bool = True) -> set[str]:
    """Run a command in a process, and return the names of the modules that it has imported."""
    done = subprocess.run(
        [sys.executable, "-X", "importtime", "-m", "tenantry", *command.split()],
        cwd=folder,
        env={"TENANTRY_DATA_DIR": str(folder)} if has_settings else {},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    lines = done.stderr.splitlines()
    names = {line.rpartition("|")[2].strip() for line in lines if line.startswith("import time:")}
    said = [line for line in lines if not line.startswith("import time:")]
    assert done.returncode == 0, said
    assert "tenantry.cli.session" in names
    return names


def test_ctrl_c_during_the_imports_ends_the_command_without_a_traceback(tmp_path: Path) -> None:
    (tmp_path / "typer.py").write_text("raise KeyboardInterrupt\n")

    done = subprocess.run(
        [sys.executable, "-m", "tenantry", "tenant", "list"],
        cwd=tmp_path,
        capture_output=True,
        check=False,
        timeout=60,
    )

    assert (done.returncode, done.stdout, done.stderr) == (130, b"", b"")
