"""Folders of plain SQL files are migrated like Alembic's: the same engine, the same guarantees."""

import asyncio
import signal
from collections.abc import Callable
from functools import partial
from pathlib import Path
from uuid import UUID

import psycopg
import pytest

from tenantry.catalog import runs
from tenantry.catalog.runs import MigrationRun
from tenantry.db.urls import sqlite_path
from tenantry.fleet.adoption import BadStamp
from tenantry.fleet.run_options import RunOptions
from tenantry.kit.context import system_context
from tenantry.kit.ids import new_id
from tenantry.migration.errors import explain
from tenantry.migration.guard import NotRehearsable
from tenantry.migration.run_scripts import RunScripts
from tenantry.migration.schema_state import SchemaState
from tenantry.migration.streams import Stream, Streams, UnknownRevision
from tenantry.migration.undo import NoDowngrade
from tenantry.services import Services, open_services
from tenantry.settings import Settings
from tenantry.tenant.stream import STREAM
from tenantry.tenant.users import NewUser
from testkit import raw_sql
from tests.integration.conftest import MakeMigrator
from tests.integration.engines import on_postgresql, on_sqlite
from tests.integration.gates import tenants, url_of
from tests.integration.programs import running

NOTE = "CREATE TABLE note (id integer PRIMARY KEY, text varchar(200));"
ROWS = "INSERT INTO note VALUES (1, 'a; :b %s 100% {c}'), (2, 'it''s');"
VERSIONS = "SELECT version_num FROM alembic_version"
LOG = "SELECT revision FROM tenantry_migration_log WHERE stream = 'user' ORDER BY position"
INDEX = "-- tenantry: no-transaction\nCREATE INDEX CONCURRENTLY ix_note ON note (text);"
INDEX_WORKS = """
SELECT 1 FROM pg_stat_activity WHERE datname = current_database() AND state = 'active'
AND query ILIKE 'CREATE INDEX CONCURRENTLY%'
"""
# Each file takes long enough to be killed in it.
SLOW = """
INSERT INTO note (id, text)
    WITH RECURSIVE i(k) AS (SELECT 1 UNION ALL SELECT k + 1 FROM i WHERE k < 20000)
    SELECT {n} * 100000 + k, 'row ' || k FROM i;
UPDATE note SET text = text || '!' WHERE id >= {n} * 100000;
CREATE TABLE t{n} (id integer);
"""


@pytest.fixture(name="sql")
def _sql(tmp_path: Path) -> Path:
    folder = tmp_path / "sql"
    folder.mkdir()
    return folder


def write(folder: Path, **files: str) -> None:
    """Write files, by name without ``.sql`` and the first ``n``."""
    for name, text in files.items():
        (folder / f"{name[1:].replace('__', '.')}.sql").write_text(text)


class Migrate:
    """Migrates one database to the head of a folder."""

    def __init__(self, make_migrator: MakeMigrator, folder: Path, url: str) -> None:
        self.migrator, self.folder, self.url = make_migrator(30.0), folder, url

    @property
    def scripts(self) -> RunScripts:
        return RunScripts(Streams(STREAM, Stream("user", self.folder)))

    async def __call__(self) -> SchemaState:
        return await self.migrator.migrate(self.url, self.scripts, run_id=new_id())

    async def reason(self) -> str:
        error = (await self()).error
        assert error is not None
        return explain(error)


@pytest.fixture(name="migrate")
def _migrate(make_migrator: MakeMigrator, sql: Path, tenant_url: str) -> Migrate:
    return Migrate(make_migrator, sql, tenant_url)


