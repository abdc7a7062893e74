"""Copy a database that rejects writes to a server of the same engine, and compare every row."""

import asyncio
import shutil
from pathlib import Path

from tenantry.backup import dumps
from tenantry.backup.dumps import CopyDiffers
from tenantry.db.copying import checksums, survey
from tenantry.db.postgres import database_options
from tenantry.db.postgres.tools import PostgresTools
from tenantry.db.sessions import DatabaseUnavailable
from tenantry.db.sqlite.files import SIDE_FILES
from tenantry.db.urls import sqlite_path
from tenantry.kit.errors import Conflict
from tenantry.kit.stopping import Stop, run_in_thread
from tenantry.work.progress import Progress

# The copy, and the log of SQLite while its fence is dropped.
SPACE_SPARED_BYTES = 16 * 2**20


class ServerTooOld(Conflict):
    """The tenant server is older than that of the data; the message has both versions."""


class NoSpace(Conflict):
    """The disk of the tenant server is too full; the message has the numbers."""


async def check_server(source: str, target: str) -> None:
    """Check that the server at *target* can hold what is at *source*.

    Raises:
        ServerTooOld: It is an older PostgreSQL.
        NoSpace: Its disk is too full, on SQLite.
        RoleMissing: A role with rights in the database is missing.
        OwnerNotCarried: Something acts with the rights of a role that the copy does not keep.
        DatabaseUnavailable: A server cannot be reached.
    """
    path, new = sqlite_path(source), sqlite_path(target)
    if path is not None and new is not None:
        await asyncio.to_thread(_check_space, path, new)
        return
    majors = [await _major(url) for url in (source, target)]
    if majors[1] < majors[0]:
        raise ServerTooOld(
            f"The tenant server has PostgreSQL {majors[1]}, and the data are of PostgreSQL "
            f"{majors[0]}."
        )
    async with dumps.connected(source) as raw, dumps.connected(target) as new:
        await database_options.check_roles(raw, new)
        await database_options.check_owners(raw)


async def copy(source: str, target: str, progress: Progress, *, tools: PostgresTools) -> None:
    """Copy a database that rejects writes, and compare the schema and every row.

    *target* is an empty PostgreSQL database, or the path of a SQLite file that does not exist.

    Raises:
        CopyDiffers: The copy is not the same.
        DatabaseUnavailable: A database cannot be read, or not be written.
        ToolMissing, ToolTooOld, ToolFailed: See `db.postgres.tools`.
    """
    contents = await dumps.copy(source, target, progress.add, tools=tools, is_whole=True)
    path, new = sqlite_path(source), sqlite_path(target)
    if path is not None and new is not None:
        progress.add((await asyncio.to_thread(new.stat)).st_size)
        found = await run_in_thread(lambda stop: _contents(new, stop, is_private=True))
        expected = await run_in_thread(lambda stop: _contents(path, stop, is_private=False))
        if found[0] != expected[0]:
            raise CopyDiffers(survey.explain_difference(found[0], expected[0]))
        compare(found[1], expected[1])
        return
    await dumps.check_loaded(target, contents, is_foreign=False)
    async with dumps.connected(source) as raw, dumps.connected(target) as copied:
        sums = await asyncio.gather(
            checksums.checksums_postgres(copied), checksums.checksums_postgres(raw)
        )
    compare(*sums)


def _contents(path: Path, stop: Stop, *, is_private: bool) -> tuple[survey.Survey, dict[str, str]]:
    return (
        survey.survey_sqlite(path, is_private=is_private),
        checksums.checksums_sqlite(path, stop, is_private=is_private),
    )


def compare(found: dict[str, str], expected: dict[str, str]) -> None:
    """Compare the checksums of the tables of a copy.

    Raises:
        CopyDiffers: A table has another checksum.
    """
    for table in sorted({*found, *expected}):
        if found.get(table) != expected.get(table):
            raise CopyDiffers(f"The rows of {table} differ in the copy.")


def _check_space(path: Path, new: Path) -> None:
    if not path.exists():
        raise DatabaseUnavailable
    parts = [Path(f"{path}{suffix}") for suffix in ("", *SIDE_FILES)]
    needed = sum(one.stat().st_size for one in parts if one.exists()) + SPACE_SPARED_BYTES
    folder = next(one for one in new.parents if one.exists())
    free = shutil.disk_usage(folder).free
    if free < needed:
        raise NoSpace(
            f"The tenant server has {free / 1e6:.0f} MB of free disk space, and the data need "
            f"{needed / 1e6:.0f} MB."
        )


async def _major(url: str) -> int:
    async with dumps.connected(url) as raw:
        return int(await raw.fetchval("SHOW server_version_num")) // 10_000
