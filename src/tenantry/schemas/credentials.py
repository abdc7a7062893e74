"""API keys and McpTokens."""

from datetime import datetime
from uuid import UUID

from msgspec import UNSET, UnsetType

from tenantry.access.credentials import IssuedKey, IssuedMcpToken
from tenantry.catalog.credentials import ApiKey, McpToken
from tenantry.schemas.base import Instant, Schema
from tenantry.schemas.mcp_clients import ClientConfiguration, configurations


class ApiKeyResponse(Schema, frozen=True):
    """An API key, without its secret."""

    id: UUID
    prefix: str
    created_at: datetime
    last_used_at: datetime | None
    expires_at: datetime | None

    @classmethod
    def of(cls, key: ApiKey) -> "ApiKeyResponse":
        """Return the representation of *key*."""
        return cls(key.id, key.prefix, key.created_at, key.last_used_at, key.expires_at)


class ApiKeyList(Schema, frozen=True):
    """The API keys of a customer."""

    items: list[ApiKeyResponse]


class IssueApiKeyRequest(Schema, frozen=True):
    """A new API key."""

    expires_at: Instant | UnsetType = UNSET


class RotateApiKeyRequest(Schema, frozen=True):
    """How long the old API key is to live beside the new one."""

    grace_period_seconds: int | UnsetType = UNSET


class IssuedApiKeyResponse(Schema, frozen=True):
    """A new API key, with its secret, which is shown this once."""

    id: UUID
    prefix: str
    created_at: datetime
    last_used_at: datetime | None
    expires_at: datetime | None
    key: str

    @classmethod
    def of(cls, issued: IssuedKey) -> "IssuedApiKeyResponse":
        """Return the representation of *issued*."""
        key = issued.key
        return cls(
            key.id, key.prefix, key.created_at, key.last_used_at, key.expires_at, issued.secret
        )


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
    def of(cls, token: McpToken) -> "McpTokenResponse":
        """Return the representation of *token*."""
        return cls(*_members(token))


class McpTokenList(Schema, frozen=True):
    """McpTokens."""

    items: list[McpTokenResponse]


class IssueOwnMcpTokenRequest(Schema, frozen=True):
    """A new McpToken of the caller, who gives the password once more."""

    name: str
    password: str
    scopes: list[str] | UnsetType = UNSET
    expires_at: Instant | UnsetType = UNSET


class IssueMcpTokenRequest(Schema, frozen=True):
    """A new McpToken, bound to a user or not."""

    name: str
    user_id: UUID | UnsetType = UNSET
    scopes: list[str] | UnsetType = UNSET
    expires_at: Instant | UnsetType = UNSET


class IssuedMcpTokenResponse(Schema, frozen=True):
    """A new McpToken, with its secret, which is shown this once."""

    id: UUID
    name: str
    prefix: str
    user_id: UUID | None
    scopes: list[str]
    created_at: datetime
    expires_at: datetime
    last_used_at: datetime | None
    token: str
    client_configurations: list[ClientConfiguration]

    @classmethod
    def of(cls, issued: IssuedMcpToken, *, base_url: str) -> "IssuedMcpTokenResponse":
        """Return the representation of *issued*, for a service that clients reach at a URL."""
        clients = configurations(base_url, issued.secret)
        return cls(*_members(issued.token), issued.secret, clients)


def _members(
    token: McpToken,
) -> tuple[UUID, str, str, UUID | None, list[str], datetime, datetime, datetime | None]:
    return (
        token.id,
        token.name,
        token.prefix,
        token.user_id,
        sorted(token.scopes),
        token.created_at,
        token.expires_at,
        token.last_used_at,
    )
