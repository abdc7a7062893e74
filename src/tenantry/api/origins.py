"""The accepted host names and origins: protection against requests from foreign web pages.

DNS rebinding is rejected by the ``Host`` header, and other foreign pages by their ``Origin``, or,
where no credential is sent, by ``Sec-Fetch-Site``.
"""

import re
from urllib.parse import urlsplit

from tenantry.api.requests import read_headers
from tenantry.kit.errors import Forbidden, Invalid
from tenantry.kit.negotiation import RawHeaders
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


class NotLoopback(Invalid):
    """A fleet is served to this machine alone: open it as 127.0.0.1 or localhost."""


class CrossSite(Forbidden):
    """A web page of another site must not send this request: open the page of the service."""


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


def check_loopback(headers: RawHeaders) -> None:
    """Check that a request to a server for this machine alone is of a page of this machine.

    A name in DNS can have the address of this machine, so the name must be a loopback name. The
    port can be that of a tunnel.

    Raises:
        NotLoopback, ForeignOrigin: It is another name.
    """
    sent = read_headers(headers, ("host", "origin"))
    if _name(_HOST, sent["host"]) not in LOOPBACK:
        raise NotLoopback
    if sent["origin"] and _name(_ORIGIN, sent["origin"]) not in LOOPBACK:
        raise ForeignOrigin


def check_same_site(headers: RawHeaders) -> None:
    """Check that no web page of another site has sent a request that needs no credential.

    A browser lets any page send a body without a type, which is read as JSON. It says so in a
    header that no page can set, except to a service without TLS on another machine. A body with the
    type of JSON is sent only after a preflight (Fetch, "CORS-safelisted request-header").

    Raises:
        CrossSite: A page of another site has sent it, without a type.
    """
    is_foreign = (b"sec-fetch-site", b"cross-site") in headers
    if is_foreign and not any(name == b"content-type" for name, _ in headers):
        raise CrossSite


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
