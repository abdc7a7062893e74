"""The Alembic project of a folder of revisions: ``alembic.ini`` or ``pyproject.toml``.

``env.py`` is never run; `tenantry.migration.environment` reports what it would change.
"""

import configparser
import sys
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from alembic.config import Config
from alembic.util import CommandError

from tenantry.kit.errors import Unavailable

# alembic.ini is next to the folder of the revisions, or a few levels above it.
PARENTS_MAX = 4
NAMES = ("alembic.ini", "pyproject.toml")


class BadProject(Unavailable):
    """The configuration of the Alembic project cannot be read."""


@dataclass(frozen=True)
class Project:
    """The configuration of a folder of revisions.

    Attributes:
        file: The configuration file, or None.
        version_locations: The folders that contain revisions.
        is_recursive: Whether their subfolders contain revisions, too.
        import_paths: The first folders from which revisions import.
    """

    file: Path | None
    version_locations: Sequence[Path]
    is_recursive: bool
    import_paths: Sequence[Path]

    def add_import_paths(self) -> None:
        """Add the import paths to `sys.path`, as Alembic's command does."""
        missing = [str(path) for path in self.import_paths if str(path) not in sys.path]
        sys.path[:0] = missing


def find_project(folder: Path) -> Project:
    """Return the project with *folder* as its ``script_location``.

    Without a project, every revision below ``versions`` is included.

    Raises:
        BadProject: Its configuration cannot be read.
    """
    for parent in [folder, *folder.absolute().parents][: PARENTS_MAX + 1]:
        for name in NAMES:
            file = parent / name
            if file.is_file() and (project := _read(file, folder)):
                return project
    return Project(None, [folder / "versions"], is_recursive=True, import_paths=[])


def _read(file: Path, folder: Path) -> Project | None:
    """Return the project of *file*, if *folder* is its ``script_location``."""
    try:
        return _read_config(file, folder)
    except (
        *(OSError, UnicodeError, CommandError),
        *(configparser.Error, tomllib.TOMLDecodeError, ValueError),
    ) as error:
        raise BadProject(f"{file.name} cannot be read: {type(error).__name__}.") from error


def _read_config(file: Path, folder: Path) -> Project | None:
    is_ini = file.suffix == ".ini"
    config = Config(file if is_ini else None, toml_file=None if is_ini else file)
    location = config.get_alembic_option("script_location")
    if location is None:
        return None
    import_paths = [_absolute(file, path) for path in config.get_prepend_sys_paths_list() or ()]
    if not any(
        path.is_dir() and path.samefile(folder)
        for path in _located(file, location, import_paths)
        if folder.is_dir()
    ):
        return None
    locations = [
        found
        for one in config.get_version_locations_list() or ()
        for found in _located(file, one, import_paths)[:1]
    ]
    return Project(
        file=file,
        version_locations=locations or [folder / "versions"],
        is_recursive=bool(config.get_alembic_boolean_option("recursive_version_locations")),
        import_paths=import_paths,
    )


def _located(file: Path, location: str, import_paths: Sequence[Path]) -> list[Path]:
    """Return the candidates for *location*: a path, or ``package:folder``."""
    package, colon, below = location.partition(":")
    if not colon or Path(location).is_absolute():
        return [_absolute(file, location)]
    parts = package.split(".")
    bases = [*import_paths, file.parent]
    found = [base.joinpath(*parts, below) for base in bases]
    return [path for path in found if path.is_dir()] or found[-1:]


def _absolute(file: Path, path: str) -> Path:
    return (file.parent.absolute() / path).resolve()
