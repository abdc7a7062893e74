"""The access log: one line for each request.

It is on by default, so it must be cheap. It bypasses structlog, which takes ten times as long, and
a serving process formats and writes lines in batches, because each write is a system call.
"""

import asyncio
import sys
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import TextIO
from uuid import UUID

import msgspec

HELD_SECONDS = 0.1
HELD_LINES_MAX = 100
# Several processes can write to the same pipe. A write of up to 4 KiB is not divided by others.
# Source: POSIX, write(2), PIPE_BUF
LINES_AT_ONCE = 10

_encoder = msgspec.json.Encoder()
ERRORS_KEPT_MAX = 20
SERVER_ERROR = 500


class AccessEntry(msgspec.Struct, frozen=True, omit_defaults=True):
    """An entry of the access log: one request.

    Attributes:
        path: The template of the endpoint, because a path can contain secrets.
        error: The error class, which the response does not show.
        trace: The id of its trace, if traces are exported.
    """

    at: datetime
    level: str
    event: str
    request_id: str
    method: str
    path: str
    status: int
    ms: float
    tenant: UUID | None = None
    actor: str | None = None
    error: str | None = None
    trace: str | None = None


class AccessLog:
    """Writes the access log of one process, as lines of JSON or as text for people."""

    def __init__(self, stream: TextIO | None = None, *, as_json: bool) -> None:
        self._stream = sys.stderr if stream is None else stream
        self._lines_of = _json_lines if as_json else _text_lines
        self._lines_max = 1
        self._held: list[AccessEntry] = []

    def write(self, entry: AccessEntry) -> None:
        """Write one line, or buffer it inside `holding`."""
        self._held.append(entry)
        if len(self._held) >= self._lines_max:
            self._flush()
        elif len(self._held) == 1:
            asyncio.get_running_loop().call_later(HELD_SECONDS, self._flush)

    @contextmanager
    def holding(self) -> Iterator[None]:
        """Buffer lines for up to `HELD_SECONDS` while the block runs.

        A process that is killed loses the buffered lines.
        """
        self._lines_max = HELD_LINES_MAX
        try:
            yield
        finally:
            self._lines_max = 1
            self._flush()

    def _flush(self) -> None:
        held, self._held = self._held, []
        for first in range(0, len(held), LINES_AT_ONCE):
            self._stream.write(self._lines_of(held[first : first + LINES_AT_ONCE]))


def _json_lines(entries: list[AccessEntry]) -> str:
    return _encoder.encode_lines(entries).decode()


def _text_lines(entries: list[AccessEntry]) -> str:
    return "".join(map(_text, entries))


def _text(entry: AccessEntry) -> str:
    time = entry.at.astimezone(UTC).strftime("%H:%M:%S")
    why = f" {entry.error}" if entry.error else ""
    return f"{time} {entry.method:6} {entry.path} {entry.status} {entry.ms:.1f} ms{why}\n"


class RecentErrors:
    """Keeps the newest requests with a status of 500 and above, in memory."""

    def __init__(self) -> None:
        self._kept: deque[AccessEntry] = deque(maxlen=ERRORS_KEPT_MAX)

    def note(self, entry: AccessEntry) -> None:
        """Keep *entry*; its status is `SERVER_ERROR` or above."""
        self._kept.appendleft(entry)

    def newest(self) -> Sequence[AccessEntry]:
        """Return them, the newest first."""
        return list(self._kept)
