"""The export of a tenant: every row of every table, and no secret."""

import asyncio
import csv
import io
import json
import os
import re
import secrets
import tracemalloc
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any
from zipfile import BadZipFile, ZipFile

import msgspec
import psycopg
import pytest

from tenantry.api.streaming import READMIT_SECONDS, while_admitted
from tenantry.catalog import audit
from tenantry.catalog.tenants import Tenant
from tenantry.db import snapshots
from tenantry.db.copying import table_export
from tenantry.db.copying.row_formats import RowFormat
from tenantry.db.copying.table_export import NotExportable, export_tables
from tenantry.db.sessions import DatabaseUnavailable
from tenantry.fleet.export import (
    DOWNLOADS_MAX,
    ExportFailed,
    ExportFolderExists,
    Manifest,
    TooManyExports,
)
from tenantry.kit import private
from tenantry.kit.context import system_context
from tenantry.kit.errors import Unauthenticated
from tenantry.kit.ids import new_id
from tenantry.kit.pages import Window
from tenantry.kit.stopping import Stop, Stopped
from tenantry.services import Services
from testkit import raw_sql
from testkit.faults import Faults
from tests.conftest import PASSWORD, World
from tests.integration.gates import url_of

# Of tables that hold secrets only.
LEFT_OUT = {"tenantry_ended_session"}
ROWS = 60_000
RANDOM_BYTES = 500
LARGE_ROWS = 100
LARGE_ROW_BYTES = 1_000_000
# Some copies of one row, in Python and in the driver, and what a first export imports.
GROWTH_BYTES_MAX = 24 * 1024 * 1024
STALL_SECONDS = 3.0
VALUES = [
    (1, "", 1.5),
    (2, None, None),
    (3, 'one, "two"\r\nä', -2.0),
    (4, "=1+1", 0.0),
]


async def export(
    services: Services, tenant: Tenant, folder: Path, row_format: RowFormat = RowFormat.JSON_LINES
) -> Manifest:
    return await services.export.write(system_context("ada"), tenant, folder, row_format=row_format)


def rows_of(folder: Path, manifest: Manifest, table: str) -> list[dict[str, Any]]:
    [found] = [one for one in manifest.tables if one.name == table]
    lines = (folder / found.file).read_text().splitlines()
    assert len(lines) == found.rows
    return [json.loads(line) for line in lines]


def names_in(folder: Path) -> set[str]:
    """Return the names of the folders for exports; others are of the test's service."""
    return {path.name for path in folder.glob("*") if path.suffix == ".unfinished"} | {
        path.name for path in folder.glob("acme*")
    }


