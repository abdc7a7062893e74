"""The API over a fleet of attached databases: the endpoints of runs, and of the service."""

from functools import cache, partial

from tenantry.api.door import API_PREFIX, Api
from tenantry.api.envelope import Response
from tenantry.api.openapi import declared_in, description_of, endpoint_of
from tenantry.api.origins import check_loopback
from tenantry.api.requests import RequestState, Scope
from tenantry.api.routes import (
    admin_auth,
    admins,
    audit_logs,
    drift,
    hooks,
    jobs,
    migration_runs,
    migrations,
    plans,
    service,
    tenants,
)
from tenantry.api.streaming import Receive, Send
from tenantry.kit.errors import TenantryError

_DESCRIBED = [
    *declared_in(
        service, admin_auth, admins, migrations, migration_runs, plans, drift, hooks, jobs
    ),
    audit_logs.list_audit,
    audit_logs.export_audit,
    tenants.list_tenants,
    tenants.show_map,
    tenants.show_tenant,
    tenants.list_migrations,
]
ENDPOINTS = (*_DESCRIBED, endpoint_of(cache(partial(description_of, _DESCRIBED))))
"""Those that need no tenants: what needs them is not found (404), or not allowed (405)."""


class LocalApi(Api):
    """The API over a fleet, which is served to this machine alone."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one request (ASGI); by a foreign name, a page is the API's error, too."""
        try:
            check_loopback(scope["headers"])
        except TenantryError:
            scope = {**scope, "raw_path": API_PREFIX}
        await super().__call__(scope, receive, send)

    async def _handle(self, request: RequestState, receive: Receive) -> Response:
        check_loopback(request.headers)
        return await super()._handle(request, receive)
