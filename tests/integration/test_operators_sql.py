"""SQL of the operator that is executed in a clone, such as the one that anonymises it."""

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from tenantry.backup import dumps

OTHERS = "CREATE TABLE note (body); INSERT INTO note VALUES ('kept')"


def notes(path: Path) -> list[str]:
    with closing(sqlite3.connect(path)) as raw:
        return [row[0] for row in raw.execute("SELECT body FROM note")]


class TestExecute:
    @pytest.mark.parametrize(
        "sql",
        [
            "ATTACH '{other}' AS other; UPDATE other.note SET body = 'changed'",
            "ATTACH '' || '{other}' AS other; UPDATE other.note SET body = 'changed'",
            "VACUUM INTO '{new}'",
        ],
    )
    async def test_reaches_no_other_file(self, tmp_path: Path, sql: str):
        clone, other, new = (tmp_path / name for name in ("clone", "other", "new"))
        for path in (clone, other):
            with closing(sqlite3.connect(path)) as raw:
                raw.executescript(OTHERS)

        with pytest.raises(sqlite3.DatabaseError, match="authoriz"):
            await dumps.execute(f"sqlite:///{clone}", sql.format(other=other, new=new))

        assert notes(other) == ["kept"]
        assert not new.exists()

    async def test_may_remove_deleted_text_from_the_file(self, tmp_path: Path):
        clone = tmp_path / "clone"
        with closing(sqlite3.connect(clone)) as raw:
            raw.executescript(OTHERS)

        await dumps.execute(f"sqlite:///{clone}", "UPDATE note SET body = 'removed'; VACUUM")

        assert notes(clone) == ["removed"]
        assert b"kept" not in clone.read_bytes()
