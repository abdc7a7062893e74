"""The contents of a database as bytes: read from a live one, written to a new one.

A SQLite database is a file, copied with SQLite's online backup. On PostgreSQL it is a dump of
pg_dump in its custom format, read by pg_restore. At most `CHUNK_BYTES` are in memory.
"""

import asyncio
import contextlib
import sqlite3
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import asyncpg

from tenantry.backup.archive import CHUNK_BYTES
from tenantry.db import snapshots
from tenantry.db.copying import rebuilding, survey
from tenantry.db.copying.survey import Survey
from tenantry.db.postgres import database_options, session_settings
from tenantry.db.postgres import tools as postgres_tools
from tenantry.db.postgres.connections import UNAVAILABLE
from tenantry.db.postgres.connector import PostgresConnector, closing, is_behind_pooler
from tenantry.db.postgres.roles import read_role
from tenantry.db.postgres.tools import DUMP, RESTORE, PostgresTools
from tenantry.db.sessions import DatabaseUnavailable
from tenantry.db.sqlite import connections as sqlite
from tenantry.db.sqlite import files
from tenantry.db.urls import sqlite_path
from tenantry.kit import private
from tenantry.kit.errors import Conflict
from tenantry.kit.stopping import Stop, run_in_thread, start_thread
from tenantry.kit.tasks import beside

SQLITE, POSTGRESQL = "sqlite", "postgresql"
CONNECT_SECONDS = 10.0
# A count of all rows reads each table once: 10 GB take a minute or two.
STATEMENT_SECONDS_MAX = 3_600.0

Write = Callable[[bytes], None]


class RoleTooPowerful(Conflict):
    """Foreign data are not restored by a superuser, or by a role that may run programs."""


class NotPermitted(Conflict):
    """Tenantry's role may not read or write something in the database; the message names it."""


class CopyDiffers(Conflict):
    """The copy differs from the original; it was removed again."""


@dataclass(frozen=True, slots=True)
class Contents:
    """What a dump contains.

    Attributes:
        search_path: The search path of the database; None on SQLite.
    """

    survey: Survey
    search_path: str | None


@dataclass(frozen=True, slots=True)
class Exported:
    """A snapshot of a PostgreSQL database.

    Attributes:
        snapshot: Its name, of `pg_export_snapshot`.
        search_path: The path of a restore.
    """

    snapshot: str
    search_path: str


def engine_of(url: str) -> str:
    """Return the engine of the database at *url*."""
    return POSTGRESQL if sqlite_path(url) is None else SQLITE


async def dump(url: str, write: Write, *, tools: PostgresTools, scratch: Path) -> Contents:
    """Read one snapshot of a live database.

    *write* is called in a thread with each part, of at most `CHUNK_BYTES`. *scratch* is a folder
    for the copy of a SQLite file.

    Raises:
        DatabaseUnavailable: It cannot be read.
        NotRebuilt: A restore could not rebuild it: see `db.copying.rebuilding`.
        ToolMissing, ToolTooOld, ToolFailed: See `db.postgres.tools`.
        OSError: The disk is full.
    """
    path = sqlite_path(url)
    if path is None:
        async with opened_snapshot(url) as (raw, exported):
            program = await _find(raw, tools, DUMP)
            await _find(raw, tools, RESTORE)  # else no restore could use the archive
            return await _with_survey(
                raw, lambda stop: _dump_postgres(program, url, exported, write, stop)
            )
    return await run_in_thread(lambda stop: _dump_sqlite(path, scratch, write, stop))


async def load(url: str, chunks: Iterator[bytes], *, tools: PostgresTools) -> None:
    """Write the contents of a dump to a new database; the parts are read in a thread.

    *url* is an empty PostgreSQL database, or the path of a SQLite file that does not exist.

    Raises:
        DatabaseUnavailable: The server cannot be reached.
        ToolMissing, ToolTooOld, ToolFailed: See `db.postgres.tools`.
        Exception: Any error of *chunks*, or of the disk.
    """
    path = sqlite_path(url)
    if path is not None:
        await run_in_thread(lambda stop: _load_sqlite(path, chunks, stop))
        return
    async with connected(url) as raw:
        program = await _find(raw, tools, RESTORE)
    await run_in_thread(lambda stop: _load_postgres(program, url, chunks, stop))


