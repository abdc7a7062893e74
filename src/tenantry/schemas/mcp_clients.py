"""Configurations for MCP clients, with the URL of the server and the token.

Each client documents its own format.
"""

import json
import shlex
from typing import Any
from urllib.parse import urlsplit

import msgspec

from tenantry.schemas.base import Schema

SERVER_NAME = "tenantry"
HEADER = "X-Mcp-Token"
# The variable that the bridge reads the token from.
BRIDGE_VARIABLE = "MCP_TOKEN"
# Hosts for which the bridge takes http.
BRIDGE_LOCAL = frozenset({"localhost", "127.0.0.1"})


class ClientConfiguration(Schema, frozen=True):
    """The configuration of one MCP client: `text` belongs in the file or terminal `place`."""

    client: str
    place: str
    text: str


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
