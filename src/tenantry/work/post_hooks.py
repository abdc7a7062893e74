"""Queue the post events of tenants for the targets that the settings name for them.

A write to a blog waits for no target: its entry in the tenant's audit log is the event, and is read
here a moment later. At least once in that log, and once in the outbox: `catalog.post_hooks`. One
process reads the tenants of a target, one after the other: so at most `HOOKS_MAX` at a time.
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
from tenantry.catalog.post_hooks import Cursor, Followed, Progress
from tenantry.catalog.tenants import Tenant
from tenantry.kit.clock import monotonic_seconds, utc_now
from tenantry.kit.errors import Unavailable
from tenantry.kit.hook_settings import Hook
from tenantry.tenant import modules
from tenantry.tenant.blog import post_events, state
from tenantry.tenant.blog.post_events import PostEvent, Read
from tenantry.tenant.databases import (
    WRITABLE_FROM,
    ServerUnknown,
    TenantDatabase,
    TenantDatabases,
    require_revision,
)
from tenantry.work.heartbeat import Heartbeat

AWAY_PAUSES = 5
"""How many pauses there are after a tenant could not be read: 10 s. The others go on."""
READ_SECONDS_MAX = 2.0
"""For each of the two readings of a tenant; then it is away."""
EVENTS_EACH = 20
"""Entries and moments of one tenant that are read, and queued, at a time."""
WAITING_MAX = outbox.QUEUED_MAX // 2
"""Events of posts wait in the tenant's log, and are not dropped, while so many are queued."""
OVERLAP = timedelta(seconds=60)
"""How much a clock may be behind, or a transaction take, without an event being missed."""

_SAYS = {"published": "was published", "changed": "has changed", "unpublished": "was withdrawn"}
_log = structlog.get_logger(__name__)