class TestOneDatabase:
    async def test_has_the_statements_of_each_file_as_they_are_written(
        self, migrate: Migrate, sql: Path
    ):
        write(sql, n0001_note=NOTE, n0002_rows=f"-- Rows.\n{ROWS}\n-- No more; of them.")
        done = await migrate()
        rows = raw_sql.rows(migrate.url, "SELECT text FROM note ORDER BY id")
        assert (done.error, str(done.revision)) == (None, f"{STREAM.head}/0002")
        assert rows == [("a; :b %s 100% {c}",), ("it's",)]
        assert raw_sql.rows(migrate.url, VERSIONS) == [("0002",)]
        assert raw_sql.rows(migrate.url, LOG) == [("0001_note",), ("0002_rows",)]

    async def test_is_unchanged_if_one_statement_of_one_file_fails(
        self, migrate: Migrate, sql: Path
    ):
        write(sql, n1_note=NOTE, n2_rows=f"{ROWS}\n\nINSERT INTO nowhere VALUES (1);")
        before = raw_sql.dump(migrate.url)
        said = await migrate.reason()
        assert said.startswith("2_rows: ")
        assert "nowhere" in said
        assert raw_sql.dump(migrate.url) == before

    async def test_is_rehearsed_and_rolled_back(self, migrate: Migrate, sql: Path):
        write(sql, n1_note=NOTE, n2_rows=ROWS)
        before = raw_sql.dump(migrate.url)
        seen = await migrate.migrator.inspect(migrate.url, migrate.scripts, rehearses=True)
        assert (seen.error, [one.revision for one in seen.pending]) == (None, ["1_note", "2_rows"])
        assert raw_sql.dump(migrate.url) == before

    async def test_that_has_a_later_file_refuses_one_that_is_added_before_it(
        self, migrate: Migrate, sql: Path
    ):
        write(sql, n20240101_note=NOTE, n20240301_rows=ROWS)
        assert (await migrate()).error is None
        write(sql, n20240201_late="CREATE TABLE late (id integer);")
        done = await migrate()
        assert isinstance(done.error, UnknownRevision)
        assert "before 20240301_rows" in explain(done.error)
        (sql / "20240201_late.sql").rename(sql / "20240401_late.sql")
        assert (await migrate()).error is None
        assert "late" in raw_sql.tables(migrate.url)

    async def test_is_read_by_a_file_that_names_the_version_table(
        self, migrate: Migrate, sql: Path
    ):
        """It runs live, where a driver could take a percent sign for a parameter."""
        read = "INSERT INTO note SELECT 1, '100% %s :b' || version_num FROM alembic_version;"
        write(sql, n1_note=NOTE, n2_read=read)
        assert (await migrate()).error is None
        assert raw_sql.rows(migrate.url, "SELECT text FROM note") == [("100% %s :b1",)]

    @on_postgresql
    async def test_takes_functions_of_both_kinds_and_literals_with_backslashes(
        self, migrate: Migrate, sql: Path
    ):
        functions = r"""
            CREATE FUNCTION one() RETURNS int BEGIN ATOMIC SELECT CASE WHEN true THEN 1 END; END;
            DO $$ BEGIN PERFORM 1; END; $$;
            INSERT INTO note VALUES (1, E'it\'s; \\'), (2, 'C:\;');
            CREATE TABLE other (a int[], b jsonb); INSERT INTO other VALUES ('{1}', '{"a": 1}');
        """
        write(sql, n1_note=NOTE, n2_functions=functions)
        assert (await migrate()).error is None
        rows = raw_sql.rows(migrate.url, "SELECT one(), text FROM note ORDER BY id")
        assert rows == [(1, "it's; \\"), (1, "C:\\;")]

    @on_sqlite
    async def test_takes_triggers_and_pragmas(self, migrate: Migrate, sql: Path):
        trigger = """
            PRAGMA foreign_keys = OFF;
            CREATE TRIGGER changed AFTER UPDATE ON note BEGIN
                INSERT INTO note VALUES (CASE WHEN 1 THEN 9 END, 'x; %s :y'); SELECT 1;
            END;
            UPDATE note SET text = 'z' WHERE id = 1;
            PRAGMA foreign_keys = ON;
        """
        write(sql, n1_note=NOTE, n2_rows=ROWS, n3_trigger=trigger, n4_more="SELECT ':a %s';")
        assert (await migrate()).error is None
        assert raw_sql.rows(migrate.url, "SELECT text FROM note WHERE id = 9") == [("x; %s :y",)]

    async def test_commits_without_a_transaction_where_the_file_says_so(
        self, migrate: Migrate, sql: Path, engine: str
    ):
        write(sql, n1_note=NOTE, n2_rows=ROWS)
        index = INDEX if engine == "postgresql" else INDEX.replace("CONCURRENTLY ", "")
        write(sql, n3_index=index, n4_later="CREATE TABLE later (id integer);")
        seen = await migrate.migrator.inspect(migrate.url, migrate.scripts, rehearses=True)
        assert (seen.error is None) == (engine == "sqlite")
        if seen.error:
            assert isinstance(seen.error.__cause__, NotRehearsable)
        done = await migrate()
        assert (done.error, done.revision.user) == (None, "4")
        assert len(raw_sql.rows(migrate.url, LOG)) == 4

    @on_postgresql
    async def test_names_the_remedy_if_a_statement_needs_to_be_outside(
        self, migrate: Migrate, sql: Path
    ):
        write(sql, n1_note=NOTE, n2_index=INDEX.partition("\n")[2])
        assert "(SQL: `-- tenantry: no-transaction`)" in await migrate.reason()

    async def test_does_not_accept_a_file_that_writes_the_version(
        self, migrate: Migrate, sql: Path
    ):
        write(sql, n1_note=NOTE, n2_version="DELETE FROM alembic_version;")
        before = raw_sql.dump(migrate.url)
        assert "version table" in await migrate.reason()
        assert raw_sql.dump(migrate.url) == before


