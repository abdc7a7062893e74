"""API keys and McpTokens."""

from datetime import datetime
from typing import Any, Self
from uuid import UUID

from msgspec import UNSET, UnsetType

from tenantry.access.credentials import IssuedKey, IssuedMcpToken
from tenantry.catalog.credentials import McpToken
from tenantry.schemas.base import Instant, ListResponse, Schema
from tenantry.schemas.mcp_clients import ClientConfiguration, configurations


class ApiKeyResponse(Schema, frozen=True):
    """An API key, without its secret."""

    id: UUID
    prefix: str
    created_at: datetime
    last_used_at: datetime | None
    expires_at: datetime | None


class ApiKeyList(ListResponse[ApiKeyResponse], frozen=True):
    """The API keys of a customer."""


class IssueApiKeyRequest(Schema, frozen=True):
    """A new API key."""

    expires_at: Instant | UnsetType = UNSET


class RotateApiKeyRequest(Schema, frozen=True):
    """How long the old API key stays valid."""

    grace_period_seconds: int | UnsetType = UNSET


class IssuedApiKeyResponse(ApiKeyResponse, frozen=True):
    """A new API key, with its secret, which is shown only once."""

    key: str

    @classmethod
    def of(cls, source: IssuedKey, **more: Any) -> Self:
        """Return the representation of *source*."""
        return super().of(source.key, key=source.secret, **more)


class McpTokenResponse(Schema, frozen=True):
    """An McpToken, without its secret."""

    id: UUID
    name: str
    prefix: str
    user_id: UUID | None
    scopes: list[str]
    created_at: datetime
    expires_at: datetime
    last_used_at: datetime | None

    @classmethod
    def of(cls, source: McpToken, **more: Any) -> Self:
        """Return the representation of *source*."""
        return super().of(source, scopes=sorted(source.scopes), **more)


class McpTokenList(ListResponse[McpTokenResponse], frozen=True):
    """McpTokens."""


class IssueOwnMcpTokenRequest(Schema, frozen=True):
    """A new McpToken of the caller, and the caller's password as a confirmation."""

    name: str
    password: str
    scopes: list[str] | UnsetType = UNSET
    expires_at: Instant | UnsetType = UNSET


class IssueMcpTokenRequest(Schema, frozen=True):
    """A new McpToken, optionally bound to a user."""

    name: str
    user_id: UUID | UnsetType = UNSET
    scopes: list[str] | UnsetType = UNSET
    expires_at: Instant | UnsetType = UNSET


class IssuedMcpTokenResponse(McpTokenResponse, frozen=True):
    """A new McpToken, with its secret, which is shown only once."""

    token: str
    client_configurations: list[ClientConfiguration]

    @classmethod
    def of_issued(cls, issued: IssuedMcpToken, *, base_url: str) -> Self:
        """Return the representation of *issued*, with client configurations for *base_url*."""
        clients = configurations(base_url, issued.secret)
        return cls.of(issued.token, token=issued.secret, client_configurations=clients)
