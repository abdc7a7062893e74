"""A ZIP file that a thread writes while the event loop sends it, with a bounded buffer between."""

import asyncio
import contextlib
import io
from collections.abc import AsyncGenerator, Callable
from concurrent.futures import Executor, Future
from contextlib import AbstractContextManager
from datetime import datetime
from functools import partial
from typing import IO
from zipfile import ZIP_DEFLATED, ZipFile, ZipInfo

from tenantry.kit.stopping import Stop

CHUNK_BYTES = 65_536
"""No chunk has more bytes, whatever is written at once."""
CHUNKS_MAX = 4
"""Chunks in memory that are not sent yet."""
TICK_SECONDS = 0.5
"""The longest time between two chunks; an empty one is sent instead."""
# A thread that waits for a disk cannot be stopped; it ends later.
END_SECONDS_MAX = 5.0
DRAIN_SECONDS = 0.05

OpenNew = Callable[[str], AbstractContextManager[IO[bytes]]]
"""Opens a new file of this name for writing."""


async def zipped(
    write: Callable[[OpenNew, Stop], object], threads: Executor, *, now: datetime
) -> AsyncGenerator[bytes, None]:
    """Yield a ZIP file in chunks while *write* adds the files, one after another, in a thread.

    Args:
        write: Gets a function that opens a file, and what stops it: it must call `Stop.check`.
        threads: Where *write* runs.
        now: The time of the files.

    Raises:
        Exception: Any error of *write*. The ZIP file is then incomplete.
    """
    chunks: asyncio.Queue[bytes | None] = asyncio.Queue(CHUNKS_MAX)
    stop = Stop()
    put = partial(_put, asyncio.get_running_loop(), chunks)
    running = asyncio.wrap_future(threads.submit(_write, write, stop, put, now))
    try:
        while True:
            chunk: bytes | None = b""
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(TICK_SECONDS):
                    chunk = await chunks.get()
            if chunk is None:
                break
            yield chunk
        await running
    finally:
        stop.set()
        await _drain(chunks, running)


def _write(
    write: Callable[[OpenNew, Stop], object],
    stop: Stop,
    put: Callable[[bytes | None], None],
    now: datetime,
) -> None:
    try:
        file = _Chunked(put, stop)
        with ZipFile(file, "w") as archive:
            try:
                write(partial(_open_new, archive, now), stop)
            except BaseException:
                file.discard()  # else the directory at the end would make it seem complete
                raise
        file.end()
    finally:
        put(None)


def _open_new(archive: ZipFile, now: datetime, name: str) -> IO[bytes]:
    info = ZipInfo(name, now.timetuple()[:6])
    info.compress_type = ZIP_DEFLATED
    info.external_attr = 0o600 << 16  # the mode of the file, on Unix
    return archive.open(info, "w", force_zip64=True)  # its size is not known before


def _put(
    loop: asyncio.AbstractEventLoop, chunks: "asyncio.Queue[bytes | None]", chunk: bytes | None
) -> None:
    """Wait in the thread until there is room for a chunk."""
    waiting: Future[None] = asyncio.run_coroutine_threadsafe(chunks.put(chunk), loop)
    waiting.result()


async def _drain(chunks: "asyncio.Queue[bytes | None]", running: "asyncio.Future[None]") -> None:
    """Make room until the thread has ended."""
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(END_SECONDS_MAX):
            while not running.done():
                while not chunks.empty():
                    chunks.get_nowait()
                await asyncio.wait({running}, timeout=DRAIN_SECONDS)
    if running.done() and not running.cancelled():
        running.exception()  # it was raised already, or the reader has left


class _Chunked(io.RawIOBase):
    """A file that cannot be read or sought, and passes on what is written, in chunks."""

    def __init__(self, put: Callable[[bytes], None], stop: Stop) -> None:
        super().__init__()
        self._put = put
        self._stop = stop
        self._buffer = bytearray()
        self._is_discarded = False

    def writable(self) -> bool:
        """Return that it can be written."""
        return True

    def write(self, data: "bytes | bytearray | memoryview", /) -> int:  # type: ignore[override]
        """Take *data*.

        Raises:
            Stopped: The reader has left.
        """
        if self._is_discarded:
            return len(data)
        self._buffer += data
        while len(self._buffer) >= CHUNK_BYTES:
            self._pass_on()
        self._stop.check()
        return len(data)

    def end(self) -> None:
        """Pass on the rest."""
        self._pass_on()

    def discard(self) -> None:
        """Drop what is not passed on, and all that is written from now on."""
        self._is_discarded = True
        self._buffer.clear()

    def _pass_on(self) -> None:
        self._stop.check()
        self._put(bytes(self._buffer[:CHUNK_BYTES]))
        del self._buffer[:CHUNK_BYTES]
