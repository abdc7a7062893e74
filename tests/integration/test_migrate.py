"""Migrating one database: what is applied, what stays after a failure, and what waits."""

import asyncio
import contextlib
import sqlite3
import time
from collections.abc import Callable
from pathlib import Path

import psycopg
import pytest

from tenantry.migration.errors import explain
from tenantry.migration.lock_retries import LOCK_TRIES_MAX
from tenantry.migration.schema_state import Applied, SchemaRevision, SchemaState
from tenantry.migration.streams import Stream, Streams
from tenantry.tenant.stream import STREAM
from testkit import raw_sql
from testkit.revisions import AlembicFolder
from tests.conftest import BEFORE_HEAD, HEAD, HEAD_NAME, UNDO_HEAD
from tests.integration.conftest import DEADLINE_SECONDS, LOCK_MS, Rig
from tests.integration.engines import on_postgresql, on_sqlite

CREATE_NOTES = """
op.create_table("note", sa.Column("id", sa.Integer, primary_key=True),
                sa.Column("text", sa.String(40)))
"""
ADD_NOTES = "op.execute(\"INSERT INTO note (id, text) VALUES (1, 'one'), (2, 'two')\")"


def user_version(url: str) -> list[str]:
    if "alembic_version" not in raw_sql.tables(url):
        return []
    return [name for (name,) in raw_sql.rows(url, "SELECT version_num FROM alembic_version")]


def notes(url: str) -> list[tuple[int, str]]:
    return raw_sql.rows(url, "SELECT id, text FROM note ORDER BY id")


def names(done: SchemaState) -> list[str]:
    return [one.revision for one in done.applied]


def reason(done: SchemaState) -> str:
    assert done.error is not None
    return explain(done.error)


