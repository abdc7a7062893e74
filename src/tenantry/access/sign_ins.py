"""Record logins, failures, lockouts and logouts in the audit log, in bounded volume.

Events of one account, one kind and one network in one hour are one entry with a count. A
successful login is written before the token is returned. Failures and lockouts are counted in
memory and written every few seconds, so that an attacker's requests cause no writes. A process
that is killed loses those of the last seconds.

An account that does not exist is recorded as `UNKNOWN`, never with the text that was entered:
people enter passwords in the field for the address.
"""

import hashlib
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC
from uuid import UUID

import msgspec

from tenantry.access.addresses import network_of
from tenantry.access.login_throttle import TooManyAttempts
from tenantry.access.passwords import WrongPassword
from tenantry.catalog import audit
from tenantry.catalog.database import Catalog
from tenantry.db import audit_log
from tenantry.db.audit_log import AuditEntry
from tenantry.db.sessions import DatabaseUnavailable
from tenantry.kit.context import OperationContext

LOGIN = "login"
SUCCESS = f"{LOGIN}.success"
PASSWORD = "password"  # noqa: S105 - the kind of check, not a secret
LOGOUT = "logout"
UNKNOWN = "unknown"
SEVERAL = "several"

# The most entries of failures in an hour in one process: for one tenant (or the admins), and in
# all. Further failures are counted in one entry with the target `SEVERAL`. 500 an hour are 4.4
# million in a year of uninterrupted attack.
HOURLY_OF_TENANT_MAX = 100
HOURLY_MAX = 500


@dataclass(frozen=True, slots=True)
class Account:
    """The account of a login.

    Attributes:
        tenant_id: Its tenant; None for an admin.
        id: None if there is no such account.
        actor: The name of the person in the audit log; None if there is no such account.
    """

    tenant_id: UUID | None
    id: UUID | None = None
    actor: str | None = None


class SignIns:
    """Records the sign-ins of one process.

    Args:
        catalog: Stores them.
        hourly_of_tenant_max: The most entries of failures in an hour for one tenant.
    """

    def __init__(
        self, catalog: Catalog, *, hourly_of_tenant_max: int = HOURLY_OF_TENANT_MAX
    ) -> None:
        self._catalog = catalog
        self._hourly_of_tenant_max = hourly_of_tenant_max
        self._pending: dict[str, AuditEntry] = {}
        self._hour = ""
        self._keys: set[str] = set()
        self._key_counts: Counter[UUID | None] = Counter()

    async def record(self, ctx: OperationContext, action: str, account: Account) -> None:
        """Write a `SUCCESS`, or a `LOGOUT`, to the audit log.

        Raises:
            DatabaseUnavailable: It may not have been written: issue no token.
        """
        entry = _entry(ctx, action, account)
        key = _merge_key(_hour(ctx), entry, network_of(ctx.address))
        await audit.merge_all(self._catalog, {key: entry})

    @contextmanager
    def recording(self, ctx: OperationContext, kind: str, account: Account) -> Iterator[None]:
        """Count a `WrongPassword` or `TooManyAttempts` that the block raises.

        The *kind* is `LOGIN`, or `PASSWORD` for the current password in a password change.
        """
        try:
            yield
        except WrongPassword:
            self._count(ctx, f"{kind}.failure", account)
            raise
        except TooManyAttempts:
            self._count(ctx, f"{kind}.lockout", account)
            raise

    async def write(self) -> None:
        """Write the counted events; keep them in memory if the catalog is unavailable."""
        pending, self._pending = self._pending, {}
        if not pending:
            return
        try:
            async with self._catalog.begin() as session:
                await audit.merge_all(session, pending)
        except DatabaseUnavailable:
            for key, entry in pending.items():
                self._merge(key, entry)

    def _count(self, ctx: OperationContext, action: str, account: Account) -> None:
        hour = _hour(ctx)
        if hour != self._hour:
            self._hour = hour
            self._keys.clear()
            self._key_counts.clear()
        entry = _entry(ctx, action, account)
        key = _merge_key(hour, entry, network_of(ctx.address))
        if key not in self._keys and not self._has_room(account.tenant_id):
            entry = msgspec.structs.replace(entry, target=SEVERAL, address=SEVERAL)
            key = _merge_key(hour, entry, SEVERAL)
        elif key not in self._keys:
            self._keys.add(key)
            self._key_counts[account.tenant_id] += 1
        self._merge(key, entry)

    def _has_room(self, tenant_id: UUID | None) -> bool:
        count = self._key_counts[tenant_id]
        return len(self._keys) < HOURLY_MAX and count < self._hourly_of_tenant_max

    def _merge(self, key: str, entry: AuditEntry) -> None:
        earlier = self._pending.get(key)
        if earlier is not None:
            first, last = sorted((earlier, entry), key=lambda one: one.at)
            entry = msgspec.structs.replace(
                first, count=first.count + last.count, last_at=max(first.last_at, last.last_at)
            )
        self._pending[key] = entry


def _entry(ctx: OperationContext, action: str, account: Account) -> AuditEntry:
    entry = audit_log.new_entry(
        ctx, action=action, target=str(account.id or UNKNOWN), tenant_id=account.tenant_id
    )
    is_known = action in {SUCCESS, LOGOUT} and account.actor is not None
    return msgspec.structs.replace(entry, actor=account.actor) if is_known else entry


def _hour(ctx: OperationContext) -> str:
    return ctx.now.astimezone(UTC).strftime("%Y-%m-%dT%H")


def _merge_key(hour: str, entry: AuditEntry, network: str) -> str:
    parts = (hour, entry.action, str(entry.tenant_id), entry.actor, entry.target, network)
    return hashlib.sha256("\0".join(parts).encode(errors="surrogatepass")).hexdigest()