async def copy(
    source: str,
    target: str,
    count: Callable[[int], None],
    *,
    tools: PostgresTools,
    is_whole: bool = False,
    is_foreign: bool = False,
) -> Contents:
    """Write one snapshot of a live database to a new one of the same engine, as `load` needs it.

    *count* is called in a thread with the bytes of each part. With *is_whole*, comments, privileges
    and settings are copied, too: for a move. If *is_foreign*, another program has made *source*,
    which is then only read.

    Raises:
        SourceChanged: A foreign file was written to.
        Exception: As for `dump` and `load`.
    """
    path, new = sqlite_path(source), sqlite_path(target)
    if path is not None and new is not None:
        await run_in_thread(partial(_copy_sqlite, path, new, is_foreign=is_foreign))
        found = await start_thread(partial(survey.survey_sqlite, new, is_private=True))
        return Contents(found, None)
    async with opened_snapshot(source) as (raw, exported):
        return await copy_snapshot(
            raw, exported, source, target, count, tools=tools, is_whole=is_whole
        )


async def copy_snapshot(
    raw: Any,
    exported: Exported,
    source: str,
    target: str,
    count: Callable[[int], None],
    *,
    tools: PostgresTools,
    is_whole: bool,
) -> Contents:
    """Write a snapshot of `opened_snapshot` to a new database; see `copy`."""
    dumper, loader = await _find(raw, tools, DUMP), await _find(raw, tools, RESTORE)

    def work(stop: Stop) -> None:
        with postgres_tools.restoring(loader, target, stop=stop, is_whole=is_whole) as sink:

            def forward(data: bytes) -> None:
                sink.write(data)
                count(len(data))

            _dump_postgres(dumper, source, exported, forward, stop, is_whole=is_whole)

    contents = await _with_survey(raw, work)
    if is_whole:
        async with connected(target) as copied:
            await database_options.copy(raw, copied)
    return contents


async def check_loaded(url: str, expected: Contents, *, is_foreign: bool) -> None:
    """Compare a new database with its original, set its search path, and analyse its tables.

    Raises:
        CopyDiffers: Rows or tables are missing, or there are too many.
        DatabaseUnavailable: It cannot be read.
    """
    path = sqlite_path(url)
    if path is not None:
        if is_foreign:
            await start_thread(partial(survey.check_sqlite, path))
        found = await start_thread(partial(survey.survey_sqlite, path, is_private=True))
    else:
        async with connected(url) as raw:
            await _set_search_path(raw, expected.search_path)
        # Later sessions have that path, as the original had when it was surveyed.
        async with (
            connected(url) as raw,
            connected(url) as other,
            beside(other.execute("ANALYZE", timeout=None)),
        ):
            found = await survey.survey_postgres(raw)
    if found != expected.survey:
        raise CopyDiffers(survey.explain_difference(found, expected.survey))


async def execute(url: str, sql: str) -> None:
    """Execute statements of the operator in a new database, which is dropped if one fails.

    They reach no other database: on SQLite, ATTACH and VACUUM INTO are rejected.

    Raises:
        Exception: Any error of the driver.
    """
    path = sqlite_path(url)
    if path is not None:
        await run_in_thread(lambda _stop: _execute_sqlite(path, sql))
        return
    async with connected(url) as raw, raw.transaction():
        await raw.execute(sql, timeout=None)


async def check_role(url: str) -> None:
    """Check that the role of a server may be given the SQL of a foreign archive.

    Raises:
        RoleTooPowerful: It could run programs on the server.
        DatabaseUnavailable: The server cannot be reached.
    """
    if sqlite_path(url) is None:
        async with connected(url) as raw:
            if (await read_role(raw)).power is not None:
                raise RoleTooPowerful


@asynccontextmanager
async def connected(url: str) -> AsyncIterator[Any]:
    """Open a connection to a PostgreSQL database, outside all budgets, without time limits.

    Raises:
        NotPermitted: The role lacks a right.
        DatabaseUnavailable: It cannot be reached, or returns another error.
    """
    connecting = PostgresConnector(url, timeout_seconds=CONNECT_SECONDS).connect(
        application="tenantry-backup", command_seconds=STATEMENT_SECONDS_MAX
    )
    try:
        async with closing(connecting) as raw:
            if not await is_behind_pooler(raw):
                await raw.execute(session_settings.LIFT_IN_SESSION)
            yield raw
    except asyncpg.InsufficientPrivilegeError as error:
        raise NotPermitted(f"Tenantry's role lacks a right: {error.message}.") from error
    except (asyncpg.PostgresError, *UNAVAILABLE) as error:
        if isinstance(error, OSError) and error.errno in files.DISK_ERRORS:
            raise  # the block writes what it reads to a file
        raise DatabaseUnavailable from error