class TestUpgrade:
    async def test_applies_both_streams_and_logs_them(
        self, rig: Rig, folder: AlembicFolder, tenant_url: str
    ):
        raw_sql.run(
            tenant_url,
            *UNDO_HEAD,
        )
        folder.add("u1_create_notes", CREATE_NOTES)
        folder.add("u2_add_notes", ADD_NOTES)

        done = await rig.migrate(tenant_url)

        assert done.error is None
        assert done.applied == [
            Applied("tenantry", HEAD_NAME),
            Applied("user", "u1_create_notes"),
            Applied("user", "u2_add_notes"),
        ]
        assert str(done.revision) == f"{HEAD}/u2"
        assert user_version(tenant_url) == ["u2"]
        assert notes(tenant_url) == [(1, "one"), (2, "two")]

    async def test_at_the_head_is_nothing_to_do(
        self, rig: Rig, folder: AlembicFolder, tenant_url: str
    ):
        folder.add("u1_create_notes", CREATE_NOTES)
        await rig.migrate(tenant_url)
        before = raw_sql.dump(tenant_url)

        again = await rig.migrate(tenant_url)

        assert again.error is None
        assert again.applied == []
        assert raw_sql.dump(tenant_url) == before

    @pytest.mark.parametrize("signature", ["", "op", "operations"])
    async def test_takes_either_form_of_upgrade(
        self, rig: Rig, folder: AlembicFolder, tenant_url: str, signature: str
    ):
        body = CREATE_NOTES.replace("op.", f"{signature or 'op'}.")
        folder.add("u1_create_notes", body, signature=signature)

        done = await rig.migrate(tenant_url)

        assert done.error is None
        assert "note" in raw_sql.tables(tenant_url)

    async def test_supports_op_in_helpers_of_the_file(
        self, rig: Rig, folder: AlembicFolder, tenant_url: str
    ):
        folder.add(
            "u1_create_notes",
            "create()",
            head=f"def create():{CREATE_NOTES.replace(chr(10), chr(10) + '    ')}",
        )

        assert (await rig.migrate(tenant_url)).error is None
        assert "note" in raw_sql.tables(tenant_url)

    async def test_writes_what_the_revision_says_to_the_letter(
        self, rig: Rig, folder: AlembicFolder, tenant_url: str
    ):
        """Tabs, percent signs, colons and bound parameters: Alembic's own --sql mode loses them."""
        text = "tab\there, 100%, a \\:colon, 'quoted'"
        folder.add("u1_create_notes", CREATE_NOTES)
        folder.add(
            "u2_add_notes",
            f"""
            op.get_bind().execute(
                sa.text("INSERT INTO note (id, text) VALUES (:id, :text)"),
                {{"id": 1, "text": {text!r}}},
            )
            note = sa.table("note", sa.column("id", sa.Integer), sa.column("text", sa.String))
            op.bulk_insert(note, [{{"id": 2, "text": {text!r}}}, {{"id": 3, "text": None}}])
            op.execute(r"INSERT INTO note (id, text) VALUES (4, 'a 100% b\\:c')")
            """,
        )

        done = await rig.migrate(tenant_url)

        assert done.error is None, reason(done)
        assert notes(tenant_url) == [(1, text), (2, text), (3, None), (4, "a 100% b:c")]

    async def test_runs_a_data_migration_that_reads(
        self, rig: Rig, folder: AlembicFolder, tenant_url: str
    ):
        folder.add("u1_create_notes", CREATE_NOTES)
        folder.add("u2_add_notes", ADD_NOTES)
        folder.add(
            "u3_upper",
            """
            bind = op.get_bind()
            assert "note" in sa.inspect(bind).get_table_names()
            for id_, text in bind.execute(sa.text("SELECT id, text FROM note")).all():
                changed = bind.execute(
                    sa.text("UPDATE note SET text = :text WHERE id = :id"),
                    {"id": id_, "text": text.upper()},
                )
                assert changed.rowcount == 1
            """,
        )

        done = await rig.migrate(tenant_url)

        assert done.error is None, reason(done)
        assert notes(tenant_url) == [(1, "ONE"), (2, "TWO")]

    async def test_runs_an_orm_session_and_does_not_let_it_commit(
        self, rig: Rig, folder: AlembicFolder, tenant_url: str
    ):
        folder.add("u1_create_notes", CREATE_NOTES)
        folder.add("u2_add_notes", ADD_NOTES)
        orm = """
        from sqlalchemy.orm import DeclarativeBase, Mapped, Session, mapped_column

        class Base(DeclarativeBase):
            pass

        class Note(Base):
            __tablename__ = "note"
            id: Mapped[int] = mapped_column(primary_key=True)
            text: Mapped[str]
        """
        change = """
        with Session(op.get_bind()) as session:
            for note in session.scalars(sa.select(Note)):
                note.text += "!"
            session.add(Note(id=3, text="three"))
            session.commit()
        """
        folder.add("u3_orm", change, head=orm)
        folder.add("u4_fail", "raise ValueError")

        failed = await rig.migrate(tenant_url)
        left = raw_sql.tables(tenant_url)
        (folder.path / "versions" / "u4_fail.py").unlink()
        done = await rig.migrate(tenant_url)

        assert failed.error is not None
        assert "note" not in left, "the session's commit is not the transaction's"
        assert done.error is None, reason(done)
        assert notes(tenant_url) == [(1, "one!"), (2, "two!"), (3, "three")]

    async def test_changes_a_table_in_batch_mode(
        self, rig: Rig, folder: AlembicFolder, tenant_url: str
    ):
        """It copies the table on SQLite; what refers to it stays."""
        folder.add("u1_create_notes", CREATE_NOTES)
        folder.add("u2_add_notes", ADD_NOTES)
        folder.add(
            "u3_refer",
            """
            op.create_table(
                "mark",
                sa.Column("note_id", sa.Integer, sa.ForeignKey("note.id", ondelete="CASCADE")),
            )
            op.execute("INSERT INTO mark VALUES (1), (2)")
            """,
        )
        folder.add(
            "u4_batch",
            """
            with op.batch_alter_table("note", recreate="auto") as batch:
                batch.alter_column("text", new_column_name="body", existing_type=sa.String(40),
                                   type_=sa.String(80), nullable=False)
                batch.add_column(sa.Column("more", sa.Integer, server_default="7"))
                batch.create_check_constraint("ck_more", sa.text("more > 0"))
            """,
        )

        done = await rig.migrate(tenant_url)

        assert done.error is None, reason(done)
        assert raw_sql.rows(tenant_url, "SELECT id, body, more FROM note ORDER BY id") == [
            (1, "one", 7),
            (2, "two", 7),
        ]
        assert raw_sql.rows(tenant_url, "SELECT count(*) FROM mark") == [(2,)]

    async def test_reads_the_directory_again_for_each_run(
        self, rig: Rig, folder: AlembicFolder, tenant_url: str
    ):
        folder.add("u1_create_notes", CREATE_NOTES)
        await rig.migrate(tenant_url)
        folder.add("u2_add_notes", ADD_NOTES)

        assert names(await rig.migrate(tenant_url)) == ["u2_add_notes"]