class TestExport:
    async def test_holds_every_row_of_every_table(self, world: World, tmp_path: Path):
        services, acme = world.services, world.acme.tenant
        folder = tmp_path / "acme"

        manifest = await export(services, acme, folder)

        url = url_of(services, acme)
        for one in manifest.tables:
            [(count,)] = raw_sql.rows(url, f'SELECT count(*) FROM "{one.name}"')
            assert one.rows == count
        [post] = rows_of(folder, manifest, "tenantry_post")
        [user] = rows_of(folder, manifest, "tenantry_user")
        assert post["content"] == "The content is acme-canary."
        assert user["email"] == world.acme.owner.email
        assert {one.name for one in manifest.tables} == _tables(world) - LEFT_OUT
        on_disk = json.loads((folder / "export.json").read_text())
        assert on_disk["tenantName"] == "acme"
        assert on_disk["tables"][0].keys() >= {"columns", "primaryKey", "foreignKeys"}
        assert {path.name for path in folder.iterdir()} == {
            "export.json",
            *(one.file for one in manifest.tables),
        }

    async def test_holds_no_secret(self, world: World, tmp_path: Path):
        services, acme = world.services, world.acme.tenant
        manifest = await export(services, acme, tmp_path / "acme")

        [(stored,)] = raw_sql.rows(
            url_of(services, acme), "SELECT password_hash FROM tenantry_user"
        )
        content = "".join(path.read_text() for path in (tmp_path / "acme").iterdir())
        assert stored not in content
        assert PASSWORD not in content
        assert "$argon2" not in content
        users = next(one for one in manifest.tables if one.name == "tenantry_user")
        hidden = {one.name for one in users.columns if one.is_left_out}
        assert hidden == {"password_hash", "spared_jti"}
        assert (tmp_path / "acme").stat().st_mode & 0o777 == 0o700
        assert {path.stat().st_mode & 0o777 for path in (tmp_path / "acme").iterdir()} == {0o600}

    async def test_takes_tables_and_columns_of_any_name(self, world: World, tmp_path: Path):
        services, acme = world.services, world.acme.tenant
        table = '"../50% of ""it"" now"'
        raw_sql.run(
            url_of(services, acme),
            f'CREATE TABLE {table} ("a %s" INTEGER PRIMARY KEY, "b:c" TEXT)',
            f"INSERT INTO {table} VALUES (1, 'ü'), (2, NULL)",
        )

        manifest = await export(services, acme, tmp_path / "acme")

        [found] = [one for one in manifest.tables if one.name.startswith("..")]
        assert Path(found.file).name == found.file
        assert rows_of(tmp_path / "acme", manifest, found.name) == [
            {"a %s": 1, "b:c": "ü"},
            {"a %s": 2, "b:c": None},
        ]

    @pytest.mark.parametrize("engine", ["postgresql"])
    async def test_has_times_that_python_has_not_as_text(self, world: World, tmp_path: Path):
        services, acme = world.services, world.acme.tenant
        raw_sql.run(
            url_of(services, acme),
            "CREATE TABLE times (a date, b timestamp, c timestamptz)",
            "INSERT INTO times VALUES ('infinity', '-infinity', '20000-01-01 00:00:00+00'),"
            " ('2026-01-02', '2026-01-02 03:04:05', '2026-01-02 03:04:05+00')",
        )

        manifest = await export(services, acme, tmp_path / "acme")

        first, second = rows_of(tmp_path / "acme", manifest, "times")
        assert (first["a"], first["b"]) == ("infinity", "-infinity")
        assert first["c"].startswith("20000-01-01")
        assert (second["a"], second["b"]) == ("2026-01-02", "2026-01-02T03:04:05")

    async def test_names_the_table_of_an_invalid_value(self, world: World, tmp_path: Path):
        """The database can be reached, so the message must not say that it cannot."""
        services, acme = world.services, world.acme.tenant
        url = url_of(services, acme)
        if url.startswith("sqlite"):
            made = ("CREATE TABLE odd (a TEXT)", "INSERT INTO odd VALUES (CAST(X'80' AS TEXT))")
        else:
            made = ("CREATE TABLE odd (a json)", """INSERT INTO odd VALUES ('"\\ud800"')""")
        raw_sql.run(url, *made)

        with pytest.raises(NotExportable, match="The table odd has an invalid value") as caught:
            await export(services, acme, tmp_path / "acme")

        assert "not valid Unicode" in caught.value.message
        assert names_in(tmp_path) == set()

    async def test_is_in_the_audit_log(self, world: World, tmp_path: Path):
        await export(world.services, world.acme.tenant, tmp_path / "acme")

        page = await audit.LOG.page(world.services.catalog, Window(1, 1))

        assert (page.items[0].action, page.items[0].actor) == ("tenant.export", "ada")
        assert page.items[0].tenant_id == world.acme.tenant.id

    async def test_does_not_replace_a_folder(self, world: World, tmp_path: Path):
        (tmp_path / "acme").mkdir()

        with pytest.raises(ExportFolderExists):
            await export(world.services, world.acme.tenant, tmp_path / "acme")

        assert list((tmp_path / "acme").iterdir()) == []

    async def test_removes_what_a_killed_export_has_left(self, world: World, tmp_path: Path):
        """And nothing else: not that of a living process, and no folder of another name."""
        left, living = (tmp_path / f"acme.{new_id()}.unfinished" for _ in range(2))
        other = tmp_path / "thesis.unfinished"
        for folder in (left, living, other):
            folder.mkdir()
            (folder / "0001-a.jsonl").touch()

        with snapshots.new_locked(lambda: living):
            await export(world.services, world.acme.tenant, tmp_path / "acme")

        assert names_in(tmp_path) == {"acme", living.name, other.name}

    async def test_is_durable_before_it_gets_its_name(
        self, world: World, tmp_path: Path, faults: Faults
    ):
        """Each file, then the folder with their names; then the folder that has its name."""
        synced: list[Path] = []
        faults.before(
            os, "fsync", lambda handle: synced.append(Path(f"/proc/self/fd/{handle}").readlink())
        )
        before = list[Path]()
        faults.before(Path, "rename", lambda *_: before.extend(synced))

        manifest = await export(world.services, world.acme.tenant, tmp_path / "acme")

        ours = [one for one in before if ".unfinished" in str(one)]
        assert {one.name for one in ours[:-1]} == {
            "export.json",
            *(t.file for t in manifest.tables),
        }
        assert ours[-1].suffix == ".unfinished"
        assert synced[-1] == tmp_path

    async def test_is_begun_again_if_another_one_removes_its_new_folder(
        self, world: World, tmp_path: Path, faults: Faults
    ):
        """Between its creation and its lock, it looks like that of a killed export."""
        removed = list[str]()

        def remove(path: Any, *_: Any, **__: Any) -> None:
            if not removed and str(path).endswith(".unfinished"):
                removed.append(str(path))
                Path(path).rmdir()

        faults.after(os, "mkdir", remove)

        await export(world.services, world.acme.tenant, tmp_path / "acme")

        assert len(removed) == 1
        assert names_in(tmp_path) == {"acme"}

    async def test_leaves_what_another_user_has_left(
        self, world: World, tmp_path: Path, faults: Faults
    ):
        """A folder that this user may not read, such as one of a command that root has run."""
        theirs, left = (tmp_path / f"acme.{new_id()}.unfinished" for _ in range(2))
        theirs.mkdir()
        left.mkdir()

        def deny(path: Any, *_: Any, **__: Any) -> None:
            if path == theirs:
                raise PermissionError

        faults.before(os, "open", deny)
        await export(world.services, world.acme.tenant, tmp_path / "acme")

        assert names_in(tmp_path) == {"acme", theirs.name}

    async def test_that_fails_leaves_no_folder(self, world: World, tmp_path: Path):
        services, acme = world.services, world.acme.tenant
        (tmp_path / "file").touch()
        with pytest.raises(ExportFailed):
            await export(services, acme, tmp_path / "file" / "acme")
        missing = msgspec.structs.replace(acme, database_name="tenantry_missing")
        folder = tmp_path / "empty"
        folder.mkdir()

        with pytest.raises(DatabaseUnavailable):
            await export(services, missing, folder / "acme")

        assert list(folder.iterdir()) == []

    async def test_is_one_snapshot_and_blocks_no_writer(
        self, world: World, tmp_path: Path, faults: Faults
    ):
        """A write between two tables succeeds at once, and is not in the export."""
        services, acme = world.services, world.acme.tenant
        url = url_of(services, acme)
        raw_sql.run(url, "CREATE TABLE z_last (n INTEGER)")

        def write(path: Path) -> None:
            if "z_last" in path.name:
                raw_sql.run(url, "INSERT INTO z_last VALUES (1)")

        faults.before(private, "open_new", write)

        manifest = await export(services, acme, tmp_path / "acme")

        assert rows_of(tmp_path / "acme", manifest, "z_last") == []
        assert raw_sql.rows(url, "SELECT n FROM z_last") == [(1,)]

    @pytest.mark.slow
    async def test_needs_little_memory_whatever_the_size(self, world: World, tmp_path: Path):
        """Some batches of rows, and not the table."""
        services, acme = world.services, world.acme.tenant
        text = "x" * 1_000
        fill = (
            "WITH RECURSIVE t(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM t WHERE n < "
            f"{ROWS}) INSERT INTO big SELECT n, '{text}' FROM t"
        )
        raw_sql.run(url_of(services, acme), "CREATE TABLE big (n INTEGER, t TEXT)", fill)
        tracemalloc.start()

        manifest = await export(services, acme, tmp_path / "acme")

        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        big = next(one for one in manifest.tables if one.name == "big")
        size = (tmp_path / "acme" / big.file).stat().st_size
        assert (big.rows, size > ROWS * len(text)) == (ROWS, True)
        assert peak < size / 4


