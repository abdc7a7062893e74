"""Read the list of the databases of a fleet: from a file, a pattern of paths, or a query.

Everything is read and checked before anything starts. A message never contains a URL: it can have
a password.
"""

import asyncio
import contextlib
import csv
import glob
import io
import os
import re
import sqlite3
import threading
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from tenantry.catalog.attached import BadList, Listed
from tenantry.catalog.labels import BadLabels, checked_labels
from tenantry.catalog.tenants import NAME_CHARS_MAX
from tenantry.db.inspection import open_to_read
from tenantry.db.postgres.connector import PostgresConnector, closing
from tenantry.db.urls import SQLITE_PREFIX, sqlite_path
from tenantry.kit import postgres_urls
from tenantry.kit.text import BadText, checked_label, checked_text, printable, shown
from tenantry.migration.errors import explain

DATABASES_MAX = 1_000_000
LINE_CHARS_MAX = 10_000
QUERY_SECONDS_MAX = 60.0
FILES = "files"
"""The server of all SQLite files."""
LOCAL = "local"
"""The server of a URL without a host."""

_SECRETS = frozenset({"password", "sslpassword"})
_TEMPLATES = frozenset({"template0", "template1"})
MAINTENANCE = "postgres"
"""The database that each server has to connect to; some providers offer it as the only one."""
_DRIVER = re.compile(r"^(sqlite|postgresql|postgres)\+\w+(?=://)")
_NAME, _URL = "name", "url"

Row = Mapping[str, object]


def of_urls(urls: Iterable[str | Mapping[str, object]]) -> list[Listed]:
    """Return the databases of *urls*: each a URL, or a row with its ``url``, ``name``, and labels.

    Raises:
        BadList: One of them breaks a rule, or there are too many.
    """
    return _listed((f"Database {number}", _row_of(one)) for number, one in enumerate(urls, 1))


def of_url(url: str) -> Listed:
    """Return the database at *url*, for which the caller has a name.

    Raises:
        BadList: It breaks a rule.
    """
    return of_urls([{_URL: url, _NAME: "attached"}])[0]


def of_text(text: str) -> list[Listed]:
    """Return the databases in *text*, one in a line: ``[name] url [key=value …]``, or CSV.

    It is CSV if its first line is a header with a column ``url``. ``#`` begins a comment.

    Raises:
        BadList: A line breaks a rule, or there are too many.
    """
    lines = [
        (number, line.strip())
        for number, line in enumerate(text.removeprefix("\ufeff").splitlines(), 1)
        if line.strip() and not line.lstrip().startswith("#")
    ]
    if lines and max(len(line) for _, line in lines) > LINE_CHARS_MAX:
        raise BadList(f"A line of the list has more than {LINE_CHARS_MAX:,} characters.")
    header = lines[0][1] if lines else ""
    if "://" not in header and _URL in [one.strip() for one in header.split(",")]:
        rows = csv.DictReader(
            io.StringIO("\n".join(line for _, line in lines)), skipinitialspace=True
        )
        _check_columns(rows.fieldnames or ())
        numbers = (number for number, _ in lines[1:])
        return _listed((f"Line {number}", row) for number, row in zip(numbers, rows, strict=True))
    return _listed((f"Line {number}", _row_in(number, line)) for number, line in lines)


def of_pattern(pattern: str, state: Path | None) -> list[Listed]:
    """Return the SQLite files that match *pattern*, such as ``data/*.db``, by name.

    The *state* of the fleet is none of them: by default, it is a file in the same folder.

    Raises:
        BadList: There are none, or too many.
    """
    found = (one for one in map(Path, glob.iglob(pattern, recursive=True)) if one.is_file())  # noqa: PTH207
    own = state.stat() if state is not None and state.exists() else None
    paths = sorted(
        str(one) for one in found if own is None or not os.path.samestat(one.stat(), own)
    )
    if not paths:
        raise BadList(f"No file matches {pattern!r}.")
    return _listed((path, {_URL: f"{SQLITE_PREFIX}{path}"}) for path in paths)


async def of_query(url: str, query: str) -> list[Listed]:
    """Return the databases that *query* returns from the database at *url*, which it cannot change.

    It has the columns ``url`` and perhaps ``name``; further columns are labels.

    Raises:
        BadList: The query fails, or a row breaks a rule.
    """
    url = _without_driver(url)
    path = sqlite_path(url)
    try:
        if path is None:
            rows = await _rows_of_postgres(url, query)
        else:
            rows = await asyncio.to_thread(_rows_of_file, path, query)
    except BadList:
        raise
    except ValueError as error:  # its message has no secret: see `postgres_urls`
        raise BadList(f"The URL of the query {error}.") from error
    except Exception as error:
        raise BadList(f"The query of the list failed: {explain(error)}") from error
    return _listed((f"Row {number}", row) for number, row in enumerate(rows, 1))


async def _rows_of_postgres(url: str, query: str) -> Sequence[Row]:
    connector = PostgresConnector(url, timeout_seconds=QUERY_SECONDS_MAX / 2)
    session = {"default_transaction_read_only": "on"}
    connecting = connector.connect(session=session, command_seconds=QUERY_SECONDS_MAX)
    async with closing(connecting) as raw, raw.transaction(readonly=True):
        statement = await raw.prepare(query)
        _check_columns([one.name for one in statement.get_attributes()])
        cursor = await statement.cursor()
        return [dict(one) for one in await cursor.fetch(DATABASES_MAX + 1)]