class TestMerge:
    async def test_brings_what_the_other_branch_had(
        self, rig: Rig, folder: AlembicFolder, tenant_url: str
    ):
        """A database at one side of a merge gets the other side too, as Alembic does it."""
        folder.add("a_create", CREATE_NOTES)
        folder.add("b_left", "op.add_column('note', sa.Column('left', sa.Integer))")
        await rig.migrate(tenant_url)
        folder.add("c_right", "op.add_column('note', sa.Column('right', sa.Integer))", down="a")
        folder.write(
            "d_merge", "revision = 'd'\ndown_revision = ('b', 'c')\ndef upgrade():\n    pass\n"
        )

        done = await rig.migrate(tenant_url)

        assert done.error is None, reason(done)
        assert names(done) == ["c_right", "d_merge"]
        assert set(raw_sql.columns(tenant_url, "note")) == {"id", "text", "left", "right"}


class TestUserVersion:
    async def test_is_taken_over_from_a_project_that_was_migrated_by_alembic(
        self, rig: Rig, folder: AlembicFolder, tenant_url: str
    ):
        folder.add("u1_create_notes", CREATE_NOTES)
        folder.add("u2_add_notes", ADD_NOTES)
        raw_sql.run(
            tenant_url,
            "CREATE TABLE note (id integer PRIMARY KEY, text varchar(40))",
            "CREATE TABLE alembic_version (version_num VARCHAR(32) NOT NULL, "
            "CONSTRAINT alembic_version_pkc PRIMARY KEY (version_num))",
            "INSERT INTO alembic_version VALUES ('u1')",
        )

        done = await rig.migrate(tenant_url)

        assert done.error is None
        assert names(done) == ["u2_add_notes"]
        assert user_version(tenant_url) == ["u2"]

    async def test_is_kept_in_the_table_of_the_setting(
        self, rig: Rig, folder: AlembicFolder, tenant_url: str
    ):
        folder.add("u1_create_notes", CREATE_NOTES)
        streams = rig.streams("My_Versions")

        done = await rig.migrate(tenant_url, streams)

        assert done.error is None
        assert raw_sql.rows(tenant_url, 'SELECT version_num FROM "My_Versions"') == [("u1",)]
        assert "alembic_version" not in raw_sql.tables(tenant_url)
        assert (await rig.migrate(tenant_url, rig.streams("My_Versions"))).applied == []

    async def test_that_is_unknown_is_reported(
        self, rig: Rig, folder: AlembicFolder, tenant_url: str
    ):
        folder.add("u1_create_notes", CREATE_NOTES)
        raw_sql.run(
            tenant_url,
            "CREATE TABLE alembic_version (version_num VARCHAR(32) NOT NULL)",
            "INSERT INTO alembic_version VALUES ('feedbeef')",
        )

        done = await rig.migrate(tenant_url)

        assert "'feedbeef'" in reason(done)
        assert done.applied == []
        assert user_version(tenant_url) == ["feedbeef"]
        assert "note" not in raw_sql.tables(tenant_url)

    async def test_that_is_unknown_beside_another_is_reported(
        self, rig: Rig, folder: AlembicFolder, tenant_url: str
    ):
        folder.add("u1_create_notes", CREATE_NOTES)
        raw_sql.run(
            tenant_url,
            "CREATE TABLE alembic_version (version_num VARCHAR(32) NOT NULL)",
            "INSERT INTO alembic_version VALUES ('u1'), ('u0')",
        )

        done = await rig.migrate(tenant_url)

        assert "'u1+u0', which is not among the user ones" in reason(done)
        assert done.applied == []
        assert "note" not in raw_sql.tables(tenant_url)


