"""The accepted host names and origins: protection against requests from foreign web pages.

DNS rebinding is rejected by the ``Host`` header, and other foreign pages by their ``Origin``.
"""

import re
from urllib.parse import urlsplit

from tenantry.kit.errors import Forbidden
from tenantry.settings import Settings

LOOPBACK = frozenset({"127.0.0.1", "[::1]", "localhost"})
PORT_MAX = 65_535

_AUTHORITY = r"(?P<name>\[[0-9a-f:.]+]|[a-z0-9._-]+)(?::(?P<port>[0-9]{1,5}))?"
# Source: RFC 9110, section 7.2
_HOST = re.compile(_AUTHORITY, re.IGNORECASE | re.ASCII)
# Source: RFC 6454, section 7. The origin "null" of sandboxed pages is rejected.
_ORIGIN = re.compile("https?://" + _AUTHORITY, re.IGNORECASE | re.ASCII)


class ForeignHost(Forbidden):
    """The host name of the request is not in TENANTRY_PUBLIC_URL."""


class ForeignOrigin(Forbidden):
    """The request comes from a web page of another origin."""


def check_origin(settings: Settings, *, host: str, origin: str) -> None:
    """Check the values of the headers ``Host`` and ``Origin``; the latter may be empty.

    A repeated header, with its values joined by a comma, is rejected.

    Raises:
        ForeignHost, ForeignOrigin: The value is malformed, or another name.
    """
    ours = _names(settings)
    if _name(_HOST, host) not in ours:
        raise ForeignHost
    if origin and _name(_ORIGIN, origin) not in ours:
        raise ForeignOrigin


def _names(settings: Settings) -> frozenset[str]:
    if settings.public_url:
        return frozenset({_in_url(urlsplit(settings.public_url).hostname or "")})
    return LOOPBACK | {_in_url(settings.host.lower())}


def _in_url(host: str) -> str:
    """Return *host* as in a URL: an IPv6 address in brackets."""
    return f"[{host}]" if ":" in host else host


def _name(form: re.Pattern[str], value: str) -> str | None:
    """Return the name in *value*, in lower case; the port is ignored, because proxies change it."""
    found = form.fullmatch(value)
    if found is None or not 0 < int(found["port"] or PORT_MAX) <= PORT_MAX:
        return None
    return found["name"].lower()