async def run(services: Services, **options: object) -> MigrationRun:
    chosen = RunOptions(**options)  # type: ignore[arg-type]
    run_id = await services.fleet.plan(system_context("ada"), triggered_by="ada", options=chosen)
    return await services.fleet.wait(run_id)


@pytest.fixture(name="of_files")
def _of_files(settings: Settings, sql: Path) -> Settings:
    write(sql, n1_note__up=NOTE)
    return settings.model_copy(update={"tenant_migrations": sql, "migrate_concurrency": 2})


class TestFleet:
    async def test_is_migrated_and_undone_by_the_files(self, of_files: Settings, sql: Path):
        async with open_services(of_files) as services:
            some = await tenants(services, 2)
            urls = [url_of(services, one) for one in some]
            before = [raw_sql.dump(url) for url in urls]
            write(sql, n2_rows__up=ROWS, n2_rows__down="DELETE FROM note;")
            write(sql, n3_more__up="CREATE TABLE more (id integer);")
            write(sql, n3_more__down="DROP TABLE more;")
            done = await run(services)
            undone = await run(services, undoes=done.id)
            assert (done.success_count, undone.success_count) == (2, 2)
            assert [raw_sql.dump(url) for url in urls] == before
            assert [raw_sql.rows(url, VERSIONS) for url in urls] == [[("1",)]] * 2

    async def test_is_not_undone_without_what_undoes_each_file(self, of_files: Settings, sql: Path):
        async with open_services(of_files) as services:
            some = await tenants(services, 1)
            write(sql, n2_rows__up=ROWS, n2_rows__down="-- Later.")
            done = await run(services)
            before = raw_sql.dump(url_of(services, some[0]))
            with pytest.raises(NoDowngrade, match=r"2_rows\.up\.sql: what undoes it"):
                await run(services, undoes=done.id)
            assert raw_sql.dump(url_of(services, some[0])) == before

    async def test_has_a_plan_with_the_sql_and_its_warnings(self, of_files: Settings, sql: Path):
        async with open_services(of_files) as services:
            await tenants(services, 1)
            write(sql, n2_drop__up="DROP TABLE note;")
            seen = await services.fleet.preview(system_context("ada"), RunOptions(), rehearse=False)
            [pending] = seen.revisions
            assert (pending.revision, pending.sql) == ("2_drop", "DROP TABLE note")
            assert [one.rule for one in pending.findings] == ["drop-table"]


