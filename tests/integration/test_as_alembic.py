"""A revision behaves as with Alembic, or fails with a readable error."""

import asyncio
import contextlib
import re
import sqlite3

import psycopg
import pytest

from tenantry.kit.ids import new_id
from tenantry.migration.errors import explain
from tenantry.migration.run_scripts import RunScripts
from tenantry.migration.schema_state import SchemaRevision
from tenantry.migration.streams import Stream, Streams
from tenantry.tenant.stream import STREAM
from testkit import raw_sql
from testkit.revisions import AlembicFolder
from tests.integration.conftest import MakeMigrator, Rig
from tests.integration.engines import on_postgresql, on_sqlite
from tests.own_time import own_seconds

# As in production, where a warning is no error.
pytestmark = pytest.mark.filterwarnings("ignore")

NOTE = """
op.create_table("note", sa.Column("id", sa.Integer, primary_key=True), sa.Column("text", sa.Text))
op.execute("INSERT INTO note VALUES (1, 'one'), (2, 'two')")
"""
WRITE = 'op.get_bind().execute(sa.text("UPDATE note SET text = :text"), {"text": str(found)})'

NAMED = """
op.create_table("item", sa.Column("n", sa.Integer, unique=True),
                sa.CheckConstraint("n > 0", name="positive"))
"""
DROP_NAMED = """
with op.batch_alter_table("item") as batch:
    batch.drop_constraint("uq_item_n", type_="unique")
    batch.drop_constraint(op.f("ck_item_positive"), type_="check")
    batch.create_unique_constraint(None, ["n"])
"""
CONVENTION = {
    "uq": "uq_%(table_name)s_%(column_0_name)s",
    "ck": "ck_%(table_name)s_%(constraint_name)s",
}

# What was invented while a revision was recorded, and the truth.
KNOWN = {
    "the row count of a cursor": (
        """
        cursor = op.get_bind().connection.cursor()
        cursor.execute("UPDATE note SET text = 'x'")
        found = cursor.rowcount
        """,
        "2",
    ),
    "the description of a cursor": (
        """
        cursor = op.get_bind().connection.cursor()
        cursor.execute("SELECT id, text FROM note")
        found = [column[0] for column in cursor.description]
        """,
        "['id', 'text']",
    ),
    "that a transaction is open": ("found = op.get_bind().in_transaction()", "True"),
    "that it is online": ("found = op.get_context().as_sql", "False"),
}
COPIED = """
rows, row = [], {"id": 0}
for number in (10, 11, 12):
    row["id"] = number
    op.execute(sa.table("note", sa.column("id", sa.Integer)).insert().values(row))
    rows.append(number)
data = bytearray(b"a")
for letter in b"bc":
    data[0] = letter
    op.get_bind().execute(sa.text("INSERT INTO note (id, text) VALUES (:id, :text)"),
                          {"id": letter, "text": bytes(data).decode()})
"""
ENDS = {
    "commit of the connection": "op.get_bind().commit()",
    "rollback of the connection": "op.get_bind().rollback()",
    "commit of the driver": "op.get_bind().connection.dbapi_connection.commit()",
    "rollback of the driver": "op.get_bind().connection.dbapi_connection.rollback()",
    "rollback of a session": "Session(op.get_bind()).rollback(); op.get_bind().rollback()",
    "commit that is caught": "try:\n    op.get_bind().commit()\nexcept Exception:\n    pass",
    "COMMIT": "op.execute('COMMIT')",
    "ROLLBACK": "op.execute('ROLLBACK')",
    "COMMIT of a cursor": "op.get_bind().connection.cursor().execute('COMMIT')",
    "a second connection": "op.get_bind().engine.connect()",
}


def reason(error: Exception | None) -> str:
    assert error is not None
    return explain(error)


