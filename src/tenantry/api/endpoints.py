"""What an endpoint is, how a handler becomes one, and how the one for a request is found.

An endpoint is declared where its handler is: `endpoint` is the decorator. Dispatch, the level of
access and the OpenAPI description follow from it.
"""

import re
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from http import HTTPStatus
from typing import Any, get_type_hints
from urllib.parse import unquote_to_bytes
from uuid import UUID

import msgspec

from tenantry.access.principal import Scope
from tenantry.api.access_levels import Level
from tenantry.api.envelope import MethodNotAllowed
from tenantry.kit.errors import NotFound
from tenantry.schemas.base import Nothing
from tenantry.tenant.entry import Demand

ACCEPTED, CREATED, OK = HTTPStatus.ACCEPTED, HTTPStatus.CREATED, HTTPStatus.OK
CONFLICT, NOT_FOUND = HTTPStatus.CONFLICT, HTTPStatus.NOT_FOUND
TOO_MANY_REQUESTS, UNAUTHORIZED = HTTPStatus.TOO_MANY_REQUESTS, HTTPStatus.UNAUTHORIZED

BODY_BYTES_MAX = 65_536
CONTENT_BYTES_MAX = 1_048_576
# The last place in the queue of `access.queue` waits for 6 s; some requests hash two passwords.
HASHING_SECONDS = 15.0


# A slug as it is sent: letters of other scripts are UTF-8, percent-encoded, and nothing else is.
_SLUG_FORM = re.compile(r"(?:[A-Za-z0-9-]|%[89A-Fa-f][0-9A-Fa-f])+")


class NoSuchPath(NotFound):
    """There is nothing at this path."""


@dataclass(frozen=True, kw_only=True)
class Endpoint:
    """One method on one path.

    Attributes:
        method: GET, POST, PUT, PATCH or DELETE.
        path: Literal segments, and ``{name}`` for parameters: ids, but for ``{slug}``.
        level: Who may call it, and with which context.
        handler: Takes the context, the services, the request, and by name the path's
            parameters and the `headers`; returns the data, or a `Reply`, or an asynchronous
            generator of the chunks of their JSON.
        request: Filled from the JSON body (POST, PUT, PATCH), or from the query.
        response: The ``data`` of the envelope; None when there is only a message.
        summary: One line for the description.
        message: What is said when there are no data.
        status: Of success.
        also: Other successes: the status, and the ``data``.
        headers: Request headers that the handler takes (``Last-Event-ID`` as
            ``last_event_id``): empty when absent, and when sent twice joined by commas.
        errors: The statuses that the endpoint adds to those of its level.
        scope: What an McpToken needs.
        module: What must be on for the tenant.
        holds_secret: Whether the answer must not be stored anywhere.
        is_bare: Whether a standard fixes the form of the answer, and not the envelope.
        keep_alive_seconds: After how long a space is sent ahead of the body, and then again and
            again; None when the answer never takes long.
        seconds_more: How much longer the work may take than other requests use databases, because
            it hashes passwords; None if it has deadlines of its own.
        goes_on: Whether the answer goes on for as long as the caller has access: the handler
            also takes ``readmit``, which raises when a new request would be refused.
        body_bytes_max: Of the body.
        version: Tells the version of what the answer is made from, for conditional requests;
            the handler then returns `Versioned` data.
    """

    method: str
    path: str
    level: Level[Any]
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
    holds_secret: bool = False
    is_bare: bool = False
    keep_alive_seconds: float | None = None
    seconds_more: float | None = 0.0
    goes_on: bool = False
    body_bytes_max: int = BODY_BYTES_MAX
    version: Callable[[Any], Awaitable[UUID]] | None = None

    @cached_property
    def reads_body(self) -> bool:
        """Whether the request is in the body, not in the query."""
        return self.method in {"POST", "PUT", "PATCH"}

    @cached_property
    def demand(self) -> Demand:
        """What is asked of whoever comes in."""
        return Demand(self.scope, self.module)

    @cached_property
    def decoder(self) -> msgspec.json.Decoder[Any]:
        """Decodes the body."""
        return msgspec.json.Decoder(self.request)

    @cached_property
    def unasked(self) -> msgspec.Struct | None:
        """The request that asks for nothing, if there can be such."""
        try:
            return msgspec.convert({}, self.request)
        except msgspec.ValidationError:
            return None

    @cached_property
    def numbers(self) -> frozenset[str]:
        """The members of the request that are whole numbers, by their names on the wire."""
        described = msgspec.inspect.type_info(self.request)
        assert isinstance(described, msgspec.inspect.StructType)
        whole = (one for one in described.fields if isinstance(one.type, msgspec.inspect.IntType))
        return frozenset(one.encode_name for one in whole)

    @cached_property
    def operation_id(self) -> str:
        """The name of the operation for generated clients; it never changes."""
        words = self.handler.__name__.split("_")
        resource = self.handler.__module__.rpartition(".")[2]
        return "".join([words[0], *(w.title() for w in [*words[1:], *resource.split("_")])])

    @cached_property
    def parameters(self) -> tuple[str, ...]:
        """The names of the parameters in the path, as the handler takes them."""
        return tuple(snake(part[1:-1]) for part in self.path.split("/") if part.startswith("{"))


