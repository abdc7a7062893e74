"""API keys and McpTokens, and the configurations of MCP clients with a token.

Each client documents its own format.
"""

import json
import shlex
from datetime import datetime
from typing import Any, ClassVar, Self
from urllib.parse import urlsplit
from uuid import UUID

import msgspec
from msgspec import UNSET, UnsetType

from tenantry.access.credentials import IssuedKey, IssuedMcpToken
from tenantry.catalog.credentials import ApiKey, McpToken
from tenantry.schemas.base import Instant, ListResponse, Schema

SERVER_NAME = "tenantry"
HEADER = "X-Mcp-Token"
# The variable that the bridge reads the token from.
BRIDGE_VARIABLE = "MCP_TOKEN"
# Hosts for which the bridge takes http.
BRIDGE_LOCAL = frozenset({"localhost", "127.0.0.1"})


class ApiKeyResponse(Schema, frozen=True):
    """An API key, without its secret."""

    represents: ClassVar[type] = ApiKey

    id: UUID
    prefix: str
    created_at: datetime
    last_used_at: datetime | None
    expires_at: datetime | None


class ApiKeyList(ListResponse[ApiKeyResponse], frozen=True):
    """The API keys of a customer."""


class IssueApiKeyRequest(Schema, frozen=True):
    """A new API key.

    Attributes:
        expires_at: When the key becomes invalid: a future time. Omitted: never.
    """

    expires_at: Instant | UnsetType = UNSET


class RotateApiKeyRequest(Schema, frozen=True):
    """How long the old API key stays valid.

    Attributes:
        grace_period_seconds: For how many seconds, from 0 to 2,592,000 (30 days). Omitted: 86,400
            (a day).
    """

    grace_period_seconds: int | UnsetType = UNSET


class IssuedApiKeyResponse(ApiKeyResponse, frozen=True):
    """A new API key, with its secret, which is shown only once.

    Attributes:
        key: The secret, which is sent as `X-Api-Key`.
    """

    holds_secret: ClassVar[bool] = True

    key: str

    @classmethod
    def of(cls, source: IssuedKey, **more: Any) -> Self:
        """Return the representation of *source*."""
        return super().of(source.key, key=source.secret, **more)


class McpTokenResponse(Schema, frozen=True):
    """An McpToken, without its secret."""

    represents: ClassVar[type] = McpToken

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
    """A new McpToken of the caller, and the caller's password as a confirmation.

    Attributes:
        name: What the token is for: one line of 1 to 100 characters.
        password: The current password of the caller.
        scopes: What the token may do, at least one. Omitted: read.
        expires_at: When it becomes invalid, at most 365 days from now. Omitted: in 30 days.
    """

    name: str
    password: str
    scopes: list[str] | UnsetType = UNSET
    expires_at: Instant | UnsetType = UNSET


class IssueMcpTokenRequest(Schema, frozen=True):
    """A new McpToken, optionally bound to a user.

    Attributes:
        user_id: The user for whom the token acts. Omitted: it is bound to no user.
    """

    represents: ClassVar[type] = IssueOwnMcpTokenRequest

    name: str
    user_id: UUID | UnsetType = UNSET
    scopes: list[str] | UnsetType = UNSET
    expires_at: Instant | UnsetType = UNSET


class ClientConfiguration(Schema, frozen=True):
    """The configuration of one MCP client.

    Attributes:
        client: The name of the program.
        place: The file or terminal that the text belongs in.
        text: The configuration, with the secret of the token.
    """

    client: str
    place: str
    text: str


class IssuedMcpTokenResponse(McpTokenResponse, frozen=True):
    """A new McpToken, with its secret, which is shown only once.

    Attributes:
        token: The secret, which is sent as `X-Mcp-Token`.
        client_configurations: How common programs are connected with this token.
    """

    holds_secret: ClassVar[bool] = True

    token: str
    client_configurations: list[ClientConfiguration]

    @classmethod
    def of_issued(cls, issued: IssuedMcpToken, *, base_url: str) -> Self:
        """Return the representation of *issued*, with client configurations for *base_url*."""
        clients = configurations(base_url, issued.secret)
        return cls.of(issued.token, token=issued.secret, client_configurations=clients)


def configurations(base_url: str, token: str) -> list[ClientConfiguration]:
    """Return configurations for common clients, with the URL of the service and an McpToken."""
    url = f"{base_url}/mcp"
    headers = {HEADER: token}
    return [
        ClientConfiguration("Claude Code", "a terminal", _claude_code(url, token)),
        ClientConfiguration(
            "Cursor",
            "~/.cursor/mcp.json",
            _json({"mcpServers": {SERVER_NAME: {"url": url, "headers": headers}}}),
        ),
        ClientConfiguration(
            "VS Code",
            ".vscode/mcp.json",
            _json({"servers": {SERVER_NAME: {"type": "http", "url": url, "headers": headers}}}),
        ),
        ClientConfiguration("Codex", "~/.codex/config.toml", _codex(url, token)),
        ClientConfiguration(
            "Claude Desktop, and others that take commands only",
            "claude_desktop_config.json",
            _json({"mcpServers": {SERVER_NAME: _bridge(url, token)}}),
        ),
    ]


def _claude_code(url: str, token: str) -> str:
    # Source: https://code.claude.com/docs/en/mcp
    words = ["claude", "mcp", "add", "--transport", "http", SERVER_NAME, url]
    return shlex.join([*words, "--header", f"{HEADER}: {token}"])


def _codex(url: str, token: str) -> str:
    # Source: https://developers.openai.com/codex/mcp. What JSON quotes, TOML reads.
    return (
        f"[mcp_servers.{SERVER_NAME}]\n"
        f"url = {json.dumps(url)}\n"
        f"http_headers = {{ {json.dumps(HEADER)} = {json.dumps(token)} }}"
    )


def _bridge(url: str, token: str) -> dict[str, Any]:
    """Return the configuration of a local program that forwards requests to the server.

    Source: https://github.com/geelen/mcp-remote. Some clients split an argument at a space.
    """
    parts = urlsplit(url)
    is_taken = parts.scheme == "https" or parts.hostname in BRIDGE_LOCAL
    return {
        "command": "npx",
        "args": [
            "-y",
            "mcp-remote",
            url,
            "--header",
            f"{HEADER}:${{{BRIDGE_VARIABLE}}}",
            *([] if is_taken else ["--allow-http"]),
        ],
        "env": {BRIDGE_VARIABLE: token},
    }


def _json(value: object) -> str:
    return msgspec.json.format(msgspec.json.encode(value), indent=2).decode()