class TestKnown:
    @pytest.mark.parametrize(("body", "truth"), KNOWN.values(), ids=KNOWN)
    async def test_is_what_the_database_says(
        self, rig: Rig, folder: AlembicFolder, tenant_url: str, body: str, truth: str
    ):
        folder.add("u1_note", NOTE)
        lines = "\n".join(line.removeprefix("        ") for line in body.splitlines())
        folder.add("u2_ask", f"{lines}\n{WRITE}")

        done = await rig.migrate(tenant_url)

        assert done.error is None, reason(done.error)
        assert raw_sql.rows(tenant_url, "SELECT DISTINCT text FROM note") == [(truth,)]

    async def test_is_where_the_connection_leads(
        self, rig: Rig, folder: AlembicFolder, tenant_url: str, engine: str
    ):
        folder.add("u1_note", NOTE)
        ask = "found = op.get_bind().engine.url.database, op.get_bind().dialect.default_schema_name"
        folder.add("u2_ask", f"{ask}\n{WRITE}")

        done = await rig.migrate(tenant_url)

        assert done.error is None, reason(done.error)
        schema = "public" if engine == "postgresql" else "main"
        name = tenant_url.rpartition("/")[2] if engine == "postgresql" else tenant_url[10:]
        assert raw_sql.rows(tenant_url, "SELECT text FROM note")[0] == (str((name, schema)),)

    async def test_is_the_last_key_on_sqlite(
        self, rig: Rig, folder: AlembicFolder, tenant_url: str, engine: str
    ):
        if engine == "postgresql":
            return
        folder.add("u1_note", NOTE)
        ask = "cursor = op.get_bind().connection.cursor()\n"
        ask += "cursor.execute(\"INSERT INTO note VALUES (7, 'x')\")\nfound = cursor.lastrowid"
        folder.add("u2_ask", f"{ask}\n{WRITE}")

        assert (await rig.migrate(tenant_url)).error is None
        assert raw_sql.rows(tenant_url, "SELECT DISTINCT text FROM note") == [("7",)]

    async def test_is_the_revision_before_in_the_middle_of_a_chain(
        self, rig: Rig, folder: AlembicFolder, tenant_url: str
    ):
        folder.add("u1_note", NOTE)
        folder.add("u2_more", "op.add_column('note', sa.Column('more', sa.Integer))")
        folder.add("u3_ask", f"found = op.get_context().get_current_revision()\n{WRITE}")

        done = await rig.migrate(tenant_url)

        assert done.error is None, reason(done.error)
        assert raw_sql.rows(tenant_url, "SELECT DISTINCT text FROM note") == [("u2",)]

    async def test_is_both_branches_before_their_merge(
        self, rig: Rig, folder: AlembicFolder, tenant_url: str
    ):
        folder.add("a_note", NOTE)
        folder.add("b_left", "pass")
        folder.add("c_right", "pass", down="a")
        ask = f"found = sorted(op.get_context().get_current_heads())\n{WRITE}"
        folder.add("d_merge", ask)
        file = folder.path / "versions" / "d_merge.py"
        file.write_text(file.read_text().replace("= 'c'", "= ('b', 'c')"))

        done = await rig.migrate(tenant_url)

        assert done.error is None, reason(done.error)
        assert raw_sql.rows(tenant_url, "SELECT DISTINCT text FROM note") == [("['b', 'c']",)]

    @pytest.mark.parametrize("expected", ["", "c+d", "d+c", "b+c", "b", "b+c+d"])
    async def test_can_be_several_from_where_it_goes_on(
        self, rig: Rig, folder: AlembicFolder, tenant_url: str, expected: str
    ):
        """As a database that plain Alembic has left there, whatever the tenant before was at."""
        folder.add("a_note", NOTE)
        await rig.migrate(tenant_url)
        for branch in "bcd":
            folder.add(
                f"{branch}_branch", f"op.execute('CREATE TABLE {branch} (id INT)')", down="a"
            )
        merge = folder.add("e_merge", "pass")
        merge.write_text(merge.read_text().replace("= 'd'", "= ('b', 'c', 'd')"))
        raw_sql.run(tenant_url, "CREATE TABLE c (id INT)", "CREATE TABLE d (id INT)")
        raw_sql.run(tenant_url, "DELETE FROM alembic_version")
        raw_sql.run(tenant_url, "INSERT INTO alembic_version VALUES ('c'), ('d')")
        scripts = RunScripts(rig.streams())
        if expected:
            dialect = await rig.migrator.read_dialect(tenant_url, scripts.streams)
            scripts.expected = dialect, SchemaRevision(STREAM.head, expected), True

        before = await rig.inspect(tenant_url)
        done = await rig.migrator.migrate(tenant_url, scripts, run_id=new_id(), is_first=True)

        assert str(before.revision) == f"{STREAM.head}/c+d"
        assert done.error is None, reason(done.error)
        assert [one.revision for one in done.applied] == ["b_branch", "e_merge"]
        assert raw_sql.rows(tenant_url, "SELECT version_num FROM alembic_version") == [("e",)]

    async def test_is_refused_if_one_revision_includes_another(
        self, rig: Rig, folder: AlembicFolder, tenant_url: str
    ):
        folder.add("a_note", NOTE)
        folder.add("b_more", "pass")
        await rig.migrate(tenant_url)
        folder.add("c_last", "pass")
        raw_sql.run(tenant_url, "INSERT INTO alembic_version VALUES ('a')")

        done = await rig.migrate(tenant_url)

        assert "One revision in the version table includes another" in reason(done.error)

    async def test_is_copied_when_it_is_sent(
        self, rig: Rig, folder: AlembicFolder, tenant_url: str
    ):
        """Rows that are changed after they were sent: each has the value that it had."""
        folder.add("u1_note", NOTE)
        folder.add("u2_rows", COPIED)

        done = await rig.migrate(tenant_url)

        assert done.error is None, reason(done.error)
        rows = raw_sql.rows(tenant_url, "SELECT id, text FROM note WHERE id > 2 ORDER BY id")
        assert rows == [(10, None), (11, None), (12, None), (98, "b"), (99, "c")]

    @on_postgresql
    async def test_is_read_again_after_a_recorded_revision(
        self, rig: Rig, folder: AlembicFolder, tenant_url: str
    ):
        """A prepared statement of the driver would be stale."""
        read = "found = op.get_bind().execute(sa.text('SELECT * FROM note')).all()\n" * 8
        folder.add("u1_note", NOTE)
        folder.add("u2_read", read)
        folder.add("u3_add", "op.add_column('note', sa.Column('more', sa.Integer))")
        folder.add("u4_read", f"{read}assert len(found[0]) == 3")

        done = await rig.migrate(tenant_url)

        assert done.error is None, reason(done.error)


