"""Build the ASGI application: the HTTP doors over the services."""

import importlib

from starlette.types import ASGIApp

from tenantry.api import fleet_endpoints
from tenantry.api.cors import Cors
from tenantry.api.door import Api
from tenantry.api.table import ENDPOINTS
from tenantry.console.door import Console
from tenantry.kit import log
from tenantry.kit.request_log import AccessLog
from tenantry.services import Services
from tenantry.settings import Settings


def app_over(services: Services, access_log: AccessLog | None = None) -> ASGIApp:
    """Return the application over *services*, which the caller opens and closes.

    Every request goes to the API, except those for the console's files. So unknown paths get the
    API's 404 in its envelope. The access log is a new one by default.
    """
    # The SDK takes a second to import. Import it here: not in commands that serve nothing, and
    # not while the first MCP client waits.
    importlib.import_module("tenantry.mcp.server")
    settings = services.settings
    access_log = access_log or open_access_log(settings)
    is_fleet = services.attached is not None
    pages = Console(access_log, services.metrics, is_fleet=is_fleet)
    endpoints = fleet_endpoints.ENDPOINTS if is_fleet else ENDPOINTS
    serves = fleet_endpoints.LocalApi if is_fleet else Api
    app: ASGIApp = serves(endpoints, services, access_log, pages=pages.respond)
    origins = [one.strip() for one in settings.cors_origins.split(",") if one.strip()]
    if origins:
        app = Cors(app, origins)  # it adds nothing to the responses of the console
    return app


def open_access_log(settings: Settings) -> AccessLog:
    """Return the access log of a process, on standard error."""
    return AccessLog(as_json=log.writes_json(settings.log_format))
