"""The files of the console, read once, in both forms in which they are sent."""

import gzip
import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

FOLDER = "static"
PREFIX = "/console/"
# Where a page is found beside its file's own path.
START = "/"
PAGES = {
    START: "start.html",
    "/console": "index.html",
    "/console/": "index.html",
    "/docs": "docs.html",
}
MEDIA_TYPES = {
    ".css": "text/css; charset=utf-8",
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
}


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
    found = {
        one.name: _read(one.name, one.read_bytes())
        for one in files(__package__).joinpath(FOLDER).iterdir()
    }
    pages = {path: found[name] for path, name in PAGES.items()}
    return {**{PREFIX + name: file for name, file in found.items()}, **pages}


def _read(name: str, body: bytes) -> File:
    digest = hashlib.sha256(body).hexdigest()[:32]
    # Without a time in it, so that every process sends the same bytes.
    zipped = gzip.compress(body, mtime=0)
    suffix = name[name.rindex(".") :]
    return File(
        MEDIA_TYPES[suffix].encode(),
        Form(body, f'"{digest}"'.encode()),
        Form(zipped, f'"{digest}-gzip"'.encode(), b"gzip"),
    )