class TestVersionTable:
    @pytest.mark.parametrize("online", [False, True], ids=["recorded", "live"])
    async def test_is_that_of_the_settings(
        self,
        folder: AlembicFolder,
        rig: Rig,
        tenant_url: str,
        online: bool,  # noqa: FBT001
    ):
        read = """
        names = [op.get_context().version_table, op.get_context().opts["version_table"]]
        op.execute(f"CREATE TABLE {'_and_'.join(names)} (id integer)")
        """
        folder.add("u1_read", read, head=f"online = {online}")

        done = await rig.migrate(tenant_url, rig.streams("mine"))

        assert done.error is None, reason(done.error)
        assert "mine_and_mine" in raw_sql.tables(tenant_url)


class TestRefusal:
    @pytest.mark.parametrize("asked", ["context.config.get_main_option('a')", "op.get_bind()"])
    async def test_fails_the_tenant_if_the_module_catches_it(
        self, folder: AlembicFolder, rig: Rig, tenant_url: str, asked: str
    ):
        """Alembic imports a revision where both can be used."""
        head = f"from alembic import context\ntry:\n    {asked}\nexcept Exception:\n    pass"
        folder.add("u1_note", NOTE, head=head)

        done = await rig.migrate(tenant_url)

        assert done.error is not None
        assert re.search("does not run|outside `upgrade", reason(done.error))
        assert "note" not in raw_sql.tables(tenant_url)

    async def test_fails_the_tenant_if_the_revision_catches_it(
        self, folder: AlembicFolder, rig: Rig, tenant_url: str
    ):
        body = "try:\n    context.config.get_main_option('a')\nexcept Exception:\n    pass\n"
        folder.add("u1_note", body + NOTE, head="from alembic import context")

        done = await rig.migrate(tenant_url)

        assert "does not run: use op.get_bind()" in reason(done.error)
        assert "note" not in raw_sql.tables(tenant_url)


