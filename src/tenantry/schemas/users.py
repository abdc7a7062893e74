"""Logins, users and their profiles, and admins."""

from datetime import datetime
from uuid import UUID

from msgspec import UNSET, UnsetType

from tenantry.access.tokens import IssuedToken
from tenantry.schemas.base import ListResponse, PageResponse, Schema


class LoginRequest(Schema, frozen=True):
    """An e-mail address and a password."""

    email: str
    password: str


class LoginResult(IssuedToken, Schema, frozen=True):
    """A bearer token."""


class LogoutRequest(Schema, frozen=True):
    """Which sessions to end: this one, or all of the caller's."""

    everywhere: bool = False


class ChangePasswordRequest(Schema, frozen=True):
    """The current password, and the new one. McpTokens end unless they are kept."""

    current_password: str
    new_password: str
    keep_mcp_tokens: bool = False


class UpdateProfileRequest(Schema, frozen=True):
    """How a user wants to be called and reached."""

    full_name: str
    email: str


class TenantUserProfile(Schema, frozen=True):
    """A user as others may see them."""

    id: UUID
    email: str
    full_name: str
    is_active: bool
    created_at: datetime


class TenantUserPage(PageResponse[TenantUserProfile], frozen=True):
    """One page of the users of a tenant."""


class CreateUserRequest(Schema, frozen=True):
    """A new user."""

    email: str
    full_name: str
    password: str


class UpdateUserRequest(Schema, frozen=True):
    """What is to change of a user; what is left out stays."""

    full_name: str | UnsetType = UNSET
    email: str | UnsetType = UNSET
    is_active: bool | UnsetType = UNSET
    password: str | UnsetType = UNSET


class AdminResponse(Schema, frozen=True):
    """An admin."""

    id: UUID
    email: str
    is_active: bool
    created_at: datetime


class AdminList(ListResponse[AdminResponse], frozen=True):
    """The admins."""


class CreateAdminRequest(Schema, frozen=True):
    """A new admin."""

    email: str
    password: str


class UpdateAdminRequest(Schema, frozen=True):
    """The changes of an admin; omitted members are not changed."""

    is_active: bool | UnsetType = UNSET
    password: str | UnsetType = UNSET
