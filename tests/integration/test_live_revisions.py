"""What a revision sees that runs live: everything that it has said before, as with Alembic."""

from collections.abc import Callable
from contextlib import closing

import pytest

from tenantry.db.urls import sqlite_path
from tenantry.kit.ids import new_id
from tenantry.migration.errors import explain
from tenantry.migration.execution import Execution
from tenantry.migration.execution_postgres import PostgresExecution
from tenantry.migration.execution_sqlite import SqliteExecution
from tenantry.migration.live import SharedDialects
from tenantry.migration.lock_retries import LockRetries
from tenantry.migration.lock_timeouts import LockTimeouts
from tenantry.migration.revisions import RevisionFailed
from tenantry.migration.run_scripts import RunScripts
from testkit import raw_sql
from testkit.revisions import AlembicFolder
from tests.integration.conftest import Rig
from tests.integration.engines import on_postgresql

LIVE = "import sqlalchemy.exc\nonline = True"
CREATE = "op.create_table('note', sa.Column('id', sa.Integer, nullable=False))\n"

SEES = {
    "with an inspector": "assert sa.inspect(op.get_bind()).has_table('note')",
    "with a cursor of the driver": """
        cursor = op.get_bind().connection.cursor()
        cursor.execute("SELECT count(*) FROM note")
        assert cursor.fetchone()[0] == 0
    """,
    "with a cursor of the server": """
        found = op.get_bind().execution_options(stream_results=True).execute(
            sa.text("SELECT count(*) FROM note"))
        assert found.scalar() == 0
    """,
    "with the driver": """
        if op.get_bind().dialect.name == 'postgresql':
            raw = op.get_bind().connection.driver_connection
            assert raw.execute("SELECT count(*) FROM note").fetchone() == (0,)
    """,
    "with many rows": """
        op.bulk_insert(sa.table('note', sa.column('id')), [{'id': 1}, {'id': 2}])
        assert op.get_bind().execute(sa.text("UPDATE note SET id = id + 2")).rowcount == 2
    """,
    "with rows that come back": """
        op.execute("INSERT INTO note VALUES (1)")
        found = op.get_bind().execute(sa.text("UPDATE note SET id = 2 RETURNING id"))
        assert found.all() == [(2,)]
    """,
    "with a parameter": """
        op.get_bind().execute(sa.text("INSERT INTO note VALUES (:id)"), {'id': 7})
        op.execute("ALTER TABLE note ADD COLUMN at TEXT; UPDATE note SET at = 'x;y'; SELECT 1"
                   if op.get_bind().dialect.name == 'postgresql'
                   else "ALTER TABLE note ADD COLUMN at TEXT")
    """,
}
SAVEPOINTS = {
    "of SQLAlchemy": """
        with op.get_bind().begin_nested() as point:
            try:
                op.create_table('note', sa.Column('id', sa.Integer))
            except sqlalchemy.exc.DBAPIError:
                point.rollback()
    """,
    "of its own": """
        op.execute("SAVEPOINT here")
        try:
            op.create_table('note', sa.Column('id', sa.Integer))
        except sqlalchemy.exc.DBAPIError:
            op.execute("ROLLBACK TO SAVEPOINT here")
    """,
}


def _execution(url: str) -> Execution:
    if path := sqlite_path(url):
        return SqliteExecution(path, user_table="alembic_version", lock_ms=1_000)
    return PostgresExecution(
        url,
        user_table="alembic_version",
        driver="psycopg",
        dialects=SharedDialects(),
        timeout_seconds=5,
    )


