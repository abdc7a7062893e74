"""Server-Sent Events of a migration run.

Source: https://html.spec.whatwg.org/multipage/server-sent-events.html
"""

import contextlib
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator

import msgspec

from tenantry.api.streaming import Source
from tenantry.fleet.watchers import RunUpdate
from tenantry.kit.clock import monotonic_seconds
from tenantry.kit.errors import Forbidden, Unauthenticated
from tenantry.schemas.migration_runs import RunResponse, RunTenantResponse

# So often that proxies keep the connection open.
COMMENT_SECONDS = 15.0
COMMENT = b":\n\n"
SEQUENCE_DIGITS_MAX = 9

_encode = msgspec.json.Encoder().encode


def sequence_of(last_event_id: str) -> int:
    """Return the sequence in a ``Last-Event-ID``; 0 if it contains none.

    An unknown id is not rejected, because a client does not reconnect after an error. It gets all
    events from the start.
    """
    is_number = last_event_id.isascii() and last_event_id.isdigit()
    return int(last_event_id) if is_number and len(last_event_id) <= SEQUENCE_DIGITS_MAX else 0


async def events_of(
    updates: AsyncGenerator[RunUpdate, None],
    readmit: Callable[[], Awaitable[object]],
    *,
    comment_seconds: float = COMMENT_SECONDS,
) -> Source:
    """Yield *updates* as events: ``tenant`` with a detail, ``run`` with the run without details.

    The id of an event is the sequence from which to continue after it. The stream ends when the
    caller has lost access.

    Args:
        updates: The updates; they must be frequent, because access is checked at each of them.
        readmit: Raises if the caller has lost access.
        comment_seconds: After this time without an event, a comment is sent.

    Raises:
        Exception: Any error of *updates*.
    """
    sent_at = monotonic_seconds()
    async with contextlib.aclosing(updates):
        async for update in updates:
            try:
                await readmit()
            except (Unauthenticated, Forbidden):
                return
            text = b"".join(_events(update))
            if not text and monotonic_seconds() - sent_at > comment_seconds:
                text = COMMENT
            if text:
                sent_at = monotonic_seconds()
                yield text


def _events(update: RunUpdate) -> Iterator[bytes]:
    for item in update.items:
        yield _event(b"tenant", item.sequence or 0, RunTenantResponse.of(item))
    if update.run is not None:
        yield _event(b"run", update.sequence, RunResponse.of_run(update.run, update.activity))


def _event(name: bytes, sequence: int, data: object) -> bytes:
    # The encoder writes no line breaks, which would end the data.
    return b"id: %d\nevent: %b\ndata: %b\n\n" % (sequence, name, _encode(data))
