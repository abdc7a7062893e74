"""What operations, schemas and their members mean, for the OpenAPI description.

The texts are the docstrings of handlers, of schemas, and of the types of lower layers that schemas
inherit or represent: see `Schema`. They are read when the description is first needed, not when a
program starts.
"""

import inspect
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import msgspec.inspect as ms

from tenantry.api.endpoints import ACCEPTED, BODY_BYTES_MAX, Endpoint, snake
from tenantry.schemas.base import Nothing

LEVELS: Mapping[str, str] = {
    "Open": "Requires no credentials.",
    "Admin": "Requires the token of an admin.",
    "Tenant login": "Requires an API key of the tenant.",
    "Public": "Requires an API key of the tenant, or an McpToken.",
    "Tenant": "Requires an API key and the token of a user of the same tenant, or an McpToken.",
    "Tenant, a person": "Requires an API key and the token of a user of the same tenant, or an "
    "McpToken that is bound to a user.",
    "Tenant, signed in": "Requires an API key and the token of a user of the same tenant; "
    "an McpToken is rejected.",
    "Tenant, an owner": "Requires an API key and the token of an owner of the same tenant; "
    "an McpToken is rejected.",
    "MCP": "Requires an McpToken, in `X-Mcp-Token` or as a bearer token.",
}
HEADERS: Mapping[str, str] = {
    "If-None-Match": "`*`: create it only if none has its slug; 412 otherwise.",
    "Last-Event-ID": "The `id` of the last event that the client received: later ones are sent.",
    "Prefer": "`respond-async`: return 202 with the new run at once, instead of waiting for it.",
    "host": "The host of the URL; a name that the settings do not allow is rejected with 403.",
    "origin": "Sent by browsers: a page of another origin is rejected with 403.",
    "mcp-protocol-version": "The version of the protocol, as a date.",
    "mcp-method": "The `method` of the message in the body, if it is sent.",
    "mcp-name": "The name of the tool, or the URI of the resource, in the body, if it is sent.",
}
# In the style of Google: a name and a colon, indented once, and further lines indented twice.
_MEMBER = re.compile(r"^    (\w+): (.+(?:\n {8}.+)*)", re.MULTILINE)
_SECTION = re.compile(r"(?:^|\n\n)(?:Args|Attributes|Raises|Source):")
_CODE = re.compile(r"``(.+?)``|`(.+?)`")
_PYTHON: Mapping[str, str] = {"None": "null", "True": "true", "False": "false"}
_PYTHON_WORD = re.compile(r"(^|\. )?\b(None|True|False)\b")


def text_of(documented: object) -> str:
    """Return the docstring of a type or a function, without its sections."""
    paragraphs = _SECTION.split(_docstring(documented))[0].split("\n\n")
    return "\n\n".join(" ".join(one.split()) for one in paragraphs)


def members_of(type_: type) -> dict[str, str]:
    """Return what the members of a type mean, by their Python names.

    The nearest text counts: that of the type, of the type that it represents, of its bases.
    """
    found: dict[str, str] = {}
    for base in reversed(type_.__mro__):
        if "represents" in vars(base):
            found |= members_of(base.represents)  # type: ignore[attr-defined]
        texts = _MEMBER.findall(_docstring(base))
        found |= {name: " ".join(text.split()) for name, text in texts}
    return found


def operation_text(endpoint: Endpoint) -> str:
    """Return what a client must know of an endpoint: what it does, requires and returns."""
    _, _, more = text_of(endpoint.handler).partition("\n\n")
    facts = [
        LEVELS[endpoint.level.name],
        endpoint.scope and f"An McpToken needs the scope `{endpoint.scope}`.",
        endpoint.module and f"The tenant's module `{endpoint.module}` must be active.",
        endpoint.path.startswith("/api/tenant/")
        and endpoint.requirements.writes
        and "A read-only tenant rejects it.",
        endpoint.status is ACCEPTED
        and endpoint.response is not None
        and "The work outlives the request: `GET /api/admin/jobs` has its progress.",
        endpoint.body_bytes_max > BODY_BYTES_MAX
        and endpoint.request is not Nothing
        and f"The body has at most {endpoint.body_bytes_max:,} bytes.",
        endpoint.keep_alive_seconds
        and f"Every {endpoint.keep_alive_seconds:.0f} s until the result, a space is sent.",
        endpoint.holds_secret and "The response contains a secret: do not log it.",
    ]
    return _on_the_wire(
        "\n\n".join(filter(None, [more, " ".join(one for one in facts if one)])), {}
    )


def path_text(name: str) -> str:
    """Return what a parameter of a path means: ``tenantId``, ``slug``."""
    if name == "slug":
        return "The slug of a post; letters outside ASCII are percent-encoded UTF-8."
    if name == "number":
        return "The number of a version of the post."
    return f"The id of the {snake(name.removesuffix('Id')).replace('_', ' ')}."


def named_types(infos: Iterable[ms.Type]) -> Iterator[ms.StructType | ms.EnumType]:
    """Yield the structs and enums in *infos*, and those of their members, each once."""
    waiting, seen = list(infos), set[type]()
    while waiting:
        info = waiting.pop()
        if isinstance(info, ms.StructType | ms.EnumType) and info.cls not in seen:
            seen.add(info.cls)
            yield info
            waiting += [one.type for one in getattr(info, "fields", ())]
        waiting += getattr(info, "types", ())
        waiting += [getattr(info, name) for name in ("type", "item_type") if hasattr(info, name)]


def type_text(type_: type) -> str:
    """Return what a schema means."""
    names = getattr(type_, "__struct_fields__", ()), getattr(type_, "__struct_encode_fields__", ())
    return _on_the_wire(text_of(type_), dict(zip(*names, strict=True)))


def describe_type(schema: dict[str, Any], info: ms.StructType | ms.EnumType) -> None:
    """Add to the *schema* of a type what it and its members mean."""
    fields = info.fields if isinstance(info, ms.StructType) else ()
    names = {one.name: one.encode_name for one in fields}
    schema["description"] = type_text(info.cls)
    texts = members_of(info.cls)
    for name, wire_name in names.items():
        if name in texts:
            schema["properties"][wire_name]["description"] = _on_the_wire(texts[name], names)


def _docstring(documented: object) -> str:
    # A type inherits the docstring of its base.
    source = vars(documented).get("__doc__") if isinstance(documented, type) else documented.__doc__
    return inspect.cleandoc(source or "")


def _on_the_wire(text: str, names: Mapping[str, str]) -> str:
    """Return a text of a docstring in the words of JSON: names of members, and null."""

    def code(found: re.Match[str]) -> str:
        name = found[1] or found[2]
        return f"`{names.get(name, _PYTHON.get(name, name))}`"

    def word(found: re.Match[str]) -> str:
        start, value = found[1], _PYTHON[found[2]]
        return value if start is None else start + value.capitalize()

    return _PYTHON_WORD.sub(word, _CODE.sub(code, text))