class TestLive:
    async def test_leaves_nothing_to_the_next_attempt(
        self, rig: Rig, folder: AlembicFolder, tenant_url: str
    ):
        """The next script can be another one, if something else has migrated the database."""
        timeouts = LockTimeouts(swap_ms=1_000, lock_ms=1_000)
        pragmas = "if op.get_context().dialect.name == 'sqlite':\n" + "".join(
            f"    op.execute('PRAGMA foreign_keys = {one}')\n" for one in ("OFF", "ON")
        )
        change = "op.get_context().opts['mine'] = 5\n"
        folder.add("u1_make", f"{CREATE}{pragmas}{change}raise ValueError", head=LIVE)

        with closing(_execution(tenant_url)) as execution:
            with pytest.raises(RevisionFailed):
                LockRetries(RunScripts(rig.streams()), new_id(), timeouts).to_head(execution)
            folder.last = None
            folder.add("u1_make", CREATE)
            state = LockRetries(RunScripts(rig.streams()), new_id(), timeouts).to_head(execution)

        assert [one.revision for one in state.applied] == ["u1_make"]

    @pytest.mark.parametrize("look", SEES.values(), ids=SEES)
    async def test_sees_what_it_has_made(
        self, rig: Rig, folder: AlembicFolder, tenant_url: str, look: str
    ):
        folder.add("u1_make", CREATE + look.replace("\n        ", "\n"), head=LIVE)

        done = await rig.migrate(tenant_url)

        assert done.error is None
        assert [one.revision for one in done.applied] == ["u1_make"]

    @pytest.mark.parametrize("attempt", SAVEPOINTS.values(), ids=SAVEPOINTS)
    async def test_can_go_back_to_a_savepoint(
        self, rig: Rig, folder: AlembicFolder, tenant_url: str, attempt: str
    ):
        body = CREATE + attempt.replace("\n        ", "\n")
        folder.add(
            "u1_make", body + "\nop.create_table('other', sa.Column('id', sa.Integer))", head=LIVE
        )

        done = await rig.migrate(tenant_url)

        assert done.error is None
        assert {"note", "other"} <= set(raw_sql.tables(tenant_url))

    @pytest.mark.parametrize(
        "body",
        [
            "op.create_index('ix', 'missing', ['id'])",
            "op.create_index('ix', 'missing', ['id'])\nop.drop_table('note')",
            "op.create_index('ix', 'missing', ['id'])\nop.execute('SELECT 1')",
        ],
        ids=["at its end", "before more of it", "before a query"],
    )
    async def test_fails_by_its_own_name(
        self, rig: Rig, folder: AlembicFolder, tenant_url: str, body: str
    ):
        folder.add("u1_make", CREATE, head=LIVE)
        folder.add("u2_wrong", body, head=LIVE)
        folder.add("u3_more", "op.execute('SELECT 1')", head=LIVE)

        done = await rig.migrate(tenant_url)

        assert done.error is not None
        assert explain(done.error).startswith("u2_wrong: ")
        assert "missing" in explain(done.error)
        assert (done.applied, "note" in raw_sql.tables(tenant_url)) == ([], False)


class TestManyDatabases:
    @on_postgresql
    async def test_each_have_their_own_default_schema(
        self, rig: Rig, folder: AlembicFolder, new_database: Callable[[], str]
    ):
        urls = [await rig.initialise(new_database()) for _ in range(3)]
        raw_sql.run(urls[1], "CREATE SCHEMA app")
        body = CREATE + "assert op.get_bind().dialect.default_schema_name == schema, schema\n"
        body += "assert op.get_bind().scalar(sa.text('SELECT current_schema()')) == schema\n"
        body += "op.get_bind().dialect.default_schema_name = 'spoiled'"
        schema = "schema = op.get_bind().scalar(sa.text('SELECT current_schema()'))"
        folder.add("u1_make", f"{schema}\n{body}", head=LIVE)

        first = await rig.migrate(urls[0])
        other = await rig.migrate(f"{urls[1]}?search_path=app,public")
        third = await rig.migrate(urls[2])

        errors = [one.error and explain(one.error) for one in (first, other, third)]
        assert errors == [None, None, None]

    @on_postgresql
    async def test_do_not_hear_the_listeners_of_each_other(
        self, rig: Rig, folder: AlembicFolder, new_database: Callable[[], str]
    ):
        urls = [await rig.initialise(new_database()) for _ in range(3)]
        folder.add(
            "u1_make",
            f"""
            name = op.get_bind().engine.url.database
            def check(cursor, *_):
                assert cursor.connection.info.dbname == name
            sa.event.listen(op.get_bind().engine, "do_execute", check)
            {CREATE.strip()}
            """,
            head=LIVE,
        )

        done = [await rig.migrate(url) for url in urls]

        assert [one.error and explain(one.error) for one in done] == [None, None, None]
