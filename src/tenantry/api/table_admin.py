"""The part of the table of endpoints that is for admins."""

from http import HTTPStatus

from tenantry.api.endpoints import Endpoint
from tenantry.api.levels import ADMIN
from tenantry.api.routes import (
    admins,
    audit_logs,
    service,
    tenant_credentials,
    tenant_users,
    tenants,
)
from tenantry.api.table_migrations import MIGRATION_ENDPOINTS
from tenantry.schemas.admins import (
    AdminList,
    AdminResponse,
    CreateAdminRequest,
    UpdateAdminRequest,
)
from tenantry.schemas.audit import (
    AuditExportRequest,
    AuditPage,
    AuditRequest,
    TenantAuditExportRequest,
    TenantAuditRequest,
)
from tenantry.schemas.base import JsonLines, MetricsText, PageRequest
from tenantry.schemas.credentials import (
    ApiKeyList,
    IssueApiKeyRequest,
    IssuedApiKeyResponse,
    IssuedMcpTokenResponse,
    IssueMcpTokenRequest,
    McpTokenList,
    RotateApiKeyRequest,
)
from tenantry.schemas.people import (
    CreateUserRequest,
    TenantUserPage,
    TenantUserProfile,
    UpdateUserRequest,
)
from tenantry.schemas.tenants import (
    CreatedTenantResponse,
    CreateTenantRequest,
    DeleteTenantRequest,
    TenantPage,
    TenantPageRequest,
    TenantResponse,
    UpdateTenantRequest,
)

NOT_FOUND = HTTPStatus.NOT_FOUND
CONFLICT = HTTPStatus.CONFLICT