def endpoint(
    method: str, path: str, level: Level[Any], **options: Any
) -> Callable[[Callable[..., Awaitable[Any]]], Endpoint]:
    """Make an `Endpoint` of the handler below.

    The summary is the first line of the handler's docstring, the request is the type of its third
    argument, and the response is what it returns, unless *options* say otherwise.

    Args:
        method: GET, POST, PUT, PATCH or DELETE.
        path: Literal segments, and ``{name}`` for parameters.
        level: Who may call it.
        options: The other attributes of `Endpoint`.
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


def snake(name: str) -> str:
    """Return ``snake_case`` for ``camelCase``."""
    return re.sub("([A-Z])", r"_\1", name).lower()


def slug_of(sent: str) -> str:
    """Return the slug in a segment of a path.

    Raises:
        NoSuchPath: It is not UTF-8, or encodes a character that needs no encoding.
    """
    try:
        if _SLUG_FORM.fullmatch(sent):
            return unquote_to_bytes(sent).decode()
    except UnicodeDecodeError as error:
        raise NoSuchPath from error
    raise NoSuchPath


Methods = dict[str, Endpoint]


class _Node:
    """One segment of a path, and what may follow it."""

    def __init__(self) -> None:
        self.literals: dict[str, _Node] = {}
        self.parameter: _Node | None = None
        self.methods: Methods = {}

    def grow(self, segment: str) -> "_Node":
        if not segment.startswith("{"):
            return self.literals.setdefault(segment, _Node())
        if self.parameter is None:
            self.parameter = _Node()
        return self.parameter


class Router:
    """Finds the endpoint of a path: exact paths in a dictionary, the others segment by segment.

    A literal segment wins over a parameter. The path is matched as it was sent: ``%2F`` is no
    slash and ``%61`` no ``a``, so that every proxy in front sees the same path as the router.
    """

    def __init__(self, endpoints: Iterable[Endpoint]) -> None:
        self._exact: dict[str, Methods] = {}
        self._root = _Node()
        for endpoint in endpoints:
            self._methods(endpoint.path)[endpoint.method] = endpoint

    def find(self, method: str, path: str) -> tuple[Endpoint, Mapping[str, str]]:
        """Return the endpoint, and the parameters in *path*, as they were sent.

        Raises:
            NoSuchPath: No endpoint has this path.
            MethodNotAllowed: None of those that have it takes *method*.
        """
        methods = self._exact.get(path)
        values: list[str] = []
        if methods is None:
            methods = self._walk(path, values)
        endpoint = methods.get(method)
        if endpoint is None:
            raise MethodNotAllowed(methods)
        return endpoint, dict(zip(endpoint.parameters, values, strict=True)) if values else {}

    def _walk(self, path: str, values: list[str]) -> Methods:
        node = self._root
        for segment in path.split("/")[1:]:
            below = node.literals.get(segment)
            if below is None and segment and node.parameter is not None:
                below = node.parameter
                values.append(segment)
            if below is None:
                raise NoSuchPath
            node = below
        if not node.methods:
            raise NoSuchPath
        return node.methods

    def _methods(self, path: str) -> Methods:
        node = self._root
        for segment in path.split("/")[1:]:
            node = node.grow(segment)
        if "{" not in path:
            self._exact[path] = node.methods
        return node.methods