class TestOwnVersion:
    @pytest.mark.parametrize(
        "spoil",
        [
            ["DROP TABLE tenantry_version"],
            ["DELETE FROM tenantry_version"],
            ["INSERT INTO tenantry_version VALUES ('0001')"],
        ],
    )
    async def test_that_is_damaged_is_reported_and_nothing_is_done(
        self, rig: Rig, folder: AlembicFolder, tenant_url: str, spoil: list[str]
    ):
        folder.add("u1_create_notes", CREATE_NOTES)
        raw_sql.run(tenant_url, *spoil)
        before = raw_sql.dump(tenant_url)

        with pytest.raises(Exception, match="version table") as caught:
            await rig.migrate(tenant_url)

        assert "version table is missing or damaged" in explain(caught.value)
        assert raw_sql.dump(tenant_url) == before

    async def test_of_newer_code_is_reported(self, rig: Rig, tenant_url: str):
        raw_sql.run(tenant_url, "UPDATE tenantry_version SET version_num = '9999'")

        done = await rig.migrate(tenant_url)

        assert "'9999'" in reason(done)

    async def test_of_a_missing_database_is_reported_and_none_is_created(
        self, rig: Rig, engine: str, tenant_url: str
    ):
        with pytest.raises(Exception, match=r".") as caught:
            await rig.migrate(tenant_url + "_gone")

        assert "does not exist" in explain(caught.value)
        if engine == "sqlite":
            assert not Path(tenant_url.removeprefix("sqlite:///") + "_gone").exists()  # noqa: ASYNC240


