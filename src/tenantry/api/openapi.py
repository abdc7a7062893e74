"""The OpenAPI 3.1 description, generated from the table of endpoints."""

from collections.abc import Iterable, Mapping
from http import HTTPStatus
from importlib.metadata import version
from typing import Any

import msgspec

from tenantry.api.endpoints import Endpoint
from tenantry.api.levels import ADMIN, OPEN, PUBLIC, TENANT_LOGIN
from tenantry.api.schemas.base import Nothing
from tenantry.kit.context import OperationContext
from tenantry.services import Services

Json = dict[str, Any]


class OpenApi(msgspec.Struct, frozen=True):
    """A description of the HTTP API (OpenAPI 3.1)."""

    openapi: str
    info: Json
    paths: Json
    components: Json


_FAILURE: Json = {
    "type": "object",
    "required": ["success", "data", "message"],
    "properties": {
        "success": {"const": False},
        "data": {"type": "null"},
        "message": {"type": "string"},
    },
}
_DONE: Json = {
    "type": "object",
    "required": ["success", "message"],
    "properties": {"success": {"const": True}, "message": {"type": "string"}},
}
_SCHEMES: Json = {
    "bearer": {"type": "http", "scheme": "bearer", "bearerFormat": "JWT"},
    "apiKey": {"type": "apiKey", "in": "header", "name": "X-Api-Key"},
    "mcpToken": {"type": "apiKey", "in": "header", "name": "X-Mcp-Token"},
}
_TENANT_SECURITY: list[Json] = [{"mcpToken": []}, {"apiKey": [], "bearer": []}]
_SECURITY: Mapping[str, list[Json]] = {
    OPEN.name: [],
    ADMIN.name: [{"bearer": []}],
    TENANT_LOGIN.name: [{"apiKey": []}],
    PUBLIC.name: [{"mcpToken": []}, {"apiKey": []}],
}


def describe(endpoints: Iterable[Endpoint], *, release: str) -> Json:
    """Return the description of *endpoints*, of a *release* of the service."""
    table = list(endpoints)
    types = {endpoint.request for endpoint in table}
    types |= {endpoint.response for endpoint in table if endpoint.response is not None}
    _, components = msgspec.json.schema_components(
        sorted(types - {Nothing}, key=lambda type_: type_.__name__),
        ref_template="#/components/schemas/{name}",
    )
    paths: dict[str, Json] = {}
    for endpoint in table:
        operation = _operation(endpoint, components.get(endpoint.request.__name__, {}))
        paths.setdefault(endpoint.path, {})[endpoint.method.lower()] = operation
    return {
        "openapi": "3.1.0",
        "info": {"title": "Tenantry", "version": release},
        "paths": paths,
        "components": {
            "schemas": {**components, "Failure": _FAILURE, "Done": _DONE},
            "securitySchemes": _SCHEMES,
        },
    }


def description_of(endpoints: Iterable[Endpoint]) -> Endpoint:
    """Return the endpoint that tells the description of *endpoints*."""
    description = msgspec.convert(describe(endpoints, release=version("tenantry")), OpenApi)

    async def show_description(
        _ctx: OperationContext, _services: Services, _request: Nothing
    ) -> OpenApi:
        return description

    return Endpoint(
        method="GET",
        path="/openapi.json",
        level=OPEN,
        handler=show_description,
        response=OpenApi,
        summary="Describe the HTTP API",
        is_bare=True,
    )


def statuses(endpoint: Endpoint) -> list[HTTPStatus]:
    """Return every status that an endpoint can refuse with."""
    found = {HTTPStatus.BAD_REQUEST, HTTPStatus.SERVICE_UNAVAILABLE} | endpoint.errors
    if endpoint.level is not OPEN:
        found |= {HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN}
    if endpoint.reads_body:
        found |= {HTTPStatus.REQUEST_ENTITY_TOO_LARGE, HTTPStatus.UNSUPPORTED_MEDIA_TYPE}
    return sorted(found)


def _operation(endpoint: Endpoint, request: Json) -> Json:
    operation: Json = {
        "operationId": endpoint.operation_id,
        "summary": endpoint.summary,
        "tags": [endpoint.level.name],
        "security": _SECURITY.get(endpoint.level.name, _TENANT_SECURITY),
        "responses": _responses(endpoint),
    }
    parameters = [_path_parameter(part) for part in endpoint.path.split("/") if "{" in part]
    if endpoint.reads_body and endpoint.request is not Nothing:
        operation["requestBody"] = {
            "required": bool(request.get("required")),
            "content": _json(_ref(endpoint.request)),
        }
    else:
        parameters += [
            {"name": name, "in": "query", "required": False, "schema": schema}
            for name, schema in request.get("properties", {}).items()
        ]
    return {**operation, "parameters": parameters} if parameters else operation


def _responses(endpoint: Endpoint) -> Json:
    status = str(int(endpoint.status))
    answers = {status: _answer(endpoint.status.phrase, _success(endpoint))}
    for refused in statuses(endpoint):
        answers[str(int(refused))] = _answer(
            refused.phrase, {"$ref": "#/components/schemas/Failure"}
        )
    return answers


def _success(endpoint: Endpoint) -> Json:
    if endpoint.response is None:
        return {"$ref": "#/components/schemas/Done"}
    if endpoint.is_bare:
        return _ref(endpoint.response)
    return {
        "type": "object",
        "required": ["success", "data"],
        "properties": {"success": {"const": True}, "data": _ref(endpoint.response)},
    }


def _path_parameter(part: str) -> Json:
    name = part[1:-1]
    schema = {"type": "string"} if name == "slug" else {"type": "string", "format": "uuid"}
    return {"name": name, "in": "path", "required": True, "schema": schema}


def _ref(type_: type[Any]) -> Json:
    return {"$ref": f"#/components/schemas/{type_.__name__}"}


def _answer(description: str, schema: Json) -> Json:
    return {"description": description, "content": _json(schema)}


def _json(schema: Json) -> Json:
    return {"application/json": {"schema": schema}}
