"""Build the ASGI application: the HTTP doors over the services."""

import gc

from starlette.types import ASGIApp

from tenantry.api.cors import Cors
from tenantry.api.door import Api
from tenantry.api.table import ENDPOINTS
from tenantry.kit import log
from tenantry.kit.access_log import AccessLog
from tenantry.services import Services

# Requests make few cycles; the default of 700 looks for them far too often.
GC_THRESHOLD = 50_000


def app_over(services: Services) -> ASGIApp:
    """Return the application over *services* that the caller opens and closes.

    Every request goes to the API, which therefore also answers for paths that nobody has,
    in its envelope.
    """
    settings = services.settings
    api = Api(ENDPOINTS, services, AccessLog(as_json=log.writes_json(settings.log_format)))
    origins = [one.strip() for one in settings.cors_origins.split(",") if one.strip()]
    return Cors(api, origins) if origins else api


def settle() -> None:
    """Tell the garbage collector that what start-up made stays: it need not look at it again."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(GC_THRESHOLD)
