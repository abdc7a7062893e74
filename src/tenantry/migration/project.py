"""The Alembic project of a folder of revisions: ``alembic.ini`` or ``pyproject.toml``.

``env.py`` is never run; `tenantry.migration.environment` reports what it would change. A folder
without ``versions/`` is no Alembic directory, although Alembic reads it as a history without
revisions: then every database would be at its head.
"""

import configparser
import re
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from alembic.config import Config
from alembic.util import CommandError

from tenantry.kit.errors import Unavailable

# alembic.ini is next to the folder of the revisions, or a few levels above it.
PARENTS_MAX = 4
NAMES = ("alembic.ini", "pyproject.toml")
VERSIONS = "versions"
RECURSIVE = "recursive_version_locations"
CANDIDATES_MAX = 100
READ_BYTES_MAX = 65_536

_REVISION = re.compile(rb"^(?:down_)?revision\b[^\n=]*=", re.MULTILINE)


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
            try:
                project = _read(file, folder) if file.is_file() else None
            # A ValueError also says that the file is neither UTF-8 nor TOML.
            except (OSError, ValueError, CommandError, configparser.Error) as error:
                raise BadProject(f"{name} cannot be read: {type(error).__name__}.") from error
            if project is not None:
                return project
    return Project(None, [folder / VERSIONS], is_recursive=True, import_paths=[])


def find_folder(start: Path) -> Path:
    """Return the ``script_location`` of the project in *start*, or a few levels above it.

    Raises:
        BadProject: There is none, or its configuration cannot be read.
    """
    for parent in [start, *start.absolute().parents][: PARENTS_MAX + 1]:
        found = find_here(parent)
        if found is not None and found[0].is_dir():
            return found[0]
    raise BadProject(
        "There is no Alembic project here: no alembic.ini or pyproject.toml with a "
        "script_location that is a folder. Go to its folder, or use --migrations FOLDER."
    )


def find_here(folder: Path) -> tuple[Path, str] | None:
    """Return the folder of the revisions, and ``sqlalchemy.url``, of the project in *folder*.

    Raises:
        BadProject: Its configuration cannot be read.
    """
    for file in (folder / name for name in NAMES):
        try:
            if not file.is_file():
                continue
            found, _, config = _locations(file)
            url = config.file_config.get("alembic", "sqlalchemy.url", raw=True, fallback="")
        except (OSError, ValueError, CommandError, configparser.Error) as error:
            raise BadProject(f"{file.name} cannot be read: {type(error).__name__}.") from error
        if found:
            return next((one for one in found if one.is_dir()), found[0]), url
    return None


def find_mistake(folder: Path) -> str | None:
    """Return what is wrong with the layout of *folder*, and which folder to set; or None."""
    if (folder / VERSIONS).is_dir():
        return None
    mistake = f"{folder} contains no folder `{VERSIONS}`."
    if folder.name == VERSIONS or any(map(_is_revision, folder.glob("*.py"))):
        if folder.parent.joinpath(VERSIONS) != folder:
            return f"{mistake} Move its revisions into {folder / VERSIONS}."
        return f"{mistake} Use its parent folder: {folder.parent}."
    for versions in sorted(folder.glob(f"*/{VERSIONS}"))[:CANDIDATES_MAX]:
        if any(map(_is_revision, versions.rglob("*.py"))):
            return f"{mistake} Use the folder that contains it: {versions.parent}."
    return f"{mistake} Use the Alembic directory that contains it."


def _is_revision(file: Path) -> bool:
    try:
        with file.open("rb") as opened:
            return _REVISION.search(opened.read(READ_BYTES_MAX)) is not None
    except OSError:
        return False


def _locations(file: Path) -> tuple[list[Path], list[Path], Config]:
    """Return the candidates for the ``script_location`` in *file*, and its import paths."""
    is_ini = file.suffix == ".ini"
    config = Config(file if is_ini else None, toml_file=None if is_ini else file)
    location = config.get_alembic_option("script_location")
    if location is None:
        return [], [], config
    import_paths = [_absolute(file, path) for path in config.get_prepend_sys_paths_list() or ()]
    return _located(file, location, import_paths), import_paths, config


def _read(file: Path, folder: Path) -> Project | None:
    """Return the project of *file*, if *folder* is its ``script_location``."""
    candidates, import_paths, config = _locations(file)
    folders = [one for one in candidates if one.is_dir()]
    if not (folder.is_dir() and any(one.samefile(folder) for one in folders)):
        return None
    # Alembic 1.16.0 has no method for a boolean.
    recursive = config.get_main_option(RECURSIVE) or config.toml_alembic_config.get(RECURSIVE)
    locations = [
        found
        for one in config.get_version_locations_list() or ()
        for found in _located(file, one, import_paths)[:1]
    ]
    return Project(
        file=file,
        version_locations=locations or [folder / VERSIONS],
        is_recursive=recursive in (True, "true"),
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
