"""The description of the HTTP API lists every endpoint, and is consistent."""

from collections.abc import Iterator
from http import HTTPStatus
from typing import Any

import pytest

from tenantry.api.endpoints import Endpoint
from tenantry.api.openapi import describe, statuses
from tenantry.api.table import ENDPOINTS
from tenantry.schemas.base import Nothing
from testkit.decision_table import level_of
from testkit.response_form import BARE_PATHS

DESCRIBED = [one for one in ENDPOINTS if one.path != "/openapi.json"]
EVERY = [pytest.param(one, id=f"{one.method} {one.path}") for one in DESCRIBED]
DESCRIPTION = describe(DESCRIBED, release="1.2.3")
SECURITY: dict[str, list[set[str]]] = {
    "Open": [],
    "Admin": [{"bearer"}],
    "Tenant login": [{"apiKey"}],
    "Tenant": [{"mcpToken"}, {"apiKey", "bearer"}],
    "Public": [{"mcpToken"}, {"apiKey"}],
    "MCP": [{"mcpToken"}, {"bearer"}],
}


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


@pytest.mark.parametrize("endpoint", EVERY)
class TestOperation:
    def test_is_described(self, endpoint: Endpoint):
        """It has a summary, and an answer for each of its successes."""
        operation = operation_of(endpoint)

        assert operation["summary"]
        assert not operation["summary"].endswith(".")
        assert {str(int(one)) for one in succeeds(endpoint)} <= operation["responses"].keys()

    def test_declares_its_refusals(self, endpoint: Endpoint):
        """Every status that it can refuse with is there, as a failure in the envelope."""
        declared = operation_of(endpoint)["responses"]
        refused = {str(int(status)) for status in statuses(endpoint)}

        known = {"304"} if endpoint.version is not None else set()
        succeeded = {str(int(one)) for one in succeeds(endpoint)}
        assert declared.keys() == {*succeeded, *known, *refused}
        for status in refused:
            schema = declared[status]["content"]["application/json"]["schema"]
            assert schema == {"$ref": "#/components/schemas/Failure"}
            code = declared[status]["headers"]["X-Error-Code"]
            assert code == {"$ref": "#/components/headers/ErrorCode"}

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