class TestDriver:
    @on_postgresql
    async def test_is_the_one_that_the_operator_names(
        self, folder: AlembicFolder, tenant_url: str, make_migrator: MakeMigrator
    ):
        """Projects are written against theirs: `%s`, `IN` of a tuple, `copy_expert`."""
        body = """
        raw = op.get_bind().connection.driver_connection
        assert type(raw).__mro__[1].__module__ == "psycopg2.extensions"
        cursor = raw.cursor()
        cursor.execute("SELECT count(*) FROM note WHERE id IN %s", ((1, 2, 3),))
        assert cursor.fetchone() == (2,)
        cursor.copy_expert("COPY note FROM STDIN", io.StringIO("9\\tcopied\\n"))
        """
        folder.add("u1_note", NOTE)
        folder.add("u2_copy", body, head="import io")
        done = await Rig(make_migrator(20.0, driver="psycopg2"), folder).migrate(tenant_url)

        assert done.error is None, reason(done.error)
        assert raw_sql.rows(tenant_url, "SELECT text FROM note WHERE id = 9") == [("copied",)]

    @on_postgresql
    @pytest.mark.parametrize("second", ["op.get_bind().in_transaction()", "pass"])
    async def test_has_one_session_for_all_revisions(
        self, folder: AlembicFolder, tenant_url: str, make_migrator: MakeMigrator, second: str
    ):
        """As with Alembic; a block divides the script, not the session."""
        folder.add("u1_note", f"{NOTE}\nop.execute(\"SET TIME ZONE 'Asia/Tokyo'\")")
        folder.add("u2_second", second)
        block = "with op.get_context().autocommit_block():\n    op.execute('VACUUM note')\n"
        level = "    assert op.get_bind().get_isolation_level()"
        folder.add("u3_vacuum", block + level)
        folder.add("u4_vacuum", block)
        folder.add(
            "u5_text", "op.execute(\"INSERT INTO note SELECT 9, current_setting('TimeZone')\")"
        )
        done = await Rig(make_migrator(20.0, driver="psycopg2"), folder).migrate(tenant_url)

        assert done.error is None, reason(done.error)
        rows = raw_sql.rows(tenant_url, "SELECT text FROM note WHERE id = 9")
        assert rows == [("Asia/Tokyo",)]

    @on_postgresql
    @pytest.mark.parametrize("name", ["no_such_driver", "pg8000"])
    async def test_that_is_not_installed_is_reported(
        self, folder: AlembicFolder, tenant_url: str, make_migrator: MakeMigrator, name: str
    ):
        folder.add("u1_read", "op.get_bind().in_transaction()")
        done = await Rig(make_migrator(20.0, driver=name), folder).migrate(tenant_url)

        assert "TENANTRY_MIGRATION_DRIVER" in reason(done.error)

    @on_postgresql
    async def test_takes_settings_of_the_server_in_the_url(
        self, rig: Rig, folder: AlembicFolder, tenant_url: str
    ):
        body = "assert op.get_bind().scalar(sa.text('SHOW work_mem')) == '7MB'"
        folder.add("u1_read", body)

        done = await rig.migrate(f"{tenant_url}?work_mem=7MB")

        assert done.error is None, reason(done.error)


