"""The table of endpoints, collected from the modules of `api.routes`."""

from tenantry.api.endpoints import Endpoint
from tenantry.api.openapi import description_of, endpoint_of
from tenantry.api.routes import (
    admin_auth,
    admins,
    audit_logs,
    backups,
    blog,
    deleted_tenants,
    drift,
    jobs,
    mcp,
    migration_runs,
    migrations,
    service,
    tenant_auth,
    tenant_credentials,
    tenant_modules,
    tenant_posts,
    tenant_tokens,
    tenant_users,
    tenants,
)

_MODULES = (
    service,
    admin_auth,
    tenant_auth,
    tenant_modules,
    tenant_tokens,
    tenant_posts,
    blog,
    mcp,
    migrations,
    migration_runs,
    admins,
    audit_logs,
    tenants,
    deleted_tenants,
    backups,
    drift,
    jobs,
    tenant_users,
    tenant_credentials,
)
_DESCRIBED = tuple(
    one for module in _MODULES for one in vars(module).values() if isinstance(one, Endpoint)
)

DESCRIPTION = description_of(_DESCRIBED)
ENDPOINTS = (*_DESCRIBED, endpoint_of(DESCRIPTION))
