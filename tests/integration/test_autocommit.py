"""Revisions that leave their transaction: `autocommit_block`."""

import asyncio

import psycopg
import pytest
import sqlalchemy as sa
from alembic import command
from alembic.config import Config
from sqlalchemy.pool import NullPool

from tenantry.kit.ids import new_id
from tenantry.migration.errors import explain
from tenantry.migration.lock_retries import LOCK_TRIES_MAX
from tenantry.migration.run_scripts import RunScripts
from tenantry.migration.schema_state import BASE, SchemaRevision, SchemaState
from testkit import raw_sql
from testkit.revisions import AlembicFolder
from tests.integration.conftest import DEADLINE_SECONDS, LOCK_MS, MakeMigrator, Rig
from tests.integration.engines import on_postgresql, on_sqlite

CREATE_NOTES = """
op.create_table("note", sa.Column("id", sa.Integer, primary_key=True), sa.Column("text", sa.Text))
op.execute("INSERT INTO note VALUES (1, 'one'), (2, 'two')")
"""
INDEX = """
with op.get_context().autocommit_block():
    op.create_index("ix_note", "note", ["text"], postgresql_concurrently=True{options})
"""
WORKING = """
SELECT count(*) FROM pg_stat_activity
WHERE datname = current_database() AND state = 'active' AND query ILIKE '% INDEX CONCURRENTLY %'
AND pid <> pg_backend_pid()
"""
BLOCK = "with op.get_context().autocommit_block():"
CREATE_LATER = "op.create_table('later', sa.Column('id', sa.Integer))"


def names(done: SchemaState) -> list[str]:
    return [one.revision for one in done.applied]


def reason(done: SchemaState) -> str:
    assert done.error is not None
    return explain(done.error)


def indexes(url: str) -> dict[str, bool]:
    """Return the indexes of the table, and whether each is valid."""
    sql = (
        "SELECT indexrelid::regclass::text, indisvalid FROM pg_index "
        "WHERE indrelid = 'note'::regclass AND NOT indisprimary"
    )
    return dict(raw_sql.rows(url, sql))


def add_index(folder: AlembicFolder, options: str = "") -> None:
    folder.add("u2_index", INDEX.format(options=options))


# Whether Alembic keeps its order depends on where it is interrupted.
BRANCHES = {
    "a": (),
    "b": "a",
    "c": "a",
    "d": "c",
    "e": "b",
    "f": "c",
    "g": "d",
    "h": ("g", "f"),
    "i": ("h", "e"),
}
READ_VERSIONS = "SELECT version_num FROM alembic_version"
ENVIRONMENT = """
from alembic import context

connection = context.config.attributes["connection"]
context.configure(connection=connection, transaction_per_migration=True)
context.run_migrations()
"""


def add_branches(folder: AlembicFolder, fails: str = "") -> None:
    """Write `BRANCHES`: a table, and then an index in each revision; *fails* raises an error."""
    for name, down in BRANCHES.items():
        body = INDEX.format(options="").replace("ix_note", f"ix_{name}") if down else CREATE_NOTES
        file = folder.add(name, f"1 / 0\n{body}" if name == fails else body, down="none")
        file.write_text(file.read_text().replace("'none'", repr(down or None)))


def upgrade_with_alembic(folder: AlembicFolder, url: str) -> None:
    (folder.path / "env.py").write_text(ENVIRONMENT)
    config = Config()
    config.set_main_option("script_location", str(folder.path))
    engine = sa.create_engine(url.replace("postgresql:", "postgresql+psycopg:"), poolclass=NullPool)
    with engine.connect() as connection:
        config.attributes["connection"] = connection
        command.upgrade(config, "head")


