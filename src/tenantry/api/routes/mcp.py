"""``/mcp``: the door for assistants, behind this one."""

from http import HTTPStatus

from tenantry.api.envelope import Reply
from tenantry.mcp.names import check_names
from tenantry.schemas.mcp import McpMessage
from tenantry.services import Services
from tenantry.tenant.entry import TenantContext

HEADERS = ("host", "origin", "mcp-protocol-version", "mcp-method", "mcp-name")


async def exchange(
    ctx: TenantContext,
    services: Services,
    message: McpMessage,
    *,
    host: str,
    origin: str,
    mcp_protocol_version: str,
    mcp_method: str,
    mcp_name: str,
) -> Reply:
    """Answer one message of the Model Context Protocol."""
    # The SDK takes a second to import; `app` has done so where requests are served.
    from tenantry.mcp.asked import Asked  # noqa: PLC0415
    from tenantry.mcp.server import Headers, answer  # noqa: PLC0415

    check_names(services.settings, host=host, origin=origin)
    headers = Headers(mcp_protocol_version, mcp_method, mcp_name)
    outcome = await answer(Asked(ctx, services), message, headers)
    return Reply(outcome.answer, HTTPStatus(outcome.status), [])
