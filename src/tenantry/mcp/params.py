"""The parameters of a message, within limits that are checked before they are decoded.

msgspec skips a megabyte of JSON in milliseconds, but takes a second to decode it, if it contains
half a million lists, or numbers near the largest double. The SDK takes longer.
"""

import math
from typing import Any

import mcp_types as types
import msgspec
from mcp.shared.exceptions import MCPError
from msgspec import UNSET, Raw, UnsetType, field

from tenantry.schemas.mcp import NULL, McpMessage

# If they are nested deeper than 255 levels, the SDK takes seconds and gigabytes for 30 kB. Clients
# send about twenty values.
PARAMS_BYTES_MAX = 32_768
PARAMS_VALUES_MAX = 200
_TOO_LARGE = (
    f"`params` must have at most {PARAMS_BYTES_MAX:,} bytes and {PARAMS_VALUES_MAX} values, "
    "besides the arguments of a tool."
)
_NOT_VALID = "`params` is not valid JSON in UTF-8, or a number in it is too large."
_NO_ARGUMENTS = "`arguments` must be an object."


class _ToolCall(msgspec.Struct, omit_defaults=True):
    """The parameters of `tools/call`; other members are ignored."""

    name: Raw | UnsetType = UNSET
    meta: Raw | UnsetType = field(default=UNSET, name="_meta")
    arguments: Raw | UnsetType = UNSET


def _finite(digits: str) -> float:
    number = float(digits)
    if not math.isfinite(number):
        raise ValueError
    return number


# Without the hook, msgspec takes 9 µs for a number such as 9e307 (measured with msgspec 0.22).
_DECODER = msgspec.json.Decoder(dict[str, Any] | None, float_hook=_finite)


def read_params(message: McpMessage) -> tuple[dict[str, Any] | None, bytes]:
    """Return the parameters of a message for the SDK, and the arguments of a tool, not decoded.

    Raises:
        MCPError: They are larger than `PARAMS_BYTES_MAX` or `PARAMS_VALUES_MAX`, or not valid.
    """
    given, arguments = bytes(message.params), NULL
    try:
        if message.method == "tools/call" and given != NULL:
            call = msgspec.json.decode(given, type=_ToolCall)
            if call.arguments is not UNSET:
                arguments, call.arguments = bytes(call.arguments), UNSET
            given = msgspec.json.encode(call)
        if len(given) > PARAMS_BYTES_MAX:
            raise MCPError(types.INVALID_PARAMS, _TOO_LARGE)
        params = _DECODER.decode(given)
    except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
        raise MCPError(types.INVALID_PARAMS, _NOT_VALID) from error
    if _has_too_many_values(params):
        raise MCPError(types.INVALID_PARAMS, _TOO_LARGE)
    if arguments != NULL and not arguments.startswith(b"{"):
        raise MCPError(types.INVALID_PARAMS, _NO_ARGUMENTS)
    return params, arguments


def _has_too_many_values(params: dict[str, Any] | None) -> bool:
    """Return whether there are more than `PARAMS_VALUES_MAX`, at any depth."""
    count, unread = 0, [params]
    while unread and count <= PARAMS_VALUES_MAX:
        one: Any = unread.pop()
        values = one.values() if isinstance(one, dict) else one if isinstance(one, list) else ()
        count += len(values)
        unread.extend(values)
    return count > PARAMS_VALUES_MAX
