"""Activity of a run: the tenants in work, and the servers that its other tenants wait for.

Both come from the heartbeats of the workers, so they are at most some seconds old. What a worker
without a heartbeat had in work is abandoned until another one has claimed it.
"""

from collections.abc import Iterable
from datetime import UTC, datetime
from uuid import UUID

import msgspec

from tenantry.catalog import run_claims, workers
from tenantry.catalog.runs import MigrationRun
from tenantry.catalog.session import CatalogSession
from tenantry.catalog.workers import InWork, Published


class AwayServer(msgspec.Struct, frozen=True):
    """A server that tenants of a run wait for.

    Attributes:
        server: The name of the tenant server.
        since: When a worker first did not reach it, by the clock of the catalog's database.
        cause: Why that worker does not reach it; null if it is of an older release.
    """

    server: str
    since: datetime
    cause: str | None = None


class TenantInWork(msgspec.Struct, frozen=True):
    """A tenant that a worker is migrating, or was migrating when its heartbeats ended.

    Attributes:
        server: The name of its tenant server.
        since: When it was started, by the clock of the catalog's database; of an abandoned tenant,
            when its worker had its last heartbeat.
    """

    tenant_id: UUID
    tenant_name: str
    server: str
    since: datetime


class Activity(msgspec.Struct, frozen=True):
    """What happens in a run at the moment; empty after its end.

    Attributes:
        away: The servers that tenants wait for, by name.
        in_work: The tenants in work, the longest at work first.
        abandoned: The tenants that a silent worker had in work, and that no other has claimed yet.
        is_left: Whether it should go on, and no process has a heartbeat.
    """

    away: list[AwayServer] = []
    in_work: list[TenantInWork] = []
    abandoned: list[TenantInWork] = []
    is_left: bool = False

    def is_like(self, other: "Activity") -> bool:
        """Return whether the same servers are away and the same tenants in work, or abandoned."""
        return _names(self) == _names(other)


async def activity_of(session: CatalogSession, run: MigrationRun) -> Activity:
    """Return what happens in a run at the moment."""
    if run.finished_at is not None:
        return Activity()
    processes = await workers.published(session, within_ms=workers.FORGOTTEN_MS)
    living = [one for one in processes if one.is_alive]
    in_work = [
        _in_work(one, process.seen_at_ms - one.ms)
        for process in living
        for one in process.tenants_in_work
        if one.run_id == run.id
    ]
    lost = [
        _in_work(one, process.seen_at_ms)
        for process, one in await abandoned(session, processes)
        if one.run_id == run.id
    ]
    away = await _away(session, run, living)
    is_left = not living and run.held_because is None
    return Activity(away, sorted(in_work, key=lambda one: one.since), lost, is_left)


async def abandoned(
    session: CatalogSession, processes: Iterable[Published]
) -> list[tuple[Published, InWork]]:
    """Return what silent ones of the *processes* had in work, and no other has claimed since."""
    lost = [
        (process, one)
        for process in processes
        if not process.is_alive
        for one in process.tenants_in_work
    ]
    if not lost:
        return []
    held = await run_claims.held(session, {process.id for process, _ in lost})
    return [
        (process, one) for process, one in lost if (process.id, one.run_id, one.tenant_id) in held
    ]


def _in_work(one: InWork, since_ms: int) -> TenantInWork:
    return TenantInWork(one.tenant_id, one.tenant_name, one.server_name, _instant(since_ms))


async def _away(
    session: CatalogSession, run: MigrationRun, processes: list[Published]
) -> list[AwayServer]:
    away: dict[str, AwayServer] = {}
    for process in processes:
        for name, ms in process.away_since_ms.items():
            one = AwayServer(name, _instant(ms), process.away_causes[name])
            away[name] = min(one, away.get(name, one), key=lambda found: found.since)
    if not away:
        return []
    names = await run_claims.pending_servers(session, run.id)
    return [away[name] for name in names if name in away]


def _instant(ms: int) -> datetime:
    return datetime.fromtimestamp(ms / 1000, UTC)


def _names(activity: Activity) -> tuple[list[str], ...]:
    in_work = [str(one.tenant_id) for one in activity.in_work]
    lost = [str(one.tenant_id) for one in activity.abandoned]
    return [one.server for one in activity.away], in_work, lost
