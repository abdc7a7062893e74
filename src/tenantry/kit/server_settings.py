"""The URLs of databases and tenant servers in the settings."""

import json
from typing import Annotated

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    Field,
    SecretStr,
    StringConstraints,
)
from pydantic_settings import NoDecode

from tenantry.kit import postgres_urls

WEIGHT_MAX = 1_000
TENANTS_MAX = 100_000_000

SCHEMES = ("sqlite:///", "postgresql://", "postgres://")


def _database_url(url: str) -> str:
    """Return *url* if it is well-formed. The messages never contain it: it has a password."""
    if not url:
        return url
    scheme, is_url, _ = url.partition("://")
    if (
        is_url
        and scheme.partition("+")[0] in {"postgresql", "postgres", "sqlite"}
        and "+" in scheme
    ):
        raise ValueError("must not contain a driver: begin with sqlite:/// or postgresql://")
    if not url.startswith(SCHEMES):
        raise ValueError("must begin with sqlite:/// or postgresql://")
    if url.startswith("sqlite:///"):
        if url == "sqlite:///":
            raise ValueError("must have a path after sqlite:///")
        return url
    postgres_urls.parse(url)
    return url


DatabaseUrl = Annotated[
    SecretStr, AfterValidator(lambda v: SecretStr(_database_url(v.get_secret_value())))
]

ServerName = Annotated[str, StringConstraints(pattern=r"^[a-z][a-z0-9-]{0,31}$")]


class TenantServer(BaseModel, frozen=True, hide_input_in_errors=True):
    """A tenant server in the settings.

    Attributes:
        url: For requests.
        admin_url: Without a pooler; empty if `url` has none.
        weight: The share of new tenants that it gets, among all servers; 0: only by name.
        max_tenants: From this number on, it gets no more tenants by weight; None: no limit.
        concurrency: How many of its databases a process migrates concurrently; None: as in
            the settings of the process.
        connections: The limit of connections from a process for requests; likewise.
    """

    url: DatabaseUrl
    admin_url: DatabaseUrl = SecretStr("")
    weight: int = Field(default=0, ge=0, le=WEIGHT_MAX)
    max_tenants: int | None = Field(default=None, ge=0, le=TENANTS_MAX)
    concurrency: int | None = Field(default=None, ge=1, le=256)
    connections: int | None = Field(default=None, ge=1, le=10_000)

    @property
    def address(self) -> str:
        """The URL for requests."""
        return self.url.get_secret_value()

    @property
    def admin_address(self) -> str:
        """The URL for everything else: without a pooler."""
        return self.admin_url.get_secret_value() or self.address


def _named_servers(given: object) -> object:
    """Parse the JSON object here, because the error of pydantic would not name the setting."""
    named = given
    if isinstance(given, str):
        try:
            named = json.loads(given) if given.strip() else {}
        except (ValueError, RecursionError):
            named = None
    if not isinstance(named, dict):
        raise ValueError(  # noqa: TRY004 - pydantic takes it for the message
            'must be a JSON object of names and URLs, such as {"eu": "postgresql://..."}'
        )
    return {name: _one_server(one) for name, one in named.items()}


def _one_server(given: object) -> object:
    if isinstance(given, str):
        return {"url": given}
    known = TenantServer.model_fields
    if not isinstance(given, dict) or not known.keys() >= given.keys() >= {"url"}:
        raise ValueError(
            "must have a URL for each name, or an object with the field url; its other fields are "
            f"{', '.join(name for name in known if name != 'url')}"
        )
    return given


# NoDecode: otherwise the JSON is parsed before `_named_servers`, with another message.
TenantServers = Annotated[dict[ServerName, TenantServer], NoDecode, BeforeValidator(_named_servers)]
