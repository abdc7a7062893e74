"""Convert what a tool returns or raises into a result for the client."""

from collections.abc import Mapping
from typing import Any

import msgspec
import structlog

from tenantry.kit.errors import TenantryError, Unavailable
from tenantry.mcp.call import Call
from tenantry.migration.errors import explain

Json = dict[str, Any]

_INTERNAL = "Something went wrong on our side. It is logged under the request id {}."

_encode = msgspec.json.Encoder().encode
_log = structlog.get_logger(__name__)


def success(data: msgspec.Struct, *, as_values: bool = True) -> Json:
    """Return the result with *data*: as text, and with *as_values* as values too."""
    # The newest revision of the protocol requires "complete"; earlier ones ignore it.
    result: Json = {
        "content": [{"type": "text", "text": _encode(data).decode()}],
        "resultType": "complete",
    }
    return result | ({"structuredContent": msgspec.to_builtins(data)} if as_values else {})


def failure(call: Call, tool: str, error: Exception, names: Mapping[str, str]) -> Json:
    """Return the result for *error*, with a message for the model.

    The message of a `TenantryError` is returned, with the tool's *names* of arguments instead of
    those in the operation. Other errors are only logged.
    """
    request_id = call.ctx.request_id
    if not isinstance(error, TenantryError):
        _log.error("tool failed", tool=tool, request_id=request_id, exc_info=error)
        return _error(_INTERNAL.format(request_id))
    message = message_of(call, error)
    for in_operation, in_tool in names.items():
        message = message.replace(f"`{in_operation}`", f"`{in_tool}`")
    return _error(message)


def message_of(call: Call, error: TenantryError) -> str:
    """Return the message of *error*, with the time of the next attempt; log what is away."""
    if not isinstance(error, Unavailable):
        return error.message
    if isinstance(error.__cause__, Exception):
        cause = explain(error.__cause__)
        _log.warning("unavailable", request_id=call.ctx.request_id, cause=cause)
    return f"{error.message} Try again in {error.retry_after_seconds} s."


def _error(message: str) -> Json:
    return {
        "content": [{"type": "text", "text": message}],
        "isError": True,
        "resultType": "complete",
    }
