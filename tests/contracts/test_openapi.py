"""The description of the HTTP API lists every endpoint, and is consistent."""

import re
from collections.abc import Iterator
from http import HTTPStatus
from typing import Any, get_type_hints

import msgspec

from tenantry.api.endpoints import Endpoint
from tenantry.api.openapi import describe, statuses
from tenantry.api.table import ENDPOINTS
from tenantry.schemas.base import Nothing, Schema
from tenantry.schemas.content import PostResponse
from testkit.decision_table import level_of
from testkit.response_form import BARE_PATHS
from tests.contracts.each import for_each

DESCRIBED = [one for one in ENDPOINTS if one.path != "/openapi.json"]
DESCRIPTION = describe(DESCRIBED, release="1.2.3")
SECURITY: dict[str, list[set[str]]] = {
    "Open": [],
    "Admin": [{"bearer"}],
    "Tenant login": [{"apiKey"}],
    "Tenant": [{"mcpToken"}, {"apiKey", "bearer"}],
    "Public": [{"mcpToken"}, {"apiKey"}],
    "MCP": [{"mcpToken"}, {"bearer"}],
}


# By the end of a member's Python name, a word that its description must have.
UNITS = {
    "_bytes": r"\bbytes\b",
    "_bytes_max": r"\bbytes\b",
    "_ms": r"\bmilliseconds\b",
    "_seconds": r"\bseconds\b",
    "_days": r"\bdays\b",
}


def structs(base: type = msgspec.Struct) -> Iterator[type[msgspec.Struct]]:
    for one in base.__subclasses__():
        yield one
        yield from structs(one)


def place(type_: type[Any], member: str) -> str:
    """Return where the description of a member is written."""
    file = type_.__module__.replace(".", "/")
    return f"src/{file}.py: {type_.__name__}: `{member}`"


def listed(found: list[str], what: str) -> str:
    """Return a message with every one that was *found*, and *what* to do."""
    return "\n".join([f"{what}:", *found])


# Python's values inside of a sentence, its names, and what reStructuredText has.
PYTHON = re.compile(r"``|\bNone\b|[a-z,:;] (True|False)\b|`[a-z]+_[a-z_]+`|\b(Attributes|Raises):")

SCHEMAS = DESCRIPTION["components"]["schemas"]
TYPES = [one for one in structs() if one.__name__ in SCHEMAS and one.__module__ != __name__]
MEMBERS = [
    (place(one, name), name, SCHEMAS[one.__name__], SCHEMAS[one.__name__]["properties"][wire])
    for one in TYPES
    for name, wire in zip(one.__struct_fields__, one.__struct_encode_fields__, strict=True)
]