class TestTakenOver:
    @pytest.mark.parametrize("stamp", ["20240101120000", "20240101120000.1"])
    async def test_a_database_of_dbmate_is_adopted_at_the_version_that_it_has(
        self, settings: Settings, sql: Path, new_database: Callable[[], str], stamp: str
    ):
        write(sql, n20240101120000_note=f"-- migrate:up\n{NOTE}\n-- migrate:down\n")
        write(sql, n20240301120000_rows=f"-- migrate:up\n{ROWS}\n-- migrate:down\n")
        url = new_database()
        raw_sql.run(
            url,
            NOTE,
            "CREATE TABLE schema_migrations (version varchar(128) PRIMARY KEY)",
            "INSERT INTO schema_migrations VALUES ('20240101120000')",
        )
        database = str(sqlite_path(url) or url.rpartition("/")[2])
        owner = NewUser(email="a@example.com", full_name="A", password="correct horse battery")
        async with open_services(
            settings.model_copy(update={"tenant_migrations": sql})
        ) as services:
            adopt = partial(services.adoption.adopt, name="shop", database=database, owner=owner)
            with pytest.raises(BadStamp):
                await adopt(system_context("test"), stamp="20240301")
            made = await adopt(system_context("test"), stamp=stamp)
            done = await run(services)
            ended = await runs.ended(services.catalog, done.id)
        assert made.tenant.schema_revision == f"{STREAM.head}/20240101120000.1"
        assert [one.applied for one in ended] == ["20240301120000_rows"]


@pytest.mark.slow
class TestKills:
    async def test_leave_each_database_before_or_after_all_files(
        self, of_files: Settings, sql: Path
    ):
        async with open_services(of_files) as services:
            some = await tenants(services, 4)
            urls = [url_of(services, one) for one in some]
        landed = False
        for n in range(2, 8, 2):
            before = {url: raw_sql.rows(url, VERSIONS) for url in urls}
            for number in (n, n + 1):
                write(sql, **{f"n{number}_step__up": SLOW.format(n=number)})
            async with running("migrate", of_files) as process:
                run_id = UUID(await process.line())
                await asyncio.sleep(0.05 * n)
                process.signal(signal.SIGKILL)
            await asyncio.sleep(0.1)  # the server notices that the client is gone
            landed |= any(raw_sql.rows(url, VERSIONS) == before[url] for url in urls)
            for url in urls:
                [(version,)] = raw_sql.rows(url, VERSIONS)
                assert [(version,)] == before[url] or version == str(n + 1)
                assert (f"t{n}" in raw_sql.tables(url)) == (version == str(n + 1))
            async with open_services(of_files) as services:
                done = await services.fleet.wait(run_id)
                ended = await runs.ended(services.catalog, run_id)
            assert done.success_count == 4, [one.error for one in ended]
            for url in urls:
                names = [name for (name,) in raw_sql.rows(url, LOG)]
                assert names == ["1_note", *(f"{one}_step" for one in range(2, n + 2))]
                assert raw_sql.rows(url, "SELECT count(*) FROM note") == [(n * 20_000,)]
        assert landed, "no kill has hit a run; the test says nothing"

    @on_postgresql
    async def test_outside_a_transaction_are_continued_by_the_next_run(
        self, of_files: Settings, sql: Path
    ):
        async with open_services(of_files) as services:
            [tenant] = await tenants(services, 1)
            url = url_of(services, tenant)
        write(sql, n2_index__up=INDEX)
        with psycopg.connect(url) as holder:
            holder.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
            holder.execute("SELECT 1")  # an old snapshot, for which the index waits
            async with running("migrate", of_files) as process:
                run_id = UUID(await process.line())
                while not raw_sql.rows(url, INDEX_WORKS):  # noqa: ASYNC110 - of another process
                    await asyncio.sleep(0.02)
                process.signal(signal.SIGKILL)
        async with open_services(of_files) as services:
            done = await services.fleet.wait(run_id)
        valid = "SELECT indisvalid FROM pg_index WHERE indrelid = 'note'::regclass"
        assert (done.success_count, raw_sql.rows(url, VERSIONS)) == (1, [("2",)])
        assert raw_sql.rows(url, valid) == [(True,), (True,)]
