"""The settings of a session of PostgreSQL that Tenantry's statements depend on.

An operator can give a server, a database or a role other ones. Every connection sets them here,
whatever it is for; the encoding is in every URL (`kit.postgres_urls`). Revisions run with those of
their role, as with Alembic. The search path and `default_transaction_read_only`, the write fence,
are never set.
"""

from collections.abc import Mapping

ALWAYS = {
    "default_transaction_deferrable": "off",
    "default_transaction_isolation": "read committed",
    "lock_timeout": "0",
    "quote_all_identifiers": "off",
    "row_security": "on",
    "standard_conforming_strings": "on",
    "transform_null_equals": "off",
}
"""Any role may set these. Statements of requests have a deadline, and need no `lock_timeout`."""
ORIGIN = {"session_replication_role": "origin"}
"""Only a superuser may set this: without it, no trigger of Tenantry would run."""
TEXTS = {
    "array_nulls": "on",
    "bytea_output": "hex",
    "datestyle": "ISO, MDY",
    "extra_float_digits": "1",
    "intervalstyle": "postgres",
    "lc_monetary": "C",
    "timezone": "UTC",
    "xmloption": "content",
}
"""What the text of a value depends on, for copies and comparisons of rows."""
# Operators set them against forgotten transactions. A copy is one long transaction, and one of its
# sessions waits for the other. A server does not know those of later versions.
_LIMITS = dict.fromkeys(
    (
        "statement_timeout",
        "lock_timeout",
        "idle_in_transaction_session_timeout",
        "idle_session_timeout",
        "transaction_timeout",
    ),
    "0",
)


def setting(values: Mapping[str, str], *, is_local: bool = False) -> str:
    """Return a statement for settings: those that differ and that the server knows.

    With *is_local* for a transaction, as behind a pooler, which would give the session to another
    client.
    """
    return (
        f"SELECT pg_catalog.set_config(name, value, {str(is_local).lower()}) {_differing(values)}"
    )


def _differing(values: Mapping[str, str]) -> str:
    rows = ", ".join(f"('{name}', '{value}')" for name, value in values.items())
    return (
        f"FROM (VALUES {rows}) AS wanted (name, value) "
        "WHERE pg_catalog.current_setting(name, true) <> value"
    )


LIFT_IN_SESSION = setting(_LIMITS)
LIFT_IN_TRANSACTION = setting(_LIMITS, is_local=True)
SET_ORIGIN = setting(ORIGIN)
COPY_IN_SESSION = setting(ALWAYS | ORIGIN | TEXTS | _LIMITS)
COPY_IN_TRANSACTION = setting(
    ALWAYS | ORIGIN | TEXTS | _LIMITS | {"row_security": "off"}, is_local=True
)
"""Without row security, a policy that hides rows is an error."""
FIND_UNMET = f"SELECT name {_differing(ALWAYS | ORIGIN)} AND name <> 'lock_timeout' ORDER BY 1"
"""What a session lacks: a pooler's must have it by the settings of its role."""
