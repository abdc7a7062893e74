"""Build the ASGI application: the doors over the services."""

import gc
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from starlette.applications import Starlette

from tenantry.api.cors import Cors
from tenantry.api.door import Api
from tenantry.api.table import ENDPOINTS
from tenantry.kit import log
from tenantry.kit.access_log import AccessLog
from tenantry.services import Services, open_services
from tenantry.settings import Settings

# Requests make few cycles; the default of 700 looks for them far too often.
GC_THRESHOLD = 50_000


def create_app(settings: Settings) -> Starlette:
    """Return the application of one process. Its lifespan opens the services and closes them."""

    @asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        async with open_services(settings) as services:
            app.state.services = services
            app.router.default = app_over(services).router.default
            # What start-up made stays: the collector need not look at it again.
            gc.collect()
            gc.freeze()
            gc.set_threshold(GC_THRESHOLD)
            yield

    return Starlette(lifespan=lifespan)


def app_over(services: Services) -> Starlette:
    """Return the application over *services* that the caller opens and closes.

    Starlette routes what is not the API's. Its *default* is the API, which therefore also
    answers for paths that nobody has, in its envelope.
    """
    app = Starlette()
    as_json = log.writes_json(services.settings.log_format)
    api = Api(ENDPOINTS, services, AccessLog(as_json=as_json))
    origins = [one.strip() for one in services.settings.cors_origins.split(",") if one.strip()]
    app.router.default = Cors(api, origins) if origins else api
    return app
