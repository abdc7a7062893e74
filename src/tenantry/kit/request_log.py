"""What a process keeps of each request: a line in the access log, counts, and the newest errors.

The access log is on by default, so it must be cheap. It bypasses structlog, which takes ten times
as long, and a serving process formats and writes lines in batches, because each write is a system
call. Counts are plain numbers, so that a request costs a few dictionary lookups.
"""

import asyncio
import sys
from bisect import bisect_left
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TextIO
from uuid import UUID

import msgspec

HELD_SECONDS = 0.1
HELD_LINES_MAX = 100
# Several processes can write to the same pipe. A write of up to 4 KiB is not divided by others.
# Source: POSIX, write(2), PIPE_BUF
LINES_AT_ONCE = 10

BUCKETS_MS = (1, 2.5, 5, 10, 25, 50, 100, 250, 1_000, 5_000)
METHODS = frozenset({"GET", "POST", "PUT", "PATCH", "DELETE"})
OTHER_METHOD = "-"
# A process remembers about 200 bytes for each tenant that has sent it a request.
TENANTS_COUNTED_MAX = 100_000

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


@dataclass(frozen=True, slots=True)
class Answers:
    """The answers of this process to requests of tenants since it began, never published by tenant.

    Tenants are integers, because UUID.__hash__ is slow Python code. After `TENANTS_COUNTED_MAX`
    tenants, further ones are not counted.

    Attributes:
        counts: How many answers each tenant has got.
        errors: How many of them had a status of 5xx; without those that got none.
    """

    counts: dict[int, int] = field(default_factory=dict)
    errors: dict[int, int] = field(default_factory=dict)

    def copy(self) -> "Answers":
        """Return the answers until now."""
        return Answers(self.counts.copy(), self.errors.copy())


@dataclass(slots=True)
class Durations:
    """The histogram of the durations of requests to one endpoint."""

    ms: float = 0.0
    counts: list[int] = field(default_factory=lambda: [0] * (len(BUCKETS_MS) + 1))


@dataclass(slots=True)
class Requests:
    """The requests to one endpoint with one status."""

    durations: Durations
    count: int = 0


class RequestCounts:
    """Counts the requests of one process.

    Attributes:
        answers: The answers to each tenant; not part of the metrics.
        counted: The requests by method, path template and status.
        durations: The durations by method and path template.
    """

    def __init__(self) -> None:
        self.answers = Answers()
        self.counted: dict[tuple[str, str, int], Requests] = {}
        self.durations: dict[tuple[str, str], Durations] = {}

    def count(
        self, method: str, route: str, status: int, ms: float, tenant: UUID | None = None
    ) -> None:
        """Count one request, by the path template of its endpoint, and by its *tenant* if known.

        The *route* of all unknown paths is one constant.
        """
        if tenant is not None:
            counts, errors, key = self.answers.counts, self.answers.errors, tenant.int
            if key in counts or len(counts) < TENANTS_COUNTED_MAX:
                counts[key] = counts.get(key, 0) + 1
                if status >= SERVER_ERROR:
                    errors[key] = errors.get(key, 0) + 1
        requests = self.counted.get((method, route, status))
        if requests is None:
            requests = self._first(method, route, status)
        requests.count += 1
        durations = requests.durations
        durations.ms += ms
        durations.counts[bisect_left(BUCKETS_MS, ms)] += 1

    def _first(self, method: str, route: str, status: int) -> Requests:
        if method not in METHODS:
            method = OTHER_METHOD  # a stranger may send any word
        durations = self.durations.setdefault((method, route), Durations())
        return self.counted.setdefault((method, route, status), Requests(durations))
