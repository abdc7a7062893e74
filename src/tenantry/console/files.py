"""The files of the console, read once, in both forms in which they are sent.

The pages refer to the files below a folder that is named after the content of all of them. So a
browser keeps them until a release changes them. A browser opens six connections to a server:
revalidating each file would take longer than everything else.

The manual is what ``make site`` has built. A file of it is read when it is first requested.
"""

import gzip
import hashlib
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from importlib.resources.abc import Traversable

FOLDER = "static"
PREFIX = "/console/"
# Where a page is found beside its file's own path.
START = "/"
PAGES = {
    START: "start.html",
    "/console": "index.html",
    "/console/": "index.html",
    "/docs": "docs.html",
    "/link": "link.html",
}
FLEET = f"{PREFIX}fleet.html"
"""The page of the console over a fleet of databases: `index.html` with an attribute."""
MANUAL = "/docs/manual"
"""Where the manual is; 404 if it has not been built."""
CONSOLES = (*(path for path, name in PAGES.items() if name == "index.html"), f"{PREFIX}index.html")
VERSION_CHARS = 16
VERSIONED = re.compile(rf"{PREFIX}([0-9a-f]{{{VERSION_CHARS}}})/([^/]+)")
MEDIA_TYPES = {
    ".css": "text/css; charset=utf-8",
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".png": "image/png",
    ".svg": "image/svg+xml",
    ".webp": "image/webp",
}
OTHER_MEDIA_TYPE = "text/plain; charset=utf-8"  # of what the manual offers to download


@dataclass(frozen=True, slots=True)
class Form:
    """A file as it is sent: as it is, or compressed.

    Attributes:
        etag: Of these bytes, so that the two forms have different ones.
        encoding: The value of Content-Encoding, if there is one.
    """

    body: bytes
    etag: bytes
    encoding: bytes | None = None


@dataclass(frozen=True, slots=True)
class File:
    """A file of the console."""

    media_type: bytes
    plain: Form
    zipped: Form


@cache
def read_files() -> Mapping[str, File]:
    """Return the files of the console, by the path of the request."""
    found = {one.name: _read(one.name, one.read_bytes()) for one in _sorted_files()}
    pages = {path: found[name] for path, name in PAGES.items()}
    index = files(__package__).joinpath(FOLDER, "index.html").read_bytes()
    pages[FLEET] = _read(FLEET, index.replace(b"<html", b"<html data-fleet", 1))
    return {**{PREFIX + name: file for name, file in found.items()}, **pages}


@cache
def manual_paths() -> Mapping[str, Traversable]:
    """Return the files of the manual, by the path of the request: none if it has not been built."""
    folder = files(__package__).joinpath("manual")
    found = dict(_walk(folder, f"{MANUAL}/")) if folder.is_dir() else {}
    if not found:
        return {}
    index = found[f"{MANUAL}/index.html"]
    return {**found, MANUAL: index, f"{MANUAL}/": index}


@cache
def read_manual(path: str) -> File:
    """Return the file of the manual at *path*, which is one of `manual_paths`."""
    file = manual_paths()[path]
    return _read(file.name, file.read_bytes())


@cache
def version() -> str:
    """Return the name of the folder, which follows from the content of every file."""
    digest = hashlib.sha256()
    for one in _sorted_files():
        digest.update(one.name.encode() + b"\0" + one.read_bytes())
    return digest.hexdigest()[:VERSION_CHARS]


def find(path: str) -> tuple[File | None, bool]:
    """Return the file at *path*, and whether its content never changes at this path.

    While a release replaces another, a page can ask for files of the other one: it gets ours.
    """
    if path in manual_paths():
        return read_manual(path), False
    if (match := VERSIONED.fullmatch(path)) is None:
        return read_files().get(path), False
    return read_files().get(PREFIX + match[2]), match[1] == version()


def _walk(folder: Traversable, path: str) -> Iterator[tuple[str, Traversable]]:
    for one in folder.iterdir():
        if one.is_dir():
            yield from _walk(one, f"{path}{one.name}/")
        else:
            yield path + one.name, one


def _sorted_files() -> list[Traversable]:
    folder = files(__package__).joinpath(FOLDER)
    return sorted(folder.iterdir(), key=lambda one: one.name)


def _read(name: str, body: bytes) -> File:
    if name.endswith(".html"):
        body = body.replace(f'"{PREFIX}'.encode(), f'"{PREFIX}{version()}/'.encode())
    digest = hashlib.sha256(body).hexdigest()[:32]
    # Without a time in it, so that every process sends the same bytes.
    zipped = gzip.compress(body, mtime=0)
    media_type = MEDIA_TYPES.get(name[name.rfind(".") :], OTHER_MEDIA_TYPE)
    return File(
        media_type.encode(),
        Form(body, f'"{digest}"'.encode()),
        Form(zipped, f'"{digest}-gzip"'.encode(), b"gzip"),
    )