@on_postgresql
class TestAutocommitBlock:
    async def test_is_a_step_of_its_own_among_the_others(
        self, rig: Rig, folder: AlembicFolder, tenant_url: str
    ):
        folder.add("u1_create_notes", CREATE_NOTES)
        add_index(folder)
        folder.add("u3_later", CREATE_LATER)

        done = await rig.migrate(tenant_url)

        assert done.error is None, reason(done)
        assert names(done) == ["u1_create_notes", "u2_index", "u3_later"]
        assert done.revision.user == "u3"
        assert indexes(tenant_url) == {"ix_note": True}
        assert raw_sql.rows(tenant_url, "SELECT version_num FROM alembic_version") == [("u3",)]
        log = f"SELECT DISTINCT stream FROM {raw_sql.LOG}"
        assert set(raw_sql.rows(tenant_url, log)) == {("tenantry",), ("user",)}

    async def test_can_be_the_first_revision_and_the_only_one(
        self, rig: Rig, folder: AlembicFolder, tenant_url: str
    ):
        raw_sql.run(tenant_url, "CREATE TABLE note (text text)")
        folder.add("u1_index", INDEX.format(options=""))

        done = await rig.migrate(tenant_url)

        assert done.error is None, reason(done)
        assert names(done) == ["u1_index"]
        assert (await rig.migrate(tenant_url)).applied == []

    async def test_that_reads_first_is_one_too(
        self, rig: Rig, folder: AlembicFolder, tenant_url: str
    ):
        folder.add("u1_create_notes", CREATE_NOTES)
        folder.add(
            "u2_index",
            f"assert op.get_bind().scalar(sa.text('SELECT 1')) == 1\n{INDEX}".format(options=""),
        )

        assert (await rig.migrate(tenant_url)).error is None
        assert indexes(tenant_url) == {"ix_note": True}

    async def test_fails_and_what_was_before_it_stays(
        self, rig: Rig, folder: AlembicFolder, tenant_url: str
    ):
        """An index that became invalid is dropped when it is tried again."""
        folder.add("u1_create_notes", CREATE_NOTES)
        add_index(folder, ", unique=True")
        folder.add("u3_later", CREATE_LATER)
        folder.path.joinpath("versions/u1_create_notes.py").write_text(
            folder.path.joinpath("versions/u1_create_notes.py")
            .read_text()
            .replace("'two'", "'one'")
        )

        failed = await rig.migrate(tenant_url)
        left = indexes(tenant_url)
        again = await rig.migrate(tenant_url)
        raw_sql.run(tenant_url, "DELETE FROM note WHERE id = 2")
        done = await rig.migrate(tenant_url)

        assert reason(failed).startswith("u2_index: could not create unique index")
        assert names(failed) == ["u1_create_notes"], "what stayed is told"
        assert failed.revision.user == "u1"
        assert left == {"ix_note": False}
        assert reason(again) == reason(failed), "not that the index exists already"
        assert names(again) == []
        assert done.error is None, reason(done)
        assert names(done) == ["u2_index", "u3_later"]
        assert indexes(tenant_url) == {"ix_note": True}

    async def test_that_was_cut_after_its_index_goes_on_from_there(
        self, rig: Rig, folder: AlembicFolder, tenant_url: str
    ):
        """As after a kill: the server finished the index, and the version was not updated."""
        folder.add("u1_create_notes", CREATE_NOTES)
        options = f"{INDEX.format(options='')}\nraise RuntimeError('cut')"
        file = folder.add("u2_index", options)

        cut = await rig.migrate(tenant_url)
        left = indexes(tenant_url)
        file.write_text(file.read_text().replace("raise RuntimeError('cut')", ""))
        done = await rig.migrate(tenant_url)

        assert reason(cut).startswith("u2_index: The migration raised RuntimeError in u2_index.py")
        assert left == {"ix_note": True}
        assert done.error is None, reason(done)
        assert names(done) == ["u2_index"]

    @pytest.mark.parametrize("name", ["ix_note", "Ix Note"])
    async def test_does_not_take_an_index_of_others_for_its_own(
        self, rig: Rig, folder: AlembicFolder, tenant_url: str, name: str
    ):
        folder.add("u1_create_notes", CREATE_NOTES)
        folder.add("u2_index", INDEX.format(options="").replace("ix_note", name))
        raw_sql.run(tenant_url, "CREATE TABLE other (id integer)")
        await rig.migrate(tenant_url)
        folder.add("u3_again", INDEX.format(options="").replace("ix_note", name))

        done = await rig.migrate(tenant_url)

        assert "already exists" in reason(done)
        assert done.revision.user == "u2"

    async def test_that_drops_an_index_can_be_repeated(
        self, rig: Rig, folder: AlembicFolder, tenant_url: str
    ):
        folder.add("u1_create_notes", CREATE_NOTES)
        add_index(folder)
        drop = INDEX.format(options="").replace(
            'create_index("ix_note", "note", ["text"]', 'drop_index("ix_note", "note"'
        )
        file = folder.add("u3_drop", f"{drop}\nraise RuntimeError('cut')")

        cut = await rig.migrate(tenant_url)
        file.write_text(file.read_text().replace("raise RuntimeError('cut')", ""))
        done = await rig.migrate(tenant_url)

        assert cut.error is not None
        assert done.error is None, reason(done)
        assert indexes(tenant_url) == {}

    async def test_commits_what_is_before_its_block_and_not_what_is_after(
        self, rig: Rig, folder: AlembicFolder, tenant_url: str
    ):
        """As in Alembic."""
        folder.add("u1_create_notes", CREATE_NOTES)
        folder.add(
            "u2_mixed",
            f"op.create_table('before', sa.Column('id', sa.Integer))\n"
            f"{INDEX.format(options='')}\n"
            f"op.create_table('after', sa.Column('id', sa.Integer))\n1 / 0",
        )

        done = await rig.migrate(tenant_url)

        assert reason(done).startswith(
            "u2_mixed: The migration raised ZeroDivisionError in u2_mixed.py"
        )
        assert {"before"} == raw_sql.tables(tenant_url) & {"before", "after"}
        assert done.revision.user == "u1"

    @pytest.mark.slow
    async def test_of_several_runs_at_once_is_done_once(
        self,
        rig: Rig,
        folder: AlembicFolder,
        tenant_url: str,
    ):
        """The others wait without a transaction, for which the first would wait."""
        folder.add("u1_create_notes", CREATE_NOTES)
        await rig.migrate(tenant_url)
        add_index(folder)
        folder.add("u3_later", CREATE_LATER)
        with psycopg.connect(tenant_url) as holder:
            holder.execute("SELECT * FROM note")
            holder.execute("UPDATE note SET text = text")
            runs = [asyncio.create_task(rig.migrate(tenant_url)) for _ in range(3)]
            async with asyncio.timeout(DEADLINE_SECONDS):
                while raw_sql.rows(tenant_url, WORKING) != [(1,)]:  # noqa: ASYNC110
                    await asyncio.sleep(0.05)
            await asyncio.sleep(LOCK_MS * (LOCK_TRIES_MAX + 1) / 1000)
            assert not any(run.done() for run in runs), "longer than a lock may hold up traffic"
            assert raw_sql.rows(tenant_url, WORKING) == [(1,)]
        done = await asyncio.gather(*runs)

        assert [one.error for one in done] == [None] * 3
        assert sorted(name for one in done for name in names(one)) == ["u2_index", "u3_later"]
        assert indexes(tenant_url) == {"ix_note": True}

    @pytest.mark.slow
    async def test_that_exceeds_the_deadline_reports_what_stayed(
        self, rig: Rig, folder: AlembicFolder, tenant_url: str, make_migrator: MakeMigrator
    ):
        folder.add("u1_create_notes", CREATE_NOTES)
        add_index(folder)
        with psycopg.connect(tenant_url) as holder:
            holder.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
            holder.execute("SELECT 1")  # an old snapshot, which it waits for
            # A fifth of it is left to read the state, on a busy machine, too.
            done = await make_migrator(8.0).migrate(
                tenant_url, RunScripts(rig.streams()), run_id=new_id()
            )

        assert reason(done) == "The database did not answer in time."
        assert names(done) == ["u1_create_notes"]
        again = await rig.migrate(tenant_url)
        assert again.error is None, reason(again)
        assert indexes(tenant_url) == {"ix_note": True}

    async def test_cannot_be_rehearsed(self, rig: Rig, folder: AlembicFolder, tenant_url: str):
        """What is before it is, and nothing stays."""
        folder.add("u1_create_notes", CREATE_NOTES)
        add_index(folder)
        before = raw_sql.dump(tenant_url)

        looked = await rig.rehearse(tenant_url)
        await rig.migrate(tenant_url)
        folder.add("u3_index", INDEX.format(options=""))
        first = await rig.rehearse(tenant_url)

        assert looked.error is not None
        assert explain(looked.error).startswith("u2_index: A rollback does not undo this revision")
        assert [one.revision for one in looked.pending] == ["u1_create_notes", "u2_index"]
        assert raw_sql.columns(tenant_url, "note") == ["id", "text"]
        assert before != raw_sql.dump(tenant_url)
        assert first.error is not None
        assert explain(first.error).startswith("u3_index: A rollback does not undo this revision")

    @pytest.mark.parametrize(
        ("second", "message"),
        [
            ('op.execute("CREATE INDEX CONCURRENTLY ix_note ON note (id)")', "already exists"),
            ('op.execute("DROP INDEX CONCURRENTLY other")', "does not exist"),
        ],
    )
    async def test_does_not_skip_a_statement_that_it_repeats(
        self, rig: Rig, folder: AlembicFolder, tenant_url: str, second: str, message: str
    ):
        """As with Alembic. Only an index that an earlier attempt has begun is continued."""
        folder.add("u1_create_notes", CREATE_NOTES + 'op.create_index("other", "note", ["text"])')
        drop = 'op.execute("DROP INDEX CONCURRENTLY other")'
        folder.add("u2_index", "\n    ".join([INDEX.format(options="").rstrip(), drop, second]))

        done = await rig.migrate(tenant_url)

        assert message in reason(done)
        assert done.revision.user == "u1"

    async def test_fails_at_an_invalid_index_that_is_not_its_own(
        self, rig: Rig, folder: AlembicFolder, tenant_url: str
    ):
        raw_sql.run(
            tenant_url, "CREATE TABLE note (text text)", "CREATE INDEX ix_note ON note (text)"
        )
        raw_sql.run(
            tenant_url,
            "UPDATE pg_index SET indisvalid = false WHERE indexrelid = 'ix_note'::regclass",
        )
        add_index(folder)

        done = await rig.migrate(tenant_url)

        assert "already exists" in reason(done)
        assert indexes(tenant_url) == {"ix_note": False}

    async def test_keeps_the_session_after_a_lock_timeout(
        self, rig: Rig, folder: AlembicFolder, tenant_url: str
    ):
        """The attempt that fails leaves another search path and role, which are restored."""
        raw_sql.run(
            tenant_url,
            "CREATE TABLE busy (id integer)",
            "ALTER TABLE busy OWNER TO pg_monitor",
            "CREATE SCHEMA app",
            "CREATE SCHEMA other",
            "CREATE TABLE other.alembic_version (version_num varchar(32))",
        )
        folder.add("u1_path", 'op.execute("SET search_path TO app, public")')
        lines = (
            "assert not op.get_bind().connection.driver_connection.autocommit",
            "with op.get_context().autocommit_block():",
            'op.execute("SET search_path TO other, app, public")',
            'op.execute("SET ROLE pg_monitor")',
            'op.execute("VACUUM public.busy")',
            'op.execute("RESET ROLE")',
            'op.execute("SET search_path TO app, public")',
        )
        folder.add("u2_block", f"{lines[0]}\n" + "\n    ".join(lines[1:]))
        folder.add("u3_later", CREATE_LATER)
        with psycopg.connect(tenant_url) as holder:
            holder.execute("LOCK TABLE busy")
            run = asyncio.create_task(rig.migrate(tenant_url))
            await asyncio.sleep(1.5 * LOCK_MS / 1000)
        done = await run

        assert done.error is None, reason(done)
        assert names(done) == ["u1_path", "u2_block", "u3_later"]
        found = raw_sql.rows(tenant_url, "SELECT to_regclass('app.later') IS NOT NULL")
        assert found == [(True,)]

    @pytest.mark.parametrize(
        "lines",
        [
            [BLOCK, "    op.execute(INSERT)", "    op.execute(ALTER)"],
            ["op.execute(INSERT)", BLOCK, "    op.execute(ALTER)"],
            [BLOCK, "    op.execute(INSERT)", "op.execute(ALTER)"],
            [
                BLOCK,
                "    op.get_bind().connection.driver_connection.cursor().execute(INSERT)",
                "    op.execute(ALTER)",
            ],
        ],
        ids=["in the block", "before the block", "and not after it", "by the driver"],
    )
    async def test_is_not_repeated_after_statements_that_remain(
        self, rig: Rig, folder: AlembicFolder, tenant_url: str, lines: list[str]
    ):
        """A lock timeout is else tried again. An operator can do so, as with Alembic."""
        raw_sql.run(tenant_url, "CREATE TABLE busy (id integer)", "CREATE TABLE kept (id integer)")
        insert, alter = "INSERT INTO kept VALUES (1)", "ALTER TABLE busy ADD more integer"
        folder.add("u1_block", "\n".join([f"INSERT, ALTER = {(insert, alter)}", *lines]))
        with psycopg.connect(tenant_url) as holder:
            holder.execute("LOCK TABLE busy")
            done = await rig.migrate(tenant_url)

        lock = "A lock was not free in time: something else uses the table (SQLSTATE 55P03)."
        assert reason(done) == f"u1_block: {lock}"
        assert names(done) == []
        assert raw_sql.rows(tenant_url, "SELECT count(*) FROM kept") == [(1,)]
        again = await rig.migrate(tenant_url)
        assert again.error is None, reason(again)
        assert raw_sql.rows(tenant_url, "SELECT count(*) FROM kept") == [(2,)]

    async def test_is_refused_before_it_changes_what_the_version_table_is(
        self, rig: Rig, folder: AlembicFolder, tenant_url: str
    ):
        raw_sql.run(tenant_url, "CREATE SCHEMA app")
        raw_sql.run(tenant_url, "CREATE TABLE app.alembic_version (version_num varchar(32))")
        folder.add("u1_create_notes", CREATE_NOTES)
        await rig.migrate(tenant_url)
        path = 'op.execute("SET search_path TO app, public")'
        folder.add("u2_index", f"{path}\n{INDEX.format(options='')}")

        done = await rig.migrate(tenant_url)

        assert "which table the name of the version table means" in reason(done)
        assert done.revision.user == "u1"
        assert indexes(tenant_url) == {}

    async def test_that_leaves_a_transaction_open_is_refused(
        self, rig: Rig, folder: AlembicFolder, tenant_url: str
    ):
        folder.add("u1_create_notes", CREATE_NOTES)
        await rig.migrate(tenant_url)
        folder.add(
            "u2_open", f"{BLOCK}\n    op.execute('BEGIN')\n    op.execute('DELETE FROM note')"
        )

        done = await rig.migrate(tenant_url)

        assert "The block begins a transaction and does not end it" in reason(done)
        assert done.revision.user == "u1"
        assert len(raw_sql.rows(tenant_url, "SELECT 1 FROM note")) == 2

    async def test_is_refused_before_it_changes_anything_under_a_role_without_rights(
        self, rig: Rig, folder: AlembicFolder, tenant_url: str
    ):
        folder.add("u1_create_notes", CREATE_NOTES)
        await rig.migrate(tenant_url)
        role = (
            'op.execute("ALTER TABLE note OWNER TO pg_monitor")\nop.execute("SET ROLE pg_monitor")'
        )
        folder.add("u2_index", f"{role}\n{INDEX.format(options='')}")

        done = await rig.migrate(tenant_url)

        assert "may not write Tenantry's tables" in reason(done)
        assert indexes(tenant_url) == {}

    async def test_on_both_branches_of_a_merge_goes_on_with_the_merge(
        self, rig: Rig, folder: AlembicFolder, tenant_url: str
    ):
        """After the first a version says so; the second shares a script with the merge."""
        folder.add("a_create", CREATE_NOTES)
        folder.add("b_left", INDEX.format(options="").replace("ix_note", "ix_left"))
        folder.add("c_right", INDEX.format(options=""), down="a")
        folder.write(
            "d_merge", "revision = 'd'\ndown_revision = ('b', 'c')\ndef upgrade():\n    pass\n"
        )

        done = await rig.migrate(tenant_url)

        assert done.error is None, reason(done)
        assert set(indexes(tenant_url)) == {"ix_left", "ix_note"}
        assert (names(done)[0], names(done)[-1]) == ("a_create", "d_merge")
        assert done.revision.user == "d"

    async def test_that_fails_on_the_second_branch_is_continued(
        self, rig: Rig, folder: AlembicFolder, tenant_url: str
    ):
        folder.add("a_create", CREATE_NOTES)
        folder.add("b_left", "op.add_column('note', sa.Column('left', sa.Integer))")
        folder.add("c_right", INDEX.format(options=""), down="a")
        merge = "revision = 'd'\ndown_revision = ('b', 'c')\ndef upgrade():\n    {}\n"
        folder.write("d_merge", merge.format("1 / 0"))

        failed = await rig.migrate(tenant_url)
        folder.write("d_merge", merge.format("pass"))
        done = await rig.migrate(tenant_url)

        assert reason(failed).startswith(
            "d_merge: The migration raised ZeroDivisionError in d_merge.py"
        )
        assert done.error is None, reason(done)
        assert indexes(tenant_url) == {"ix_note": True}
        assert done.revision.user == "d"

    async def test_between_branches_keeps_the_order_in_which_it_has_begun(
        self, rig: Rig, folder: AlembicFolder, tenant_url: str
    ):
        """It commits where Alembic, interrupted there, can go on in another order."""
        add_branches(folder)
        begun = [one.name for one in rig.streams().pending(SchemaRevision(BASE, BASE))]

        done = await rig.migrate(tenant_url)

        assert done.error is None, reason(done)
        assert names(done) == begun[-len(BRANCHES) :]
        assert len(indexes(tenant_url)) == len(BRANCHES) - 1
        assert done.revision.user == "i"

    @pytest.mark.parametrize("by_alembic", [True, False])
    @pytest.mark.parametrize("fails", ["e", "f", "i"])
    async def test_that_fails_between_branches_is_continued_from_there(
        self, rig: Rig, folder: AlembicFolder, tenant_url: str, fails: str, *, by_alembic: bool
    ):
        add_branches(folder, fails)
        failed = await rig.migrate(tenant_url)
        rows = [row[0] for row in raw_sql.rows(tenant_url, READ_VERSIONS)]
        add_branches(folder)

        if by_alembic:
            upgrade_with_alembic(folder, tenant_url)
        done = await rig.migrate(tenant_url)

        assert "ZeroDivisionError" in reason(failed)
        assert len(rows) == 2
        assert failed.revision.heads == tuple(rows)
        assert done.error is None, reason(done)
        if not by_alembic:
            assert len([*names(failed), *names(done)]) >= len(BRANCHES)
        assert len(indexes(tenant_url)) == len(BRANCHES) - 1
        assert raw_sql.rows(tenant_url, READ_VERSIONS) == [("i",)]


