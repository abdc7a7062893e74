"""By which names the service may be asked, so that no web page can ask it for somebody else.

A page that has made its own name lead here ("DNS rebinding") is refused by the name that it
asks for, and any other page by the name that it comes from.
"""

from collections.abc import Iterable
from urllib.parse import urlsplit

from tenantry.kit.errors import Forbidden
from tenantry.settings import Settings

LOOPBACK = frozenset({"127.0.0.1", "::1", "localhost"})


class ForeignHost(Forbidden):
    """The request is for a name that is not this service's; TENANTRY_PUBLIC_URL says which is."""


class ForeignOrigin(Forbidden):
    """The request comes from a web page of somebody else."""


def check_names(settings: Settings, *, host: str, origin: str) -> None:
    """Check the values of the headers ``Host`` and ``Origin``; the latter may be empty.

    Raises:
        ForeignHost, ForeignOrigin: It names somebody else.
    """
    ours = _names(settings)
    if _name(f"//{host}") not in ours:
        raise ForeignHost
    if origin and _name(origin) not in ours:
        raise ForeignOrigin


def _names(settings: Settings) -> Iterable[str | None]:
    if settings.public_url:
        return (_name(settings.public_url),)
    return LOOPBACK | {settings.host}


def _name(url: str) -> str | None:
    """Return the name in *url*, in lower case; the port is whatever a proxy makes of it."""
    try:
        return urlsplit(url).hostname
    except ValueError:
        return None
