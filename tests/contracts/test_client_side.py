"""The files for other programs: the description, the collection, and the guide for a client."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from openapi_schema_validator import OAS31Validator
from openapi_spec_validator import OpenAPIV31SpecValidator
from tools import files

from tenantry.api.endpoints import Endpoint, Router
from tenantry.api.table import ENDPOINTS
from tests.contracts.each import for_each

ROOT = Path(__file__).parents[2]
DESCRIPTION: dict[str, Any] = json.loads((ROOT / "openapi.json").read_text(encoding="utf-8"))
COLLECTION = (ROOT / "requests.http").read_text(encoding="utf-8")
RECIPE = (ROOT / "docs" / "howto" / "generate-a-client.md").read_text(encoding="utf-8")

OPERATIONS = [one for methods in DESCRIPTION["paths"].values() for one in methods.values()]
each_operation = for_each("operation", OPERATIONS, lambda one: one["operationId"])
REQUEST = re.compile(
    r"^### (.+)\n# @name (\w+)\n([A-Z]+) \{\{host\}\}(\S+)\n((?:[\w-]+: .*\n)*)", re.MULTILINE
)
IMPORT = re.compile(r"^from tenantry_client\.(api\.(\w+)|models) import (.+)$", re.MULTILINE)
HEADERS = {
    "bearer": "Authorization: Bearer",
    "apiKey": "X-Api-Key:",
    "mcpToken": "X-Mcp-Token:",
}


def media_in(operation: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield each body that an operation takes or returns, with its schema and example."""
    for holder in (operation.get("requestBody"), *operation["responses"].values()):
        # What has no body (304) has no content either.
        yield from (holder or {}).get("content", {}).values()


def complaints(schema: dict[str, Any], example: object) -> list[str]:
    """Return what is wrong with an example."""
    whole = {**schema, "components": DESCRIPTION["components"]}
    validator = OAS31Validator(whole, format_checker=OAS31Validator.FORMAT_CHECKER)
    return [error.message for error in validator.iter_errors(example)]


class TestFiles:
    @for_each("file", lambda: files.files().items(), lambda file: file[0])
    def test_are_what_the_code_makes(self, file: tuple[str, str]):
        """The committed files are those that the code generates."""
        assert (ROOT / file[0]).read_text(encoding="utf-8") == file[1], "run `make docs`"


class TestDescription:
    @pytest.mark.slow
    def test_is_valid(self):
        """It is a document of OpenAPI 3.1."""
        assert DESCRIPTION["openapi"].startswith("3.1")
        assert [error.message for error in OpenAPIV31SpecValidator(DESCRIPTION).iter_errors()] == []

    @each_operation
    def test_has_examples_that_fit(self, operation: dict[str, Any]):
        """Each request and response has an example, which fits its schema."""
        for one in [*media_in(operation), *operation.get("parameters", [])]:
            assert complaints(one["schema"], one["example"]) == []

    def test_can_refuse_an_example(self):
        """The check above finds an example that does not fit."""
        profile = {"$ref": "#/components/schemas/TenantUserProfile"}

        for wrong in ({}, {"id": "no-guid"}, []):
            assert complaints(profile, wrong)

    @each_operation
    def test_names_operations_for_programs(self, operation: dict[str, Any]):
        """An operation id is an identifier in any language."""
        assert re.fullmatch(r"[a-z][A-Za-z0-9]+", operation["operationId"])

    def test_marks_timestamps(self):
        """A member that is a time is described as one."""
        for name, schema in DESCRIPTION["components"]["schemas"].items():
            for member, told in schema.get("properties", {}).items():
                if member == "at" or member.endswith("At"):
                    kinds = [told, *told.get("anyOf", [])]
                    assert any(kind.get("format") == "date-time" for kind in kinds), (name, member)


class TestCollection:
    def test_has_every_endpoint_once(self):
        """A request for each endpoint of the table, by its operation id."""
        found = [(name, method) for _, name, method, _, _ in REQUEST.findall(COLLECTION)]

        assert found == [(one.operation_id, one.method) for one in ENDPOINTS]

    def test_requests_existing_endpoints(self):
        """Each request finds its endpoint, with any values of its variables."""
        router = Router(ENDPOINTS)

        for _, name, method, path, _ in REQUEST.findall(COLLECTION):
            sent = re.sub(r"\{\{\w+\}\}", "x", path).partition("?")[0]
            assert router.find(method, sent)[0].operation_id == name

    def test_sends_what_the_level_asks_for(self):
        """Each request has the credentials that its description asks for, and no others."""
        by_id = {one["operationId"]: one for one in OPERATIONS}

        for _, name, _, _, headers in REQUEST.findall(COLLECTION):
            schemes = by_id.get(name, {"security": []})["security"]
            wanted = max(schemes, key=lambda one: "apiKey" in one, default={})
            sent = {scheme for scheme, header in HEADERS.items() if header in headers}  # type: ignore[attr-defined]
            assert sent == set(wanted), name

    def test_defines_its_variables(self):
        """Each variable that a request uses is set, or is another request's answer."""
        names = {one.operation_id for one in ENDPOINTS}

        used = set(re.findall(r"\{\{(\w+)", COLLECTION))
        assert used - names == set(re.findall(r"^@(\w+) = ", COLLECTION, re.MULTILINE))
        assert used & names == {"loginAdminAuth", "loginTenantAuth"}


class TestRecipe:
    def test_names_what_a_client_has(self):
        """The modules and types of its program are those that the description makes."""
        found = IMPORT.findall(RECIPE)
        assert found

        for _, tag, names in found:
            there = _modules(tag) if tag else set(DESCRIPTION["components"]["schemas"])
            assert set(names.split(", ")) <= there


def _modules(tag: str) -> set[str]:
    return {_snake(one.operation_id) for one in ENDPOINTS if _tag(one) == tag}


def _tag(endpoint: Endpoint) -> str:
    return endpoint.level.name.partition(",")[0].lower().replace(" ", "_")


def _snake(name: str) -> str:
    return re.sub("([A-Z])", r"_\1", name).lower()
