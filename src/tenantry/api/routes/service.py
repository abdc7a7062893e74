"""Health checks, the public signing keys, and metrics."""

from collections import Counter
from datetime import UTC, datetime

from tenantry.access.principal import AdminContext
from tenantry.api.access_levels import ADMIN, OPEN
from tenantry.api.endpoints import endpoint
from tenantry.backup.loading import engine_of
from tenantry.catalog import activity, workers
from tenantry.kit.context import OperationContext
from tenantry.kit.errors import Unavailable
from tenantry.kit.release import VERSION
from tenantry.schemas.base import Health, JwkSet, MetricsText, Nothing, Readiness
from tenantry.schemas.health import (
    RecentErrorResponse,
    ServerResponse,
    ServiceHealthResponse,
    WorkerResponse,
)
from tenantry.services import Services


class Stopping(Unavailable):
    """This process is stopping."""


@endpoint("GET", "/livez", OPEN)
async def live(_ctx: OperationContext, _services: Services, _request: Nothing) -> Health:
    """Liveness check."""
    return Health()


@endpoint("GET", "/readyz", OPEN)
async def ready(_ctx: OperationContext, services: Services, _request: Nothing) -> Readiness:
    """Readiness check."""
    if services.worker.is_stopping:
        raise Stopping
    if not services.catalog.cache.is_fresh:
        await services.catalog.cache.check_epoch()
    return Readiness()


@endpoint("GET", "/.well-known/jwks.json", OPEN, is_bare=True)
async def key_set(_ctx: OperationContext, services: Services, _request: Nothing) -> JwkSet:
    """List the public signing keys."""
    return JwkSet(await services.tokens.jwks())


@endpoint("GET", "/api/admin/health", ADMIN)
async def show_health(
    ctx: AdminContext, services: Services, _request: Nothing
) -> ServiceHealthResponse:
    """Show the workers with their heartbeats, and the tenant servers."""
    found = await workers.published(services.catalog, within_ms=workers.FORGOTTEN_MS)
    lost = Counter(one.id for one, _ in await activity.abandoned(services.catalog, found))
    away: dict[str, int] = {}
    for one in (one for one in found if one.is_alive):
        for name, ms in one.away_since_ms.items():
            away[name] = min(ms, away.get(name, ms))
    return ServiceHealthResponse(
        release=VERSION,
        now=ctx.now,
        workers=[
            WorkerResponse(
                id=one.id,
                program=one.program,
                seen_at=_instant(one.seen_at_ms),
                is_alive=one.is_alive,
                in_work_count=len(one.in_work) if one.is_alive else 0,
                abandoned_count=lost[one.id],
                is_this=one.id == services.heartbeat.worker_id,
            )
            for one in sorted(found, key=lambda one: one.id)
        ],
        servers=[
            ServerResponse(
                name,
                engine_of(services.databases.server(name)),
                _instant(away[name]) if name in away else None,
            )
            for name in sorted(services.databases.server_names)
        ],
        errors=[RecentErrorResponse.of(one) for one in services.recent_errors.newest()],
    )


@endpoint("GET", "/metrics", ADMIN, is_bare=True)
async def show_metrics(_ctx: AdminContext, services: Services, _request: Nothing) -> MetricsText:
    """Metrics of this process."""
    return MetricsText(services.metrics.render().decode())


def _instant(ms: int) -> datetime:
    return datetime.fromtimestamp(ms / 1000, UTC)
