"""``/mcp``: the endpoint of the Model Context Protocol."""

from tenantry.api.access_levels import MCP
from tenantry.api.endpoints import ACCEPTED, CONTENT_BYTES_MAX, NOT_FOUND, endpoint
from tenantry.api.envelope import Reply
from tenantry.api.origins import check_origin
from tenantry.schemas.base import Nothing
from tenantry.schemas.mcp import McpAnswer, McpMessage
from tenantry.services import Services
from tenantry.tenant import modules
from tenantry.tenant.entry import TenantContext

HEADERS = ("host", "origin", "mcp-protocol-version", "mcp-method", "mcp-name")


@endpoint(
    "POST",
    "/mcp",
    MCP,
    response=McpAnswer,
    also=((ACCEPTED, Nothing),),
    errors=[NOT_FOUND],
    headers=HEADERS,
    module=modules.MCP,
    writes=False,  # each tool is checked when it is called
    is_bare=True,
    body_bytes_max=CONTENT_BYTES_MAX,
)
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
    """Handle a message of the Model Context Protocol."""
    # The SDK takes a second to import; a serving process has imported it in `app`.
    from tenantry.mcp.call import Call  # noqa: PLC0415
    from tenantry.mcp.server import Headers, answer  # noqa: PLC0415

    check_origin(services.settings, host=host, origin=origin)
    headers = Headers(mcp_protocol_version, mcp_method, mcp_name)
    status, answered = await answer(Call(ctx, services), message, headers)
    return Reply(answered, status, [])
