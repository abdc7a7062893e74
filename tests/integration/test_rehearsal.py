"""Listing and rehearsing the pending revisions of a database: nothing stays."""

import asyncio

import psycopg
import pytest

from tenantry.migration.errors import explain
from tenantry.migration.lock_retries import LOCK_TRIES_MAX, Inspection
from tenantry.migration.schema_state import Applied, SchemaRevision
from testkit import raw_sql
from testkit.revisions import AlembicFolder
from tests.conftest import BEFORE_HEAD, HEAD, HEAD_NAME
from tests.integration.conftest import LOCK_MS, Rig
from tests.integration.engines import on_postgresql

CREATE_NOTES = "op.create_table('note', sa.Column('id', sa.Integer, primary_key=True))"
ADD_NOTES = "op.execute('INSERT INTO note (id) VALUES (1), (2)')"
READ_NOTES = "assert op.get_bind().execute(sa.text('SELECT id FROM note')).all() == [(1,), (2,)]"
# A foreign key that is checked when the transaction ends.
DEFERRED = """
op.create_table("mark", sa.Column("note_id", sa.Integer))
op.create_foreign_key("fk_mark", "mark", "note", ["note_id"], ["id"],
                      deferrable=True, initially="DEFERRED")
op.execute("INSERT INTO mark VALUES (3)")
"""


def reason(looked: Inspection) -> str:
    assert looked.error is not None
    return explain(looked.error)


class TestInspect:
    async def test_returns_what_is_pending_in_both_streams_and_changes_nothing(
        self, rig: Rig, folder: AlembicFolder, tenant_url: str
    ):
        raw_sql.run(tenant_url, f"UPDATE tenantry_version SET version_num = '{BEFORE_HEAD}'")
        folder.add("u1_create_notes", CREATE_NOTES)
        folder.add("u2_add_notes", ADD_NOTES)
        before = raw_sql.dump(tenant_url)

        looked = await rig.inspect(tenant_url)

        assert str(looked.revision) == str(SchemaRevision(BEFORE_HEAD, ""))
        assert looked.pending == [
            Applied("tenantry", HEAD_NAME),
            Applied("user", "u1_create_notes"),
            Applied("user", "u2_add_notes"),
        ]
        assert looked.error is None
        assert raw_sql.dump(tenant_url) == before

    async def test_at_the_head_finds_nothing(
        self, rig: Rig, folder: AlembicFolder, tenant_url: str
    ):
        folder.add("u1_create_notes", CREATE_NOTES)
        await rig.migrate(tenant_url)

        looked = await rig.inspect(tenant_url)

        assert (str(looked.revision), looked.pending, looked.error) == (f"{HEAD}/u1", [], None)

    async def test_of_an_unknown_revision_reports_where_and_why(self, rig: Rig, tenant_url: str):
        raw_sql.run(tenant_url, "UPDATE tenantry_version SET version_num = '9999'")

        looked = await rig.inspect(tenant_url)

        assert str(looked.revision) == "9999/"
        assert looked.pending == []
        assert "'9999'" in reason(looked)

    async def test_of_several_heads_reports_why(
        self, rig: Rig, folder: AlembicFolder, tenant_url: str
    ):
        folder.add("a_one", "pass")
        folder.add("b_left", "pass", down="a")
        folder.add("c_right", "pass", down="a")

        looked = await rig.inspect(tenant_url)

        assert "2 heads" in reason(looked)
        assert looked.pending == []


class TestRehearse:
    async def test_applies_what_is_pending_and_rolls_it_back(
        self, rig: Rig, folder: AlembicFolder, tenant_url: str
    ):
        """Recorded and live revisions, one after the other, as in a migration."""
        folder.add("u1_create_notes", CREATE_NOTES)
        folder.add("u2_add_notes", ADD_NOTES)
        folder.add("u3_read_notes", READ_NOTES)
        before = raw_sql.dump(tenant_url)
        log = raw_sql.rows(tenant_url, f"SELECT count(*) FROM {raw_sql.LOG}")

        looked = await rig.rehearse(tenant_url)

        assert looked.error is None, reason(looked)
        assert [one.revision for one in looked.pending] == [
            "u1_create_notes",
            "u2_add_notes",
            "u3_read_notes",
        ]
        assert raw_sql.dump(tenant_url) == before
        assert raw_sql.rows(tenant_url, f"SELECT count(*) FROM {raw_sql.LOG}") == log
        assert (await rig.migrate(tenant_url)).error is None

    async def test_returns_which_revision_would_fail(
        self, rig: Rig, folder: AlembicFolder, tenant_url: str
    ):
        folder.add("u1_create_notes", CREATE_NOTES)
        folder.add("u2_fail", CREATE_NOTES)
        before = raw_sql.dump(tenant_url)

        looked = await rig.rehearse(tenant_url)

        assert reason(looked).startswith("u2_fail: ")
        assert len(looked.pending) == 2
        assert raw_sql.dump(tenant_url) == before

    @on_postgresql
    async def test_returns_what_would_fail_only_at_the_commit(
        self, rig: Rig, folder: AlembicFolder, tenant_url: str
    ):
        folder.add("u1_create_notes", CREATE_NOTES)
        folder.add("u2_mark", DEFERRED)

        looked = await rig.rehearse(tenant_url)

        assert "fk_mark" in reason(looked)
        assert "note" not in raw_sql.tables(tenant_url)

    @pytest.mark.slow
    @on_postgresql
    async def test_waits_for_locks_like_the_run(
        self, rig: Rig, folder: AlembicFolder, tenant_url: str
    ):
        folder.add("u1_create_notes", CREATE_NOTES)
        await rig.migrate(tenant_url)
        folder.add("u2_alter", "op.add_column('note', sa.Column('x', sa.Integer))")
        with psycopg.connect(tenant_url) as holder:
            holder.execute("SELECT * FROM note")

            looked = await rig.rehearse(tenant_url)

            assert "A lock was not free in time" in reason(looked)
            running = asyncio.create_task(rig.rehearse(tenant_url))
            await asyncio.sleep(LOCK_MS * (LOCK_TRIES_MAX - 1) / 1000)
        assert (await running).error is None

    async def test_at_the_head_does_nothing(self, rig: Rig, tenant_url: str):
        await rig.migrate(tenant_url)

        looked = await rig.rehearse(tenant_url)

        assert (looked.pending, looked.error) == ([], None)
