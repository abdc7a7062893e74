"""A SQLite file that is removed or replaced while its tenant is migrated or served."""

import shutil
from pathlib import Path

from tenantry.migration.errors import explain
from testkit import raw_sql
from testkit.revisions import AlembicFolder
from tests.integration.conftest import Rig
from tests.integration.engines import on_sqlite

REPLACE = """
    import shutil
    op.create_table("note", sa.Column("id", sa.Integer))
    shutil.copy({backup!r}, {backup!r} + ".copy")
    pathlib.Path({backup!r} + ".copy").replace({path!r})
    for suffix in ("-wal", "-shm"):
        pathlib.Path({path!r} + suffix).unlink(missing_ok=True)
"""


@on_sqlite
class TestMigrate:
    async def test_fails_when_the_file_was_replaced(
        self, rig: Rig, folder: AlembicFolder, tenant_url: str, tmp_path: Path
    ):
        """It would be called a success, and the file that is there would not be migrated."""
        path = tenant_url.removeprefix("sqlite:///")
        backup = str(shutil.copy(path, tmp_path / "backup"))
        folder.add(
            "u1_replace",
            REPLACE.format(path=path, backup=backup),
            head="import pathlib\nonline = True",
        )

        done = await rig.migrate(tenant_url)

        assert done.error is not None
        assert explain(done.error) == "The database file was replaced by another file."
        assert (done.applied, done.revision.user) == ([], "")
        assert "note" not in raw_sql.tables(tenant_url)
