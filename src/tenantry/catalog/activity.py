"""Activity of a run: the tenants in work, and the servers that its other tenants wait for.

Both come from the heartbeats of the workers, so they are at most some seconds old.
"""

from datetime import UTC, datetime
from uuid import UUID

import msgspec

from tenantry.catalog import run_claims, workers
from tenantry.catalog.runs import MigrationRun
from tenantry.catalog.session import CatalogSession
from tenantry.catalog.workers import Published


class AwayServer(msgspec.Struct, frozen=True):
    """A server that tenants of a run wait for.

    Attributes:
        server: The name of the tenant server.
        since: When a worker first did not reach it, by the clock of the catalog's database.
    """

    server: str
    since: datetime


class TenantInWork(msgspec.Struct, frozen=True):
    """A tenant that a worker is migrating.

    Attributes:
        server: The name of its tenant server.
        since: When it was started, by the clock of the catalog's database.
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
    """

    away: list[AwayServer] = []
    in_work: list[TenantInWork] = []

    def is_like(self, other: "Activity") -> bool:
        """Return whether the same servers are away and the same tenants in work."""
        return _names(self) == _names(other)


async def activity_of(session: CatalogSession, run: MigrationRun) -> Activity:
    """Return what happens in a run at the moment."""
    if run.finished_at is not None:
        return Activity()
    processes = await workers.published(session)
    in_work = [one for process in processes for one in _in_work(process, run.id)]
    return Activity(
        await _away(session, run, processes), sorted(in_work, key=lambda one: one.since)
    )


def _in_work(process: Published, run_id: UUID) -> list[TenantInWork]:
    published = msgspec.convert(process.in_work, list[workers.InWork])
    return [
        TenantInWork(
            one.tenant_id, one.tenant_name, one.server_name, _instant(process.seen_at_ms - one.ms)
        )
        for one in published
        if one.run_id == run_id
    ]


async def _away(
    session: CatalogSession, run: MigrationRun, processes: list[Published]
) -> list[AwayServer]:
    since_ms: dict[str, int] = {}
    for process in processes:
        for name, ms in process.away_since_ms.items():
            since_ms[name] = min(ms, since_ms.get(name, ms))
    if not since_ms:
        return []
    names = await run_claims.pending_servers(session, run.id)
    return [AwayServer(name, _instant(since_ms[name])) for name in names if name in since_ms]


def _instant(ms: int) -> datetime:
    return datetime.fromtimestamp(ms / 1000, UTC)


def _names(activity: Activity) -> tuple[list[str], list[UUID]]:
    return [one.server for one in activity.away], [one.tenant_id for one in activity.in_work]