class TestTransaction:
    @pytest.mark.parametrize("rehearses", [False, True], ids=["in earnest", "in a rehearsal"])
    @pytest.mark.parametrize("body", ENDS.values(), ids=ENDS)
    async def test_cannot_be_ended_by_a_revision(
        self,
        rig: Rig,
        folder: AlembicFolder,
        tenant_url: str,
        body: str,
        rehearses: bool,  # noqa: FBT001
    ):
        folder.add("u1_note", NOTE)
        folder.add("u2_end", body, head="from sqlalchemy.orm import Session")
        folder.add("u3_later", "op.create_table('later', sa.Column('id', sa.Integer))")
        before = raw_sql.dump(tenant_url)

        act = rig.rehearse if rehearses else rig.migrate
        error = (await act(tenant_url)).error

        assert reason(error).startswith("u2_end: The revision ")
        assert raw_sql.dump(tenant_url) == before
        assert "later" not in raw_sql.tables(tenant_url)

    @on_sqlite
    @pytest.mark.parametrize("catches", [False, True], ids=["raises", "is caught"])
    async def test_that_sqlite_rolls_back_leaves_nothing(
        self,
        rig: Rig,
        folder: AlembicFolder,
        tenant_url: str,
        catches: bool,  # noqa: FBT001
    ):
        """The rest of the revision would commit itself, statement by statement."""
        fail = "op.execute(\"INSERT OR ROLLBACK INTO note VALUES (1, 'again')\")"
        body = f"try:\n    {fail}\nexcept Exception:\n    pass" if catches else fail
        folder.add("u1_note", NOTE)
        rest = "op.create_table('half', sa.Column('id', sa.Integer))"
        folder.add("u2_roll_back", f"{body}\n{rest}")
        before = raw_sql.dump(tenant_url)

        failed = await rig.migrate(tenant_url)
        again = await rig.migrate(tenant_url)

        assert reason(failed.error).startswith("u2_roll_back: ")
        assert raw_sql.dump(tenant_url) == before
        assert reason(again.error) == reason(failed.error), "the next run starts where this one did"

    @on_sqlite
    async def test_that_a_full_disk_rolled_back_leaves_nothing(
        self, rig: Rig, folder: AlembicFolder, tenant_url: str
    ):
        body = """
        bind = op.get_bind()
        pages = bind.scalar(sa.text("PRAGMA page_count"))
        bind.exec_driver_sql(f"PRAGMA max_page_count = {pages + 5}")
        try:
            bind.execute(sa.text("INSERT INTO note VALUES (3, :text)"), {"text": "x" * 10**7})
        except Exception:
            pass
        op.execute("CREATE TABLE half (id integer)")
        """
        folder.add("u1_note", NOTE)
        folder.add("u2_fill", body)
        before = raw_sql.dump(tenant_url)

        failed = await rig.migrate(tenant_url)

        assert reason(failed.error).startswith("u2_fill: ")
        assert raw_sql.dump(tenant_url) == before

    @on_sqlite
    async def test_turns_foreign_keys_on_only_after_off(
        self, rig: Rig, folder: AlembicFolder, tenant_url: str
    ):
        folder.add("u1_on", "op.execute('PRAGMA foreign_keys=ON')")

        failed = await rig.migrate(tenant_url)

        assert "needs PRAGMA foreign_keys = OFF before it" in reason(failed.error)
        assert reason(failed.error).endswith("(u1_on.py, line 10).")

    @on_sqlite
    async def test_checks_foreign_keys_that_a_revision_turns_on_again(
        self, rig: Rig, folder: AlembicFolder, tenant_url: str
    ):
        refer = "op.execute('CREATE TABLE more (note INTEGER REFERENCES note)')\n"
        folder.add("u1_note", NOTE + refer + "op.execute('INSERT INTO more VALUES (1)')")
        pragmas = "op.execute('PRAGMA foreign_keys={}')\n".format
        delete = "op.execute('DELETE FROM note')\n"
        file = folder.add("u2_delete", pragmas("OFF") + delete + pragmas("ON"))

        failed = await rig.migrate(tenant_url)
        file.write_text(file.read_text().replace("DELETE FROM note", "DELETE FROM more"))
        done = await rig.migrate(tenant_url)

        assert "rows of the table more violate a foreign key to note" in reason(failed.error)
        assert done.error is None, reason(done.error)

    @on_sqlite
    @pytest.mark.parametrize(
        ("does", "message"),
        [
            ("REPLACE INTO note (id, text) VALUES (1, 'new')", "deletes or replaces rows of"),
            (
                "WITH a AS (SELECT 1, 'new') INSERT OR REPLACE INTO note SELECT * FROM a",
                "deletes or replaces rows of",
            ),
            (
                "DELETE FROM note; INSERT INTO note VALUES (1, 'new')",
                "deletes or replaces rows of",
            ),
            ("INSERT INTO copying VALUES (1)", "deletes or replaces rows of"),
            ("DROP TABLE note", "drops"),
            (
                "DROP TABLE note; CREATE TABLE kept AS SELECT * FROM more; DROP TABLE more",
                "drops",
            ),
            ("UPDATE note SET id = 2; UPDATE note SET id = 1", "updates keys of"),
        ],
    )
    async def test_refuses_that_to_which_a_foreign_key_would_react(
        self, rig: Rig, folder: AlembicFolder, tenant_url: str, does: str, message: str
    ):
        trigger = f"; {_TRIGGER}" if "copying" in does else ""
        folder.add("u1_note", _statements(f"{_OWNED}; INSERT INTO more VALUES (1){trigger}"))
        folder.add("u2_on", _statements("PRAGMA foreign_keys=OFF; PRAGMA foreign_keys=ON"))
        folder.add("u3_do", _statements(does))
        before = raw_sql.dump(tenant_url)

        failed = await rig.migrate(tenant_url)

        assert f"the revision {message} the table note (u3_do.py, line" in reason(failed.error)
        assert "send PRAGMA foreign_keys = OFF before" in reason(failed.error)
        assert raw_sql.dump(tenant_url) == before

    @on_sqlite
    async def test_that_executescript_ends_is_reported(
        self, rig: Rig, folder: AlembicFolder, tenant_url: str
    ):
        script = "op.get_bind().connection.driver_connection.executescript('SELECT 1')"
        folder.add("u1_script", script)

        failed = await rig.migrate(tenant_url)

        assert "autocommit_block" not in reason(failed.error)
        assert "executescript" in reason(failed.error)


