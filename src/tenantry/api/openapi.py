"""The OpenAPI 3.1 description, generated from the table of endpoints."""

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from http import HTTPStatus
from types import ModuleType
from typing import Any

import msgspec
import msgspec.inspect as ms

from tenantry.api.access_levels import ADMIN, MCP, OPEN, PUBLIC, TENANT_LOGIN
from tenantry.api.descriptions import (
    HEADERS,
    describe_type,
    named_types,
    operation_text,
    path_text,
    type_text,
)
from tenantry.api.endpoints import Endpoint
from tenantry.api.examples import example_of, example_of_parameter
from tenantry.kit.context import OperationContext
from tenantry.kit.release import VERSION
from tenantry.schemas.base import EventStream, JsonLines, MetricsText, Nothing, ZipFile
from tenantry.schemas.mcp import McpAnswer
from tenantry.services import Services

Json = dict[str, Any]


class OpenApi(msgspec.Struct, frozen=True):
    """A description of the HTTP API (OpenAPI 3.1).

    Attributes:
        openapi: The version of the format.
        info: The title, and the release of the service.
        paths: The operations, by path and method.
        components: The schemas, headers and credentials that operations refer to, by name.
    """

    openapi: str
    info: Json
    paths: Json
    components: Json


# Responses that are not JSON.
_TEXTS: Mapping[type[msgspec.Struct], str] = {
    MetricsText: "text/plain",
    EventStream: "text/event-stream",
    JsonLines: "application/x-ndjson",
    ZipFile: "application/zip",
}
_SUCCESS: Json = {"const": True, "description": "Always true: the request has succeeded."}
_FAILURE: Json = {
    "description": "An error. Programs read the header `X-Error-Code`.",
    "type": "object",
    "required": ["success", "data", "message"],
    "properties": {
        "success": {"const": False, "description": "Always false: the request has failed."},
        "data": {"type": "null", "description": "Always null."},
        "message": {"type": "string", "description": "What is wrong, for people; it may change."},
    },
}
_ERROR_CODE: Json = {
    "description": "A stable identifier of the error, listed in docs/reference/errors.md. "
    "A release may add new ones.",
    "required": True,
    "schema": {"type": "string", "pattern": "^[a-z0-9]+(_[a-z0-9]+)*$"},
}
_IF_NONE_MATCH: Json = {
    "name": "If-None-Match",
    "in": "header",
    "required": False,
    "description": "The `ETag` of a stored response; 304 if it is still current.",
    "schema": {"type": "string"},
    "example": '"0123456789abcdef0123456789abcdef"',
}
_IF_MATCH: Json = {
    **_IF_NONE_MATCH,
    "name": "If-Match",
    "description": "The `ETag` of the resource as you have read it; 412 if it has changed since.",
}
_DONE: Json = {
    "description": "A success without data.",
    "type": "object",
    "required": ["success", "message"],
    "properties": {
        "success": _SUCCESS,
        "message": {"type": "string", "description": "What was done, for people; it may change."},
    },
}
_SCHEMES: Json = {
    "bearer": {
        "type": "http",
        "scheme": "bearer",
        "bearerFormat": "JWT",
        "description": "The token from a login of an admin or of a tenant's user.",
    },
    "apiKey": {
        "type": "apiKey",
        "in": "header",
        "name": "X-Api-Key",
        "description": "Identifies the tenant.",
    },
    "mcpToken": {
        "type": "apiKey",
        "in": "header",
        "name": "X-Mcp-Token",
        "description": "Replaces the other two, within its scopes.",
    },
}
_TENANT_SECURITY: list[Json] = [{"mcpToken": []}, {"apiKey": [], "bearer": []}]
_SECURITY: Mapping[str, list[Json]] = {
    OPEN.name: [],
    ADMIN.name: [{"bearer": []}],
    TENANT_LOGIN.name: [{"apiKey": []}],
    PUBLIC.name: [{"mcpToken": []}, {"apiKey": []}],
    MCP.name: [{"mcpToken": []}, {"bearer": []}],
}


