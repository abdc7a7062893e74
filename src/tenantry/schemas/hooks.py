"""The targets of notifications, as admins see them: without secrets, and without paths."""

from collections.abc import Iterable
from datetime import datetime
from typing import Self
from uuid import UUID

from tenantry.schemas.base import ListResponse, Schema
from tenantry.work.hook_status import HookStatus


class HookAttemptResponse(Schema, frozen=True):
    """The last attempt to deliver a notification to a target.

    Attributes:
        event: What it is about, such as `run.holding`.
        state: `queued` if it is tried again, `delivered` or `failed`.
        attempted_at: When it was attempted.
        result: The status of the response, or why there was none.
    """

    event: str
    state: str
    attempted_at: datetime
    result: str


class HookResponse(Schema, frozen=True):
    """A target of notifications, how many it has, and the last attempt to deliver one.

    Attributes:
        name: Its name in the settings.
        url: The scheme and the host of its URL.
        format: `standard` or `slack`.
        events: The events of which it is notified.
        tenant_ids: The tenants with the posts that it is notified of; empty for runs and servers.
        queued_count: The notifications that wait to be delivered.
        delivered_count: Those that it has accepted, of the newest 200 that do not wait.
        failed_count: Those that it has not accepted until their last attempt, of the same.
        dropped_count: Those that were dropped because too many waited, of the same.
        last: The last attempt; null before the first one.
    """

    name: str
    url: str
    format: str
    events: list[str]
    tenant_ids: list[UUID]
    queued_count: int
    delivered_count: int
    failed_count: int
    dropped_count: int
    last: HookAttemptResponse | None


class HookTestResponse(Schema, frozen=True):
    """The result of a test message to a target.

    Attributes:
        name: The name of the target in the settings.
        is_delivered: Whether the target has accepted it.
        result: The status of the response, or why there was none.
    """

    name: str
    is_delivered: bool
    result: str


class HookTestList(ListResponse[HookTestResponse], frozen=True):
    """The results of test messages."""


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
        tenant_ids=sorted(one.hook.tenants),
        queued_count=one.counts.queued,
        delivered_count=one.counts.delivered,
        failed_count=one.counts.failed,
        dropped_count=one.counts.dropped,
        last=None if one.last is None else HookAttemptResponse.of(one.last),
    )