# A trigger can replace rows, which its text alone shows.
_OWNED = (
    "CREATE TABLE note (id INTEGER PRIMARY KEY, text TEXT); INSERT INTO note VALUES (1, 'old'); "
    "CREATE TABLE more (note INTEGER REFERENCES note ON DELETE CASCADE ON UPDATE CASCADE)"
)
_TRIGGER = (
    "CREATE TABLE copying (id INTEGER); CREATE TRIGGER copies AFTER INSERT ON copying "
    "BEGIN REPLACE INTO note VALUES (new.id, 'new')%%END"
)


def _statements(script: str) -> str:
    texts = [one.replace("%%", "; ") for one in script.split("; ")]
    return "\n".join(f"op.execute({one!r})" for one in texts)


@on_postgresql
class TestTimeouts:
    @pytest.mark.parametrize("online", [False, True], ids=["recorded", "live"])
    @pytest.mark.parametrize(
        "name", ["statement_timeout", "lock_timeout", "idle_in_transaction_session_timeout"]
    )
    async def test_of_the_role_do_not_reach_a_migration(
        self,
        rig: Rig,
        folder: AlembicFolder,
        tenant_url: str,
        name: str,
        online: bool,  # noqa: FBT001
    ):
        database = tenant_url.rpartition("/")[2]
        raw_sql.run(tenant_url, f"ALTER DATABASE {database} SET {name} = '60ms'")
        body = "op.execute('SELECT pg_sleep(0.2)')"
        if online:
            body += "\nimport time\ntime.sleep(0.3)\nop.execute('SELECT 1')"
        folder.add("u1_slow", body, head=f"online = {online}")

        done = await rig.migrate(tenant_url)

        assert done.error is None, reason(done.error)


@on_postgresql
class TestRehearsal:
    @pytest.mark.parametrize("online", [False, True], ids=["recorded", "live"])
    async def test_refuses_what_no_rollback_undoes(
        self,
        rig: Rig,
        folder: AlembicFolder,
        tenant_url: str,
        online: bool,  # noqa: FBT001
    ):
        raw_sql.run(tenant_url, "CREATE SEQUENCE counter")
        folder.add(
            "u1_set", "op.execute(\"SELECT setval('counter', 900)\")", head=f"online={online}"
        )

        inspection = await rig.rehearse(tenant_url)

        assert "A rollback does not undo" in reason(inspection.error)
        assert raw_sql.rows(tenant_url, "SELECT last_value FROM counter") == [(1,)]
        assert (await rig.migrate(tenant_url)).error is None
        assert raw_sql.rows(tenant_url, "SELECT last_value FROM counter") == [(900,)]


