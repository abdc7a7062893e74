"""JSON Schemas of the arguments and results of tools."""

from typing import Any

import msgspec


def schema_of(type_: type[msgspec.Struct]) -> dict[str, Any]:
    """Return the schema of *type_*: an object at its root, as the protocol wants it."""
    _, parts = msgspec.json.schema_components([type_], ref_template="#/$defs/{name}")
    own = parts.pop(type_.__name__)
    return {**own, "$defs": parts} if parts else own
