"""Endpoints: their definition, the decorator that declares one, and the router.

An endpoint is declared with its handler, by the decorator `endpoint`. Dispatch, the level of
access and the OpenAPI description follow from the declaration.
"""

import re
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property, partial
from http import HTTPStatus
from typing import Any, get_type_hints
from urllib.parse import unquote_to_bytes
from uuid import UUID

import msgspec

from tenantry.access.principal import Scope
from tenantry.api.access_levels import Level
from tenantry.api.error_responses import MethodNotAllowed
from tenantry.kit.errors import NotFound
from tenantry.schemas.base import Nothing, Schema
from tenantry.tenant.entry import Requirements

ACCEPTED, CREATED, OK = HTTPStatus.ACCEPTED, HTTPStatus.CREATED, HTTPStatus.OK
CONFLICT, FORBIDDEN, NOT_FOUND = HTTPStatus.CONFLICT, HTTPStatus.FORBIDDEN, HTTPStatus.NOT_FOUND
PRECONDITION_FAILED = HTTPStatus.PRECONDITION_FAILED
TOO_MANY_REQUESTS, UNAUTHORIZED = HTTPStatus.TOO_MANY_REQUESTS, HTTPStatus.UNAUTHORIZED

BODY_BYTES_MAX = 65_536
CONTENT_BYTES_MAX = 1_048_576
# The last place in the queue of `access.cpu_queue` waits 6 s; some requests hash two passwords.
HASHING_SECONDS = 15.0


# A slug in a path: non-ASCII letters are percent-encoded UTF-8; no other character is encoded.
_SLUG_FORM = re.compile(r"(?:[A-Za-z0-9-]|%[89A-Fa-f][0-9A-Fa-f])+")


class NoSuchPath(NotFound):
    """There is no resource at this path."""


@dataclass(frozen=True, kw_only=True)
class Endpoint:
    """One method on one path.

    Attributes:
        method: GET, POST, PUT, PATCH or DELETE.
        path: Literal segments, and ``{name}`` for parameters: ids, except ``{slug}`` and
            ``{number}``.
        level: The credentials that it requires, and the type of its context.
        handler: Takes the context, the services, the request, and the path parameters and
            `headers` as keywords. It returns the data, a `Reply`, or an asynchronous generator
            of chunks of JSON.
        request: Decoded from the JSON body (POST, PUT, PATCH), or from the query.
        response: The ``data`` of the envelope; None if there is only a message.
        summary: One line for the OpenAPI description.
        message: The message of a response without data.
        status: The status of success.
        also: Other successes: the status, and the ``data``.
        headers: Request headers that the handler takes (``Last-Event-ID`` as
            ``last_event_id``). An absent one is empty; repeated ones are joined by commas.
        errors: Statuses of errors in addition to those of its level, and to 404 if the path has
            parameters.
        scope: The scope that an McpToken needs.
        module: The module that must be on for the tenant.
        writes: Whether it writes to the tenant's data, which a read-only tenant rejects; None for
            the rule: every method but GET does.
        adds: Whether it adds content of the tenant: it is rejected when the storage is full.
        is_bare: Whether a standard defines the form of the response, instead of the envelope.
        keep_alive_seconds: The interval in which spaces are sent before a slow response; None if
            the response is never slow.
        seconds_more: Extra time for handlers that hash passwords, added to the deadline of the
            request; None if the handler has deadlines of its own.
        is_event_stream: Whether the response continues while the caller has access. The handler
            also takes ``readmit``.
        body_bytes_max: The largest body that is accepted.
        version: Returns the version of the data, for conditional requests; the handler then
            returns `Versioned` data.
        edits: The representation of the resource that it reads or changes, if several people edit
            it. Its responses have an entity tag. A change also takes ``expected``, from If-Match.
    """

    method: str
    path: str
    level: Level
    handler: Callable[..., Awaitable[Any]]
    request: type[msgspec.Struct] = Nothing
    response: type[msgspec.Struct] | None
    summary: str
    message: str = "Done."
    status: HTTPStatus = HTTPStatus.OK
    also: tuple[tuple[HTTPStatus, type[msgspec.Struct]], ...] = ()
    headers: tuple[str, ...] = ()
    errors: Collection[HTTPStatus] = ()
    scope: Scope | None = None
    module: str | None = None
    writes: bool | None = None
    adds: bool = False
    is_bare: bool = False
    keep_alive_seconds: float | None = None
    seconds_more: float | None = 0.0
    is_event_stream: bool = False
    body_bytes_max: int = BODY_BYTES_MAX
    version: Callable[[Any], Awaitable[UUID]] | None = None
    edits: type[Schema] | None = None

    @property
    def holds_secret(self) -> bool:
        """Whether the response contains a secret; see `Schema`."""
        return getattr(self.response, "holds_secret", False)

    @cached_property
    def reads_body(self) -> bool:
        """Whether the request is decoded from the body, not from the query."""
        return self.method in {"POST", "PUT", "PATCH"}

    @cached_property
    def has_more(self) -> bool:
        """Whether the handler takes more than the context, the services and the request."""
        return bool(
            self.parameters or self.headers or self.is_event_stream or self.has_precondition
        )

    @cached_property
    def answers_unchanged(self) -> bool:
        """Whether it answers 304 to a client that has the current version."""
        return self.version is not None or (self.edits is not None and self.method == "GET")

    @cached_property
    def has_precondition(self) -> bool:
        """Whether it is a change that a client can make conditional, with If-Match."""
        return self.edits is not None and self.method != "GET"

    @cached_property
    def requirements(self) -> Requirements:
        """What a caller needs: scope, module, and a writable tenant if the endpoint writes."""
        writes = self.method != "GET" if self.writes is None else self.writes
        return Requirements(
            self.scope,
            self.module,
            writes=writes,
            requires_session=self.level.requires_session,
            admits_deleted_user=self.level.admits_deleted_user,
            role=self.level.role,
        )

    @cached_property
    def decoder(self) -> msgspec.json.Decoder[Any]:
        """The decoder of the body."""
        return msgspec.json.Decoder(self.request)

    @cached_property
    def empty_request(self) -> msgspec.Struct | None:
        """The request without any members; None if a member is required."""
        try:
            return msgspec.convert({}, self.request)
        except msgspec.ValidationError:
            return None

    @cached_property
    def numbers(self) -> frozenset[str]:
        """The members of the request that are integers, by their names on the wire."""
        info = msgspec.inspect.type_info(self.request)
        assert isinstance(info, msgspec.inspect.StructType)
        integers = (one for one in info.fields if isinstance(one.type, msgspec.inspect.IntType))
        return frozenset(one.encode_name for one in integers)

    @cached_property
    def operation_id(self) -> str:
        """The name of the operation in generated clients. It must not change."""
        words = self.handler.__name__.split("_")
        resource = self.handler.__module__.rpartition(".")[2]
        return "".join([words[0], *(w.title() for w in [*words[1:], *resource.split("_")])])

    @cached_property
    def parameters(self) -> tuple[str, ...]:
        """The names of the path parameters, as the handler takes them."""
        return tuple(snake(part[1:-1]) for part in self.path.split("/") if part.startswith("{"))