@pytest.mark.slow
@on_postgresql
class TestReindex:
    async def test_leaves_no_invalid_index_behind(
        self, rig: Rig, folder: AlembicFolder, tenant_url: str, make_migrator: MakeMigrator
    ):
        invalid = "SELECT count(*) FROM pg_index WHERE NOT indisvalid"
        folder.add("u1_note", f"{NOTE}\nop.create_index('ix_note', 'note', ['text'])")
        await rig.migrate(tenant_url)
        folder.add(
            "u2_reindex",
            "with op.get_context().autocommit_block():\n"
            "    op.execute('REINDEX TABLE CONCURRENTLY note')",
        )
        with psycopg.connect(tenant_url) as holder:
            holder.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
            holder.execute("SELECT * FROM note")  # an old snapshot, which it waits for
            failed = await make_migrator(8.0).migrate(
                tenant_url, RunScripts(rig.streams()), run_id=new_id()
            )
        left = raw_sql.rows(tenant_url, invalid)
        done = await rig.migrate(tenant_url)

        assert failed.error is not None
        assert left != [(0,)], "or the test says nothing"
        assert done.error is None, reason(done.error)
        assert raw_sql.rows(tenant_url, invalid) == [(0,)]


class TestErrors:
    @on_postgresql
    @pytest.mark.parametrize(
        "body",
        [
            "RAISE EXCEPTION 'no good: %', NEW.text",
            "RAISE EXCEPTION 'no good: %', NEW.text USING ERRCODE = '23505'",
            "EXECUTE format('SELECT %I FROM note', NEW.text)",
            "EXECUTE format('SELECT * FROM %I', NEW.text)",
        ],
    )
    @pytest.mark.parametrize("online", [False, True], ids=["recorded", "live"])
    async def test_of_a_trigger_hold_no_value(
        self,
        rig: Rig,
        folder: AlembicFolder,
        tenant_url: str,
        body: str,
        online: bool,  # noqa: FBT001
    ):
        folder.add("u1_note", NOTE.replace("'one'", "'ada@example.com'"))
        folder.add(
            "u2_trigger",
            f'''
            op.execute("""
                CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql
                AS $$ BEGIN {body}; RETURN NEW; END $$
            """)
            op.execute("CREATE TRIGGER t BEFORE UPDATE ON note "
                       "FOR EACH ROW EXECUTE FUNCTION refuse()")
            op.execute("UPDATE note SET id = id")
            ''',
            head=f"online = {online}",
        )

        done = await rig.migrate(tenant_url)

        assert "ada" not in reason(done.error)
        assert "A function or trigger of the database raised an error" in reason(done.error)

    @pytest.mark.parametrize(
        "statement",
        [
            "UPDATE note AS n SET text = n.{found}",
            'UPDATE note SET "{found}" = 1',
            'DROP TABLE "{found}"',
            "SELECT {found}(id) FROM note",
            "SELECT id FROM note WHERE text = {found}",
        ],
    )
    async def test_of_text_made_of_a_row_hold_no_value(
        self, rig: Rig, folder: AlembicFolder, tenant_url: str, statement: str
    ):
        folder.add("u1_note", NOTE.replace("'one'", "'ada_lovelace'"))
        folder.add(
            "u2_read",
            "found = op.get_bind().scalar(sa.text('SELECT text FROM note WHERE id = 1'))\n"
            f"op.execute(f{statement!r})",
        )

        done = await rig.migrate(tenant_url)

        assert "ada" not in reason(done.error)
        assert reason(done.error).startswith("u2_read: ")

    async def test_of_a_live_revision_name_what_it_names(
        self, rig: Rig, folder: AlembicFolder, tenant_url: str
    ):
        folder.add("u1_note", NOTE)
        folder.add("u2_drop", "op.drop_table('no_such_note')", head="online = True")

        done = await rig.migrate(tenant_url)

        assert "no_such_note" in reason(done.error)
        assert "?" not in reason(done.error)

    async def test_of_a_wrong_type_are_not_called_a_value_in_a_row(
        self, rig: Rig, folder: AlembicFolder, tenant_url: str
    ):
        folder.add("u1_note", NOTE)
        folder.add(
            "u2_wrong",
            "op.get_bind().execute(sa.text('UPDATE note SET text = :x'), {'x': object()})",
        )

        done = await rig.migrate(tenant_url)

        assert "Python type that the driver cannot send" in reason(done.error)

    async def test_of_an_import_name_the_module(
        self, rig: Rig, folder: AlembicFolder, tenant_url: str
    ):
        folder.add("u1_lazy", "import no_such_helper")

        lazy = await rig.migrate(tenant_url)
        folder.write("u2_eager", "import no_such_other\nrevision='u2'\ndown_revision='u1'\n")
        eager = await rig.migrate(tenant_url)

        assert "no_such_helper" in reason(lazy.error)
        assert "no_such_other" in reason(eager.error)
        assert "u2_eager.py" in reason(eager.error)

    @on_postgresql
    @pytest.mark.parametrize("online", [False, True], ids=["recorded", "live"])
    async def test_of_tls_are_not_called_unreachable(
        self,
        rig: Rig,
        folder: AlembicFolder,
        tenant_url: str,
        online: bool,  # noqa: FBT001
    ):
        """The server of the tests has no certificate."""
        folder.add("u1_note", NOTE, head=f"online = {online}")

        with pytest.raises(Exception, match=r".") as caught:
            await rig.migrate(f"{tenant_url}?sslmode=require")

        assert "TLS" in explain(caught.value)


