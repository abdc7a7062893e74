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
from dataclasses import dataclass

from tenantry.access.passwords import WrongPassword
from tenantry.catalog import attempts
from tenantry.catalog.database import Catalog
from tenantry.catalog.planes import CatalogSession
from tenantry.kit.errors import Unavailable
from tenantry.kit.metrics import TOO_MANY, WRONG_PASSWORD, Metrics
from tenantry.kit.text import canonical

MINUTE_MS = 60_000
HOUR_MS = 3_600_000
# Whoever has one IPv6 address usually has a whole network of this size (RFC 6177).
IPV6_NETWORK_BITS = 64


class TooManyAttempts(Unavailable):
    """Too many failed logins; wait before the next one."""


@dataclass(frozen=True, kw_only=True)
class Limits:
    """How often somebody may guess.

    Attributes:
        tries: Failures of one account from one address, before it must wait.
        account_hourly: Failures of one account, over all addresses.
        address_minutely: Failures from one address.
    """

    tries: int
    account_hourly: int
    address_minutely: int


@dataclass(frozen=True)
class _Keys:
    address: str
    account: str
    pair: str


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
        keys = _keys(realm, canonical(account), _network(address))
        try:
            await self._take(keys)
        except TooManyAttempts:
            self._metrics.count_login_failure(TOO_MANY)
            raise
        try:
            yield
        except WrongPassword:
            self._metrics.count_login_failure(WRONG_PASSWORD)
            raise
        except BaseException:
            await self._give_back(keys, pair_is_cleared=False)
            raise
        await self._give_back(keys, pair_is_cleared=True)

    async def _take(self, keys: _Keys) -> None:
        limits = self._limits
        async with self._catalog.begin() as session:
            if not await attempts.take_window(
                session, keys.address, limit=limits.address_minutely, length_ms=MINUTE_MS
            ):
                await _refuse(session, keys.address)
            if not await attempts.take_window(
                session, keys.account, limit=limits.account_hourly, length_ms=HOUR_MS
            ):
                await _refuse(session, keys.account)
            if not await attempts.take_backoff(session, keys.pair, tries=limits.tries):
                await _refuse(session, keys.pair)

    async def _give_back(self, keys: _Keys, *, pair_is_cleared: bool) -> None:
        async with self._catalog.begin() as session:
            await attempts.give_back(session, keys.address)
            await attempts.give_back(session, keys.account)
            if pair_is_cleared:
                await attempts.clear(session, keys.pair)
            else:
                await attempts.give_back(session, keys.pair)


async def _refuse(session: CatalogSession, key: str) -> None:
    wait = math.ceil(await attempts.wait_ms(session, key) / 1000)
    raise TooManyAttempts(retry_after_seconds=max(wait, 1))


def _keys(realm: str, account: str, address: str) -> _Keys:
    return _Keys(
        address=_digest("address", address),
        account=_digest("account", realm, account),
        pair=_digest("pair", realm, account, address),
    )


def _digest(*parts: str) -> str:
    # A login takes any string; a surrogate that stands alone is no text, but has bytes.
    return hashlib.sha256("\0".join(parts).encode(errors="surrogatepass")).hexdigest()


def _network(address: str) -> str:
    try:
        ip = ipaddress.ip_address(address)
    except ValueError:
        return address
    if isinstance(ip, ipaddress.IPv6Address) and ip.ipv4_mapped is None:
        return str(ipaddress.ip_network((ip, IPV6_NETWORK_BITS), strict=False))
    return str(ip)
