"""What a call of a tool costs that does nothing: the SDK's own server, as its tutorial has it."""

import logging
import sys

from mcp.server import MCPServer
from mcp.server.transport_security import TransportSecuritySettings

from harness.bench.servers.run import run

server = MCPServer("empty")


@server.tool()
async def nothing(slug: str) -> str:  # noqa: ARG001 - the same arguments
    """Do nothing."""
    return "done"


if __name__ == "__main__":
    # It logs every request that it has begun to process.
    logging.getLogger("mcp").setLevel(logging.WARNING)
    run(
        server.streamable_http_app(
            stateless_http=True,
            json_response=True,
            transport_security=TransportSecuritySettings(enable_dns_rebinding_protection=False),
        ),
        int(sys.argv[1]),
        lifespan="on",
    )