@on_postgresql
class TestCommit:
    async def test_directly_before_a_block_is_that_of_the_block(
        self, rig: Rig, folder: AlembicFolder, tenant_url: str
    ):
        folder.add("u1_note", CREATE_NOTES)
        folder.add(
            "u2_index",
            "bind = op.get_bind()\nbind.execute(sa.text('SET statement_timeout = 9000'))\n"
            f"op.add_column('note', sa.Column('more', sa.Integer))\nbind.commit()\n"
            f"{INDEX.format(options='')}",
        )

        done = await rig.migrate(tenant_url)

        assert done.error is None, reason(done)
        assert indexes(tenant_url) == {"ix_note": True}
        assert done.revision.user == "u2"

    @pytest.mark.parametrize("statement", ["op.execute('SELECT 1')", "return"])
    async def test_that_is_not_directly_before_a_block_changes_nothing(
        self, rig: Rig, folder: AlembicFolder, tenant_url: str, statement: str
    ):
        folder.add("u1_note", CREATE_NOTES)
        add = "op.add_column('note', sa.Column('more', sa.Integer))\n"
        commit = f"op.get_bind().commit()\n{statement}\n"
        folder.add("u2_index", f"{add}{commit}{INDEX.format(options='')}")

        failed = await rig.migrate(tenant_url)

        assert "commit() must be directly before autocommit_block()" in reason(failed)
        assert failed.revision.user == "u1"
        raw_sql.run(tenant_url, "ALTER TABLE note ADD more integer")

    @pytest.mark.parametrize(
        ("call", "message"),
        [
            ("op.execute('COMMIT')", "ends its transaction"),
            ("op.get_bind().connection.rollback()", "ends its transaction"),
            ("op.get_bind().engine.connect()", "opens a second connection"),
        ],
    )
    async def test_that_is_refused_before_a_block_changes_nothing_even_if_caught(
        self, rig: Rig, folder: AlembicFolder, tenant_url: str, call: str, message: str
    ):
        folder.add("u1_note", CREATE_NOTES)
        add = "op.add_column('note', sa.Column('more', sa.Integer))\n"
        caught = f"try:\n    {call}\nexcept Exception:\n    pass\n"
        folder.add("u2_index", f"{add}{caught}{INDEX.format(options='')}")

        failed = await rig.migrate(tenant_url)

        assert message in reason(failed)
        assert "u2_index.py, line" in reason(failed)
        assert failed.revision.user == "u1"
        raw_sql.run(tenant_url, "ALTER TABLE note ADD more integer")


