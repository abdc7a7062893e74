"""The command: create the sample tenants, serve them, and print URLs, logins and requests."""

import asyncio
import secrets
import shlex
from pathlib import Path
from typing import Annotated

import msgspec
import typer

from tenantry.cli import session
from tenantry.cli.commands import new_group
from tenantry.cli.demo.folder import fresh
from tenantry.cli.demo.stage import Login, Stage, set_stage
from tenantry.cli.printing import output, reports
from tenantry.cli.serve import Port
from tenantry.cli.serving import server
from tenantry.kit.errors import Unavailable
from tenantry.schemas.base import Schema
from tenantry.schemas.mcp import McpMessage
from tenantry.schemas.migrations import MigrationResultResponse
from tenantry.settings import Settings, read_settings

HOST = "127.0.0.1"
TENANTS = 12
# The tokens in the printed requests should work for a while.
TOKEN_MINUTES = 24 * 60
GRACE_SECONDS = 3
# The newest revision of MCP in which a request needs no session.
PROTOCOL_VERSION = "2025-11-25"
LIST_POSTS = McpMessage(
    "2.0", "tools/call", 1, msgspec.Raw(b'{"name":"list_posts","arguments":{"status":"published"}}')
)
SECRET_BYTES = 32


class RealDatabaseNamed(Unavailable):
    """The demo uses only its own folder; the message names the setting with another database."""


class DemoResponse(Schema, frozen=True):
    """A running demo: its URLs, logins and credentials."""

    console: str
    url: str
    migration: MigrationResultResponse
    admin: Login
    tenant: str
    user: Login
    api_key: str
    mcp_token: str
    requests: list[str]


group = new_group()


@group.command("demo")
def demo(
    *,
    port: Port = None,
    folder: Annotated[
        Path, typer.Option(help="A folder for the demo only. Emptied at each start.")
    ] = Path("demo-data"),
    tenants: Annotated[int, typer.Option(min=1, max=10_000, help="Sample tenants.")] = TENANTS,
) -> None:
    """Create sample tenants and serve them.

    One of their databases is broken. All of them are migrated. Ctrl-C ends the demo.
    """
    settings = _settings(folder, port)
    with server.listening(settings.host, settings.port) as [sockets], fresh(folder):
        stage = asyncio.run(set_stage(settings, tenants_wanted=tenants))

        def announce(_has_admin: bool) -> None:  # noqa: FBT001 - an argument of a callback
            response = _response(settings, stage)
            if not output.shown_as_json(response):
                _show(response)
            output.results().flush()

        if not output.wants_json():
            reports.show_outcome(stage.ended)
        server.serve(settings, sockets, on_answering=announce, grace_seconds=GRACE_SECONDS)


def _settings(folder: Path, port: int | None) -> Settings:
    """Return the settings of the demo.

    Raises:
        BadSettings: A setting is invalid or unknown.
        RealDatabaseNamed: They contain another database.
    """
    # This key is only for reading the settings, which may require one.
    named = read_settings(secret_key=secrets.token_hex(SECRET_BYTES))
    elsewhere = {
        "TENANTRY_CATALOG_URL": named.catalog_url.get_secret_value(),
        "TENANTRY_TENANT_SERVER_URL": named.tenant_server_url.get_secret_value(),
        "TENANTRY_TENANT_SERVERS": named.tenant_servers,
    }
    for name, value in elsewhere.items():
        if value:
            raise RealDatabaseNamed(f"The demo uses only its own folder: unset {name} for it.")
    return session.configure(
        log_level="error",
        host=HOST,
        port=port,
        data_dir=folder,
        tenant_migrations=folder / "migrations",
        secret_key="",
        password_min_length=8,
        token_minutes=TOKEN_MINUTES,
    )


def _response(settings: Settings, stage: Stage) -> DemoResponse:
    url = settings.local_url
    return DemoResponse(
        console=f"{url}/console",
        url=url,
        migration=MigrationResultResponse.of_run(stage.ended.run, stage.ended.items),
        admin=stage.admin,
        tenant=stage.tenant.tenant.name,
        user=stage.owner,
        api_key=stage.tenant.key.secret,
        mcp_token=stage.mcp_token,
        requests=_requests(url, stage),
    )


def _requests(url: str, stage: Stage) -> list[str]:
    key = f"X-Api-Key: {stage.tenant.key.secret}"
    body = msgspec.json.encode(stage.owner).decode()
    return [
        _curl(f"{url}/api/tenant/auth/login", key, "Content-Type: application/json", body=body),
        _curl(f"{url}/api/public/blog/posts", key),
        _curl(
            f"{url}/api/admin/tenants/migration-history",
            f"Authorization: Bearer {stage.admin_token}",
        ),
        _curl(
            f"{url}/mcp",
            f"X-Mcp-Token: {stage.mcp_token}",
            f"MCP-Protocol-Version: {PROTOCOL_VERSION}",
            "Content-Type: application/json",
            body=msgspec.json.encode(LIST_POSTS).decode(),
        ),
    ]


def _curl(url: str, *headers: str, body: str | None = None) -> str:
    words = ["curl", "-sS", "-w", r"\n", url]
    for header in headers:
        words += ["-H", header]
    if body is not None:
        words += ["-d", body]
    return shlex.join(words)


def _show(response: DemoResponse) -> None:
    output.show_line()
    output.show_attributes(
        {
            "console": response.console,
            "API": response.url,
            "admin": f"{response.admin.email}  {response.admin.password}",
            "tenant": response.tenant,
            "user": f"{response.user.email}  {response.user.password}",
            "API key": response.api_key,
            "McpToken": response.mcp_token,
        }
    )
    output.show_line()
    output.show_line("Log in as the user, read the posts, read the migration history, call a tool:")
    output.show_line()
    # Unwrapped: a line that is broken at the width of the terminal does not work when pasted.
    output.results().writelines(f"{request}\n" for request in response.requests)
    output.show_line()
    output.show_line("Ctrl-C ends the demo. Each start begins with new data.")
