"""The targets of notifications in the settings, and the events that they can have."""

import base64
import binascii
import ipaddress
import json
from pathlib import Path
from typing import Annotated, Any, Literal, Self
from urllib.parse import urlsplit
from uuid import UUID

from pydantic import (
    BaseModel,
    BeforeValidator,
    Field,
    SecretStr,
    StringConstraints,
    model_validator,
)
from pydantic_settings import NoDecode

from tenantry.kit.hook_events import FLEET_EVENTS, POST_EVENTS, Event

HOOKS_MAX = 16
TENANTS_MAX = 100
"""Tenants that one target can name."""
URL_CHARS_MAX = 2_048
SECRET_PREFIX = "whsec_"  # noqa: S105 - no secret
# The limits of Standard Webhooks for a key.
KEY_BYTES_MIN, KEY_BYTES_MAX = 24, 64
SECRET_FILE_BYTES_MAX = 4_096


def _secret(secret: SecretStr) -> SecretStr:
    """Return *secret* if it has the form of Standard Webhooks. The messages never contain it."""
    text = secret.get_secret_value()
    try:
        size = len(base64.b64decode(text.removeprefix(SECRET_PREFIX), validate=True))
    except (binascii.Error, ValueError):
        size = 0
    if not text.startswith(SECRET_PREFIX) or not KEY_BYTES_MIN <= size <= KEY_BYTES_MAX:
        raise ValueError(
            f"secret must be {SECRET_PREFIX} and {KEY_BYTES_MIN} to {KEY_BYTES_MAX} bytes in "
            "Base64: "
            f'`echo "{SECRET_PREFIX}$(openssl rand -base64 32)"` makes one'
        )
    return secret


class Hook(BaseModel, frozen=True, hide_input_in_errors=True, extra="forbid"):
    """A target of notifications. The path of its URL can be a secret, as that of Slack is.

    Attributes:
        url: Where messages are sent, with POST.
        secret: Signs the messages; empty for none, which only the format `slack` can have.
        secret_file: A file with the secret instead.
        tenants: The ids of tenants, at least one: it is notified of their posts, and of nothing
            else. Not their names: another tenant can get one.
        events: What it is notified of: everything by default.
        format: `standard`, or `slack` for a JSON object with a text.
        allow_http: Whether messages may be sent unencrypted to another machine.
    """

    url: SecretStr
    secret: SecretStr = SecretStr("")
    secret_file: Path | None = None
    # Not an empty list: that would be a target of runs. The default is not checked.
    tenants: frozenset[UUID] = Field(default=frozenset(), min_length=1, max_length=TENANTS_MAX)
    events: tuple[Event, ...] = Field(
        default=FLEET_EVENTS, min_length=1, max_length=len(FLEET_EVENTS)
    )
    format: Literal["standard", "slack"] = "standard"
    allow_http: bool = False

    @model_validator(mode="before")
    @classmethod
    def _choose_events(cls, given: Any) -> Any:
        if isinstance(given, dict) and given.get("tenants"):
            return {"events": POST_EVENTS, **given}
        return given

    @model_validator(mode="after")
    def _check_together(self) -> Self:
        check_url(self.url.get_secret_value(), allow_http=self.allow_http)
        allowed = POST_EVENTS if self.tenants else FLEET_EVENTS
        if not set(self.events) <= set(allowed):
            raise ValueError(
                "a target with tenants has the events of posts alone, and one without tenants has "
                "none of these: make two targets"
            )
        if self.secret_file is not None and self.secret.get_secret_value():
            raise ValueError("secret and secret_file are both given: remove one")
        if self.key is None and self.format == "standard":
            raise ValueError("secret or secret_file is missing")
        return self

    @property
    def key(self) -> bytes | None:
        """The key that signs; None without one."""
        secret = self.secret
        if self.secret_file is not None:
            secret = SecretStr(_read_secret(self.secret_file))
        elif not secret.get_secret_value():
            return None
        return base64.b64decode(_secret(secret).get_secret_value().removeprefix(SECRET_PREFIX))

    @property
    def origin(self) -> str:
        """The part of the URL that may be shown: scheme, host and port."""
        parts = urlsplit(self.url.get_secret_value())
        return f"{parts.scheme}://{parts.netloc}"


def check_url(url: str, *, allow_http: bool) -> None:
    """Check where messages are sent to. The error says what is wrong, without the URL."""
    try:
        parts = urlsplit(url)
        host, _ = parts.hostname or "", parts.port
    except ValueError:
        host = ""
    if not host or parts.scheme not in {"https", "http"} or "@" in parts.netloc or "#" in url:
        raise ValueError("url must be https://host/path, without a user name and a fragment")
    if len(url) > URL_CHARS_MAX or not url.isascii() or not url.isprintable() or " " in url:
        raise ValueError(f"url must have at most {URL_CHARS_MAX} characters of ASCII, no spaces")
    if parts.scheme == "http" and not allow_http and not _is_loopback(host):
        raise ValueError(
            'url must begin with https://; to send unencrypted messages, add "allow_http": true'
        )


def _is_loopback(host: str) -> bool:
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _read_secret(path: Path) -> str:
    try:
        with path.open("rb") as file:
            return file.read(SECRET_FILE_BYTES_MAX).decode("ascii").strip()
    except (OSError, UnicodeDecodeError):
        raise ValueError(f"secret_file {str(path)!r} cannot be read") from None


def _named_hooks(given: object) -> object:
    """Parse the JSON object here, because the error of pydantic would not name the setting."""
    named = given
    if isinstance(given, str):
        try:
            named = json.loads(given) if given.strip() else {}
        except (ValueError, RecursionError):
            named = None
    if not isinstance(named, dict) or len(named) > HOOKS_MAX:
        raise ValueError(
            f"must be a JSON object of at most {HOOKS_MAX} names and targets, such as "
            '{"ops": {"url": "https://...", "secret": "whsec_..."}}'
        )
    return named


HookName = Annotated[str, StringConstraints(pattern=r"^[a-z][a-z0-9-]{0,31}$")]
# NoDecode: otherwise the JSON is parsed before `_named_hooks`, with another message.
Hooks = Annotated[
    dict[HookName, Hook],
    NoDecode,
    BeforeValidator(_named_hooks),
    Field(
        description="Targets of notifications by name, as JSON: "
        '`{"ops": {"url": "https://…", "secret": "whsec_…"}}`, at most 16. '
        "`secret_file` is a file with the secret instead. `format` is `standard` (Standard "
        "Webhooks) or `slack`, which needs no secret. `events` are some of `run.started`, "
        "`run.wave_ended`, `run.holding`, `run.first_failure`, `run.ended`, `server.away` and "
        "`server.back`; all by default. With `tenants`, the ids of 1 to 100 tenants, they are "
        "some of `post.published`, `post.changed` and `post.unpublished` of these instead. "
        "`allow_http` is needed for `http://` to another machine. "
        "Give every process the same targets."
    ),
]
