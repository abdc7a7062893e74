"""The base of everything on the wire, and pages."""

from datetime import datetime
from typing import Annotated

import msgspec

from tenantry.kit.pages import PAGE_SIZE_DEFAULT, Window

AtLeastOne = Annotated[int, msgspec.Meta(ge=1)]
Instant = Annotated[datetime, msgspec.Meta(tz=True)]


class Schema(msgspec.Struct, frozen=True, rename="camel"):
    """Base of everything on the wire: camelCase there, snake_case here."""


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
    """Server-Sent Events: the text is the body, and goes on for as long as there is to tell."""

    text: str
