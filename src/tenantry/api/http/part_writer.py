"""Write a large response in parts, so that memory is freed while the client reads it.

uvloop keeps all bytes of one `write` until the last of them is sent, and counts only the rest as
unread: a client that reads all but the end would hold a whole response that is not counted.
"""

import asyncio
from collections.abc import Callable

PART_BYTES = 65_536


class PartWriter:
    """What a request needs of a transport; it writes in parts of `PART_BYTES`.

    *written* is called after several parts.
    """

    __slots__ = ("_write", "_written", "close", "is_closing")

    def __init__(self, transport: asyncio.Transport, written: Callable[[], None]) -> None:
        self._write = transport.write
        self._written = written
        self.close = transport.close
        self.is_closing = transport.is_closing

    def write(self, data: bytes) -> None:
        """Write *data*."""
        if len(data) <= PART_BYTES:
            self._write(data)
            return
        for at in range(0, len(data), PART_BYTES):
            self._write(data[at : at + PART_BYTES])
        self._written()