@pytest.mark.slow
@on_postgresql
class TestStop:
    async def test_at_the_deadline_cuts_what_sleeps_in_a_transaction(
        self, rig: Rig, folder: AlembicFolder, tenant_url: str, make_migrator: MakeMigrator
    ):
        """A thread cannot be killed; its connection can, so that its locks are free."""
        folder.add("u1_note", NOTE)
        await rig.migrate(tenant_url)
        folder.add(
            "u2_sleep",
            "op.get_bind().execute(sa.text('UPDATE note SET id = id'))\ntime.sleep(30)",
            head="import time",
        )
        running = asyncio.ensure_future(
            make_migrator(1.5).migrate(tenant_url, RunScripts(rig.streams()), run_id=new_id())
        )
        await asyncio.sleep(1.0)
        with own_seconds() as seconds:
            wait = "SET lock_timeout = '25s'"  # the revision sleeps longer
            await asyncio.to_thread(raw_sql.run, tenant_url, wait, "UPDATE note SET text = 'free'")
            took = seconds()

        assert took < 5
        with contextlib.suppress(TimeoutError):
            assert (await running).error is not None
        assert raw_sql.rows(tenant_url, "SELECT DISTINCT text FROM note") == [("free",)]


@on_sqlite
class TestLockFile:
    async def test_of_a_dead_process_is_no_lock(
        self, rig: Rig, folder: AlembicFolder, tenant_url: str
    ):
        folder.add("u1_note", NOTE)
        path = tenant_url.removeprefix("sqlite:///") + "-migrating"
        with contextlib.closing(sqlite3.connect(path)):  # any file
            pass

        assert (await rig.migrate(tenant_url)).error is None


@pytest.mark.parametrize("head", ["", "online = True"], ids=["recorded", "live"])
async def test_a_naming_convention_names_constraints(
    rig: Rig, folder: AlembicFolder, tenant_url: str, head: str
):
    folder.add("0001_item", NAMED, head=head)
    folder.add("0002_drop", DROP_NAMED, head=head)
    user = Stream("user", folder.begin(), CONVENTION)

    done = await rig.migrate(tenant_url, Streams(STREAM, user))

    assert done.error is None
