"""Statements that lift the time limits of a server, a database or a role of PostgreSQL.

Operators set them against forgotten transactions. A copy is one long transaction, and one of its
sessions waits for the other.
"""

# Only those that the server knows: idle_session_timeout is of PostgreSQL 14, and
# transaction_timeout of 17.
_LIFT = """SELECT set_config(name, '0', {}) FROM pg_settings WHERE name IN ('statement_timeout',
    'lock_timeout', 'idle_in_transaction_session_timeout', 'idle_session_timeout',
    'transaction_timeout')"""

LIFT_IN_SESSION = _LIFT.format("false")
"""Not behind a pooler, which would give the session to another client."""
LIFT_IN_TRANSACTION = _LIFT.format("true")
