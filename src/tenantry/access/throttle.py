"""Limits on guessing passwords.

A place is taken before anything is hashed, so that a burst of simultaneous guesses meets the
limit like a slow one. What is counted is the account that somebody names, whether there is
one or not, so that being refused tells nothing.
"""

import hashlib
import ipaddress
import math
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from tenantry.access.passwords import WrongPassword
from tenantry.catalog import attempts
from tenantry.catalog.attempts import Guess, Limits
from tenantry.catalog.database import Catalog
from tenantry.kit.errors import Unavailable
from tenantry.kit.metrics import TOO_MANY, WRONG_PASSWORD, Metrics
from tenantry.kit.text import canonical

# Whoever has one IPv6 address usually has a whole network of this size (RFC 6177).
IPV6_NETWORK_BITS = 64


class TooManyAttempts(Unavailable):
    """Too many failed logins; wait before the next one."""


class Throttle:
    """Counts the guesses at passwords, in the catalog."""

    def __init__(self, catalog: Catalog, limits: Limits, metrics: Metrics) -> None:
        self._catalog = catalog
        self._limits = limits
        self._metrics = metrics

    @asynccontextmanager
    async def guess(self, *, realm: str, account: str, address: str) -> AsyncIterator[None]:
        """Count what happens in the block as one guess, if it raises `WrongPassword`.

        Args:
            realm: Of the account: a tenant's id, or that of the admins.
            account: The address that was typed.
            address: Where the guess comes from.

        Raises:
            TooManyAttempts: There were too many; the block is not entered.
        """
        guess = _guess(realm, canonical(account), network_of(address))
        wait_ms = await attempts.take(self._catalog, guess, self._limits)
        if wait_ms is not None:
            self._metrics.count_login_failure(TOO_MANY)
            raise TooManyAttempts(retry_after_seconds=max(math.ceil(wait_ms / 1000), 1))
        try:
            yield
        except WrongPassword:
            self._metrics.count_login_failure(WRONG_PASSWORD)
            raise
        except BaseException:
            await attempts.give_back(self._catalog, guess)
            raise
        await attempts.succeed(self._catalog, guess)


def _guess(realm: str, account: str, address: str) -> Guess:
    return Guess(
        address=_digest("address", address),
        account=_digest("account", realm, account),
        pair=_digest("pair", realm, account, address),
    )


def _digest(*parts: str) -> str:
    # A login takes any string; a surrogate that stands alone is no text, but has bytes.
    return hashlib.sha256("\0".join(parts).encode(errors="surrogatepass")).hexdigest()


def network_of(address: str) -> str:
    """Return what counts as one client: an IPv4 address, or an IPv6 network of one customer."""
    try:
        ip = ipaddress.ip_address(address)
    except ValueError:
        return address
    if isinstance(ip, ipaddress.IPv6Address) and ip.ipv4_mapped is None:
        return str(ipaddress.ip_network((ip, IPV6_NETWORK_BITS), strict=False))
    return str(ip)
