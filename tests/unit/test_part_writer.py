"""Large responses are written in parts."""

import asyncio

import pytest

from tenantry.api.http.part_writer import PART_BYTES, PartWriter


class Recorder(asyncio.Transport):
    """A transport that keeps what is written."""

    def __init__(self) -> None:
        super().__init__()
        self.parts: list[bytes] = []

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self.parts.append(bytes(data))


@pytest.mark.parametrize("size", [0, 1, PART_BYTES, PART_BYTES + 1, 10 * PART_BYTES + 7])
def test_the_parts_are_what_was_written_and_none_is_large(size: int):
    recorder, data = Recorder(), bytes(range(256)) * (size // 256 + 1)
    counted: list[int] = []

    PartWriter(recorder, lambda: counted.append(len(recorder.parts))).write(data[:size])

    assert counted == ([len(recorder.parts)] if size > PART_BYTES else [])
    assert b"".join(recorder.parts) == data[:size]
    assert max(map(len, recorder.parts)) <= PART_BYTES
