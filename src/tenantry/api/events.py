"""Server-Sent Events: what happens in a migration run, for as long as the caller has access.

Source: https://html.spec.whatwg.org/multipage/server-sent-events.html
"""

import contextlib
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator

import msgspec

from tenantry.api.streaming import Source
from tenantry.fleet.watchers import RunUpdate
from tenantry.kit.clock import monotonic_seconds
from tenantry.kit.errors import Forbidden, Unauthenticated
from tenantry.schemas.migrations import MigrationRunDetailResponse, MigrationRunStateResponse

# After so long without an event a comment is sent, so that nobody on the way hangs up.
COMMENT_SECONDS = 15.0
COMMENT = b":\n\n"
SEQUENCE_DIGITS_MAX = 9

_encode = msgspec.json.Encoder().encode


def sequence_of(last_event_id: str) -> int:
    """Return the sequence that a ``Last-Event-ID`` names; 0 when it names none.

    A client that is refused does not try again. One whose id is none of ours begins anew.
    """
    is_number = last_event_id.isascii() and last_event_id.isdigit()
    return int(last_event_id) if is_number and len(last_event_id) <= SEQUENCE_DIGITS_MAX else 0


async def events_of(
    updates: AsyncGenerator[RunUpdate, None], readmit: Callable[[], Awaitable[object]]
) -> Source:
    """Yield *updates* as events: ``tenant`` with a detail, ``run`` with the run without them.

    The id of each is the sequence from which to go on after it.

    Args:
        updates: What is seen, often enough to notice in time that the caller is out.
        readmit: Raises when the caller has lost access.

    Raises:
        Exception: Whatever *updates* raise.
    """
    sent_at = monotonic_seconds()
    async with contextlib.aclosing(updates):
        async for update in updates:
            try:
                await readmit()
            except (Unauthenticated, Forbidden):
                return
            text = b"".join(_events(update))
            if not text and monotonic_seconds() - sent_at > COMMENT_SECONDS:
                text = COMMENT
            if text:
                sent_at = monotonic_seconds()
                yield text


def _events(update: RunUpdate) -> Iterator[bytes]:
    for item in update.items:
        yield _event(b"tenant", item.sequence or 0, MigrationRunDetailResponse.of(item))
    if update.run is not None:
        yield _event(
            b"run", update.sequence, MigrationRunStateResponse.of_state(update.run, update.away)
        )


def _event(name: bytes, sequence: int, data: object) -> bytes:
    # JSON as we write it has no line breaks, which would end the data.
    return b"id: %d\nevent: %b\ndata: %b\n\n" % (sequence, name, _encode(data))
