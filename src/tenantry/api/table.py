"""The table of endpoints, collected from the modules of `api.routes`."""

from functools import cache, partial

from tenantry.api.openapi import declared_in, description_of, endpoint_of
from tenantry.api.routes import (
    admin_auth,
    admins,
    attached_databases,
    audit_logs,
    backups,
    blog,
    deleted_tenants,
    drift,
    hooks,
    jobs,
    links,
    managed_credentials,
    managed_links,
    managed_users,
    mcp,
    migration_runs,
    migrations,
    plans,
    post_previews,
    post_versions,
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
    managed_users,
    managed_credentials,
    managed_links,
    tenant_posts,
    post_versions,
    post_previews,
    blog,
    mcp,
    migrations,
    migration_runs,
    plans,
    admins,
    audit_logs,
    tenants,
    attached_databases,
    deleted_tenants,
    backups,
    drift,
    hooks,
    jobs,
    tenant_users,
    links,
    tenant_credentials,
)
_DESCRIBED = declared_in(*_MODULES)
description = cache(partial(description_of, _DESCRIBED))
"""Returns the OpenAPI description of the API, which is made at the first call."""
ENDPOINTS = (*_DESCRIBED, endpoint_of(description))
