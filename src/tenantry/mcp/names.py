"""By which names the service may be asked, so that no web page can ask it for somebody else.

A page that has made its own name lead here ("DNS rebinding") is refused by the name that it
asks for, and any other page by the name that it comes from.
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
# Source: RFC 6454, section 7. What a page has that comes from nowhere, "null", is none of ours.
_ORIGIN = re.compile("https?://" + _AUTHORITY, re.IGNORECASE | re.ASCII)


class ForeignHost(Forbidden):
    """The request is for a name that is not this service's; TENANTRY_PUBLIC_URL says which is."""


class ForeignOrigin(Forbidden):
    """The request comes from a web page of somebody else."""


def check_names(settings: Settings, *, host: str, origin: str) -> None:
    """Check the values of the headers ``Host`` and ``Origin``; the latter may be empty.

    A header that was sent twice, and has its values with a comma between them, names nobody.

    Raises:
        ForeignHost, ForeignOrigin: It names somebody else, or is no such value.
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
    """Return *host* as it stands in a URL: an address of IPv6 in brackets."""
    return f"[{host}]" if ":" in host else host


def _name(form: re.Pattern[str], value: str) -> str | None:
    """Return the name in *value*, in lower case; the port is whatever a proxy makes of it."""
    found = form.fullmatch(value)
    if found is None or not 0 < int(found["port"] or PORT_MAX) <= PORT_MAX:
        return None
    return found["name"].lower()
