"""Which transactions of a PostgreSQL server a snapshot contains, in SQL."""

CURRENT = "SELECT pg_current_snapshot()::text"


def is_visible(xid: str, snapshot: str) -> str:
    """Return an expression: whether a committed transaction is in a snapshot.

    Both are expressions, too. A transaction has 64 bits, and the server's output the lower 32 of
    them: it is less than 2^31 transactions away from the snapshot.
    """
    after = f"pg_snapshot_xmax({snapshot}::pg_snapshot)::text::bigint"
    distance = f"(({xid}::text::bigint - {after} + (1::bigint << 31)) & ((1::bigint << 32) - 1))"
    full = f"({after} + {distance} - (1::bigint << 31))::text::xid8"
    return f"pg_visible_in_snapshot({full}, {snapshot}::pg_snapshot)"