class TestFailure:
    @pytest.mark.parametrize(
        "last",
        [
            "raise ValueError('a row value: 4711')",
            "op.execute('SELEKT 1')",
            "op.execute(\"INSERT INTO note (id, text) VALUES (1, 'again')\")",
            "op.create_table('note', sa.Column('id', sa.Integer))",
            "1 / 0",
        ],
    )
    async def test_half_way_leaves_nothing(
        self, rig: Rig, folder: AlembicFolder, tenant_url: str, last: str
    ):
        """Neither a table nor a row nor a version, of either stream."""
        raw_sql.run(
            tenant_url,
            *UNDO_HEAD,
        )
        folder.add("u1_create_notes", CREATE_NOTES)
        folder.add("u2_add_notes", ADD_NOTES)
        folder.add("u3_fail", f"op.add_column('note', sa.Column('x', sa.Integer))\n{last}")
        before = raw_sql.dump(tenant_url)

        done = await rig.migrate(tenant_url)

        assert done.error is not None
        assert done.applied == []
        assert str(done.revision) == str(SchemaRevision(BEFORE_HEAD, ""))
        assert raw_sql.dump(tenant_url) == before
        assert raw_sql.rows(
            tenant_url, f"SELECT count(*) FROM {raw_sql.LOG} WHERE stream='user'"
        ) == [(0,)]
        assert "4711" not in reason(done)

    async def test_can_be_repaired_and_run_again(
        self, rig: Rig, folder: AlembicFolder, tenant_url: str
    ):
        folder.add("u1_create_notes", CREATE_NOTES)
        file = folder.add("u2_add_notes", "op.execute('SELEKT 1, 2, 3, 4, 5')")

        assert (await rig.migrate(tenant_url)).error is not None
        file.write_text(file.read_text().replace("SELEKT 1, 2, 3, 4, 5", "SELECT 1"))
        done = await rig.migrate(tenant_url)

        assert done.error is None, reason(done)
        assert user_version(tenant_url) == ["u2"]

    @pytest.mark.parametrize("word", ["COMMIT", "ROLLBACK", "BEGIN", " /* a */ commit"])
    @pytest.mark.parametrize("online", [False, True])
    async def test_of_a_revision_that_would_end_the_transaction_leaves_nothing(
        self,
        rig: Rig,
        folder: AlembicFolder,
        tenant_url: str,
        word: str,
        online: bool,  # noqa: FBT001
    ):
        """Recorded or live, it is refused before it is sent."""
        folder.add("u1_create_notes", CREATE_NOTES)
        folder.add("u2_commit", f"op.execute('{word}')", head=f"online = {online}")
        folder.add("u3_add_notes", "op.create_table('later', sa.Column('id', sa.Integer))")
        before = raw_sql.dump(tenant_url)

        done = await rig.migrate(tenant_url)

        assert reason(done).startswith("u2_commit: The revision ends its transaction")
        assert raw_sql.dump(tenant_url) == before

    @on_postgresql
    @pytest.mark.parametrize("online", [False, True])
    @pytest.mark.parametrize("sql", ["COMMIT", "ROLLBACK", "COMMIT; BEGIN", "ROLLBACK; BEGIN"])
    async def test_of_a_revision_that_ends_the_transaction_is_reported(
        self,
        rig: Rig,
        folder: AlembicFolder,
        tenant_url: str,
        sql: str,
        online: bool,  # noqa: FBT001
    ):
        """SQL that bypasses the driver is not refused. Part of it stays, up to the last version."""
        folder.add("u1_create_notes", CREATE_NOTES)
        folder.add(
            "u2_commit",
            f"""
            raw = op.get_bind().connection.driver_connection
            for sql in {sql.split("; ")}:
                raw.pgconn.exec_(sql.encode())
            """,
            head=f"online = {online}",
        )
        folder.add("u3_add_notes", "op.create_table('later', sa.Column('id', sa.Integer))")

        done = await rig.migrate(tenant_url)

        assert reason(done).startswith("u2_commit: A revision ended the transaction")
        stayed = sql.startswith("COMMIT")
        assert user_version(tenant_url) == (["u1"] if stayed else [])
        assert "later" not in raw_sql.tables(tenant_url)
        assert ("note" in raw_sql.tables(tenant_url)) == stayed

    @on_postgresql
    async def test_of_a_revision_that_commits_does_not_hide_what_stayed(
        self, rig: Rig, folder: AlembicFolder, tenant_url: str
    ):
        """Our own stream was moved by the revision's COMMIT: its log says so."""
        raw_sql.run(
            tenant_url,
            *UNDO_HEAD,
        )
        folder.add(
            "u1_commit", "op.get_bind().connection.driver_connection.pgconn.exec_(b'COMMIT')"
        )

        done = await rig.migrate(tenant_url)

        assert done.error is not None
        assert raw_sql.rows(tenant_url, "SELECT version_num FROM tenantry_version") == [(HEAD,)]
        assert names(done) == [HEAD_NAME]

    async def test_of_a_file_that_cannot_be_read_is_reported(
        self, rig: Rig, folder: AlembicFolder, tenant_url: str
    ):
        folder.write("u1_broken", "def upgrade(:\n")

        done = await rig.migrate(tenant_url)

        assert reason(done).endswith(
            "cannot be read: SyntaxError in u1_broken.py, line 1: invalid syntax."
        )

    async def test_of_a_mistake_in_python_names_file_and_line_and_no_value(
        self, rig: Rig, folder: AlembicFolder, tenant_url: str
    ):
        file = folder.add(
            "u1_wrong", "row = op.get_bind().scalar(sa.text(\"SELECT 'a name'\"))\nrow.missing"
        )
        lines = file.read_text().splitlines()

        done = await rig.migrate(tenant_url)

        line = 1 + next(number for number, text in enumerate(lines) if "row.missing" in text)
        assert reason(done) == (
            f"u1_wrong: The migration raised AttributeError in u1_wrong.py, line {line}."
        )

    @pytest.mark.slow
    async def test_of_op_as_a_module_corrupts_no_other_migration(
        self, rig: Rig, folder: AlembicFolder, new_database: Callable[[], str]
    ):
        """Each of many at once has its own, though they share Alembic's module."""
        urls = [await rig.initialise(new_database()) for _ in range(4)]
        body = "import alembic, time\nalembic.op.get_bind()\ntime.sleep(0.05)\n"
        folder.add("u1_helper", f"{body}alembic.op.create_table('x', sa.Column('a', sa.Integer))")

        done = await asyncio.gather(*(rig.migrate(url) for url in urls))

        assert [one.error for one in done] == [None] * 4
        assert all("x" in raw_sql.tables(url) for url in urls)


