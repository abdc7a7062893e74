"""The targets of notifications, as admins see them: without secrets, and without paths."""

from collections.abc import Iterable
from datetime import datetime
from typing import Self

from tenantry.schemas.base import ListResponse, Schema
from tenantry.work.hook_status import HookStatus


class HookAttemptResponse(Schema, frozen=True):
    """The last attempt to deliver a notification to a target, and the state of that."""

    event: str
    state: str
    attempted_at: datetime
    result: str


class HookResponse(Schema, frozen=True):
    """A target of notifications, how many it has, and the last attempt to deliver one.

    ``url`` is only the scheme and the host. ``queuedCount`` notifications wait; of the newest 200
    others, some were delivered, have failed, or were dropped because too many waited.
    """

    name: str
    url: str
    format: str
    events: list[str]
    queued_count: int
    delivered_count: int
    failed_count: int
    dropped_count: int
    last: HookAttemptResponse | None


class HookList(ListResponse[HookResponse], frozen=True):
    """The targets of notifications."""

    @classmethod
    def of_statuses(cls, found: Iterable[HookStatus]) -> Self:
        """Return the representation of the targets *found*."""
        return cls([_response(one) for one in found])


def _response(one: HookStatus) -> HookResponse:
    return HookResponse(
        name=one.name,
        url=one.hook.origin,
        format=one.hook.format,
        events=list(one.hook.events),
        queued_count=one.counts.queued,
        delivered_count=one.counts.delivered,
        failed_count=one.counts.failed,
        dropped_count=one.counts.dropped,
        last=None if one.last is None else HookAttemptResponse.of(one.last),
    )