class TestCsv:
    async def test_is_rfc_4180_and_differs_for_null_and_an_empty_text(
        self, world: World, tmp_path: Path
    ):
        services, acme = world.services, world.acme.tenant
        await create_values(services, acme)

        manifest = await export(services, acme, tmp_path / "acme", RowFormat.CSV)

        [found] = [one for one in manifest.tables if one.name == "val"]
        assert (manifest.format, found.file.endswith("-val.csv")) == ("csv", True)
        assert found.rows == len(VALUES)
        text = (tmp_path / "acme" / found.file).read_bytes()
        assert text == (
            b'"id","a ""b""","n"\r\n'
            b'"1","","1.5"\r\n'
            b'"2",,\r\n'
            b'"3","one, ""two""\r\n\xc3\xa4","-2.0"\r\n'
            b'"4","=1+1","0.0"\r\n'
        )

    async def test_is_read_by_the_usual_readers(self, world: World, tmp_path: Path, engine: str):
        """Python's, which does not tell NULL from an empty text, and COPY, which does."""
        services, acme = world.services, world.acme.tenant
        await create_values(services, acme)
        manifest = await export(services, acme, tmp_path / "acme", RowFormat.CSV)
        [found] = [one for one in manifest.tables if one.name == "val"]
        path = tmp_path / "acme" / found.file

        with path.open(newline="", encoding="utf-8") as file:
            _, *rows = csv.reader(file, strict=True)

        assert [row[1] for row in rows] == [text or "" for _, text, _ in VALUES]
        if engine == "postgresql":
            url = url_of(services, acme)
            with psycopg.connect(url, autocommit=True) as connection:
                connection.execute("CREATE TABLE again (LIKE val)")
                with connection.cursor().copy("COPY again FROM STDIN (FORMAT csv, HEADER)") as copy:
                    copy.write(path.read_bytes())
                again = connection.execute("SELECT * FROM again ORDER BY id").fetchall()
            assert again == VALUES

    async def test_has_the_same_values_as_json_lines(self, world: World, tmp_path: Path):
        """Of every table of Tenantry: times, ids, booleans, JSON."""
        services, acme = world.services, world.acme.tenant
        await export(services, acme, tmp_path / "lines")
        manifest = await export(services, acme, tmp_path / "csv", RowFormat.CSV)

        for one in manifest.tables:
            lines = (tmp_path / "lines" / one.file.replace(".csv", ".jsonl")).read_text()
            objects = [json.loads(line) for line in lines.splitlines()]
            with (tmp_path / "csv" / one.file).open(newline="", encoding="utf-8") as file:
                rows = list(csv.DictReader(file, strict=True))
            assert rows == [{name: shown(it) for name, it in row.items()} for row in objects]


