"""The URLs of databases: ``sqlite:///path`` or ``postgresql://…``."""

from pathlib import Path
from urllib.parse import quote

SQLITE_PREFIX = "sqlite:///"


def sqlite_path(url: str) -> Path | None:
    """Return the file or folder that *url* names, or None when it names a PostgreSQL database."""
    return Path(url.removeprefix(SQLITE_PREFIX)) if url.startswith(SQLITE_PREFIX) else None


def with_database(url: str, name: str) -> str:
    """Return the URL of another database on the PostgreSQL server of *url*."""
    place, question_mark, query = url.partition("?")
    scheme, _, rest = place.partition("://")
    netloc = rest.partition("/")[0]
    return f"{scheme}://{netloc}/{quote(name, safe='')}{question_mark}{query}"