@asynccontextmanager
async def opened_snapshot(url: str) -> AsyncIterator[tuple[Any, Exported]]:
    """Open a connection in a transaction, and export its snapshot.

    Raises:
        NotRebuilt: A restore could not rebuild it.
        DatabaseUnavailable: The database cannot be reached, or returns an error.
    """
    async with connected(url) as raw, raw.transaction(isolation="repeatable_read", readonly=True):
        await raw.execute(session_settings.LIFT_IN_TRANSACTION)  # behind a pooler, too
        search_path = await rebuilding.restore_path(raw)
        yield raw, Exported(str(await raw.fetchval("SELECT pg_export_snapshot()")), search_path)


async def _with_survey(raw: Any, work: Callable[[Stop], None]) -> Contents:
    """Run *work* in a thread while the rows are counted in the same snapshot."""
    search_path = str(await raw.fetchval("SHOW search_path"))
    await rebuilding.check_rebuilt(raw)
    async with beside(survey.survey_postgres(raw)) as counting:
        await run_in_thread(work)
    return Contents(counting.result(), search_path)


async def _find(raw: Any, tools: PostgresTools, name: str) -> Path:
    number = int(await raw.fetchval("SHOW server_version_num"))
    return await asyncio.to_thread(tools.find, name, server_major=number // 10_000)


async def _set_search_path(raw: Any, search_path: str | None) -> None:
    if search_path is None or search_path == await raw.fetchval("SHOW search_path"):
        return
    name = await raw.fetchval("SELECT pg_catalog.format('%I', current_database())")
    await raw.execute("SELECT set_config('search_path', $1, false)", search_path)
    await raw.execute(f"ALTER DATABASE {name} SET search_path FROM CURRENT")


def _dump_sqlite(path: Path, scratch: Path, write: Write, stop: Stop) -> Contents:
    with snapshots.scratch_folder(scratch) as folder:
        copied = folder / "database"
        snapshots.copy_live(path, copied, stop)
        found = survey.survey_sqlite(copied, is_private=True)
        files.check_complete(copied)
        with copied.open("rb") as file:
            while data := file.read(CHUNK_BYTES):
                stop.check()
                write(data)
    return Contents(found, None)


def _dump_postgres(
    program: Path,
    url: str,
    exported: Exported,
    write: Write,
    stop: Stop,
    *,
    is_whole: bool = False,
) -> None:
    with postgres_tools.dumping(
        program,
        url,
        snapshot=exported.snapshot,
        search_path=exported.search_path,
        chunk_bytes=CHUNK_BYTES,
        stop=stop,
        is_whole=is_whole,
    ) as output:
        for data in output:
            write(data)


def _load_sqlite(path: Path, chunks: Iterator[bytes], stop: Stop) -> None:
    private.make_folder(path.parent)
    with private.open_new(path) as file:
        for data in chunks:
            stop.check()
            file.write(data)
        private.sync(file)
    private.sync_folder(path.parent)


def _load_postgres(program: Path, url: str, chunks: Iterator[bytes], stop: Stop) -> None:
    with postgres_tools.restoring(program, url, stop=stop) as sink:
        for data in chunks:
            stop.check()
            sink.write(data)


def _copy_sqlite(path: Path, target: Path, stop: Stop, *, is_foreign: bool) -> None:
    copy_file = snapshots.copy_foreign if is_foreign else snapshots.copy_live
    copy_file(path, target, stop)
    files.sync(target)
    private.sync_folder(target.parent)


def _execute_sqlite(path: Path, sql: str) -> None:
    with contextlib.closing(
        sqlite3.connect(sqlite.file_uri(path), uri=True, isolation_level=None)
    ) as raw:
        raw.set_authorizer(_authorize)
        raw.executescript(sql)
    files.sync(path)


def _authorize(action: int, name: str | None, *_: object) -> int:
    """Reject other files; VACUUM attaches a temporary one, without a name."""
    is_other = action == sqlite3.SQLITE_ATTACH and name != ""
    return sqlite3.SQLITE_DENY if is_other else sqlite3.SQLITE_OK