async def first_of(chunks: AsyncGenerator[bytes, None]) -> bytes:
    """Return the first chunk that is not empty: those before it are sent while it is awaited."""
    while not (chunk := await anext(chunks)):
        pass
    return chunk


class TestDownload:
    async def test_has_the_files_of_an_export(self, world: World, tmp_path: Path):
        services, acme = world.services, world.acme.tenant
        manifest = await export(services, acme, tmp_path / "acme")

        async with await world.admin() as admin:
            answer = await admin.get(f"/api/admin/tenants/{acme.id}/export")

        assert answer.status_code == 200, answer.text
        assert answer.headers["content-type"] == "application/zip"
        assert answer.headers["content-disposition"] == 'attachment; filename="export.zip"'
        assert answer.headers["cache-control"] == "no-store"
        with ZipFile(io.BytesIO(answer.content)) as archive:
            assert archive.testzip() is None
            *files, last = archive.namelist()
            found = json.loads(archive.read(last))
            content = {name: archive.read(name) for name in files}
        assert last == "export.json"
        assert set(content) == {one.file for one in manifest.tables}
        assert found["tenantName"] == "acme"
        for one in manifest.tables:
            if one.name != "tenantry_audit_entry":
                assert content[one.file] == (tmp_path / "acme" / one.file).read_bytes()

    async def test_is_csv_on_request_and_in_the_audit_log(self, world: World):
        path = f"/api/admin/tenants/{world.acme.tenant.id}/export"
        async with await world.admin() as admin:
            answer = await admin.get(path, params={"format": "csv"})
            refused = await admin.get(path, params={"format": "xlsx"})

        assert refused.status_code == 400
        with ZipFile(io.BytesIO(answer.content)) as archive:
            assert {Path(name).suffix for name in archive.namelist()} == {".csv", ".json"}
        page = await audit.LOG.page(world.services.catalog, Window(1, 1))
        assert (page.items[0].action, page.items[0].actor) == ("tenant.export", "ada@example.com")
        assert page.items[0].changes == [{"field": "format", "old": None, "new": "csv"}]

    async def test_of_which_only_the_head_is_requested_is_not_made(self, world: World):
        path = f"/api/admin/tenants/{world.acme.tenant.id}/export"
        async with await world.admin() as admin:
            head = await admin.head(path)

        assert (head.status_code, head.headers["content-type"]) == (200, "application/zip")
        page = await audit.LOG.page(world.services.catalog, Window(1, 1))
        assert page.items[0].action != "tenant.export"

    async def test_that_fails_at_its_beginning_is_not_tried_again(
        self, world: World, faults: Faults
    ):
        """Each try would be an entry of the audit log, and read the database."""

        def lose(*_: Any, **__: Any) -> None:
            raise DatabaseUnavailable from ConnectionRefusedError()

        faults.before(table_export, "export_tables", lose)
        async with await world.admin() as admin:
            answer = await admin.get(f"/api/admin/tenants/{world.acme.tenant.id}/export")

        assert answer.status_code == 503
        page = await audit.LOG.page(world.services.catalog, Window(1, 9))
        assert [one.action for one in page.items].count("tenant.export") == 1

    @pytest.mark.slow
    async def test_ends_without_the_end_of_the_file_when_the_caller_loses_access(
        self, world: World
    ):
        await fill_big(world)

        async def refuse() -> None:
            raise Unauthenticated

        chunks = while_admitted(download(world), refuse)
        received = [await anext(chunks)]
        await asyncio.sleep(READMIT_SECONDS)

        with pytest.raises(Unauthenticated):
            await read_into(received, chunks)
        with pytest.raises(BadZipFile):
            ZipFile(io.BytesIO(b"".join(received)))

    @pytest.mark.slow
    async def test_is_possible_for_a_few_callers_at_a_time(self, world: World):
        await fill_big(world)
        busy = [download(world) for _ in range(DOWNLOADS_MAX)]
        for one in busy:
            assert await first_of(one)

        with pytest.raises(TooManyExports):
            await anext(download(world))

        for one in busy:
            await one.aclose()
        again = [download(world) for _ in range(DOWNLOADS_MAX)]
        for one in again:
            assert await first_of(one)
            await one.aclose()

    async def test_of_a_missing_database_is_refused(self, world: World):
        services, acme = world.services, world.acme.tenant
        await services.databases.forget(acme.id)
        await services.databases.server(acme.server_name).drop(acme.database_name)

        async with await world.admin() as admin:
            answer = await admin.get(f"/api/admin/tenants/{acme.id}/export")

        assert (answer.status_code, answer.headers["content-type"]) == (503, "application/json")

    @pytest.mark.slow
    async def test_needs_little_memory_whatever_the_size(self, world: World):
        await fill_big(world, rows=ROWS)
        tracemalloc.start()

        received = 0
        async for chunk in download(world):
            received += len(chunk)

        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        assert received > ROWS * RANDOM_BYTES
        assert peak < received / 4


