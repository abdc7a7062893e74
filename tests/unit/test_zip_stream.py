"""A ZIP file that a thread writes while it is read."""

import asyncio
import io
import os
from collections.abc import Iterator
from datetime import UTC, datetime
from threading import Event
from zipfile import BadZipFile, ZipFile

import pytest

from tenantry.kit.stopping import Stop, Stopped
from tenantry.kit.threads import DaemonThreads
from tenantry.kit.zip_stream import CHUNK_BYTES, CHUNKS_MAX, OpenNew, zipped

NOW = datetime(2026, 11, 22, 12, tzinfo=UTC)
# More than the buffer holds, and nothing that compression makes small.
CONTENT = os.urandom(CHUNK_BYTES * (CHUNKS_MAX + 4))
WAIT_SECONDS = 20


@pytest.fixture(name="threads")
def _threads() -> Iterator[DaemonThreads]:
    threads = DaemonThreads(1, "test")
    yield threads
    threads.shutdown()


class TestZipped:
    async def test_has_the_files_with_their_time(self, threads: DaemonThreads):
        def write(open_new: OpenNew, _stop: Stop) -> None:
            for name, content in (("a", CONTENT), ("ä.txt", b""), ("c", b"text")):
                with open_new(name) as file:
                    file.write(content)

        chunks = [chunk async for chunk in zipped(write, threads, now=NOW)]

        with ZipFile(io.BytesIO(b"".join(chunks))) as archive:
            assert archive.testzip() is None
            assert archive.namelist() == ["a", "ä.txt", "c"]
            assert (archive.read("a"), archive.read("c")) == (CONTENT, b"text")
            assert archive.getinfo("a").date_time == (2026, 11, 22, 12, 0, 0)

    async def test_has_small_chunks_whatever_is_written_at_once(self, threads: DaemonThreads):
        """Else the buffer, which has a number of chunks, could hold any number of bytes."""

        def write(open_new: OpenNew, _stop: Stop) -> None:
            with open_new("a") as file:
                file.write(CONTENT)

        sizes = [len(chunk) async for chunk in zipped(write, threads, now=NOW)]

        assert (sum(sizes) > len(CONTENT), max(sizes)) == (True, CHUNK_BYTES)

    async def test_is_incomplete_after_an_error(self, threads: DaemonThreads):
        def write(open_new: OpenNew, _stop: Stop) -> None:
            with open_new("a") as file:
                file.write(CONTENT)
            with open_new("b") as file:
                file.write(CONTENT)
                raise OSError("the disk is gone")

        received: list[bytes] = []

        async def read() -> None:
            async for chunk in zipped(write, threads, now=NOW):
                received.append(chunk)  # noqa: PERF401 - kept if the next one is an error

        with pytest.raises(OSError, match="the disk is gone"):
            await read()
        assert len(b"".join(received)) > len(CONTENT)
        with pytest.raises(BadZipFile):
            ZipFile(io.BytesIO(b"".join(received)))

    async def test_stops_the_thread_when_the_reader_leaves(self, threads: DaemonThreads):
        stopped = Event()

        def write(open_new: OpenNew, _stop: Stop) -> None:
            try:
                with open_new("a") as file:
                    while True:
                        file.write(CONTENT)
            except Stopped:
                stopped.set()
                raise

        chunks = zipped(write, threads, now=NOW)
        assert await anext(chunks)
        await chunks.aclose()

        assert await asyncio.to_thread(stopped.wait, WAIT_SECONDS)

    async def test_yields_nothing_now_and_then_while_the_thread_waits(self, threads: DaemonThreads):
        """So that the reader can check something else in between."""
        go_on = Event()

        def write(_open_new: OpenNew, _stop: Stop) -> None:
            go_on.wait(WAIT_SECONDS)

        chunks = zipped(write, threads, now=NOW)

        assert await anext(chunks) == b""
        go_on.set()
        assert b"".join([chunk async for chunk in chunks])
