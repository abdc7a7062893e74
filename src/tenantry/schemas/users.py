"""Logins, users and their profiles, and admins."""

from datetime import datetime
from typing import ClassVar
from uuid import UUID

from msgspec import UNSET, UnsetType

from tenantry.access.principal import TenantRole
from tenantry.access.tokens import IssuedToken
from tenantry.schemas.base import ListResponse, PageResponse, Schema


class LoginRequest(Schema, frozen=True):
    """An e-mail address and a password.

    Attributes:
        password: The password, at most 1,024 characters.
    """

    email: str
    password: str


class LoginResult(IssuedToken, Schema, frozen=True):
    """A bearer token."""

    holds_secret: ClassVar[bool] = True


class LogoutRequest(Schema, frozen=True):
    """Which sessions to end: this one, or all of the caller's.

    Attributes:
        everywhere: True to end all sessions of the caller, false for this one.
    """

    everywhere: bool = False


class ChangePasswordRequest(Schema, frozen=True):
    """The current password, and the new one. McpTokens end unless they are kept.

    Attributes:
        current_password: The password until now.
        new_password: At least as long as the settings say (`TENANTRY_PASSWORD_MIN_LENGTH`: 8), at
            most 1,024 characters, and no common one.
        keep_mcp_tokens: True to keep the McpTokens that are bound to the caller valid.
    """

    current_password: str
    new_password: str
    keep_mcp_tokens: bool = False


class UpdateProfileRequest(Schema, frozen=True):
    """How a user wants to be called and reached."""

    full_name: str
    email: str


class TenantUserProfile(Schema, frozen=True):
    """A user as others may see them.

    Attributes:
        is_active: False for a suspended user, who cannot log in.
    """

    id: UUID
    email: str
    full_name: str
    is_active: bool
    created_at: datetime


class TenantUserResponse(TenantUserProfile, frozen=True):
    """A user, as those who manage the users of the tenant see them.

    Attributes:
        role: What the user may do: `owner`, `editor`, `author` or `reader`.
    """

    role: str


class RoleResponse(Schema, frozen=True):
    """The role of the caller in the tenant.

    Attributes:
        role: What the caller may do: `owner`, `editor`, `author` or `reader`.
    """

    role: str


class TenantUserPage(PageResponse[TenantUserResponse], frozen=True):
    """One page of the users of a tenant."""


class CreateUserRequest(Schema, frozen=True):
    """A new user.

    Attributes:
        password: At least as long as the settings say (`TENANTRY_PASSWORD_MIN_LENGTH`: 8), at most
            1,024 characters, and no common one.
    """

    email: str
    full_name: str
    password: str


class CreateTenantUserRequest(CreateUserRequest, frozen=True):
    """A new user of a tenant.

    Attributes:
        role: What the user may do; an `owner` by default.
    """

    role: TenantRole = TenantRole.OWNER


class UpdateUserRequest(Schema, frozen=True):
    """What is to change of a user; what is left out stays.

    Attributes:
        is_active: False suspends the user, and ends the sessions; true activates.
        password: A new password, with which all sessions of the user end. The rules are those of a
            new user.
        role: What the user may do, from their next request on. The last active owner stays one.
    """

    full_name: str | UnsetType = UNSET
    email: str | UnsetType = UNSET
    is_active: bool | UnsetType = UNSET
    password: str | UnsetType = UNSET
    role: TenantRole | UnsetType = UNSET


class AdminResponse(Schema, frozen=True):
    """An admin.

    Attributes:
        is_active: False for a suspended admin, who cannot log in.
    """

    id: UUID
    email: str
    is_active: bool
    created_at: datetime


class AdminList(ListResponse[AdminResponse], frozen=True):
    """The admins."""


class CreateAdminRequest(Schema, frozen=True):
    """A new admin."""

    represents: ClassVar[type] = CreateUserRequest

    email: str
    password: str


class UpdateAdminRequest(Schema, frozen=True):
    """The changes of an admin; omitted members are not changed.

    Attributes:
        is_active: False suspends the admin, and ends the sessions; true activates.
        password: A new password, with which all sessions of the admin end. The rules are those of a
            new admin.
    """

    is_active: bool | UnsetType = UNSET
    password: str | UnsetType = UNSET
