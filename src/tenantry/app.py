"""Build the ASGI application: the doors over the services."""

import gc
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from starlette.applications import Starlette
from starlette.datastructures import State
from starlette.types import ASGIApp, Receive, Scope, Send

from tenantry.api.cors import Cors
from tenantry.api.door import Api
from tenantry.api.table import ENDPOINTS
from tenantry.kit import log
from tenantry.kit.access_log import AccessLog
from tenantry.services import Services, open_services
from tenantry.settings import Settings

# Requests make few cycles; the default of 700 looks for them far too often.
GC_THRESHOLD = 50_000


class App:
    """The doors of one process.

    Every HTTP request goes to the API, which therefore also answers for paths that nobody
    has, in its envelope. Starlette has the rest: it opens what lives, and closes it.

    Attributes:
        state: Holds ``services`` while they are open.
    """

    def __init__(self, starlette: Starlette, api: ASGIApp) -> None:
        self.state: State = starlette.state
        self.api = api
        self._starlette = starlette

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request, or the whole life of the process (ASGI)."""
        await (self.api if scope["type"] == "http" else self._starlette)(scope, receive, send)


def create_app(settings: Settings) -> App:
    """Return the application of one process. Its lifespan opens the services and closes them."""

    @asynccontextmanager
    async def lifespan(starlette: Starlette) -> AsyncIterator[None]:
        async with open_services(settings) as services:
            starlette.state.services = services
            app.api = _api_over(services)
            # What start-up made stays: the collector need not look at it again.
            gc.collect()
            gc.freeze()
            gc.set_threshold(GC_THRESHOLD)
            yield

    starlette = Starlette(lifespan=lifespan)
    app = App(starlette, starlette)
    return app


def app_over(services: Services) -> App:
    """Return the application over *services* that the caller opens and closes."""
    return App(Starlette(), _api_over(services))


def _api_over(services: Services) -> ASGIApp:
    settings = services.settings
    api = Api(ENDPOINTS, services, AccessLog(as_json=log.writes_json(settings.log_format)))
    origins = [one.strip() for one in settings.cors_origins.split(",") if one.strip()]
    return Cors(api, origins) if origins else api