ALTER = "op.execute('ALTER TABLE busy ADD more integer')"
# What leaves a row although it fails at the lock of `busy`: the driver, and the block.
LEAVING = {
    "a procedure": ("psycopg", "op.execute('CALL work()')"),
    "an anonymous block": (
        "psycopg",
        "op.execute('DO $$ BEGIN INSERT INTO kept VALUES (1); COMMIT; LOCK TABLE busy; END $$')",
    ),
    "rows that commit one by one": (
        "psycopg2",
        "op.get_bind().execute(sa.text('SELECT work_on(:n)'), [{'n': 1}, {'n': 2}])",
    ),
    "rows of the driver's cursor": (
        "psycopg2",
        "raw.cursor().executemany('SELECT work_on(%s)', [(1,), (2,)])",
    ),
    "COPY of psycopg2": ("psycopg2", f"raw.cursor().copy_from(io.StringIO('1'), 'kept'); {ALTER}"),
    "a function of psycopg2": ("psycopg2", f"raw.cursor().callproc('work_on', [1]); {ALTER}"),
    "a row after a transaction of the driver": (
        "psycopg",
        f"""
    with contextlib.suppress(Exception), raw.transaction():
        raw.execute("SELECT 1 / 0")
    raw.execute("INSERT INTO kept VALUES (1)")
    {ALTER}""",
    ),
}
WORK = """
CREATE TABLE kept (id integer);
CREATE TABLE busy (id integer);
CREATE PROCEDURE work() LANGUAGE plpgsql AS $$
    BEGIN INSERT INTO kept VALUES (1); COMMIT; LOCK TABLE busy; END $$;
CREATE FUNCTION work_on(n integer) RETURNS integer LANGUAGE plpgsql AS $$
    BEGIN IF n = 2 THEN LOCK TABLE busy; END IF; INSERT INTO kept VALUES (n); RETURN n; END $$;
"""
LOCKED = "A lock was not free in time: something else uses the table (SQLSTATE 55P03)."
REFUSED = f"u1_block: {LOCKED}"
INDEX_OF_NOTE = "CREATE INDEX CONCURRENTLY IF NOT EXISTS ix ON note (text)"
UNIQUE = "CREATE UNIQUE INDEX CONCURRENTLY IF NOT EXISTS"