class PostHooks:
    """Reads the blogs of the tenants that targets name, in one task for each target.

    Args:
        heartbeat: That of this process: while it is recent, no other one reads for its targets.
        hooks: The targets, by name.
        pace: The pause between two readings.
    """

    def __init__(
        self,
        catalog: Catalog,
        databases: TenantDatabases,
        heartbeat: Heartbeat,
        hooks: Mapping[str, Hook],
        *,
        pace: Pace,
    ) -> None:
        self._catalog = catalog
        self._databases = databases
        self._heartbeat = heartbeat
        self._hooks = hooks
        self._pace = pace
        self._began = utc_now()
        # When a tenant was not there: one that is restored under its id begins after that.
        self._absent: dict[UUID, datetime] = {}
        # The others are by target and tenant. A stored cursor, and the version of the blog in which
        # nothing is after it:
        self._known: dict[tuple[str, UUID], tuple[str, UUID]] = {}
        # Until when it is not read, by the monotonic clock, and what was logged:
        self._away: dict[tuple[str, UUID], float] = {}
        self._logged: dict[tuple[str, UUID | None], str] = {}

    async def work(self) -> None:
        """Read, until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            for name, hook in self._hooks.items():
                if hook.tenants:
                    tasks.create_task(self._serve(name, list(hook.tenants)))

    async def _serve(self, target: str, tenant_ids: list[UUID]) -> None:
        own = self._heartbeat.worker_id
        while True:
            pauses = 1
            try:
                await self._heartbeat.renew()
                if await post_hooks.hold(self._catalog, target, worker_id=own):
                    pauses = await self._read_all(target, tenant_ids)
                self._logged.pop((target, None), None)
            except Exception as error:  # noqa: BLE001 - it is tried again
                self._log(target, None, error)
            await asyncio.sleep(pauses * self._pace.post_events_seconds)

    async def _read_all(self, target: str, tenant_ids: list[UUID]) -> int:
        """Queue what is new of each tenant; return after how many pauses to read again.

        Those of which events were queued become the last in *tenant_ids*.
        """
        pauses, slow, unknown = 1, set[str](), False
        followed = await post_hooks.followed(self._catalog, target)
        for tenant_id in list(tenant_ids):
            tenant = followed.get(tenant_id)
            if tenant is None:
                await self._follow(target, tenant_id)
            if tenant is None or not _is_sent(tenant) or tenant.server_name in slow:
                continue
            key = target, tenant_id
            if self._away.get(key, 0) > monotonic_seconds():
                continue
            try:
                if await self._poll(target, tenant):
                    pauses = 0
                    tenant_ids.remove(tenant_id)
                    tenant_ids.append(tenant_id)
                self._logged.pop(key, None)
            except Exception as error:  # noqa: BLE001 - the other tenants go on
                self._log(target, tenant_id, error)
                away_seconds = AWAY_PAUSES * self._pace.post_events_seconds
                self._away[key] = monotonic_seconds() + away_seconds
                unknown |= isinstance(error, ServerUnknown)
                if isinstance(error, TimeoutError):
                    slow.add(tenant.server_name)  # perhaps it is the server: once in each round
        if unknown:  # another process may have the server
            await post_hooks.release(self._catalog, target, worker_id=self._heartbeat.worker_id)
            return AWAY_PAUSES
        return pauses

    async def _follow(self, target: str, tenant_id: UUID) -> None:
        if await tenants.find(self._catalog, tenant_id) is None:
            self._absent[tenant_id] = utc_now()
        else:
            first = _from(self._absent.get(tenant_id, self._began))
            await post_hooks.follow(self._catalog, target, tenant_id, first)

    async def _poll(self, target: str, tenant: Followed) -> bool:
        """Queue what is new of a tenant; return whether there may be more at once."""
        now = utc_now() - timedelta(seconds=self._pace.moments_late_seconds)
        async with asyncio.timeout(READ_SECONDS_MAX):
            database = await self._databases.open(tenant, writes=False)
            await require_revision(database, WRITABLE_FROM)
            version = await state.version(database, now=now)
        if self._known.get((target, tenant.id)) == (tenant.stored, version):
            return False
        queued = (await outbox.counts(self._catalog, [target]))[target].queued
        most = min(EVENTS_EACH, WAITING_MAX - queued)
        if most <= 0:
            return False
        oldest = _from(now - outbox.AGE_MAX)
        cursor = Cursor(
            tenant.cursor.entries.cut(oldest.entries.since),
            tenant.cursor.moments.cut(oldest.moments.since),
        )
        async with asyncio.timeout(READ_SECONDS_MAX):
            to, events, has_all = await _read(database, cursor, now=now, most=most)
        if to.text != tenant.stored:
            await self._queue(target, tenant, to, events)
        if has_all:
            self._known[target, tenant.id] = to.text, version
        return not has_all

    async def _queue(
        self, target: str, tenant: Followed, to: Cursor, events: list[PostEvent]
    ) -> None:
        notices = [_notice(tenant, one) for one in events]
        async with self._catalog.begin() as session:
            if await post_hooks.move(session, target, tenant, to):
                subscribed = {target: self._hooks[target].events}
                await outbox.add(session, subscribed, notices, now=utc_now())

    def _log(self, target: str, tenant_id: UUID | None, error: Exception) -> None:
        cause = type(error).__name__
        if self._logged.get((target, tenant_id)) == cause:
            return  # not every few seconds
        self._logged[target, tenant_id] = cause
        is_expected = isinstance(error, Unavailable | TimeoutError)
        log = _log.warning if is_expected else _log.exception
        log("post events wait", target=target, tenant=tenant_id, cause=cause)


def _is_sent(tenant: Tenant) -> bool:
    """Return whether readers have access to the posts; if not, events wait."""
    return tenant.is_active and not tenant.is_attached and modules.BLOG in tenant.modules


async def _read(
    database: TenantDatabase, cursor: Cursor, *, now: datetime, most: int
) -> tuple[Cursor, list[PostEvent], bool]:
    """Return the cursor after *most* entries and moments, their events, and whether that is all.

    Moments are read before entries, so none that a write settles in between is missed; and they are
    taken after them, so an entry of a moment that was not taken is never before `moments.since`.
    """
    settled = _from(now - OVERLAP)
    moments_max = len(cursor.moments.seen) + most
    moments = await post_events.moments(database, cursor.moments.since, now=now, limit=moments_max)
    entries_max = len(cursor.entries.seen) + most
    entries = await post_events.entries(database, cursor.entries.since, limit=entries_max)
    written, has_entries = _new(entries, cursor.entries, most, entries_max)
    left = most - len(written) if has_entries else 0
    come, has_moments = _new(moments, cursor.moments, left, moments_max)
    to = Cursor(
        cursor.entries.after((one.position for one in written), settled=settled.entries.since),
        cursor.moments.after((one.position for one in come), settled=settled.moments.since),
    )
    come += [one for one in written if one.moment is None or not to.moments.has(one.moment)]
    events = sorted((one.event for one in come), key=lambda one: one.at)
    return to, events, has_entries and has_moments


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
