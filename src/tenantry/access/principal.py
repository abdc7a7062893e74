"""Roles, scopes, and the context of an admin."""

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from uuid import UUID

from tenantry.kit.context import OperationContext


class Role(StrEnum):
    """Whether a person is an admin or a tenant's user; the values are those of the wire."""

    ADMIN = "Admin"
    TENANT_USER = "TenantUser"


class TenantRole(StrEnum):
    """What a user may do in their tenant; the values are those of the wire and of the database.

    It is never in a token: the tenant's database has it.
    """

    OWNER = "owner"
    """Everything, and manages the users, API keys and McpTokens of the tenant."""
    EDITOR = "editor"
    """Reads and writes all posts."""
    AUTHOR = "author"
    """Reads all posts, and writes their own."""
    READER = "reader"
    """Reads all posts, and writes none."""


class Scope(StrEnum):
    """A permission of an McpToken (OAuth 2.0 scope, RFC 6749 section 3.3)."""

    CONTENT_READ = "content:read"
    CONTENT_DRAFT = "content:draft"
    CONTENT_PUBLISH = "content:publish"
    CONTENT_WRITE = "content:write"
    PROFILE_READ = "profile:read"
    PROFILE_WRITE = "profile:write"
    MODULES_READ = "modules:read"


ALL_SCOPES = frozenset(scope.value for scope in Scope)
READ_SCOPES = frozenset(scope for scope in ALL_SCOPES if scope.endswith(":read"))
_PARTS_OF_WRITING = frozenset({Scope.CONTENT_DRAFT, Scope.CONTENT_PUBLISH})
WRITES_CONTENT = _PARTS_OF_WRITING | {Scope.CONTENT_WRITE}
"""What a reader may not do, whatever the credential."""


def allows(scopes: frozenset[str], scope: Scope) -> bool:
    """Return whether the *scopes* of an McpToken include *scope*; `content:write` has two."""
    return scope in scopes or (scope in _PARTS_OF_WRITING and Scope.CONTENT_WRITE in scopes)


class AdminContext(OperationContext, frozen=True, kw_only=True):
    """The context of an admin. Only `access.identify` creates it, after authentication.

    Attributes:
        email: The admin's address.
        admin_id: The admin.
        jti: The session.
        session_began_at: When its password was verified.
        session_expires_at: When the presented token expires.
        signing_key_id: The key that signed the presented token.
        generation: Of the admin's sessions.
    """

    email: str
    admin_id: UUID
    jti: str
    session_began_at: datetime
    session_expires_at: datetime
    signing_key_id: UUID
    generation: int


@dataclass(frozen=True, slots=True)
class Person:
    """The admin or user that a bearer token is issued to.

    Attributes:
        tenant_id: None for an admin.
        generation: The current generation of the person's sessions.
    """

    id: UUID
    email: str
    role: Role
    generation: int
    tenant_id: UUID | None = None
