"""What a migration leaves behind that is stopped, or that loses what it works on."""

import asyncio
import contextlib
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from tenantry.migration.errors import explain
from testkit import raw_sql
from testkit.revisions import AlembicFolder
from tests.integration.conftest import MakeMigrator, Rig
from tests.integration.engines import on_sqlite

DEADLINE_SECONDS = 1.0
WORK_SECONDS = 2.0
CREATE_NOTES = 'op.create_table("note", sa.Column("id", sa.Integer, primary_key=True))'
LIVE = "import time\nonline = True"


class TestDeadline:
    @pytest.mark.slow
    async def test_lets_nothing_be_committed_later_when_every_other_thread_is_busy(
        self, folder: AlembicFolder, make_migrator: MakeMigrator, tenant_url: str
    ):
        body = f"{CREATE_NOTES}\ntime.sleep({WORK_SECONDS})"
        folder.add("u1_create_notes", body, head=LIVE)
        rig = Rig(make_migrator(DEADLINE_SECONDS), folder)
        loop = asyncio.get_running_loop()
        with ThreadPoolExecutor(1) as busy:
            loop.set_default_executor(busy)
            waiting = loop.run_in_executor(None, time.sleep, WORK_SECONDS + 1)
            with contextlib.suppress(TimeoutError):  # the state may not be readable yet
                done = await rig.migrate(tenant_url)
                assert isinstance(done.error, TimeoutError)
            await waiting

        assert "note" not in raw_sql.tables(tenant_url)


class TestRevision:
    @on_sqlite
    async def test_is_applied_although_the_lock_file_is_removed(
        self, rig: Rig, folder: AlembicFolder, tenant_url: str
    ):
        path = tenant_url.removeprefix("sqlite:///")
        body = f"pathlib.Path({path + '-migrating'!r}).unlink()\n{CREATE_NOTES}"
        folder.add("u1_create_notes", body, head="import pathlib\nonline = True")

        done = await rig.migrate(tenant_url)

        assert done.error is None, explain(done.error)
        assert "note" in raw_sql.tables(tenant_url)

    @on_sqlite
    async def test_that_closes_its_connection_is_named(
        self, rig: Rig, folder: AlembicFolder, tenant_url: str
    ):
        folder.add("u1_close", "op.get_bind().connection.driver_connection.close()")

        done = await rig.migrate(tenant_url)

        assert done.error is not None
        assert explain(done.error).startswith("u1_close: ")