_ADMINS = (
    Endpoint(
        method="GET",
        path="/api/admin/admins",
        level=ADMIN,
        handler=admins.list_admins,
        response=AdminList,
        summary="List admins",
    ),
    Endpoint(
        method="POST",
        path="/api/admin/admins",
        level=ADMIN,
        handler=admins.create_admin,
        request=CreateAdminRequest,
        response=AdminResponse,
        summary="Create an admin",
        status=HTTPStatus.CREATED,
        errors=frozenset({CONFLICT}),
    ),
    Endpoint(
        method="PATCH",
        path="/api/admin/admins/{adminId}",
        level=ADMIN,
        handler=admins.update_admin,
        request=UpdateAdminRequest,
        response=AdminResponse,
        summary="Activate or deactivate an admin, or set the password",
        errors=frozenset({NOT_FOUND, CONFLICT}),
    ),
    Endpoint(
        method="GET",
        path="/api/admin/audit-log",
        level=ADMIN,
        handler=audit_logs.list_audit,
        request=AuditRequest,
        response=AuditPage,
        summary="List entries of the service's audit log, newest first",
    ),
    Endpoint(
        method="GET",
        path="/api/admin/audit-log/export",
        level=ADMIN,
        handler=audit_logs.export_audit,
        request=AuditExportRequest,
        response=JsonLines,
        summary="Export the service's audit log as JSON lines, newest first",
        is_bare=True,
    ),
)
_TENANTS = (
    Endpoint(
        method="POST",
        path="/api/admin/tenants",
        level=ADMIN,
        handler=tenants.create_tenant,
        request=CreateTenantRequest,
        response=CreatedTenantResponse,
        summary="Create a tenant",
        status=HTTPStatus.CREATED,
        errors=frozenset({CONFLICT}),
        holds_secret=True,
    ),
    Endpoint(
        method="GET",
        path="/api/admin/tenants",
        level=ADMIN,
        handler=tenants.list_tenants,
        request=TenantPageRequest,
        response=TenantPage,
        summary="List tenants",
    ),
    Endpoint(
        method="GET",
        path="/api/admin/tenants/{tenantId}",
        level=ADMIN,
        handler=tenants.show_tenant,
        response=TenantResponse,
        summary="Show a tenant",
        errors=frozenset({NOT_FOUND}),
    ),
    Endpoint(
        method="PATCH",
        path="/api/admin/tenants/{tenantId}",
        level=ADMIN,
        handler=tenants.update_tenant,
        request=UpdateTenantRequest,
        response=TenantResponse,
        summary="Change, suspend or activate a tenant",
        errors=frozenset({NOT_FOUND, CONFLICT}),
    ),
)
_DELETION = (
    Endpoint(
        method="DELETE",
        path="/api/admin/tenants/{tenantId}",
        level=ADMIN,
        handler=tenants.delete_tenant,
        request=DeleteTenantRequest,
        response=None,
        summary="Permanently delete an inactive tenant",
        message="The tenant was deleted.",
        errors=frozenset({NOT_FOUND, CONFLICT}),
    ),
)
_USERS = (
    Endpoint(
        method="GET",
        path="/api/admin/tenants/{tenantId}/users",
        level=ADMIN,
        handler=tenant_users.list_users,
        request=PageRequest,
        response=TenantUserPage,
        summary="List the users of a tenant",
        errors=frozenset({NOT_FOUND}),
    ),
    Endpoint(
        method="POST",
        path="/api/admin/tenants/{tenantId}/users",
        level=ADMIN,
        handler=tenant_users.create_user,
        request=CreateUserRequest,
        response=TenantUserProfile,
        summary="Create a user of a tenant",
        status=HTTPStatus.CREATED,
        errors=frozenset({NOT_FOUND, CONFLICT}),
    ),
    Endpoint(
        method="PATCH",
        path="/api/admin/tenants/{tenantId}/users/{userId}",
        level=ADMIN,
        handler=tenant_users.update_user,
        request=UpdateUserRequest,
        response=TenantUserProfile,
        summary="Change a user of a tenant",
        errors=frozenset({NOT_FOUND, CONFLICT}),
    ),
    Endpoint(
        method="DELETE",
        path="/api/admin/tenants/{tenantId}/users/{userId}",
        level=ADMIN,
        handler=tenant_users.delete_user,
        response=None,
        summary="Delete a user of a tenant",
        message="The user was deleted.",
        errors=frozenset({NOT_FOUND}),
    ),
    Endpoint(
        method="GET",
        path="/api/admin/tenants/{tenantId}/audit-log",
        level=ADMIN,
        handler=audit_logs.list_tenant_audit,
        request=TenantAuditRequest,
        response=AuditPage,
        summary="List entries of a tenant's audit log, newest first",
        errors=frozenset({NOT_FOUND}),
    ),
    Endpoint(
        method="GET",
        path="/api/admin/tenants/{tenantId}/audit-log/export",
        level=ADMIN,
        handler=audit_logs.export_tenant_audit,
        request=TenantAuditExportRequest,
        response=JsonLines,
        summary="Export a tenant's audit log as JSON lines, newest first",
        errors=frozenset({NOT_FOUND}),
        is_bare=True,
    ),
)
_CREDENTIALS = (
    Endpoint(
        method="GET",
        path="/api/admin/tenants/{tenantId}/api-keys",
        level=ADMIN,
        handler=tenant_credentials.list_keys,
        response=ApiKeyList,
        summary="List the API keys of a tenant",
        errors=frozenset({NOT_FOUND}),
    ),
    Endpoint(
        method="POST",
        path="/api/admin/tenants/{tenantId}/api-keys",
        level=ADMIN,
        handler=tenant_credentials.issue_key,
        request=IssueApiKeyRequest,
        response=IssuedApiKeyResponse,
        summary="Issue an API key of a tenant",
        status=HTTPStatus.CREATED,
        errors=frozenset({NOT_FOUND}),
        holds_secret=True,
    ),
    Endpoint(
        method="POST",
        path="/api/admin/tenants/{tenantId}/api-keys/{keyId}/rotate",
        level=ADMIN,
        handler=tenant_credentials.rotate_key,
        request=RotateApiKeyRequest,
        response=IssuedApiKeyResponse,
        summary="Rotate an API key of a tenant",
        status=HTTPStatus.CREATED,
        errors=frozenset({NOT_FOUND}),
        holds_secret=True,
    ),
    Endpoint(
        method="DELETE",
        path="/api/admin/tenants/{tenantId}/api-keys/{keyId}",
        level=ADMIN,
        handler=tenant_credentials.revoke_key,
        response=None,
        summary="Revoke an API key of a tenant",
        message="The API key was revoked.",
        errors=frozenset({NOT_FOUND}),
    ),
    Endpoint(
        method="GET",
        path="/api/admin/tenants/{tenantId}/mcp-tokens",
        level=ADMIN,
        handler=tenant_credentials.list_tokens,
        response=McpTokenList,
        summary="List the McpTokens of a tenant",
        errors=frozenset({NOT_FOUND}),
    ),
    Endpoint(
        method="POST",
        path="/api/admin/tenants/{tenantId}/mcp-tokens",
        level=ADMIN,
        handler=tenant_credentials.issue_token,
        request=IssueMcpTokenRequest,
        response=IssuedMcpTokenResponse,
        summary="Issue an McpToken of a tenant",
        status=HTTPStatus.CREATED,
        errors=frozenset({NOT_FOUND}),
        holds_secret=True,
    ),
    Endpoint(
        method="DELETE",
        path="/api/admin/tenants/{tenantId}/mcp-tokens/{tokenId}",
        level=ADMIN,
        handler=tenant_credentials.revoke_token,
        response=None,
        summary="Revoke an McpToken of a tenant",
        message="The McpToken was revoked.",
        errors=frozenset({NOT_FOUND}),
    ),
)

_METRICS = (
    Endpoint(
        method="GET",
        path="/metrics",
        level=ADMIN,
        handler=service.show_metrics,
        response=MetricsText,
        summary="Metrics of this process",
        is_bare=True,
    ),
)

ADMIN_ENDPOINTS: tuple[Endpoint, ...] = (
    *MIGRATION_ENDPOINTS,
    *_ADMINS,
    *_TENANTS,
    *_DELETION,
    *_USERS,
    *_CREDENTIALS,
    *_METRICS,
)
