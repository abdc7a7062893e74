"""Sizes as text, marks of free space, and the room that is left."""

import asyncio
from pathlib import Path

import pytest

from tenantry.kit.sizes import bytes_of, mark_of, shown_size, space_above
from tenantry.tenant.storage import WRITE_BYTES_MAX, Room


@pytest.mark.parametrize(
    ("text", "size"),
    [("0", 0), ("17", 17), ("2kB", 2_000), ("500MB", 5 * 10**8), ("10 gb", 10**10)],
)
def test_a_size_has_a_unit_of_thousands(text: str, size: int):
    assert bytes_of(text) == size


@pytest.mark.parametrize("text", ["", "x", "-1", "1.5GB", "10 GiB", "1001TB", "1 %", "٣"])
def test_another_text_is_no_size(text: str):
    with pytest.raises(ValueError, match="such as"):
        bytes_of(text)


@pytest.mark.parametrize(
    ("size", "text"), [(5, "5 B"), (1_500, "1.5 kB"), (16 * 10**6, "16 MB"), (10**12, "1 TB")]
)
def test_a_size_is_shown_with_its_unit(size: int, text: str):
    assert shown_size(size) == text


@pytest.mark.parametrize(
    ("text", "total", "mark"),
    [
        ("", 10**12, 10**9),
        ("", 10**9, 10**8),
        ("5%", 10**12, 5 * 10**10),
        ("2GB", 10**12, 2 * 10**9),
        # More than the disk has would reject everything, for ever.
        ("2GB", 10**9, 9 * 10**8),
        ("0", 10**12, 0),
    ],
)
def test_a_mark_is_a_size_or_a_share_of_the_disk(text: str, total: int, mark: int):
    assert mark_of(text).bytes_in(total) == mark
    assert mark_of(text).half.bytes_in(total) == mark // 2


def test_the_space_above_a_mark_is_smaller_than_above_none(tmp_path: Path):
    assert space_above(tmp_path, mark_of("0")) > space_above(tmp_path, mark_of("90%"))


class TestRoom:
    async def test_is_measured_again_when_the_writes_could_have_used_it_up(self):
        left = [3 * WRITE_BYTES_MAX, 1, 0]
        measured = []

        async def measure() -> float:
            measured.append(left[len(measured)])
            return measured[-1]

        room = Room()

        assert [await room.take(measure) for _ in range(3)] == [True] * 3
        assert len(measured) == 1
        assert await room.take(measure)
        assert [await room.take(measure) for _ in range(3)] == [False] * 3
        assert measured == left

    async def test_is_measured_once_for_concurrent_writes(self):
        """Also if the request that began to measure is cancelled."""
        may_end = asyncio.Event()
        measured = []

        async def measure() -> float:
            measured.append(1)
            await may_end.wait()
            return 10 * WRITE_BYTES_MAX

        room = Room()
        first, second = (asyncio.create_task(room.take(measure)) for _ in range(2))
        await asyncio.sleep(0)
        first.cancel()
        await asyncio.sleep(0)
        may_end.set()

        assert await second
        assert first.cancelled()
        assert measured == [1]