@pytest.mark.slow
class TestDownloadFromPostgresql:
    """One statement reads a whole table while the client receives it."""

    @pytest.mark.parametrize("engine", ["postgresql"])
    async def test_may_take_longer_than_a_statement(self, world: World):
        fill_large(world)
        set_on_database(world, "statement_timeout = '1s'")

        chunks = download(world)
        received = [await first_of(chunks)]
        await asyncio.sleep(STALL_SECONDS)
        await read_into(received, chunks)

        with ZipFile(io.BytesIO(b"".join(received))) as archive:
            assert archive.testzip() is None

    @pytest.mark.parametrize("engine", ["postgresql"])
    async def test_ends_when_the_connection_is_lost(self, world: World):
        fill_large(world)
        chunks = download(world)
        received = [await first_of(chunks)]

        raw_sql.run(
            url_of(world.services, world.acme.tenant),
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
            "WHERE query LIKE '%FROM ONLY%large%' AND pid <> pg_backend_pid()",
        )

        with pytest.raises(DatabaseUnavailable):
            await read_into(received, chunks)


@pytest.mark.slow
class TestMemoryForLargeRows:
    """Measured for the process: drivers allocate memory that Python does not count."""

    @pytest.mark.parametrize("row_format", RowFormat)
    async def test_of_an_export_is_that_of_one_row(
        self, world: World, tmp_path: Path, row_format: RowFormat
    ):
        fill_large(world)
        before = reset_peak()

        manifest = await export(world.services, world.acme.tenant, tmp_path / "acme", row_format)

        grown = peak_bytes() - before
        [large] = [one for one in manifest.tables if one.name == "large"]
        size = (tmp_path / "acme" / large.file).stat().st_size
        assert (large.rows, size > LARGE_ROWS * LARGE_ROW_BYTES) == (LARGE_ROWS, True)
        assert grown < GROWTH_BYTES_MAX, f"{grown:,} bytes more"

    async def test_of_a_download_is_that_of_one_row(self, world: World):
        fill_large(world)
        before = reset_peak()

        received = 0
        async for chunk in download(world):
            received += len(chunk)

        grown = peak_bytes() - before
        assert received > LARGE_ROWS * LARGE_ROW_BYTES / 2
        assert grown < GROWTH_BYTES_MAX, f"{grown:,} bytes more"

    async def test_of_downloads_that_are_not_read_is_that_of_one_row_each(self, world: World):
        fill_large(world)
        before = reset_peak()

        stalled = [download(world) for _ in range(DOWNLOADS_MAX)]
        for one in stalled:
            assert await first_of(one)
        await asyncio.sleep(STALL_SECONDS)

        grown = peak_bytes() - before
        for one in stalled:
            await one.aclose()
        assert grown < DOWNLOADS_MAX * GROWTH_BYTES_MAX, f"{grown:,} bytes more"