@on_postgresql
class TestStatementOfAutocommitBlock:
    @pytest.mark.parametrize(("driver", "lines"), LEAVING.values(), ids=list(LEAVING))
    async def test_is_sent_once_if_it_can_leave_something(
        self,
        folder: AlembicFolder,
        tenant_url: str,
        make_migrator: MakeMigrator,
        driver: str,
        lines: str,
    ):
        raw_sql.run(tenant_url, WORK)
        raw = "raw = op.get_bind().connection.driver_connection"
        folder.add("u1_block", f"{raw}\n{BLOCK}\n    {lines}", head="import contextlib, io")
        with psycopg.connect(tenant_url) as holder:
            holder.execute("LOCK TABLE busy")
            done = await Rig(make_migrator(20.0, driver=driver), folder).migrate(tenant_url)

        assert reason(done) == REFUSED
        assert raw_sql.rows(tenant_url, "SELECT count(*) FROM kept") == [(1,)]

    @pytest.mark.parametrize(
        "line",
        [
            'op.execute("CREATE INDEX CONCURRENTLY ON note (text)")',
            f'op.get_bind().connection.cursor().execute("{INDEX_OF_NOTE}")',
            f'op.execute("{INDEX_OF_NOTE.replace("INDEX", "INDEX /* ! */")}")',
        ],
        ids=["without a name", "by the driver", "with a comment in it"],
    )
    async def test_for_an_index_that_is_not_recognised_is_sent_once(
        self, rig: Rig, folder: AlembicFolder, tenant_url: str, line: str
    ):
        raw_sql.run(tenant_url, "CREATE TABLE note (text text)")
        folder.add("u1_block", f"{BLOCK}\n    {line}")
        with psycopg.connect(tenant_url) as holder:
            holder.execute("INSERT INTO note VALUES ('one')")
            done = await rig.migrate(tenant_url)

        assert reason(done) == REFUSED
        assert list(indexes(tenant_url).values()) == [False]

    async def test_that_detaches_a_partition_is_sent_once(
        self, rig: Rig, folder: AlembicFolder, tenant_url: str
    ):
        raw_sql.run(tenant_url, "CREATE TABLE whole (id integer) PARTITION BY LIST (id)")
        raw_sql.run(tenant_url, "CREATE TABLE part PARTITION OF whole FOR VALUES IN (1)")
        detach = 'op.execute("ALTER TABLE whole DETACH PARTITION part CONCURRENTLY")'
        folder.add("u1_block", f"{BLOCK}\n    {detach}")
        with psycopg.connect(tenant_url) as holder:
            holder.execute("SELECT FROM whole")
            done = await rig.migrate(tenant_url)

        assert reason(done) == REFUSED

    @pytest.mark.parametrize(
        "start",
        [
            f"-- CREATE\n/* ; */ {UNIQUE} ix",
            f"{UNIQUE} IX_É",
        ],
        ids=["after comments", "with a letter that is not folded"],
    )
    async def test_replaces_an_invalid_index(
        self, rig: Rig, folder: AlembicFolder, tenant_url: str, start: str
    ):
        raw_sql.run(
            tenant_url, "CREATE TABLE note (text text)", "INSERT INTO note VALUES ('a'), ('a')"
        )
        folder.add("u1_block", f"{BLOCK}\n    op.execute({f'{start} ON note (text)'!r})")

        failed = await rig.migrate(tenant_url)
        again = await rig.migrate(tenant_url)

        assert "could not create unique index" in reason(failed)
        assert reason(again) == reason(failed)

    @pytest.mark.parametrize(
        ("sql", "message"),
        [
            ("DROP INDEX CONCURRENTLY typo", "does not exist"),
            ("CREATE INDEX CONCURRENTLY ix ON note (text)", "already exists"),
        ],
    )
    async def test_that_fails_before_it_begins_fails_each_time(
        self, rig: Rig, folder: AlembicFolder, tenant_url: str, sql: str, message: str
    ):
        raw_sql.run(tenant_url, "CREATE TABLE note (text text)", "CREATE INDEX ix ON note ((1))")
        folder.add("u1_block", f"{BLOCK}\n    op.execute('{sql}')")

        failed = await rig.migrate(tenant_url)
        again = await rig.migrate(tenant_url)

        assert message in reason(failed)
        assert reason(again) == reason(failed)

    async def test_replaces_an_invalid_index_in_each_schema(
        self, rig: Rig, folder: AlembicFolder, tenant_url: str
    ):
        for schema in ("app", "bad"):
            raw_sql.run(tenant_url, f"CREATE SCHEMA {schema}")
            raw_sql.run(tenant_url, f"CREATE TABLE {schema}.note (text text)")
        raw_sql.run(tenant_url, "INSERT INTO bad.note VALUES ('a'), ('a')")
        lines = (
            BLOCK,
            "for schema in ('app', 'bad'):",
            "    op.execute(f'SET search_path TO {schema}')",
            f"    op.execute('{UNIQUE} ix ON note (text)')",
            "op.execute('RESET search_path')",
        )
        folder.add("u1_block", "\n    ".join(lines))

        failed = await rig.migrate(tenant_url)
        again = await rig.migrate(tenant_url)

        assert "could not create unique index" in reason(failed)
        assert reason(again) == reason(failed)

    async def test_is_not_skipped_after_it_was_changed(
        self, rig: Rig, folder: AlembicFolder, tenant_url: str
    ):
        """As with Alembic."""
        raw_sql.run(tenant_url, "CREATE TABLE note (id integer, text text)")
        index = 'op.execute("CREATE INDEX CONCURRENTLY ix ON note (text)")'
        file = folder.add("u1_block", f"{BLOCK}\n    {index}\n    op.execute('VACUUM typo')")

        failed = await rig.migrate(tenant_url)
        changed = file.read_text().replace("(text)", "(id)").replace("VACUUM typo", "VACUUM note")
        file.write_text(changed)
        again = await rig.migrate(tenant_url)

        assert "does not exist" in reason(failed)
        assert "already exists" in reason(again)

    async def test_for_an_index_does_not_need_the_schema_of_the_log(
        self, rig: Rig, folder: AlembicFolder, tenant_url: str
    ):
        raw_sql.run(tenant_url, "CREATE SCHEMA app", "CREATE TABLE app.note (text text)")
        lines = (
            BLOCK,
            "op.execute('SET search_path TO app')",
            "op.execute('CREATE INDEX CONCURRENTLY ix ON note (text)')",
            "op.execute('DROP INDEX CONCURRENTLY ix')",
            "op.execute('RESET search_path')",
        )
        folder.add("u1_block", "\n    ".join(lines))

        done = await rig.migrate(tenant_url)

        assert done.error is None, reason(done)

    @pytest.mark.slow
    @pytest.mark.parametrize("limit", ["transaction_timeout", "idle_session_timeout"])
    async def test_has_no_time_limit_of_the_database(
        self, rig: Rig, folder: AlembicFolder, tenant_url: str, limit: str
    ):
        raw_sql.run(
            tenant_url,
            "DO $$ BEGIN EXECUTE format("
            f"'ALTER DATABASE %I SET {limit} = ''500ms''', current_database()); END $$",
        )
        wait = "time.sleep(0.8)\n    op.execute('SELECT pg_sleep(0.8)')"
        folder.add("u1_block", f"{BLOCK}\n    {wait}", head="import time")

        done = await rig.migrate(tenant_url)

        assert done.error is None, reason(done)


@on_sqlite
class TestAutocommitBlockOnSqlite:
    async def test_runs_inside_the_transaction(
        self, rig: Rig, folder: AlembicFolder, tenant_url: str
    ):
        """SQLite needs no autocommit, so a failure leaves nothing."""
        folder.add("u1_create_notes", CREATE_NOTES)
        add_index(folder)
        file = folder.add("u3_fail", "1 / 0")
        before = raw_sql.dump(tenant_url)

        failed = await rig.migrate(tenant_url)
        left = raw_sql.dump(tenant_url)
        file.unlink()
        done = await rig.migrate(tenant_url)

        assert failed.error is not None
        assert left == before
        assert done.error is None, reason(done)
        assert names(done) == ["u1_create_notes", "u2_index"]
