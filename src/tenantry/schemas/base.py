"""The base of everything on the wire, and pages."""

from collections.abc import Callable, Iterable
from datetime import datetime
from functools import cache
from operator import attrgetter
from typing import Annotated, Any, Generic, Self, TypeVar, get_args

import msgspec
from msgspec import UNSET

from tenantry.kit.pages import PAGE_SIZE_DEFAULT, Page, Window

AtLeastOne = Annotated[int, msgspec.Meta(ge=1)]
Instant = Annotated[datetime, msgspec.Meta(tz=True)]


class Schema(msgspec.Struct, frozen=True, rename="camel"):
    """Base of everything on the wire: camelCase there, snake_case here."""

    @classmethod
    def of(cls, source: Any, **more: Any) -> Self:
        """Return the representation of *source*: its attributes of the same names, and *more*."""
        if not more:
            return cls(*_members(cls)(source))
        names = (name for name in cls.__struct_fields__ if name not in more)
        return cls(**{name: getattr(source, name) for name in names}, **more)


@cache
def _members(schema: type[Schema]) -> Callable[[Any], tuple[Any, ...]]:
    return attrgetter(*schema.__struct_fields__)


Item = TypeVar("Item", bound=Schema)


class ListResponse(Schema, Generic[Item], frozen=True):
    """Base of the lists that are answered whole."""

    items: list[Item]

    @classmethod
    def of_all(cls, found: Iterable[Any]) -> Self:
        """Return the representation of what was *found*."""
        item = cls._item()
        return cls([item.of(one) for one in found])

    @classmethod
    def _item(cls) -> type[Item]:
        return get_args(cls.__orig_bases__[0])[0]  # type: ignore[attr-defined,no-any-return]


class PageResponse(ListResponse[Item], Generic[Item], frozen=True):
    """Base of the lists that are answered in pages."""

    page: int
    page_size: int
    total_count: int
    total_pages: int

    @classmethod
    def of_page(cls, page: Page[Any]) -> Self:
        """Return the representation of *page*."""
        item, window = cls._item(), page.window
        items = [item.of(one) for one in page.items]
        return cls(items, window.page, window.size, page.total_count, page.total_pages)


class Nothing(Schema, frozen=True):
    """A request that asks nothing."""


class Done(Schema, frozen=True):
    """That something was done which leaves nothing to show."""

    message: str


class PageRequest(Schema, frozen=True):
    """Which page of a list."""

    page: AtLeastOne = 1
    page_size: AtLeastOne = PAGE_SIZE_DEFAULT

    @property
    def window(self) -> Window:
        """The part of the list that is wanted."""
        return Window(self.page, self.page_size)


class Health(Schema, frozen=True):
    """That the service is well."""

    status: str = "ok"


class JwkSet(Schema, frozen=True):
    """Public keys (RFC 7517)."""

    keys: list[dict[str, str]]


class MetricsText(Schema, frozen=True):
    """What one process has counted, in the text format of Prometheus: the text is the body."""

    text: str


class JsonLines(Schema, frozen=True):
    """One JSON object on each line: the text is the body."""

    text: str


class EventStream(Schema, frozen=True):
    """Server-Sent Events: the body is a stream of text."""

    text: str


def sent_members(request: msgspec.Struct) -> dict[str, Any]:
    """Return the members of *request* that were sent, by our names."""
    members = ((name, getattr(request, name)) for name in request.__struct_fields__)
    return {name: value for name, value in members if value is not UNSET}
