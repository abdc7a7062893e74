"""Health checks, the public signing keys, and metrics."""

from tenantry.access.principal import AdminContext
from tenantry.api.access_levels import ADMIN, OPEN
from tenantry.api.endpoints import endpoint
from tenantry.kit.context import OperationContext
from tenantry.kit.errors import Unavailable
from tenantry.schemas.base import Health, JwkSet, MetricsText, Nothing, Readiness
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
    await services.catalog.cache.check_epoch()
    return Readiness()


@endpoint("GET", "/.well-known/jwks.json", OPEN, is_bare=True)
async def key_set(_ctx: OperationContext, services: Services, _request: Nothing) -> JwkSet:
    """List the public signing keys."""
    return JwkSet(await services.tokens.jwks())


@endpoint("GET", "/metrics", ADMIN, is_bare=True)
async def show_metrics(_ctx: AdminContext, services: Services, _request: Nothing) -> MetricsText:
    """Metrics of this process."""
    return MetricsText(services.metrics.render().decode())
