"""The files that a stream of revisions consists of, each with a hash of its content.

These are the revisions, the other files of the Alembic directory, and the modules that they import
and that are neither installed packages nor part of Python. Python keeps an imported module when
its file is replaced. So the hash of such a file has two parts: what was imported, and what is there
now.
"""

import ast
import sys
from collections.abc import Iterable, Iterator
from contextlib import suppress
from hashlib import sha256
from importlib.machinery import PathFinder
from pathlib import Path

from tenantry.kit.errors import Unavailable
from tenantry.migration.revisions import parse

# Reading so many takes about a second.
FILES_MAX = 10_000
_INSTALLED = {"site-packages", "dist-packages"}
_STANDARD = Path(sys.prefix, "lib"), Path(sys.base_prefix, "lib")

Signature = dict[Path, tuple[int, int, int]]
"""The time of the last change, the size and the inode of each file."""

# The hash of each module that this process has imported, when it was first seen here. It belongs
# to the process, as `sys.modules` does.
_imported: dict[str, str] = {}


class TooManyFiles(Unavailable):
    """The revisions import too many files to be compared with a plan."""

    def __init__(self) -> None:
        super().__init__(f"The revisions consist of more than {FILES_MAX:,} files.")


def find_files(folder: Path, revisions: Iterable[bytes]) -> dict[str, Path]:
    """Return the files of an Alembic directory and of the modules that *revisions* import, by name.

    Raises:
        TooManyFiles: There are more than `FILES_MAX`.
    """
    found = {str(one.relative_to(folder)): one for one in _files_in(folder, "*")}
    names = set[str]().union(*map(_imports_of, revisions))
    known = set[str]()
    while names := names - known:
        known |= names
        modules = {name: one for each in names for name, one in _module_files(each)}
        found |= modules
        if len(found) > FILES_MAX:
            raise TooManyFiles
        names = set[str]().union(*(_imports_of(one.read_bytes()) for one in modules.values()))
    return found


def hash_of(file: Path) -> str:
    """Return the hash of a file; if this process has imported another content of it, of both."""
    content = sha256(file.read_bytes()).hexdigest()
    path = str(file)
    if path not in _imported and not any(
        getattr(one, "__file__", None) == path for one in list(sys.modules.values())
    ):
        return content
    before = _imported.setdefault(path, content)
    return content if before == content else f"{before} imported, {content} on disk"


def signature_of(files: Iterable[Path]) -> Signature:
    """Return what changes if a file is replaced; without the files that are missing."""
    found: Signature = {}
    for one in files:
        with suppress(OSError):
            stat = one.stat()
            found[one] = stat.st_mtime_ns, stat.st_size, stat.st_ino
    return found


def _imports_of(source: bytes) -> set[str]:
    """Return the packages that a module imports, at any level; "" for a relative import."""
    found = set[str]()
    with suppress(SyntaxError, ValueError, RecursionError):  # then it cannot be imported
        for node in ast.walk(parse(source)):
            if isinstance(node, ast.Import):
                found |= {alias.name.partition(".")[0] for alias in node.names}
            elif isinstance(node, ast.ImportFrom):
                found.add("" if node.level else (node.module or "").partition(".")[0])
    return found


def _module_files(name: str) -> Iterator[tuple[str, Path]]:
    """Yield the files of a package or a module at the top level that belongs to the user."""
    if not name or name == "tenantry" or name in sys.stdlib_module_names:
        return
    spec = PathFinder.find_spec(name)
    if spec is None:
        return
    folders = [Path(one) for one in spec.submodule_search_locations or ()]
    for folder in folders:
        for file in _files_in(folder, "*.py") if _is_users(folder) else ():
            yield f"{name}/{file.relative_to(folder)}", file
    if not folders and spec.origin is not None and _is_users(Path(spec.origin)):
        yield Path(spec.origin).name, Path(spec.origin)


def _is_users(path: Path) -> bool:
    return _INSTALLED.isdisjoint(path.parts) and not any(
        path.is_relative_to(one) for one in _STANDARD
    )


def _files_in(folder: Path, pattern: str) -> Iterator[Path]:
    found = 0
    for path in folder.rglob(pattern):
        below = path.relative_to(folder).parts
        if path.is_file() and not any(one[0] == "." or one == "__pycache__" for one in below):
            found += 1
            if found > FILES_MAX:
                raise TooManyFiles
            yield path
