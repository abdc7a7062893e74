"""How long a migration waits for locks, and the statements that set it.

`TENANTRY_LOCK_TIMEOUT_MS` is the limit of nearly every lock; `lock_retries` repeats a migration
that did not get one. On SQLite, the connection has the limit.
"""

from dataclasses import dataclass

import sqlalchemy as sa

BOOTSTRAP_WAIT_MS = 30_000
# A role's or a database's own timeouts are for requests, not for migrations.
_TIMEOUTS = ("statement_timeout", "idle_in_transaction_session_timeout")
_TIMEOUTS_17 = (*_TIMEOUTS, "transaction_timeout")


@dataclass(frozen=True, slots=True)
class LockTimeouts:
    """How long a script waits for a lock, in milliseconds.

    Attributes:
        swap_ms: For the version row, which another run may hold: the rest of the deadline.
        lock_ms: For every other lock; the tenant's requests queue behind it.
    """

    swap_ms: int
    lock_ms: int


def lock_timeout_sql(wait_ms: int, *, is_local: bool = True) -> str:
    """Return the statement that limits each wait for a lock, in a transaction or in a session."""
    return f"SET {'LOCAL ' if is_local else ''}lock_timeout = {wait_ms}"


def timeouts_sql(dialect: sa.Dialect, wait_ms: int) -> list[str]:
    """Return the statements that begin a transaction on PostgreSQL; none on SQLite."""
    if dialect.name != "postgresql":
        return []
    names = _TIMEOUTS_17 if (dialect.server_version_info or ()) >= (17,) else _TIMEOUTS
    return [lock_timeout_sql(wait_ms), *(f"SET LOCAL {name} = 0" for name in names)]