@pytest.mark.slow
class TestRace:
    @pytest.mark.parametrize("several", [2, 4])
    async def test_of_runs_on_one_database_applies_each_revision_once(
        self, rig: Rig, folder: AlembicFolder, tenant_url: str, several: int
    ):
        """A loser waits, finds the tenant moved, and that is a success."""
        folder.add("u00_create_notes", CREATE_NOTES)
        await rig.migrate(tenant_url)
        for number in range(1, 16):
            folder.add(
                f"u{number:02}_add", f"op.execute(\"INSERT INTO note VALUES ({number}, '')\")"
            )

            done = await asyncio.gather(*(rig.migrate(tenant_url) for _ in range(several)))

            assert [one.error for one in done] == [None] * several
            assert sorted(names(one) for one in done) == [[]] * (several - 1) + [
                [f"u{number:02}_add"]
            ]
        assert len(notes(tenant_url)) == 15
        log = raw_sql.rows(tenant_url, f"SELECT revision FROM {raw_sql.LOG} WHERE stream = 'user'")
        assert len(log) == len(set(log)) == 16

    async def test_of_runs_of_our_own_stream_applies_each_revision_once(
        self, rig: Rig, new_database: Callable[[], str]
    ):
        """Only the row of our own stream separates them."""
        for _ in range(4):
            url = await rig.initialise(new_database())
            raw_sql.run(
                url,
                *UNDO_HEAD,
                f"DELETE FROM {raw_sql.LOG}",
            )

            done = await asyncio.gather(*(rig.migrate(url, Streams(STREAM)) for _ in range(3)))

            assert [one.error for one in done] == [None] * 3
            assert sorted(len(one.applied) for one in done) == [0, 0, 1]
            assert len(raw_sql.rows(url, f"SELECT revision FROM {raw_sql.LOG}")) == 1

    async def test_of_runs_at_the_base_of_the_user_applies_each_revision_once(
        self, rig: Rig, folder: AlembicFolder, new_database: Callable[[], str]
    ):
        """There is no row of the user's to swap yet."""
        folder.add("u1_create_notes", CREATE_NOTES)
        folder.add("u2_add_notes", ADD_NOTES)
        for _ in range(4):
            url = await rig.initialise(new_database())

            done = await asyncio.gather(*(rig.migrate(url) for _ in range(3)))

            assert [one.error for one in done] == [None] * 3
            assert sorted(len(one.applied) for one in done) == [0, 0, 2]
            assert len(notes(url)) == 2
            assert user_version(url) == ["u2"]


@pytest.mark.slow
class TestOverlap:
    async def test_separates_stock_revisions_of_many_databases(
        self, rig: Rig, folder: AlembicFolder, new_database: Callable[[], str], engine: str
    ):
        """60 databases, 12 at once, with `from alembic import op`: none gets another's rows."""
        first = await rig.initialise(new_database())
        urls = [first, *(_copy_of(first, engine, new_database) for _ in range(59))]
        for number, url in enumerate(urls):
            raw_sql.run(url, "CREATE TABLE me (id integer)", f"INSERT INTO me VALUES ({number})")
        for number in range(3):
            folder.add(
                f"u{number}_step",
                f"""
                me = op.get_bind().scalar(sa.text("SELECT id FROM me"))
                time.sleep(0.001)
                op.create_table("t{number}", sa.Column("id", sa.Integer, primary_key=True))
                op.execute(f"INSERT INTO t{number} VALUES ({{me}})")
                time.sleep(0.001)
                op.get_bind().execute(sa.text("INSERT INTO t{number} VALUES (:id)"),
                                      {{"id": 1000 + me}})
                """,
                head="import time",
            )
        gate = asyncio.Semaphore(12)

        async def migrate(url: str) -> SchemaState:
            async with gate:
                return await rig.migrate(url)

        done = await asyncio.gather(*(migrate(url) for url in urls))

        assert [one.error for one in done] == [None] * 60
        for number, url in enumerate(urls):
            with raw_sql.connected(url) as query:
                assert query("SELECT version_num FROM alembic_version") == [("u2",)]
                for table in ("t0", "t1", "t2"):
                    found = query(f"SELECT id FROM {table} ORDER BY id")
                    assert found == [(number,), (1000 + number,)]