def describe(endpoints: Iterable[Endpoint], *, release: str) -> Json:
    """Return the OpenAPI description of *endpoints*, with *release* as its version."""
    table = list(endpoints)
    types = {endpoint.request for endpoint in table}
    types |= {
        type_ for endpoint in table for types in successes(endpoint).values() for type_ in types
    }
    named = sorted(types - {Nothing, *_TEXTS}, key=lambda type_: type_.__name__)
    _, components = msgspec.json.schema_components(
        named, ref_template="#/components/schemas/{name}"
    )
    for info in named_types(ms.multi_type_info(named)):
        schema = components[info.cls.__name__]
        describe_type(schema, info)
        if isinstance(info, ms.StructType):
            _mark_times(schema, info)
    paths: dict[str, Json] = {}
    for endpoint in table:
        operation = _operation(endpoint, components.get(endpoint.request.__name__, {}))
        paths.setdefault(endpoint.path, {})[endpoint.method.lower()] = operation
    return {
        "openapi": "3.1.0",
        "info": {"title": "Tenantry", "version": release},
        "paths": paths,
        "components": {
            "headers": {"ErrorCode": _ERROR_CODE},
            "schemas": {**components, "Failure": _FAILURE, "Done": _DONE},
            "securitySchemes": _SCHEMES,
        },
    }


def description_of(endpoints: Iterable[Endpoint]) -> OpenApi:
    """Return the OpenAPI description of *endpoints* in this release."""
    return msgspec.convert(describe(endpoints, release=VERSION), OpenApi)


def endpoint_of(description: Callable[[], OpenApi]) -> Endpoint:
    """Return the endpoint that returns the *description*, which is slow to make the first time."""

    async def show_description(
        _ctx: OperationContext, _services: Services, _request: Nothing
    ) -> OpenApi:
        return await asyncio.to_thread(description)

    return Endpoint(
        method="GET",
        path="/openapi.json",
        level=OPEN,
        handler=show_description,
        response=OpenApi,
        summary="Describe the HTTP API",
        is_bare=True,
    )


def declared_in(*modules: ModuleType) -> list[Endpoint]:
    """Return the endpoints that *modules* declare, in their order."""
    return [one for module in modules for one in vars(module).values() if isinstance(one, Endpoint)]


def successes(endpoint: Endpoint) -> dict[HTTPStatus, list[type[msgspec.Struct]]]:
    """Return every status of success, with the types of ``data``."""
    found: dict[HTTPStatus, list[type[msgspec.Struct]]] = {endpoint.status: []}
    if endpoint.response is not None:
        found[endpoint.status].append(endpoint.response)
    for status, type_ in endpoint.also:
        found.setdefault(status, []).append(type_)
    return found


def statuses(endpoint: Endpoint) -> list[HTTPStatus]:
    """Return every status of an error that an endpoint can return."""
    found = {HTTPStatus.BAD_REQUEST, HTTPStatus.SERVICE_UNAVAILABLE, *endpoint.errors}
    if endpoint.level is not OPEN:
        found |= {
            HTTPStatus.UNAUTHORIZED,
            HTTPStatus.FORBIDDEN,
            HTTPStatus.TOO_MANY_REQUESTS,
        }
    if endpoint.parameters:
        found.add(HTTPStatus.NOT_FOUND)
    if endpoint.method != "GET":
        found.add(HTTPStatus.INSUFFICIENT_STORAGE)
    if endpoint.has_precondition:
        found |= {HTTPStatus.PRECONDITION_FAILED, HTTPStatus.PRECONDITION_REQUIRED}
    if endpoint.reads_body:
        found |= {HTTPStatus.REQUEST_ENTITY_TOO_LARGE, HTTPStatus.UNSUPPORTED_MEDIA_TYPE}
    return sorted(found)


def _mark_times(schema: Json, info: ms.StructType) -> None:
    """Add the format of timestamps, which msgspec adds only to those with a required time zone."""
    for field in info.fields:
        member = schema["properties"][field.encode_name]
        kinds = field.type.types if isinstance(field.type, ms.UnionType) else (field.type,)
        if any(isinstance(kind, ms.DateTimeType) for kind in kinds):
            for one in (member, *member.get("anyOf", ())):
                if one.get("type") == "string":
                    one["format"] = "date-time"


