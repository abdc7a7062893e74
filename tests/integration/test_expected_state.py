"""The migrator assumes the state of the previous database; a wrong assumption is harmless."""

from collections.abc import Callable

import pytest

from tenantry.kit.ids import new_id
from tenantry.migration.errors import explain
from tenantry.migration.run_scripts import RunScripts
from tenantry.migration.schema_state import SchemaState
from testkit import raw_sql
from testkit.revisions import AlembicFolder
from tests.integration.conftest import Rig

CREATE = "op.create_table('note', sa.Column('id', sa.Integer))"
ADD = "op.add_column('note', sa.Column('text', sa.Text))"

OTHER_STARTS = {
    "further on": ["UPDATE alembic_version SET version_num = 'u2'"],
    "before the user's first": ["DROP TABLE alembic_version", "DROP TABLE note"],
}
BROKEN = {
    "is unknown": ("'feedbeef'", ["UPDATE alembic_version SET version_num = 'feedbeef'"]),
    "is several": ("'u1+u0'", ["INSERT INTO alembic_version VALUES ('u0')"]),
    "is not there": ("not a database of Tenantry", ["DROP TABLE tenantry_version"]),
    "is twice ours": (
        "not a database of Tenantry",
        ["INSERT INTO tenantry_version SELECT 'old' FROM tenantry_version"],
    ),
}


class CountingScripts(RunScripts):
    """Counts how often a state was read: each is then expected of the next database."""

    reads = 0

    def __setattr__(self, name: str, value: object) -> None:
        self.__dict__[name] = value
        self.__dict__["reads"] = self.reads + (name == "expected" and value is not None)


async def migrate(rig: Rig, url: str, scripts: RunScripts) -> SchemaState:
    return await rig.migrator.migrate(url, scripts, run_id=new_id(), is_first=True)


@pytest.fixture(name="pair")
async def _pair(
    rig: Rig, folder: AlembicFolder, new_database: Callable[[], str]
) -> tuple[str, str]:
    """Two databases at u1, with u2 and u3 pending."""
    folder.add("u1_create", CREATE)
    urls = await rig.initialise(new_database()), await rig.initialise(new_database())
    for url in urls:
        assert (await rig.migrate(url)).error is None
    folder.add("u2_add", ADD)
    folder.add("u3_change", "op.execute('UPDATE note SET id = 1')")
    return urls


class TestExpectedState:
    async def test_saves_a_read_of_the_state(self, rig: Rig, pair: tuple[str, str]):
        scripts = CountingScripts(rig.streams())

        done = [await migrate(rig, url, scripts) for url in pair]

        assert scripts.reads == 1
        assert [one.error for one in done] == [None, None]
        assert [[step.revision for step in one.applied] for one in done] == [
            ["u2_add", "u3_change"]
        ] * 2

    @pytest.mark.parametrize("spoil", OTHER_STARTS.values(), ids=OTHER_STARTS)
    async def test_is_not_used_for_a_database_at_another_revision(
        self, rig: Rig, pair: tuple[str, str], spoil: list[str]
    ):
        scripts = RunScripts(rig.streams())
        if "u2" in spoil[0]:
            raw_sql.run(pair[1], "ALTER TABLE note ADD COLUMN text TEXT")
        raw_sql.run(pair[1], *spoil)

        for url in pair:
            done = await migrate(rig, url, scripts)

        assert done.error is None
        assert str(done.revision).endswith("/u3")
        assert raw_sql.rows(pair[1], "SELECT version_num FROM alembic_version") == [("u3",)]
        assert raw_sql.rows(pair[1], "SELECT id, text FROM note") == []

    @pytest.mark.parametrize(("words", "spoil"), BROKEN.values(), ids=BROKEN)
    async def test_changes_nothing_where_the_version(
        self, rig: Rig, pair: tuple[str, str], words: str, spoil: list[str]
    ):
        scripts = RunScripts(rig.streams())
        raw_sql.run(pair[1], *spoil)
        before = raw_sql.dump(pair[1])
        await migrate(rig, pair[0], scripts)

        try:
            error = (await migrate(rig, pair[1], scripts)).error
        except Exception as raised:  # noqa: BLE001 - not even its revision can be read
            error = raised

        assert error is not None
        assert words in explain(error)
        assert raw_sql.dump(pair[1]) == before

    async def test_is_not_used_from_an_unknown_revision(self, rig: Rig, pair: tuple[str, str]):
        scripts = RunScripts(rig.streams())
        raw_sql.run(pair[0], "UPDATE alembic_version SET version_num = 'feedbeef'")

        lost, done = [await migrate(rig, url, scripts) for url in pair]

        assert (lost.error is None, done.error) == (False, None)
        assert str(done.revision).endswith("/u3")

    async def test_fails_once_for_what_the_revision_raises(
        self, rig: Rig, folder: AlembicFolder, pair: tuple[str, str]
    ):
        folder.add("u4_wrong", "op.execute('UPDATE nothing SET id = 1')")
        scripts = RunScripts(rig.streams())

        done = [await migrate(rig, url, scripts) for url in pair]

        assert [one.applied for one in done] == [[], []]
        assert all("u4_wrong" in explain(one.error) for one in done if one.error)
        assert [str(one.revision).rpartition("/")[2] for one in done] == ["u1", "u1"]
