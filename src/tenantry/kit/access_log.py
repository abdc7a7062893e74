"""The access log: one line for each request, written without detours.

It is on by default, so it must cost next to nothing: a line is encoded at once, past the
machinery of the other logs, which takes ten times as long; and a process that serves writes
the lines of a moment together, because each by itself is a system call.
"""

import asyncio
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import TextIO
from uuid import UUID

import msgspec

HELD_SECONDS = 0.1
HELD_LINES_MAX = 100


class AccessEntry(msgspec.Struct, frozen=True, omit_defaults=True):
    """What is said of one request.

    Attributes:
        path: The template of the endpoint, because a path can hold anything.
        error: Why it was refused; never told to the caller.
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


class AccessLog:
    """Writes the access log of one process.

    Args:
        stream: Where to; standard error unless given.
        as_json: A line of JSON, or of text for people.
    """

    def __init__(self, stream: TextIO | None = None, *, as_json: bool) -> None:
        self._stream = sys.stderr if stream is None else stream
        self._as_json = as_json
        self._lines_max = 1
        self._held: list[str] = []
        self._encode = msgspec.json.Encoder().encode

    def write(self, entry: AccessEntry) -> None:
        """Write one line; or hold it, see `holding`."""
        self._held.append(self._encode(entry).decode() if self._as_json else _text(entry))
        if len(self._held) >= self._lines_max:
            self._flush()
        elif len(self._held) == 1:
            asyncio.get_running_loop().call_later(HELD_SECONDS, self._flush)

    @contextmanager
    def holding(self) -> Iterator[None]:
        """Write what comes within `HELD_SECONDS` together, while the block lasts.

        A process that is killed loses what it holds.
        """
        self._lines_max = HELD_LINES_MAX
        try:
            yield
        finally:
            self._lines_max = 1
            self._flush()

    def _flush(self) -> None:
        lines, self._held = self._held, []
        if lines:
            self._stream.write("\n".join(lines) + "\n")


def _text(entry: AccessEntry) -> str:
    time = entry.at.astimezone(UTC).strftime("%H:%M:%S")
    why = f" {entry.error}" if entry.error else ""
    return f"{time} {entry.method:6} {entry.path} {entry.status} {entry.ms:.1f} ms{why}"