def _rows_of_file(path: Path, query: str) -> Sequence[Row]:
    if not path.is_file():
        raise FileNotFoundError(2, "No such file", str(path))
    with contextlib.closing(open_to_read(path)) as raw:
        timer = threading.Timer(QUERY_SECONDS_MAX, raw.interrupt)
        timer.start()
        try:
            raw.row_factory = sqlite3.Row
            cursor = raw.execute(query)
            _check_columns([one[0] for one in cursor.description or ()])
            return [dict(one) for one in cursor.fetchmany(DATABASES_MAX + 1)]
        finally:
            timer.cancel()


def _check_columns(names: Sequence[str]) -> None:
    """Check that a row has one value for each name: of two, one would be lost silently.

    Raises:
        BadList: It has not.
    """
    if twice := {one for one in names if names.count(one) > 1}:
        raise BadList(f"The list has the column {shown(min(twice))} twice.")


def _row_of(given: object) -> Row:
    if isinstance(given, str):
        return {_URL: given}
    if not isinstance(given, Mapping):
        raise BadList(
            f"A database must be a URL as text, such as sqlite:///app.db, or a mapping, not a "
            f"{type(given).__name__}."
        )
    return given


def _row_in(number: int, line: str) -> Row:
    words = line.split()
    at = next((at for at, word in enumerate(words) if "://" in word), None)
    pairs = [word.partition("=") for word in words[(at or 0) + 1 :]]
    if at is None or at > 1 or not all(equals for _, equals, _ in pairs):
        raise BadList(
            f"Line {number} of the list must be `[NAME] URL [KEY=VALUE …]`, or the first line a "
            "header of CSV with a column `url`."
        )
    row = {key: value for key, _, value in pairs}
    return row | {_URL: words[at], _NAME: words[0] if at else ""}


def _listed(rows: Iterable[tuple[str, Row]]) -> list[Listed]:
    found: dict[object, Listed] = {}
    for where, row in rows:
        if len(found) == DATABASES_MAX:
            raise BadList(f"A list has at most {DATABASES_MAX:,} databases.")
        try:
            identity, one = _read(row)
        except (BadLabels, BadText, BadList) as error:
            raise BadList(f"{where} of the list: {error.message}") from error
        except ValueError as error:
            raise BadList(f"{where} of the list: its URL {error}.") from None
        if is_maintenance(one) and one.name in (None, MAINTENANCE):
            raise BadList(
                f"{where} of the list: the database {MAINTENANCE} is that of the server. If yours "
                "has this name, give it another one in the list."
            )
        if (first := found.setdefault(identity, one)) is not one:
            raise BadList(f"{where} of the list: it is there twice, first as {shown(first.place)}.")
    if not found:
        raise BadList("The list contains no database.")
    return [*found.values()]


def _read(row: Row) -> tuple[object, Listed]:
    """Return a database, and what only other spellings of its URL have in common with it."""
    if not all(isinstance(key, str) for key in row):  # `csv` has None for what is too much
        raise BadList("it has more values than the header has columns.")
    texts = {key: _text(value) for key, value in row.items() if value not in (None, "")}
    if found := _SECRETS.intersection(map(str.lower, texts)):
        raise BadList(f"{min(found)} cannot be a label: a password is a part of the URL.")
    url, name = texts.pop(_URL, ""), texts.pop(_NAME, None)
    if name is not None:
        checked_label(_NAME, name, chars_max=NAME_CHARS_MAX)
    url = checked_text(_URL, _without_driver(url.strip()), chars_max=LINE_CHARS_MAX)
    read = _read_file if url.startswith("sqlite:") else _read_postgres
    identity, url, place, server, hint = read(url)
    return identity, Listed(
        name=name,
        url=url,
        place=place,
        server_name=server,
        hint=printable(hint),
        labels=checked_labels(texts),
    )


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _without_driver(url: str) -> str:
    return _DRIVER.sub(r"\1", url)


def _read_file(url: str) -> tuple[object, str, str, str, str]:
    path = url.removeprefix(SQLITE_PREFIX)
    if path == url or not path or path.startswith(":memory:") or "?" in path:
        raise ValueError("must be `sqlite:///PATH`, without parameters")
    resolved = Path(path).absolute()
    url = f"{SQLITE_PREFIX}{resolved}"
    try:
        found = resolved.stat()
        identity: object = (found.st_dev, found.st_ino)
    except OSError:
        identity = os.path.realpath(resolved)
    return identity, url, url, FILES, resolved.stem


def _read_postgres(url: str) -> tuple[object, str, str, str, str]:
    if not url.startswith(tuple(f"{scheme}://" for scheme in postgres_urls.SCHEMES)):
        raise ValueError("must begin with sqlite:/// or postgresql://")
    parsed = postgres_urls.parse(url)
    if parsed.database is None:
        raise ValueError("must name a database: postgresql://host/database")
    if parsed.database in _TEMPLATES:
        raise ValueError(f"names {parsed.database}, of which the server copies new databases")
    server = ",".join(f"{host}:{port}" for host, port in parsed.servers) or LOCAL
    # One database can be there once for each schema, which the role or a setting selects.
    return parsed.place, url, parsed.place, server, parsed.database


def is_maintenance(listed: Listed) -> bool:
    """Return whether it is the database that each PostgreSQL server has to connect to."""
    return listed.server_name != FILES and listed.hint == MAINTENANCE


def servers_of(listed: Sequence[Listed]) -> dict[str, dict[str, str]]:
    """Return the URL of each database by its place, for each server."""
    servers: dict[str, dict[str, str]] = {}
    for one in listed:
        servers.setdefault(one.server_name, {})[one.place] = one.url
    return servers
