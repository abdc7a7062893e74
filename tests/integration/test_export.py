"""The export of a tenant: every row of every table, and no secret."""

import asyncio
import json
import tracemalloc
from pathlib import Path
from threading import Event
from typing import Any, BinaryIO

import msgspec
import pytest

from tenantry.catalog import audit
from tenantry.catalog.tenants import Tenant
from tenantry.db.sessions import DatabaseUnavailable
from tenantry.db.table_export import ExportInterrupted, export_tables
from tenantry.fleet.export import ExportFailed, ExportFolderExists, Manifest
from tenantry.kit import private
from tenantry.kit.pages import Window
from tenantry.services import Services, system_context
from testkit import raw_sql
from tests.conftest import PASSWORD, World
from tests.integration.gates import url_of

# Of tables that hold secrets only.
LEFT_OUT = {"tenantry_ended_session"}
ROWS = 60_000


async def export(services: Services, tenant: Tenant, folder: Path) -> Manifest:
    return await services.export.write(system_context("ada"), tenant, folder)


def rows_of(folder: Path, manifest: Manifest, table: str) -> list[dict[str, Any]]:
    [found] = [one for one in manifest.tables if one.name == table]
    lines = (folder / found.file).read_text().splitlines()
    assert len(lines) == found.rows
    return [json.loads(line) for line in lines]


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
        self, world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ):
        """A write between two tables succeeds at once, and is not in the export."""
        services, acme = world.services, world.acme.tenant
        url = url_of(services, acme)
        raw_sql.run(url, "CREATE TABLE z_last (n INTEGER)")
        open_new = private.open_new

        def with_write(path: Path) -> BinaryIO:
            if "z_last" in path.name:
                raw_sql.run(url, "INSERT INTO z_last VALUES (1)")
            return open_new(path)

        monkeypatch.setattr(private, "open_new", with_write)

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


class TestExportTables:
    async def test_ends_when_it_is_stopped(self, world: World, tmp_path: Path):
        stop = Event()
        stop.set()

        with pytest.raises(ExportInterrupted):
            await asyncio.to_thread(
                export_tables,
                url_of(world.services, world.acme.tenant),
                tmp_path,
                left_out=lambda _: frozenset(),
                connect_seconds=5.0,
                stop=stop,
            )


def _tables(world: World) -> set[str]:
    url = url_of(world.services, world.acme.tenant)
    if url.startswith("sqlite"):
        sql = "SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite_%'"
    else:
        sql = "SELECT tablename FROM pg_tables WHERE schemaname = 'public'"
    return {name for (name,) in raw_sql.rows(url, sql)}
