"""The base classes of requests, responses, lists and pages, and messages about invalid requests."""

from collections.abc import Callable, Iterable
from datetime import datetime
from functools import cache
from operator import attrgetter
from typing import Annotated, Any, ClassVar, Generic, Self, TypeVar, get_args

import msgspec
from msgspec import UNSET

from tenantry.kit.pages import PAGE_SIZE_DEFAULT, Page, Window
from tenantry.kit.release import VERSION
from tenantry.kit.text import BadText, shown

AtLeastOne = Annotated[int, msgspec.Meta(ge=1)]
Instant = Annotated[datetime, msgspec.Meta(tz=True)]
_AT = " - at `$"


class Schema(msgspec.Struct, frozen=True, rename="camel"):
    """Base of requests and responses: camelCase in JSON, snake_case in Python.

    A response that has all members of a type of an operation inherits them from it. If it has
    other ones too, its ``represents`` names the type. The OpenAPI description takes the meaning of
    a member from ``Attributes:`` of the schema, of the type it represents, of its bases, and last
    from here. ``test_openapi.py`` fails if one has none.

    A response with ``holds_secret`` must not be logged.

    Attributes:
        id: Its id.
        tenant_id: The id of the tenant.
        tenant_name: The name of the tenant.
        server_name: The name of the tenant server that holds the database.
        database_name: The name of the tenant's database; on SQLite, of its file without the suffix.
        is_attached: Whether it is an attached database, without users, posts and API keys.
        email: The e-mail address, at most 254 characters; upper and lower case are the same.
        full_name: The name of the person: one line of 1 to 200 characters.
        created_at: When it was created.
        started_at: When it started.
        where: Selects tenants by their labels and more, such as `plan=free and not failing`.
    """

    holds_secret: ClassVar[bool] = False

    @classmethod
    def of(cls, source: Any, **more: Any) -> Self:
        """Return the representation of *source*: attributes with the same names, and *more*.

        Without *more*, the objects in the attributes are represented as well.
        """
        if not more:
            members = _members(cls)
            if members is None:
                return msgspec.convert(source, cls, from_attributes=True)
            return cls(*members(source))
        names = cls.__struct_fields__
        return cls(**{name: getattr(source, name) for name in names if name not in more}, **more)


Item = TypeVar("Item", bound=Schema)


@cache
def _members(schema: type[Schema]) -> Callable[[Any], tuple[Any, ...]] | None:
    """Return a function that reads the members of a flat *schema*; None for others."""
    _, types = msgspec.json.schema_components([schema])
    # Items of long lists have none, and this is faster than msgspec. For one name, the getter
    # returns no tuple.
    names = schema.__struct_fields__
    return attrgetter(*names) if len(types) == 1 and len(names) > 1 else None


@cache
def _item_of(schema: type["ListResponse[Item]"]) -> type[Item]:
    """Return the class of the items of a list."""
    return get_args(schema.__orig_bases__[0])[0]  # type: ignore[attr-defined,no-any-return]


class ListResponse(Schema, Generic[Item], frozen=True):
    """Base of lists that are returned completely.

    Attributes:
        items: The items, in the order that the operation names.
    """

    items: list[Item]

    @classmethod
    def of_all(cls, found: Iterable[Any]) -> Self:
        """Return the representation of the items *found*."""
        item = _item_of(cls)
        return cls([item.of(one) for one in found])


class PageResponse(ListResponse[Item], Generic[Item], frozen=True):
    """Base of lists that are returned in pages.

    Attributes:
        page: The number of this page, from 1.
        page_size: The most items on a page; at most 100, also if more were requested.
        total_count: The number of items on all pages.
        total_pages: The number of pages; 0 for an empty list.
    """

    page: int
    page_size: int
    total_count: int
    total_pages: int

    @classmethod
    def of_page(cls, page: Page[Any], items: list[Item] | None = None) -> Self:
        """Return the representation of *page*, whose *items* may be represented already."""
        item, window = _item_of(cls), page.window
        items = [item.of(one) for one in page.items] if items is None else items
        return cls(items, window.page, window.size, page.total_count, page.total_pages)


class Nothing(Schema, frozen=True):
    """A request without members."""


class Done(Schema, frozen=True):
    """The result of an operation that returns no data."""

    message: str


class PageRequest(Schema, frozen=True):
    """A page of a list.

    Attributes:
        page: The page, from 1; one after the last has no items.
        page_size: The most items on the page, from 1; more than 100 count as 100.
    """

    page: AtLeastOne = 1
    page_size: AtLeastOne = PAGE_SIZE_DEFAULT

    @property
    def window(self) -> Window:
        """The page as a `Window`."""
        return Window(self.page, self.page_size)


class Health(Schema, frozen=True):
    """The result of a liveness check.

    Attributes:
        status: Always `ok`: a process that is not healthy returns an error.
    """

    status: str = "ok"


class Readiness(Health, frozen=True):
    """The result of a readiness check, and the release that runs.

    Attributes:
        release: The version of Tenantry that runs.
    """

    release: str = VERSION


class JwkSet(Schema, frozen=True):
    """Public keys (RFC 7517).

    Attributes:
        keys: The public keys that verify bearer tokens, each a JWK (RFC 8037, Ed25519).
    """

    keys: list[dict[str, str]]


class MetricsText(Schema, frozen=True):
    """The metrics of one process, in the text format of Prometheus; the text is the body."""

    text: str


class JsonLines(Schema, frozen=True):
    """One JSON object on each line; the text is the body."""

    text: str


class ZipFile(Schema, frozen=True):
    """A ZIP file; its bytes are the body."""

    text: str


class EventStream(Schema, frozen=True):
    """Server-Sent Events: the body is a stream of text."""

    text: str


def sent_members(request: msgspec.Struct) -> dict[str, Any]:
    """Return the members of *request* that were sent, by their Python names."""
    names = request.__struct_fields__
    return {name: sent for name in names if (sent := getattr(request, name)) is not UNSET}


def readable(error: msgspec.DecodeError) -> str:
    """Return a message for an error of msgspec: the member, and the rule that it breaks.

    msgspec repeats unknown names and invalid values of the request, so the message is shortened.
    """
    # msgspec writes the member last: "Expected `str`, got `int` - at `$.email`".
    text = str(error)
    rule, _, path = text.rpartition(_AT) if _AT in text else (text, "", "")
    member = shown(path.rstrip("`").lstrip("."))
    text = shown(rule.removesuffix("."))
    return f"`{member}`: {text}." if member else f"{text}."


def check_text(request: msgspec.Struct) -> None:
    """Check that no text in *request* contains NUL, which PostgreSQL cannot store.

    Raises:
        BadText: A text contains NUL.
    """
    fields = zip(request.__struct_fields__, request.__struct_encode_fields__, strict=True)
    for field, name in fields:
        value = getattr(request, field)
        for text in value if isinstance(value, list) else [value]:
            if isinstance(text, str) and "\0" in text:
                raise BadText(f"`{name}` must not hold NUL characters.")
            if isinstance(text, msgspec.Struct):
                check_text(text)
