"""The write fence of a SQLite file: its own triggers, and those of a tenant with similar names."""

import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from tenantry.db import snapshots, write_fence
from tenantry.db.copying.survey import survey_sqlite
from tenantry.kit.stopping import Stop

# None is a name that a fence creates.
SIMILAR = [
    'tenantry_fence_x";SELECT 1;--',
    'tenantry_fence_0";SELECT 1;--_insert',
    "tenantry_fence__insert",
    "tenantry_fence_0_insert_too",
]


@pytest.fixture(name="path")
def _path(tmp_path: Path) -> Path:
    path = tmp_path / "shop.db"
    with closing(sqlite3.connect(path)) as raw:
        raw.execute("CREATE TABLE note (id INTEGER)")
        for name in SIMILAR:
            quoted = name.replace('"', '""')
            raw.execute(f'CREATE TRIGGER "{quoted}" AFTER DELETE ON note BEGIN SELECT 1; END')
    return path


def triggers(path: Path) -> list[str]:
    with closing(sqlite3.connect(path)) as raw:
        found = raw.execute("SELECT name FROM sqlite_master WHERE type = 'trigger' ORDER BY rowid")
        return [str(name) for (name,) in found]


def insert(path: Path) -> None:
    with closing(sqlite3.connect(path)) as raw:
        raw.execute("INSERT INTO note VALUES (1)")


class TestFence:
    def test_rejects_writes_until_it_is_lifted(self, path: Path):
        write_fence.fence_sqlite(path)

        assert write_fence.is_fenced_sqlite(path)
        with pytest.raises(sqlite3.IntegrityError, match="rejects writes"):
            insert(path)

        write_fence.lift_sqlite(path)
        insert(path)

    def test_keeps_triggers_of_the_tenant_with_similar_names(self, path: Path):
        assert not write_fence.is_fenced_sqlite(path)

        write_fence.fence_sqlite(path)
        assert len(triggers(path)) == len(SIMILAR) + 3
        write_fence.lift_sqlite(path)

        assert triggers(path) == SIMILAR

    @pytest.mark.parametrize("copy", [snapshots.copy_live, snapshots.copy_foreign])
    def test_is_in_no_copy_and_the_triggers_of_the_tenant_are(
        self, path: Path, tmp_path: Path, copy: Callable[[Path, Path, Stop], None]
    ):
        before = survey_sqlite(path, is_private=False)
        write_fence.fence_sqlite(path)
        target = tmp_path / "copies" / "copy.db"

        copy(path, target, Stop())

        assert triggers(target) == SIMILAR
        assert survey_sqlite(path, is_private=False) == before

    def test_is_no_part_of_the_schema_and_a_trigger_of_the_tenant_is(self, path: Path):
        before = survey_sqlite(path, is_private=False)

        with closing(sqlite3.connect(path)) as raw:
            raw.execute('DROP TRIGGER "tenantry_fence__insert"')

        assert survey_sqlite(path, is_private=False) != before
