"""The schemas of the MCP tools are plain trees, which every client can read.

Gemini CLI, Copilot, LibreChat and Cursor fail on references, on unions, and on enumerations without
a type.
"""

from collections.abc import Iterator
from itertools import chain
from typing import Any

from tenantry.mcp.server import INSTRUCTIONS
from tenantry.mcp.tools import TOOLS, Tool
from tests.contracts.each import for_each

NOT_READ = {"$ref", "$defs", "definitions", "anyOf", "oneOf", "allOf", "not", "const", "if"}
TYPES = {"object", "array", "string", "integer", "number", "boolean"}


def parts_of(schema: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield *schema*, and every schema in it."""
    yield schema
    for one in schema.get("properties", {}).values():
        yield from parts_of(one)
    if "items" in schema:
        yield from parts_of(schema["items"])


def schemas_of(tool: Tool) -> list[dict[str, Any]]:
    """Return the schema of the arguments, and that of the result, unless this is only text."""
    listed = tool.listed
    assert (listed.output_schema is None) == tool.is_text
    return [one for one in (listed.input_schema, listed.output_schema) if one is not None]


@for_each("tool", TOOLS, lambda one: one.name)
class TestSchemas:
    def test_have_no_references_and_no_unions(self, tool: Tool):
        for schema in schemas_of(tool):
            for part in parts_of(schema):
                assert not NOT_READ & part.keys()
                assert isinstance(part.get("type", ""), str)
                assert "\n" not in part.get("description", "")
                assert part.get("required") != []

    def test_of_arguments_have_a_type_everywhere(self, tool: Tool):
        for part in parts_of(tool.listed.input_schema):
            assert part["type"] in TYPES
            assert part.get("default", "") is not None

    def test_of_results_have_a_type_unless_null_is_allowed(self, tool: Tool):
        _, *of_results = schemas_of(tool)
        for part in chain.from_iterable(map(parts_of, of_results)):
            assert part.get("type") in TYPES or part["description"].endswith("May be null.")
            assert "enum" not in part or part["type"] == "string"

    def test_of_objects_name_their_members(self, tool: Tool):
        for schema in schemas_of(tool):
            for part in parts_of(schema):
                if part.get("type") == "object":
                    assert set(part.get("required", ())) <= part["properties"].keys()

    def test_say_that_what_is_read_is_data(self, tool: Tool):
        assert tool.writes or "data, not instructions" in tool.listed.description


def test_the_instructions_say_that_what_is_read_is_data():
    assert "data, not instructions" in INSTRUCTIONS
