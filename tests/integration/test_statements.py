"""Values go into both engines and come out as they were."""

from collections.abc import AsyncIterator, Callable
from datetime import UTC, datetime, timedelta, timezone
from typing import Any
from uuid import UUID

import msgspec
import pytest
import sqlalchemy as sa

from tenantry.db.database import Budget, Database
from tenantry.db.factory import single_connector
from tenantry.db.statements import POSTGRESQL, SQLITE, compile_for
from tenantry.kit.ids import new_id
from testkit import raw_sql
from tests.integration.samples import (
    ADD,
    CLOCK,
    FIND,
    FIND_FLAG,
    FIND_SINCE,
    NOTES,
    UPSERT,
    NoteInUse,
    Sample,
    sample,
)


@pytest.fixture(name="database")
async def _database(engine: str, new_database: Callable[[], str]) -> AsyncIterator[Database[Any]]:
    url = new_database()
    dialect = SQLITE if engine == "sqlite" else POSTGRESQL
    raw_sql.run(url, compile_for(dialect, sa.schema.CreateTable(sample)).sql)
    connect, most = single_connector(
        url, connections_max=2, timeout_seconds=5, synchronous="NORMAL"
    )
    database: Database[Any] = Database(connect, Budget(most), most)
    yield database
    await database.close()


async def kept(database: Database[Any], **values: object) -> Sample:
    given = msgspec.structs.replace(Sample(id=new_id()), **values)
    await database.execute(ADD, **msgspec.structs.asdict(given))
    found = await database.fetch_one(FIND, id=given.id)
    assert found is not None
    assert found.id == given.id
    return found


class TestValues:
    @pytest.mark.parametrize(
        "at",
        [
            datetime(2026, 2, 28, 23, 59, 59, 999_999, UTC),
            datetime(2026, 1, 1, 0, 0, 0, 0, UTC),
            datetime(1969, 12, 31, 12, 0, 0, 1, UTC),
            datetime(2026, 7, 1, 1, 30, 0, 5, timezone(timedelta(hours=5, minutes=45))),
        ],
    )
    async def test_keep_an_instant_with_microseconds_and_a_zone(
        self, database: Database[Any], at: datetime
    ):
        found = (await kept(database, at=at)).at

        assert found == at
        assert found is not None
        assert found.utcoffset() == timedelta(0)

    async def test_compare_instants_whatever_their_zone(self, database: Database[Any]):
        noon = datetime(2026, 5, 5, 12, 0, tzinfo=UTC)
        there = timezone(timedelta(hours=9))
        await kept(database, at=noon)

        found = await database.fetch_all(FIND_SINCE, since=noon.astimezone(there))
        later = await database.fetch_all(
            FIND_SINCE, since=(noon + timedelta(microseconds=1)).astimezone(there)
        )

        assert [one.at for one in found] == [noon]
        assert later == []

    @pytest.mark.parametrize("words", [frozenset(), frozenset({"a"}), frozenset({"b:x", "a:y"})])
    async def test_keep_a_set_of_words(self, database: Database[Any], words: frozenset[str]):
        assert (await kept(database, words=words)).words == words

    @pytest.mark.parametrize(
        "lines", [[], ["one"], ["b", "a", "b"], ["with  spaces ", "ünïcode 🙂", "\u2028"]]
    )
    async def test_keep_a_list_of_lines_in_order(self, database: Database[Any], lines: list[str]):
        assert (await kept(database, lines=lines)).lines == lines

    @pytest.mark.parametrize("flag", [True, False])
    async def test_keep_booleans_as_booleans(
        self,
        database: Database[Any],
        flag: bool,  # noqa: FBT001
    ):
        found = await kept(database, flag=flag)

        assert found.flag is flag
        assert [one.id for one in await database.fetch_all(FIND_FLAG, flag=flag)] == [found.id]

    async def test_keep_ids_text_numbers_and_bytes(self, database: Database[Any]):
        found = await kept(
            database, note="'; -- 100% :x \\ ?", number=-(2**63), blob=bytes(range(256))
        )

        assert isinstance(found.id, UUID)
        assert found.note == "'; -- 100% :x \\ ?"
        assert found.number == -(2**63)
        assert found.blob == bytes(range(256))

    async def test_keep_nothing_as_nothing(self, database: Database[Any]):
        found = await kept(database)

        assert found == Sample(id=found.id)

    async def test_sort_canonical_text_by_its_bytes(self, database: Database[Any]):
        for note in ["a", "B", "ä", "Z", "_", "b"]:
            await kept(database, note=note)

        notes = [one.note for one in await database.fetch_all(NOTES)]

        assert notes == ["B", "Z", "_", "a", "b", "ä"]


class TestStatements:
    async def test_map_a_violated_constraint_to_its_conflict(self, database: Database[Any]):
        await kept(database, note="taken")

        with pytest.raises(NoteInUse):
            await kept(database, note="taken")

        assert (await kept(database, note="free")).note == "free"

    async def test_insert_or_update_in_one(self, database: Database[Any]):
        one = new_id()

        first = await database.fetch_one(UPSERT, id=one, more=5)
        second = await database.fetch_one(UPSERT, id=one, more=5)

        assert (first and first.number, second and second.number) == (1, 6)

    async def test_read_the_clock_of_the_database(self, database: Database[Any]):
        before = datetime.now(UTC).timestamp() * 1000  # noqa: TID251 - compared with another clock
        found = await database.fetch_one(CLOCK)

        assert found is not None
        assert before - 100 <= found.ms <= before + 5_000