class TestLock:
    @pytest.mark.slow
    @on_postgresql
    async def test_that_is_not_free_fails_readably_and_blocks_no_reader_for_long(
        self, rig: Rig, folder: AlembicFolder, tenant_url: str
    ):
        """An idle transaction on a table; readers that queue behind the migration go on soon."""
        folder.add("u1_create_notes", CREATE_NOTES)
        await rig.migrate(tenant_url)
        folder.add("u2_alter", "op.add_column('note', sa.Column('x', sa.Integer))")
        waits: list[float] = []
        stop = asyncio.Event()

        async def read() -> None:
            connection = await psycopg.AsyncConnection.connect(tenant_url, autocommit=True)
            async with connection:
                while not stop.is_set():
                    began = time.monotonic()
                    await connection.execute("SELECT count(*) FROM note")
                    waits.append(time.monotonic() - began)
                    await asyncio.sleep(0.005)

        with psycopg.connect(tenant_url) as holder:
            holder.execute("SELECT * FROM note")
            reader = asyncio.create_task(read())
            began = time.monotonic()
            done = await rig.migrate(tenant_url)
            took = time.monotonic() - began
            stop.set()
            await reader

        assert "A lock was not free in time" in reason(done)
        assert "55P03" in reason(done)
        assert done.applied == []
        assert LOCK_MS / 1000 <= took < DEADLINE_SECONDS / 2
        blocked = [wait for wait in waits if wait > LOCK_MS / 2000]
        assert len(blocked) > 1, "a reader goes on after each attempt"
        assert min(blocked) < 5 * LOCK_MS / 1000
        assert (await rig.migrate(tenant_url)).error is None

    @on_postgresql
    async def test_that_becomes_free_is_acquired_by_a_retry(
        self, rig: Rig, folder: AlembicFolder, tenant_url: str
    ):
        folder.add("u1_create_notes", CREATE_NOTES)
        await rig.migrate(tenant_url)
        folder.add("u2_alter", "op.add_column('note', sa.Column('x', sa.Integer))")

        with psycopg.connect(tenant_url) as holder:
            holder.execute("SELECT * FROM note")
            running = asyncio.create_task(rig.migrate(tenant_url))
            await asyncio.sleep(LOCK_MS / 1000 + 0.1)
        done = await running

        assert done.error is None, reason(done)
        assert names(done) == ["u2_alter"]

    @on_postgresql
    async def test_is_waited_for_as_often_after_races(
        self, rig: Rig, folder: AlembicFolder, tenant_url: str, tmp_path: Path
    ):
        """Each kind of error has its own limit of attempts."""
        races = LOCK_TRIES_MAX * ["('tuple concurrently updated', 'XX000')"]
        errors = [*races, *(LOCK_TRIES_MAX - 1) * ["('canceling statement', '55P03')"]]
        raising = "DO $$ BEGIN RAISE EXCEPTION USING MESSAGE = '{}', ERRCODE = '{}'; END $$"
        folder.add(
            "u1_race",
            f"""
            tries = pathlib.Path({str(tmp_path / "tries")!r})
            done = int(tries.read_text()) if tries.exists() else 0
            tries.write_text(str(done + 1))
            errors = [{", ".join(errors)}]
            if done < len(errors):
                op.execute({raising!r}.format(*errors[done]))
            """,
            head="import pathlib",
        )

        done = await rig.migrate(tenant_url)

        assert done.error is None
        assert (tmp_path / "tries").read_text() == str(len(errors) + 1)

    @pytest.mark.slow
    @on_postgresql
    async def test_of_the_version_row_is_waited_for_longer(
        self,
        rig: Rig,
        folder: AlembicFolder,
        tenant_url: str,
    ):
        """It separates runs, and no request waits for it."""
        folder.add("u1_create_notes", CREATE_NOTES)
        with psycopg.connect(tenant_url) as holder:
            holder.execute("UPDATE tenantry_version SET version_num = version_num")
            running = asyncio.create_task(rig.migrate(tenant_url))
            await asyncio.sleep(LOCK_MS * (LOCK_TRIES_MAX + 1) / 1000)
            assert not running.done()

        assert (await running).error is None

    @pytest.mark.slow
    @on_sqlite
    async def test_of_a_file_that_another_run_has_is_waited_for(
        self,
        rig: Rig,
        folder: AlembicFolder,
        tenant_url: str,
    ):
        """However long it takes, as for the version row on PostgreSQL."""
        seconds = LOCK_MS * (LOCK_TRIES_MAX + 1) / 1000
        folder.add("u1_slow", f"time.sleep({seconds})\n{CREATE_NOTES}", head="import time")
        folder.add("u2_add_notes", ADD_NOTES)

        done = await asyncio.gather(*(rig.migrate(tenant_url) for _ in range(3)))

        assert [one.error for one in done] == [None] * 3
        assert sorted(name for one in done for name in names(one)) == ["u1_slow", "u2_add_notes"]
        assert not list(Path(tenant_url.removeprefix("sqlite:///")).parent.glob("*-migrating"))

    @pytest.mark.slow
    @on_sqlite
    @pytest.mark.parametrize("begin", ["BEGIN IMMEDIATE", "BEGIN EXCLUSIVE"])
    async def test_of_a_file_that_something_else_has_fails_after_some_tries(
        self,
        rig: Rig,
        folder: AlembicFolder,
        tenant_url: str,
        begin: str,
    ):
        """Not after the tenant's whole deadline, which is 12 minutes."""
        folder.add("u1_create_notes", CREATE_NOTES)
        path = tenant_url.removeprefix("sqlite:///")
        with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as writer:
            writer.execute("PRAGMA journal_mode = DELETE")
            writer.execute(begin)
            began = time.monotonic()
            try:
                error = (await rig.migrate(tenant_url)).error
            except Exception as raised:  # noqa: BLE001 - with EXCLUSIVE it cannot be read, either
                error = raised
            took = time.monotonic() - began

        assert error is not None
        assert "A lock was not free in time: something else writes to the database" in explain(
            error
        )
        assert LOCK_MS * (LOCK_TRIES_MAX - 1) / 1000 < took < DEADLINE_SECONDS / 2
        assert (await rig.migrate(tenant_url)).error is None

    @pytest.mark.slow
    @on_sqlite
    async def test_of_a_file_is_waited_for(
        self,
        rig: Rig,
        folder: AlembicFolder,
        tenant_url: str,
    ):
        folder.add("u1_create_notes", CREATE_NOTES)
        path = tenant_url.removeprefix("sqlite:///")
        with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as writer:
            writer.execute("BEGIN IMMEDIATE")
            running = asyncio.create_task(rig.migrate(tenant_url))
            await asyncio.sleep(LOCK_MS * (LOCK_TRIES_MAX - 1.5) / 1000)
            assert not running.done()
            writer.execute("COMMIT")

        assert (await running).error is None

    @pytest.mark.slow
    async def test_does_not_block_readers_while_a_migration_works(
        self, rig: Rig, folder: AlembicFolder, tenant_url: str, tmp_path: Path
    ):
        """A slow additive revision does not delay readers of other tables."""
        folder.add("u1_create_notes", CREATE_NOTES)
        await rig.migrate(tenant_url)
        folder.add(
            "u2_slow",
            f"op.create_table('slow', sa.Column('id', sa.Integer))\n{_until(tmp_path / 'read')}",
            head="import os, time\nonline = True",
        )
        running = asyncio.create_task(rig.migrate(tenant_url))
        for _ in range(20):
            assert await asyncio.to_thread(notes, tenant_url) == []
            await asyncio.sleep(0.02)
        assert not running.done()
        (tmp_path / "read").touch()

        assert (await running).error is None


