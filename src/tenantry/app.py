"""Build the ASGI application: the HTTP doors over the services."""

import importlib

from starlette.types import ASGIApp

from tenantry.api.cors import Cors
from tenantry.api.door import Api
from tenantry.api.table import ENDPOINTS
from tenantry.console.door import Console
from tenantry.kit import log
from tenantry.kit.access_log import AccessLog
from tenantry.services import Services
from tenantry.settings import Settings


def app_over(services: Services, access_log: AccessLog | None = None) -> ASGIApp:
    """Return the application over *services* that the caller opens and closes.

    Every request but those for the console's files goes to the API, which therefore also
    answers for paths that nobody has, in its envelope.

    Args:
        services: What it calls.
        access_log: Where every request is told, if there is one already.
    """
    # The SDK takes a second to import: here, and not for a command that serves nothing, nor
    # while the first assistant waits.
    importlib.import_module("tenantry.mcp.server")
    settings = services.settings
    access_log = access_log or open_access_log(settings)
    app: ASGIApp = Api(ENDPOINTS, services, access_log)
    origins = [one.strip() for one in settings.cors_origins.split(",") if one.strip()]
    if origins:
        app = Cors(app, origins)
    return Console(app, access_log, services.metrics)


def open_access_log(settings: Settings) -> AccessLog:
    """Return the access log of a process, on standard error."""
    return AccessLog(as_json=log.writes_json(settings.log_format))
