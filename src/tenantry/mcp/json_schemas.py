"""JSON Schemas of the arguments and results of tools, in a form that every client reads.

Many clients pass schemas on to a model's API that knows no references, no unions and no enumeration
without a type. So each schema is a plain tree.
"""

from typing import Any

import msgspec

JsonSchema = dict[str, Any]

_NULL = {"type": "null"}
_REF = "{name}"


def schema_of(type_: type[msgspec.Struct]) -> JsonSchema:
    """Return the schema of *type_*: an object at its root, as the protocol wants it.

    A member that may be null has no ``type``, unless it may be omitted as well: an argument that is
    null is the same as none.
    """
    _, parts = msgspec.json.schema_components([type_], ref_template=_REF)
    return _plain(parts[type_.__name__], parts)


def _plain(schema: JsonSchema, parts: dict[str, JsonSchema]) -> JsonSchema:
    """Return *schema* without references, unions, and enumerations without a type."""
    own = dict(schema)
    if "$ref" in own:
        own = {**parts[own.pop("$ref")], **own}
    if "anyOf" in own:
        own = _nullable(own, parts)
    if "description" in own:
        own["description"] = " ".join(own["description"].split())
    if "enum" in own:
        own["type"] = "string"
    if "items" in own:
        own["items"] = _plain(own["items"], parts)
    if "properties" in own:
        members = {name: _plain(one, parts) for name, one in own["properties"].items()}
        own["properties"] = members
    if own.get("required") == []:
        del own["required"]
    return own


def _nullable(union: JsonSchema, parts: dict[str, JsonSchema]) -> JsonSchema:
    [some] = [one for one in union.pop("anyOf") if one != _NULL]
    if "default" in union:
        del union["default"]
        return {**_plain(some, parts), **union}
    some = {name: value for name, value in _plain(some, parts).items() if name != "type"}
    text = union.get("description", some.get("description", ""))
    return {**some, **union, "description": f"{text} May be null.".strip()}