def endpoint(
    method: str, path: str, level: Level, **options: Any
) -> Callable[[Callable[..., Awaitable[Any]]], Endpoint]:
    """Declare the decorated handler as an `Endpoint`.

    The summary is the first line of the handler's docstring, the request is the type of its third
    argument, and the response is its return type, unless *options* override them. These are
    other attributes of `Endpoint`.
    """

    def declare(handler: Callable[..., Awaitable[Any]]) -> Endpoint:
        *arguments, returned = get_type_hints(handler).values()
        inferred = {
            "request": arguments[2],
            "response": None if returned is type(None) else returned,
            "summary": (handler.__doc__ or "").partition("\n")[0].removesuffix("."),
        }
        declared = {"method": method, "path": path, "level": level, "handler": handler}
        return Endpoint(**declared, **inferred | options)  # type: ignore[arg-type]

    return declare


creates = partial(endpoint, "POST", status=CREATED, errors=[CONFLICT])
"""Declares an endpoint that creates a resource, which can be in conflict with another."""


def snake(name: str) -> str:
    """Return ``snake_case`` for ``camelCase``."""
    return re.sub("([A-Z])", r"_\1", name).lower()


def slug_of(segment: str) -> str:
    """Return the slug in a segment of a path, decoded.

    Raises:
        NoSuchPath: It is not UTF-8, or encodes a character that needs no encoding.
    """
    try:
        if _SLUG_FORM.fullmatch(segment):
            return unquote_to_bytes(segment).decode()
    except UnicodeDecodeError as error:
        raise NoSuchPath from error
    raise NoSuchPath


Methods = dict[str, Endpoint]


class _Node:
    """A node of the routing tree: one segment of a path."""

    def __init__(self) -> None:
        self.literals: dict[str, _Node] = {}
        self.parameter: _Node | None = None
        self.methods: Methods = {}

    def child(self, segment: str) -> "_Node":
        """Return the node of the next *segment*, which is added if it is missing."""
        if not segment.startswith("{"):
            return self.literals.setdefault(segment, _Node())
        if self.parameter is None:
            self.parameter = _Node()
        return self.parameter


class Router:
    """Finds the endpoint of a path: literal paths in a dictionary, others segment by segment.

    A literal segment takes precedence over a parameter. The path is matched as it was sent:
    ``%2F`` is not a slash and ``%61`` is not ``a``, so that a proxy's rules apply to the same path.
    """

    def __init__(self, endpoints: Iterable[Endpoint]) -> None:
        self._exact: dict[str, Methods] = {}
        self._root = _Node()
        for endpoint in endpoints:
            self._methods(endpoint.path)[endpoint.method] = endpoint

    def find(self, method: str, path: str) -> tuple[Endpoint, Mapping[str, str]]:
        """Return the endpoint, and the values of the path parameters, not decoded.

        Raises:
            NoSuchPath: No endpoint has this path.
            MethodNotAllowed: The path exists, but not with *method*.
        """
        methods = self._exact.get(path)
        values: list[str] = []
        if methods is None:
            methods = self._match(path, values)
        endpoint = methods.get(method)
        if endpoint is None:
            raise MethodNotAllowed(methods)
        return endpoint, dict(zip(endpoint.parameters, values, strict=True)) if values else {}

    def _match(self, path: str, values: list[str]) -> Methods:
        node = self._root
        for segment in path.split("/")[1:]:
            child = node.literals.get(segment)
            if child is None and segment and node.parameter is not None:
                child = node.parameter
                values.append(segment)
            if child is None:
                raise NoSuchPath
            node = child
        if not node.methods:
            raise NoSuchPath
        return node.methods

    def _methods(self, path: str) -> Methods:
        node = self._root
        for segment in path.split("/")[1:]:
            node = node.child(segment)
        if "{" not in path:
            self._exact[path] = node.methods
        return node.methods
