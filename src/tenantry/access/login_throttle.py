"""Limits on guessing passwords.

An attempt is counted before the password is hashed, so that the limit also holds for a burst of
simultaneous guesses. Attempts on an account that does not exist are counted in the same way, so
that a rejection does not reveal which accounts exist.
"""

import hashlib
import math
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import msgspec

from tenantry.access.addresses import network_of
from tenantry.access.emails import canonical_email
from tenantry.access.passwords import WrongPassword
from tenantry.catalog import password_attempts
from tenantry.catalog.database import Catalog
from tenantry.catalog.password_attempts import Guess, Limits
from tenantry.kit.errors import Unavailable
from tenantry.kit.metrics import TOO_MANY, WRONG_PASSWORD, Metrics


class TooManyAttempts(Unavailable):
    """Too many failed logins; wait before the next one."""


class Throttle:
    """Counts password attempts in the catalog, and rejects them above the limits."""

    def __init__(self, catalog: Catalog, limits: Limits, metrics: Metrics) -> None:
        self._catalog = catalog
        self._limits = limits
        self._metrics = metrics

    @asynccontextmanager
    async def guess(self, *, realm: str, account: str, address: str) -> AsyncIterator[None]:
        """Count one failed attempt if the block raises `WrongPassword`.

        Args:
            realm: A tenant's id, or `admins.REALM`.
            account: The account's id or address, or the address that was entered if there is no
                such account.
            address: The client's address.

        Raises:
            TooManyAttempts: A limit is reached; the block does not run, and nothing is written.
        """
        keys = keys_of(realm, account, address)
        is_known = await password_attempts.is_known(self._catalog, keys.device)
        guess = keys.guess(is_known=is_known)
        wait_ms = await password_attempts.take(
            self._catalog, guess, self._limits, owner=keys.account
        )
        if wait_ms is not None:
            self._metrics.count_login_failure(TOO_MANY)
            raise TooManyAttempts(retry_after_seconds=max(math.ceil(wait_ms / 1000), 1))
        try:
            yield
        except WrongPassword:
            self._metrics.count_login_failure(WRONG_PASSWORD)
            raise
        except BaseException:
            await password_attempts.give_back(self._catalog, guess, owner=keys.account)
            raise
        await password_attempts.succeed(
            self._catalog, guess, owner=keys.account, device=keys.device
        )

    async def lift(self, *, realm: str, account: str, address: str | None = None) -> None:
        """Reset the failures of an account.

        Args:
            realm: A tenant's id, or `admins.REALM`.
            account: As for `guess`.
            address: A client's address, which then counts as one that has logged in before:
                failures from other addresses do not lock it out.
        """
        keys = keys_of(realm, account, address or "")
        await password_attempts.lift(self._catalog, owner=keys.account)
        if address is not None:
            await password_attempts.remember(self._catalog, owner=keys.account, device=keys.device)


class Keys(msgspec.Struct, frozen=True):
    """The keys of the counters, each a digest: the catalog stores no address of a login."""

    address: str
    account: str
    pair: str
    device: str
    device_account: str

    def guess(self, *, is_known: bool) -> Guess:
        """Return the counters; known devices and unknown ones use different account counters."""
        return Guess(self.address, self.device_account if is_known else self.account, self.pair)


def keys_of(realm: str, account: str, address: str) -> Keys:
    """Return the keys of an account and of a client's address; see `Throttle.guess`."""
    email, network = canonical_email(account), network_of(address)
    return Keys(
        address=_digest("address", network),
        account=_digest("account", realm, email),
        pair=_digest("pair", realm, email, network),
        device=_digest("device", realm, email, network),
        device_account=_digest("device account", realm, email, network),
    )


def _digest(*parts: str) -> str:
    # A login accepts any string; a lone surrogate cannot be encoded as UTF-8.
    return hashlib.sha256("\0".join(parts).encode(errors="surrogatepass")).hexdigest()