@pytest.mark.slow
class TestLoop:
    async def test_turns_while_a_revision_works_in_python(
        self, rig: Rig, folder: AlembicFolder, tenant_url: str, tmp_path: Path
    ):
        """A revision that computes must not stop requests and the heartbeat."""
        folder.add("u1_compute", _until(tmp_path / "turned"), head="import os, time\nonline = True")
        running = asyncio.create_task(rig.migrate(tenant_url))
        for _ in range(20):
            await asyncio.sleep(0.01)
        assert not running.done()
        (tmp_path / "turned").touch()

        assert (await running).error is None


def _until(path: Path) -> str:
    """Return the lines of a revision that wait for a file, which the loop has to make."""
    return f"while not os.path.exists({str(path)!r}):\n    time.sleep(0.01)"


class TestDisplay:
    def test_names_the_stream_where_a_name_is_in_both(self, folder: AlembicFolder):
        folder.write("0001_create_tenant", "revision = 'x'\ndown_revision = None\n")
        folder.add("y_other", "pass", down="x")
        streams = Streams(STREAM, Stream("user", folder.path))

        shown = [
            streams.display(Applied(stream, name))
            for stream, name in [
                ("tenantry", "0001_create_tenant"),
                ("user", "0001_create_tenant"),
                ("user", "y_other"),
            ]
        ]

        assert shown == ["tenantry:0001_create_tenant", "user:0001_create_tenant", "y_other"]


def _copy_of(url: str, engine: str, new_database: Callable[[], str]) -> str:
    target = new_database()
    if engine == "sqlite":
        path = Path(target.removeprefix("sqlite:///"))
        path.write_bytes(Path(url.removeprefix("sqlite:///")).read_bytes())
        return target
    name, source = target.rpartition("/")[2], url.rpartition("/")[2]
    maintenance = target.rpartition("/")[0] + "/postgres"
    raw_sql.run(maintenance, f"DROP DATABASE {name}", f"CREATE DATABASE {name} TEMPLATE {source}")
    return target