class TestExportTables:
    async def test_ends_when_it_is_stopped(self, world: World, tmp_path: Path):
        stop = Stop()
        stop.set()

        with pytest.raises(Stopped):
            await asyncio.to_thread(
                export_tables,
                url_of(world.services, world.acme.tenant),
                lambda name: private.open_new(tmp_path / name),
                row_format=RowFormat.CSV,
                left_out=lambda _: frozenset(),
                connect_seconds=5.0,
                stop=stop,
            )


async def create_values(services: Services, tenant: Tenant) -> None:
    """Create a table with values that are difficult in CSV."""
    url = url_of(services, tenant)
    raw_sql.run(url, 'CREATE TABLE val (id INTEGER PRIMARY KEY, "a ""b""" TEXT, n FLOAT)')
    for number, text, real in VALUES:
        shown_text = "NULL" if text is None else "'" + text.replace("'", "''") + "'"
        number_text = "NULL" if real is None else str(real)
        raw_sql.run(url, f"INSERT INTO val VALUES ({number}, {shown_text}, {number_text})")


async def fill_big(world: World, rows: int = 4_000) -> None:
    """Create a table that compression does not make small."""
    url = url_of(world.services, world.acme.tenant)
    raw_sql.run(url, "CREATE TABLE big (n INTEGER, t TEXT)")
    for first in range(0, rows, 1_000):
        values = ", ".join(
            f"({number}, '{secrets.token_hex(RANDOM_BYTES)}')"
            for number in range(first, min(rows, first + 1_000))
        )
        raw_sql.run(url, f"INSERT INTO big VALUES {values}")


def fill_large(world: World) -> None:
    """Create a table with large rows that compression does not make small."""
    text = secrets.token_hex(LARGE_ROW_BYTES // 2)
    raw_sql.run(
        url_of(world.services, world.acme.tenant),
        "CREATE TABLE large (n INTEGER, t TEXT)",
        "WITH RECURSIVE t(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM t WHERE n < "
        f"{LARGE_ROWS}) INSERT INTO large SELECT n, '{text}' FROM t",
    )


def set_on_database(world: World, setting: str) -> None:
    name = world.acme.tenant.database_name
    raw_sql.run(url_of(world.services, world.acme.tenant), f'ALTER DATABASE "{name}" SET {setting}')


def reset_peak() -> int:
    """Reset the peak of the memory of this process (proc(5)); return it."""
    Path("/proc/self/clear_refs").write_text("5")
    return peak_bytes()


def peak_bytes() -> int:
    """Return the most bytes of memory that this process has had since the reset."""
    status = Path("/proc/self/status").read_text()
    found = re.search(r"^VmHWM:\s+(\d+) kB$", status, re.MULTILINE)
    assert found is not None
    return int(found[1]) * 1024


def download(world: World) -> AsyncGenerator[bytes, None]:
    return world.services.export.download(
        system_context("ada"), world.acme.tenant, row_format=RowFormat.JSON_LINES
    )


async def read_into(received: list[bytes], chunks: AsyncGenerator[bytes, None]) -> None:
    async for chunk in chunks:
        received.append(chunk)  # noqa: PERF401 - kept if the next one is an error


def shown(value: object) -> str:
    """Return a value of JSON as the text in CSV."""
    if value is None:
        return ""
    return value if isinstance(value, str) else json.dumps(value, separators=(",", ":"))


def _tables(world: World) -> set[str]:
    url = url_of(world.services, world.acme.tenant)
    if url.startswith("sqlite"):
        sql = "SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite_%'"
    else:
        sql = "SELECT tablename FROM pg_tables WHERE schemaname = 'public'"
    return {name for (name,) in raw_sql.rows(url, sql)}
