"""The table of endpoints."""

from http import HTTPStatus

from tenantry.access.principal import Scope
from tenantry.api.endpoints import CONTENT_BYTES_MAX, HASHING_SECONDS, Endpoint
from tenantry.api.levels import ADMIN, CLAIMANT, MCP, OPEN, PERSON, SIGNED_IN, TENANT, TENANT_LOGIN
from tenantry.api.openapi import description_of, endpoint_of
from tenantry.api.routes import (
    admin_auth,
    mcp,
    service,
    tenant_auth,
    tenant_modules,
    tenant_tokens,
)
from tenantry.api.table_admin import ADMIN_ENDPOINTS
from tenantry.api.table_blog import BLOG_ENDPOINTS
from tenantry.schemas.base import Health, JwkSet, Nothing
from tenantry.schemas.credentials import (
    IssuedMcpTokenResponse,
    IssueOwnMcpTokenRequest,
    McpTokenList,
)
from tenantry.schemas.mcp import McpAnswer, McpMessage
from tenantry.schemas.people import (
    ChangePasswordRequest,
    LoginRequest,
    LoginResult,
    LogoutRequest,
    TenantUserProfile,
    UpdateProfileRequest,
)
from tenantry.schemas.tenants import ModuleList
from tenantry.tenant import modules

NOT_FOUND = HTTPStatus.NOT_FOUND
CONFLICT = HTTPStatus.CONFLICT
TOO_MANY = HTTPStatus.TOO_MANY_REQUESTS
LOGIN = frozenset({HTTPStatus.UNAUTHORIZED, TOO_MANY})

_SERVICE = (
    Endpoint(
        method="GET",
        path="/livez",
        level=OPEN,
        handler=service.live,
        response=Health,
        summary="Liveness check",
    ),
    Endpoint(
        method="GET",
        path="/readyz",
        level=OPEN,
        handler=service.ready,
        response=Health,
        summary="Readiness check",
    ),
    Endpoint(
        method="GET",
        path="/.well-known/jwks.json",
        level=OPEN,
        handler=service.key_set,
        response=JwkSet,
        summary="List the public signing keys",
        is_bare=True,
    ),
)
_AUTH = (
    Endpoint(
        method="POST",
        path="/api/admin/auth/login",
        level=OPEN,
        handler=admin_auth.login,
        seconds_more=HASHING_SECONDS,
        request=LoginRequest,
        response=LoginResult,
        summary="Log in as an admin",
        errors=LOGIN,
        holds_secret=True,
    ),
    Endpoint(
        method="POST",
        path="/api/tenant/auth/login",
        level=TENANT_LOGIN,
        handler=tenant_auth.login,
        seconds_more=HASHING_SECONDS,
        request=LoginRequest,
        response=LoginResult,
        summary="Log in as a user of a tenant",
        errors=LOGIN,
        holds_secret=True,
    ),
    Endpoint(
        method="POST",
        path="/api/admin/auth/logout",
        level=ADMIN,
        handler=admin_auth.logout,
        request=LogoutRequest,
        response=None,
        summary="Log out as an admin",
        message="You are logged out.",
    ),
    Endpoint(
        method="POST",
        path="/api/tenant/auth/logout",
        level=SIGNED_IN,
        handler=tenant_auth.logout,
        request=LogoutRequest,
        response=None,
        summary="Log out as a user of a tenant",
        message="You are logged out.",
    ),
    Endpoint(
        method="PUT",
        path="/api/tenant/auth/change-password",
        level=PERSON,
        handler=tenant_auth.change_password,
        seconds_more=HASHING_SECONDS,
        request=ChangePasswordRequest,
        response=None,
        summary="Change your password",
        message="The password was changed.",
        errors=frozenset({NOT_FOUND, TOO_MANY}),
        scope=Scope.PROFILE_WRITE,
    ),
    Endpoint(
        method="GET",
        path="/api/tenant/auth/profile",
        level=PERSON,
        handler=tenant_auth.show_profile,
        response=TenantUserProfile,
        summary="Show your profile",
        errors=frozenset({NOT_FOUND}),
        scope=Scope.PROFILE_READ,
    ),
    Endpoint(
        method="PUT",
        path="/api/tenant/auth/profile",
        level=CLAIMANT,
        handler=tenant_auth.update_profile,
        request=UpdateProfileRequest,
        response=TenantUserProfile,
        summary="Change your profile",
        errors=frozenset({NOT_FOUND, CONFLICT}),
        scope=Scope.PROFILE_WRITE,
    ),
)
_TENANT = (
    Endpoint(
        method="GET",
        path="/api/tenant/modules",
        level=TENANT,
        handler=tenant_modules.list_active,
        response=ModuleList,
        summary="List the active modules",
        scope=Scope.MODULES_READ,
    ),
    Endpoint(
        method="GET",
        path="/api/tenant/mcp-tokens",
        level=SIGNED_IN,
        handler=tenant_tokens.list_own,
        response=McpTokenList,
        summary="List your McpTokens",
        module=modules.MCP,
    ),
    Endpoint(
        method="POST",
        path="/api/tenant/mcp-tokens",
        level=SIGNED_IN,
        handler=tenant_tokens.issue_own,
        seconds_more=HASHING_SECONDS,
        request=IssueOwnMcpTokenRequest,
        response=IssuedMcpTokenResponse,
        summary="Issue an McpToken that acts as you",
        status=HTTPStatus.CREATED,
        errors=frozenset({TOO_MANY, NOT_FOUND}),
        module=modules.MCP,
        holds_secret=True,
    ),
    Endpoint(
        method="DELETE",
        path="/api/tenant/mcp-tokens/{tokenId}",
        level=SIGNED_IN,
        handler=tenant_tokens.revoke_own,
        response=None,
        summary="Revoke one of your McpTokens",
        message="The McpToken was revoked.",
        errors=frozenset({NOT_FOUND}),
        module=modules.MCP,
    ),
)
_ASSISTANTS = (
    Endpoint(
        method="POST",
        path="/mcp",
        level=MCP,
        handler=mcp.exchange,
        request=McpMessage,
        response=McpAnswer,
        summary="Handle a message of the Model Context Protocol",
        also=((HTTPStatus.ACCEPTED, Nothing),),
        errors=frozenset({NOT_FOUND}),
        headers=mcp.HEADERS,
        module=modules.MCP,
        body_bytes_max=CONTENT_BYTES_MAX,
        is_bare=True,
    ),
)
_DESCRIBED: tuple[Endpoint, ...] = (
    *_SERVICE,
    *_AUTH,
    *_TENANT,
    *BLOG_ENDPOINTS,
    *_ASSISTANTS,
    *ADMIN_ENDPOINTS,
)

DESCRIPTION = description_of(_DESCRIBED)
ENDPOINTS = (*_DESCRIBED, endpoint_of(DESCRIPTION))