def texts_in(value: object) -> Iterator[str]:
    """Yield every description in a part of the document."""
    if isinstance(value, dict):
        if isinstance(value.get("description"), str):
            yield value["description"]
        for inner in value.values():
            yield from texts_in(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from texts_in(inner)


def undescribed_in(value: object, path: str = "") -> Iterator[str]:
    """Yield the path of each member of an object, of any depth, that has no description."""
    if isinstance(value, dict):
        if value.get("type") == "object":
            for name, member in value.get("properties", {}).items():
                if not member.get("description"):
                    yield f"{path}/{name}"
        for name, inner in value.items():
            yield from undescribed_in(inner, f"{path}/{name}")


def operation_of(endpoint: Endpoint) -> dict[str, Any]:
    operation: dict[str, Any] = DESCRIPTION["paths"][endpoint.path][endpoint.method.lower()]
    return operation


def succeeds(endpoint: Endpoint) -> set[HTTPStatus]:
    return {endpoint.status, *(status for status, _ in endpoint.also)}


def refs_in(value: object) -> Iterator[str]:
    if isinstance(value, dict):
        if isinstance(value.get("$ref"), str):
            yield value["$ref"]
        for inner in value.values():
            yield from refs_in(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from refs_in(inner)


@for_each("endpoint", DESCRIBED, lambda one: f"{one.method} {one.path}")
class TestOperation:
    def test_is_described(self, endpoint: Endpoint):
        """It has a summary, and an answer for each of its successes."""
        operation = operation_of(endpoint)

        assert operation["summary"]
        assert not operation["summary"].endswith(".")
        assert {str(int(one)) for one in succeeds(endpoint)} <= operation["responses"].keys()

    def test_declares_its_refusals(self, endpoint: Endpoint):
        """Every status is there, as a failure in the envelope; of a message, also as its error."""
        declared = operation_of(endpoint)["responses"]
        refused = {str(int(status)) for status in statuses(endpoint)}

        is_edited = endpoint.edits is not None and endpoint.method == "GET"
        known = {"304"} if endpoint.version is not None or is_edited else set()
        succeeded = {str(int(one)) for one in succeeds(endpoint)}
        assert declared.keys() == {*succeeded, *known, *refused}
        for status in refused:
            schema = declared[status]["content"]["application/json"]["schema"]
            envelope: Any = {"$ref": "#/components/schemas/Failure"}
            if (endpoint.path, status) == ("/mcp", "400"):
                envelope = {"oneOf": [envelope, {"$ref": "#/components/schemas/McpAnswer"}]}
            assert schema == envelope
            code = declared[status]["headers"]["X-Error-Code"]
            assert code == {"$ref": "#/components/headers/ErrorCode"}

    def test_declares_that_a_slug_can_be_in_use(self, endpoint: Endpoint):
        """What makes or changes a post writes the slug of its text."""
        returned = get_type_hints(endpoint.handler)["return"]
        writes_slug = endpoint.method != "GET" and returned is PostResponse

        assert not writes_slug or HTTPStatus.CONFLICT in endpoint.errors

    def test_declares_what_its_level_refuses(self, endpoint: Endpoint):
        """401 and 403 are listed wherever credentials count."""
        declared = operation_of(endpoint)["responses"].keys()

        if level_of(endpoint.path) != "Open":
            assert {"401", "403"} <= declared
        if "{" in endpoint.path:
            assert "404" in declared
        if endpoint.reads_body:
            assert {"400", "413", "415"} <= declared

    def test_asks_for_the_credentials_of_its_level(self, endpoint: Endpoint):
        """Its security is that of its level of access."""
        found = [set(one) for one in operation_of(endpoint)["security"]]

        assert found == SECURITY[level_of(endpoint.path)]

    def test_has_every_parameter_of_its_path(self, endpoint: Endpoint):
        """The names in its path are required parameters, each there once."""
        parameters = operation_of(endpoint).get("parameters", [])
        named = [part[1:-1] for part in endpoint.path.split("/") if part.startswith("{")]

        assert [one["name"] for one in parameters if one["in"] == "path"] == named
        assert all(one["required"] for one in parameters if one["in"] == "path")
        assert len({(one["in"], one["name"]) for one in parameters}) == len(parameters)

    def test_answers_in_the_envelope(self, endpoint: Endpoint):
        """A success is the envelope, but where a standard says otherwise."""
        if endpoint.path in BARE_PATHS:
            return
        for status in succeeds(endpoint):
            answer = operation_of(endpoint)["responses"][str(int(status))]
            schema = answer["content"]["application/json"]["schema"]

            if schema != {"$ref": "#/components/schemas/Done"}:
                assert schema["required"] == ["success", "data"]

    def test_refers_to_each_schema_that_it_may_return(self, endpoint: Endpoint):
        """Each success has its own schema, or one of two."""
        for status, data in endpoint.also:
            answer = operation_of(endpoint)["responses"][str(int(status))]

            if data is Nothing:
                assert answer["content"] == {}
            else:
                assert f"#/components/schemas/{data.__name__}" in set(refs_in(answer))


class TestDescription:
    def test_lists_nothing_else(self):
        """It has the operations of the table, and no others."""
        told = {
            (method.upper(), path)
            for path, methods in DESCRIPTION["paths"].items()
            for method in methods
        }

        assert told == {(one.method, one.path) for one in DESCRIBED}

    def test_holds_what_it_refers_to(self):
        """Every reference leads to a schema, and every schema is referred to."""
        refs = set(refs_in(DESCRIPTION))
        there = {
            f"#/components/{kind}/{name}"
            for kind in ("schemas", "headers")
            for name in DESCRIPTION["components"][kind]
        }

        assert refs <= there

    def test_calls_no_two_operations_the_same(self):
        """Operation ids are unique."""
        ids = [one.operation_id for one in ENDPOINTS]

        assert sorted(set(ids)) == sorted(ids)

    def test_calls_no_two_schemas_the_same(self):
        """Names of schemas are unique: of two with one name, one would hide the other."""
        types = {one.request for one in ENDPOINTS} | {one.response for one in ENDPOINTS} - {None}
        types |= {data for one in ENDPOINTS for _, data in one.also}
        names = [one.__name__ for one in types]

        assert sorted(set(names)) == sorted(names)

    def test_names_members_as_on_the_wire(self):
        """Members are in camelCase."""
        for name, schema in DESCRIPTION["components"]["schemas"].items():
            for member in schema.get("properties", {}):
                assert "_" not in member, f"{name}.{member}"

    def test_is_of_a_release(self):
        """It has the given version, in OpenAPI 3.1."""
        assert DESCRIPTION["openapi"].startswith("3.1")
        assert DESCRIPTION["info"]["version"] == "1.2.3"


class TestMeaning:
    """Each text is written once, in a docstring; `make docs` then writes openapi.json."""

    def test_is_written_for_each_member(self):
        """A section ``Attributes:`` of the schema, or of a type it inherits, has each member."""
        missing = [where for where, _, _, member in MEMBERS if not member.get("description")]

        assert len(MEMBERS) > 400
        assert not missing, listed(missing, "describe it under `Attributes:` of its docstring")

    def test_is_written_for_the_rest_of_the_document(self):
        """So are operations, parameters, schemas, and the members of the envelope."""
        missing = [name for name, one in SCHEMAS.items() if not one.get("description")]
        for operation in (one for path in DESCRIPTION["paths"].values() for one in path.values()):
            described = [{"name": "itself", **operation}, *operation.get("parameters", [])]
            missing += [
                f"{operation['operationId']}: {one['name']}"
                for one in described
                if not one["description"]
            ]
        missing += undescribed_in(DESCRIPTION)

        assert not missing, listed(missing, "headers are in src/tenantry/api/descriptions.py")

    def test_of_an_operation_has_the_paragraphs_of_its_handler(self):
        """What follows the summary in the docstring of a handler is in the description."""
        found = DESCRIPTION["paths"]["/api/admin/tenants/migrate-all"]["post"]["description"]

        assert found.startswith("The run continues if the client disconnects;")
        assert "Requires the token of an admin." in found

    def test_says_what_null_means(self):
        """A member that can be null in a response is described with null."""
        unsaid = [
            where
            for where, _, _, member in MEMBERS
            if {"type": "null"} in member.get("anyOf", ())
            and "default" not in member
            and not re.search(r"\bnull\b", member.get("description", ""), re.IGNORECASE)
        ]

        assert not unsaid, listed(unsaid, "say under `Attributes:` what null means")

    def test_names_units(self):
        """A number with a unit in its name is described with the unit."""
        unsaid = [
            where
            for where, name, _, member in MEMBERS
            for end, word in UNITS.items()
            if name.endswith(end) and not re.search(word, member.get("description", ""))
        ]

        assert not unsaid, listed(unsaid, "name the unit under `Attributes:`")

    def test_is_in_the_words_of_the_wire(self):
        """No text has Python's names of members and values, or marks of another format."""
        found = (PYTHON.search(text) and text for text in texts_in(DESCRIPTION))
        wrong = sorted(set(filter(None, found)))

        assert not wrong, listed(wrong, "write it in the words of JSON and Markdown")

    def test_is_of_members_that_exist(self):
        """A docstring of a schema describes no member that the schema has lost."""
        lost = [
            place(one, name)
            for one in TYPES
            if issubclass(one, Schema)
            for name in _own_members(one) - set(one.__struct_fields__)
        ]

        assert not lost, listed(lost, "remove it from the docstring")


def _own_members(type_: type[Any]) -> set[str]:
    return set(re.findall(r"^        (\w+): ", type_.__doc__ or "", re.MULTILINE))
