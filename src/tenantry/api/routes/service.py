"""What the service tells of itself to anybody."""

from tenantry.access.principal import AdminContext
from tenantry.kit.context import OperationContext
from tenantry.kit.errors import Unavailable
from tenantry.schemas.base import Health, JwkSet, MetricsText, Nothing
from tenantry.services import Services


class Stopping(Unavailable):
    """This process is stopping."""


async def live(_ctx: OperationContext, _services: Services, _request: Nothing) -> Health:
    """Tell that the process lives."""
    return Health()


async def ready(_ctx: OperationContext, services: Services, _request: Nothing) -> Health:
    """Tell that the process can serve: the catalog answers, and nobody has asked it to stop."""
    if services.worker.is_stopping:
        raise Stopping
    await services.catalog.facts.look()
    return Health()


async def key_set(_ctx: OperationContext, services: Services, _request: Nothing) -> JwkSet:
    """Tell the public halves of the signing keys."""
    return JwkSet(await services.tokens.jwks())


async def show_metrics(_ctx: AdminContext, services: Services, _request: Nothing) -> MetricsText:
    """Tell what this process has counted."""
    return MetricsText(services.metrics.render().decode())
