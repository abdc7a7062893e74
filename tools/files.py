"""The files for other programs that are generated from the code.

``make docs`` writes them: the OpenAPI description, a collection of requests, and the settings.
"""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

from pydantic import SecretStr
from pydantic.fields import FieldInfo

from tenantry.api.endpoints import Endpoint
from tenantry.api.examples import example_of, example_of_parameter
from tenantry.api.table import ENDPOINTS, description
from tenantry.cli import recorded
from tenantry.cli.main import COMMANDS
from tenantry.cli.printing import output
from tenantry.schemas.base import Nothing
from tenantry.settings import PREFIX, Settings

FOLDER = Path(__file__).parents[1]
MADE = "Generated from the code by `make docs`; do not edit."

WIDTH = 96
# Settings without a default that could be shown.
SAMPLES = {
    "catalog_url": "postgresql://tenantry:change-me@db.example.com/tenantry_catalog",
    "tenant_server_url": "postgresql://tenantry:change-me@db.example.com/postgres",
    "secret_key": "<the output of: openssl rand -hex 32>",
    "trusted_proxies": "127.0.0.1",
    "cors_origins": "https://www.example.com",
    "tenant_migrations": "migrations",
}

# Values of the collection that no endpoint's example has.
VARIABLES = {
    "host": "http://127.0.0.1:8000",
    "adminEmail": "ada@example.com",
    "adminPassword": "…",
    "apiKey": "tnk_…",
    "mcpToken": "tnm_…",
    "userEmail": "grace@acme.example.com",
    "userPassword": "…",
    "adminToken": "{{loginAdminAuth.response.body.data.token}}",
    "userToken": "{{loginTenantAuth.response.body.data.token}}",
}
LOGINS = {
    "/api/admin/auth/login": {"email": "{{adminEmail}}", "password": "{{adminPassword}}"},
    "/api/tenant/auth/login": {"email": "{{userEmail}}", "password": "{{userPassword}}"},
}
CREDENTIALS = {
    "Admin": ["Authorization: Bearer {{adminToken}}"],
    "Tenant login": ["X-Api-Key: {{apiKey}}"],
    "Tenant": ["X-Api-Key: {{apiKey}}", "Authorization: Bearer {{userToken}}"],
    "Public": ["X-Api-Key: {{apiKey}}"],
    "MCP": ["X-Mcp-Token: {{mcpToken}}"],
}


def files() -> dict[str, str]:
    """Return the text of every file, by its name."""
    return {
        "openapi.json": output.json_text(description()),
        "requests.http": _collection(),
        ".env.example": _settings(),
        "src/tenantry/cli/commands.json": _commands(),
    }


def _commands() -> str:
    found = {one.name: recorded.record(one.load()) for one in COMMANDS}
    return json.dumps(found, indent=1, ensure_ascii=False) + "\n"


# The collection


def _collection() -> str:
    ids = {name: example_of_parameter(name, {}) for one in ENDPOINTS for name in _names(one)}
    head = [
        f"# {MADE}",
        "#",
        "# Every endpoint, for the HTTP clients of editors: set the values below, send the two",
        "# logins, and then any request. Replace the ids by those of your resources.",
        "",
        *(f"@{name} = {value}" for name, value in {**VARIABLES, **ids}.items()),
    ]
    return "\n".join(head) + "\n\n" + "\n".join(_request(one) for one in ENDPOINTS)


def _request(endpoint: Endpoint) -> str:
    level = endpoint.level.name.partition(",")[0]
    path = endpoint.path.replace("{", "{{").replace("}", "}}")
    query = "" if endpoint.reads_body else _query(endpoint)
    lines = [
        f"### {endpoint.summary}",
        f"# @name {endpoint.operation_id}",
        f"{endpoint.method} {{{{host}}}}{path}{query}",
        *CREDENTIALS.get(level, []),
    ]
    if endpoint.reads_body and endpoint.request is not Nothing:
        body = LOGINS.get(endpoint.path) or example_of(endpoint.request, is_request=True)
        lines += ["Content-Type: application/json", "", json.dumps(body, ensure_ascii=False)]
    return "\n".join(lines) + "\n"


def _query(endpoint: Endpoint) -> str:
    """Return the required parameters; the description has the others."""
    operation: Any = description().paths.get(endpoint.path, {}).get(endpoint.method.lower(), {})
    required = [
        f"{one['name']}={quote(str(one['example']))}"
        for one in operation.get("parameters", [])
        if one["in"] == "query" and one["required"]
    ]
    return f"?{'&'.join(required)}" if required else ""


def _names(endpoint: Endpoint) -> list[str]:
    return [part[1:-1] for part in endpoint.path.split("/") if part.startswith("{")]


# Settings


def _settings() -> str:
    head = [
        f"# {MADE}",
        "#",
        "# Copy it to `.env` in the working directory of the process, readable by its user only",
        "# (chmod 600), and uncomment what you set. The environment takes precedence.",
    ]
    return "\n".join([*head, *_setting_lines()]) + "\n"


def _setting_lines() -> Iterator[str]:
    for name, field in Settings.model_fields.items():
        yield ""
        yield from _wrapped((field.description or "").replace("`", ""))
        yield f"#{PREFIX}{name.upper()}={SAMPLES.get(name) or _default(field)}"


def _default(field: FieldInfo) -> str:
    value = field.get_default(call_default_factory=True)
    return str(value.get_secret_value() if isinstance(value, SecretStr) else value)


def _wrapped(text: str) -> Iterator[str]:
    line = "#"
    for word in text.split():
        if len(line) + len(word) >= WIDTH:
            yield line
            line = "#"
        line += f" {word}"
    yield line
