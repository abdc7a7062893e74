"""Queue the post events of tenants for the targets that the settings name for them.

A write to a blog waits for no target: its entry in the tenant's audit log is the event, and is read
here a moment later. At least once in that log, and once in the outbox: `catalog.post_hooks`.
"""

import asyncio
from collections.abc import Mapping
from datetime import datetime, timedelta
from uuid import UUID

import structlog

from tenantry.catalog import outbox, post_hooks, tenants
from tenantry.catalog.database import Catalog
from tenantry.catalog.outbox import Notice
from tenantry.catalog.pace import Pace
from tenantry.catalog.post_hooks import Cursor, Progress
from tenantry.catalog.tenants import Tenant
from tenantry.kit.clock import utc_now
from tenantry.kit.errors import Unavailable
from tenantry.kit.hook_settings import Hook
from tenantry.tenant.blog import post_events, state
from tenantry.tenant.blog.post_events import PostEvent, Read
from tenantry.tenant.databases import (
    WRITABLE_FROM,
    TenantDatabase,
    TenantDatabases,
    require_revision,
)

AWAY_PAUSES = 5
"""How many pauses there are after a tenant database could not be read: 10 s."""
EVENTS_EACH = 20
"""Entries and moments of one tenant that are read, and queued, at a time."""
WAITING_MAX = outbox.QUEUED_MAX // 2
"""Events of posts wait in the tenant's log, and are not dropped, while so many are queued."""
OVERLAP = timedelta(seconds=60)
"""How much a clock may be behind, or a transaction take, without an event being missed."""

_SAYS = {"published": "was published", "changed": "has changed", "unpublished": "was withdrawn"}
_log = structlog.get_logger(__name__)


class PostHooks:
    """Reads the blogs of the tenants that targets name, each in its own task.

    Args:
        worker_id: This process, which holds what it reads by its heartbeat.
        hooks: The targets, by name.
        pace: The pause between two readings.
    """

    def __init__(
        self,
        catalog: Catalog,
        databases: TenantDatabases,
        worker_id: UUID,
        hooks: Mapping[str, Hook],
        *,
        pace: Pace,
    ) -> None:
        self._catalog = catalog
        self._databases = databases
        self._worker_id = worker_id
        self._hooks = hooks
        self._pace = pace
        self._began = utc_now()
        self._queueing = {name: asyncio.Lock() for name in hooks}
        # By target and tenant: a cursor, and the version of the blog in which nothing is after it.
        self._known: dict[tuple[str, UUID], tuple[Cursor, UUID]] = {}

    async def work(self) -> None:
        """Read, until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            for name, hook in self._hooks.items():
                for tenant_id in hook.tenants:
                    tasks.create_task(self._serve(name, tenant_id))
        await asyncio.Event().wait()  # without tenants: it is restarted if it ends

    async def _serve(self, target: str, tenant_id: UUID) -> None:
        logged = ""
        while True:
            pause, cause = self._pace.post_events_seconds, ""
            try:
                if await self._poll(target, tenant_id):
                    pause = 0.0
            except Unavailable as error:
                pause, cause = pause * AWAY_PAUSES, type(error).__name__
                if cause != logged:  # not every 10 s
                    _log.warning("post events wait", target=target, tenant=tenant_id, cause=cause)
            except Exception:  # noqa: BLE001 - it is tried again
                _log.exception("post events wait", target=target, tenant=tenant_id)
            logged = cause
            await asyncio.sleep(pause)

    async def _poll(self, target: str, tenant_id: UUID) -> bool:
        """Queue what is new of a tenant; return whether there may be more at once."""
        tenant = await tenants.find(self._catalog, tenant_id)
        if tenant is None or not tenant.is_active or tenant.is_attached:
            return False
        self._databases.server(tenant.server_name)  # a process without it holds no cursor
        first = _from(self._began)
        cursor = await post_hooks.hold(
            self._catalog, target, tenant_id, first, worker_id=self._worker_id
        )
        if cursor is None:
            return False
        now = utc_now()
        database = await self._databases.open(tenant, writes=False)
        await require_revision(database, WRITABLE_FROM)
        version = await state.version(database, now=now)
        if self._known.get((target, tenant_id)) == (cursor, version):
            return False
        async with self._queueing[target]:
            queued = (await outbox.counts(self._catalog, [target]))[target].queued
            most = min(EVENTS_EACH, WAITING_MAX - queued)
            if most <= 0:
                return False
            oldest = _from(now - outbox.AGE_MAX)
            cursor = Cursor(
                cursor.entries.after((), since=oldest.entries.since),
                cursor.moments.after((), since=oldest.moments.since),
            )
            to, events, has_all = await _read(database, cursor, now=now, most=most)
            if to != cursor:
                await self._queue(target, tenant, to, events)
        if has_all:
            self._known[target, tenant_id] = to, version
        return not has_all

    async def _queue(
        self, target: str, tenant: Tenant, to: Cursor, events: list[PostEvent]
    ) -> None:
        notices = [_notice(tenant, one) for one in events]
        async with self._catalog.begin() as session:
            if await post_hooks.move(session, target, tenant.id, to, worker_id=self._worker_id):
                subscribed = {target: self._hooks[target].events}
                await outbox.add(session, subscribed, notices, now=utc_now())


async def _read(
    database: TenantDatabase, cursor: Cursor, *, now: datetime, most: int
) -> tuple[Cursor, list[PostEvent], bool]:
    """Return the cursor after *most* moments and entries, their events, and whether that is all."""
    settled = _from(now - OVERLAP)
    limit = len(cursor.moments.seen) + most
    read = await post_events.moments(database, cursor.moments.since, now=now, limit=limit)
    new, has_moments = _new(read, cursor.moments, most, limit)
    moments = cursor.moments.after(one.position for one in new)
    limit = len(cursor.entries.seen) + most
    read = await post_events.entries(database, cursor.entries.since, limit=limit)
    added, has_entries = _new(read, cursor.entries, most - len(new), limit)
    entries = cursor.entries.after(one.position for one in added)
    new += [one for one in added if one.moment is None or not moments.has(one.moment)]
    has_all = has_moments and has_entries
    if has_all:
        moments = moments.after((), since=settled.moments.since)
        entries = entries.after((), since=settled.entries.since)
    events = sorted((one.event for one in new if one.event), key=lambda one: one.at)
    return Cursor(entries, moments), events, has_all


def _new(read: list[Read], known: Progress, most: int, limit: int) -> tuple[list[Read], bool]:
    """Return *most* of those that are new, and whether these are all there are."""
    new = [one for one in read if not known.has(one.position)]
    return new[:most], len(new) <= most and len(read) < limit


def _from(at: datetime) -> Cursor:
    return Cursor(Progress(post_events.first_entry(at)), Progress(post_events.first_moment(at)))


def _notice(tenant: Tenant, event: PostEvent) -> Notice:
    says = _SAYS[event.event.removeprefix("post.")]
    data = {
        "text": f"Post {event.slug} of tenant {tenant.name} {says}.",
        "tenantId": tenant.id,
        "tenantName": tenant.name,
        "postId": event.post_id,
        "slug": event.slug,
        "previousSlug": event.previous_slug,
    }
    return Notice(event.event, data, at=event.at)
