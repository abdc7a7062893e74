"""From what a tool returns or raises to the result that the client gets."""

from collections.abc import Mapping
from typing import Any

import msgspec
import structlog

from tenantry.kit.errors import TenantryError, Unavailable
from tenantry.mcp.asked import Asked
from tenantry.migration.errors import explain

Json = dict[str, Any]

_INTERNAL = "Something went wrong on our side. It is logged under the request id {}."

_encode = msgspec.json.Encoder().encode
_log = structlog.get_logger(__name__)


def told(data: msgspec.Struct) -> Json:
    """Return the result that tells *data*: as values, and as text for clients without them."""
    # "complete" is what the newest revision wants to be told, and those before it leave out.
    return {
        "content": [{"type": "text", "text": _encode(data).decode()}],
        "structuredContent": msgspec.to_builtins(data),
        "resultType": "complete",
    }


def refused(asked: Asked, tool: str, error: Exception, names: Mapping[str, str]) -> Json:
    """Return the result that tells *error*, in words that a model can act upon.

    What was refused on purpose says why. Of anything else only the log knows.

    Args:
        asked: Who asked.
        tool: Its name.
        error: What it raised.
        names: Of its arguments, where the operation calls them otherwise.
    """
    request_id = asked.ctx.request_id
    if not isinstance(error, TenantryError):
        _log.error("tool failed", tool=tool, request_id=request_id, exc_info=error)
        return _error(_INTERNAL.format(request_id))
    message = error.message
    for theirs, ours in names.items():
        message = message.replace(f"`{theirs}`", f"`{ours}`")
    if isinstance(error, Unavailable):
        if isinstance(error.__cause__, Exception):
            cause = explain(error.__cause__)
            _log.warning("unavailable", tool=tool, request_id=request_id, cause=cause)
        message += f" Try again in {error.retry_after_seconds} s."
    return _error(message)


def _error(message: str) -> Json:
    return {
        "content": [{"type": "text", "text": message}],
        "isError": True,
        "resultType": "complete",
    }