def _operation(endpoint: Endpoint, request: Json) -> Json:
    operation: Json = {
        "operationId": endpoint.operation_id,
        "summary": endpoint.summary,
        "description": operation_text(endpoint),
        "tags": [endpoint.level.name.partition(",")[0]],
        "security": _SECURITY.get(endpoint.level.name, _TENANT_SECURITY),
        "responses": _responses(endpoint),
    }
    parameters = [_path_parameter(part) for part in endpoint.path.split("/") if "{" in part]
    if endpoint.reads_body and endpoint.request is not Nothing:
        operation["requestBody"] = {
            "required": bool(request.get("required")),
            "content": _json(_ref(endpoint.request), example_of(endpoint.request, is_request=True)),
        }
    else:
        required = request.get("required", [])
        parameters += [
            _parameter(name, "query", dict(schema), required=name in required)
            for name, schema in request.get("properties", {}).items()
        ]
    parameters += [
        _parameter(name, "header", {"type": "string", "description": HEADERS.get(name, "")})
        for name in endpoint.headers
    ]
    if endpoint.has_precondition:
        parameters.append(_IF_MATCH)
    elif endpoint.answers_unchanged:
        parameters.append(_IF_NONE_MATCH)
    return {**operation, "parameters": parameters} if parameters else operation


def _responses(endpoint: Endpoint) -> Json:
    answers = {
        str(int(status)): {"description": status.phrase, "content": _success(endpoint, types)}
        for status, types in successes(endpoint).items()
    }
    if endpoint.answers_unchanged:
        answers["304"] = {"description": HTTPStatus.NOT_MODIFIED.phrase}
    for refused in statuses(endpoint):
        failure = {"success": False, "data": None, "message": "A description of the error."}
        schema: Json = {"$ref": "#/components/schemas/Failure"}
        if refused is HTTPStatus.BAD_REQUEST and endpoint.response is McpAnswer:
            schema = {"oneOf": [schema, _ref(McpAnswer)]}
        answers[str(int(refused))] = {
            "description": refused.phrase,
            "headers": {"X-Error-Code": {"$ref": "#/components/headers/ErrorCode"}},
            "content": _json(schema, failure),
        }
    return answers


def _success(endpoint: Endpoint, types: Sequence[type[msgspec.Struct]]) -> Json:
    if not types:
        done = {"success": True, "message": endpoint.message}
        return _json({"$ref": "#/components/schemas/Done"}, done)
    if Nothing in types:
        return {}  # there is no body
    example = example_of(types[0])
    if types[0] in _TEXTS:
        return {_TEXTS[types[0]]: {"schema": {"type": "string"}, "example": example}}
    if endpoint.is_bare:
        return _json(_ref(types[0]), example)
    refs = [_ref(type_) for type_ in types]
    schema = {
        "type": "object",
        "required": ["success", "data"],
        "properties": {
            "success": _SUCCESS,
            "data": {
                **({"oneOf": refs} if len(refs) > 1 else refs[0]),
                "description": " Or: ".join(type_text(one) for one in types),
            },
        },
    }
    return _json(schema, {"success": True, "data": example})


def _path_parameter(part: str) -> Json:
    name = part[1:-1]
    schemas: Json = {"slug": {"type": "string"}, "number": {"type": "integer", "minimum": 1}}
    schema = schemas.get(name, {"type": "string", "format": "uuid"})
    return _parameter(name, "path", {**schema, "description": path_text(name)}, required=True)


def _parameter(name: str, where: str, schema: Json, *, required: bool = False) -> Json:
    described: Json = {"name": name, "in": where, "required": required}
    text = schema.pop("description", "")
    example = example_of_parameter(name, schema)
    return {**described, "description": text, "schema": schema, "example": example}


def _ref(type_: type[Any]) -> Json:
    return {"$ref": f"#/components/schemas/{type_.__name__}"}


def _json(schema: Json, example: Any) -> Json:
    return {"application/json": {"schema": schema, "example": example}}
