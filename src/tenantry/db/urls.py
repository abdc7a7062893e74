"""The URLs of databases: ``sqlite:///path`` or ``postgresql://…``."""

from pathlib import Path
from urllib.parse import quote, urlsplit

SQLITE_PREFIX = "sqlite:///"


def sqlite_path(url: str) -> Path | None:
    """Return the file or folder that *url* names, or None when it names a PostgreSQL database."""
    return Path(url.removeprefix(SQLITE_PREFIX)) if url.startswith(SQLITE_PREFIX) else None


def with_database(url: str, name: str) -> str:
    """Return the URL of another database on the PostgreSQL server of *url*."""
    return urlsplit(url)._replace(path=f"/{quote(name, safe='')}").geturl()
