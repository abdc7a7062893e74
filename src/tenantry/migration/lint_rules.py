"""The rules of `tenantry.migration.lint`, with their messages.

The names never change: programs read them. ``{table}`` is the table that the statement names.
"""

from collections.abc import Mapping
from types import MappingProxyType

# Source: PostgreSQL manual: ALTER TABLE, CREATE INDEX, CLUSTER, LOCK, REINDEX, and 13.3.1.
MESSAGES: Mapping[str, str] = MappingProxyType(
    {
        "index-without-concurrently": (
            "Adds an index without CONCURRENTLY: writes to {table} wait until the migration "
            "commits. Use op.create_index(..., postgresql_concurrently=True) in an "
            "autocommit_block, in a separate revision."
        ),
        "column-type": (
            "Changes the type of a column: this may rewrite {table}, and requests that use it "
            "wait until the migration commits. Add a new column, and copy the values in batches."
        ),
        "column-rewrites-table": (
            "Adds a column with a value computed for each row: {table} is rewritten, and requests "
            "that use it wait. Add the column without it, and fill it in batches."
        ),
        "not-null-without-default": (
            "Adds a NOT NULL column without a default: this fails if {table} has rows. Add a "
            "server_default, or allow NULL."
        ),
        "set-not-null": (
            "Sets NOT NULL: requests that use {table} wait while each row is checked, and the "
            "migration fails if one has NULL. A valid CHECK (... IS NOT NULL) makes it quick."
        ),
        "foreign-key-without-not-valid": (
            "Adds a foreign key without NOT VALID: writes to {table} and to the referenced table "
            "wait while each row is checked. Use postgresql_not_valid=True, and VALIDATE "
            "CONSTRAINT in a later run."
        ),
        "check-without-not-valid": (
            "Adds a CHECK without NOT VALID: requests that use {table} wait while each row is "
            "checked. Use postgresql_not_valid=True, and VALIDATE CONSTRAINT in a later run."
        ),
        "constraint-without-using-index": (
            "Adds a constraint that builds an index: requests that use {table} wait. Create a "
            "unique index with CONCURRENTLY first, and add the constraint with USING INDEX."
        ),
        "drop-table": (
            "Drops {table}: its data is lost, and a release that still uses it fails. Drop it "
            "when no process uses it."
        ),
        "drop-column": (
            "Drops a column of {table}: its data is lost, and a release that still uses it fails. "
            "Drop it when no process uses it."
        ),
        "truncate": "Truncates {table}: all of its rows are lost.",
        "rename-table": (
            "Renames {table}: the running release fails until it uses the new name. Add a table "
            "or a view instead."
        ),
        "rename-column": (
            "Renames a column of {table}: the running release fails until it uses the new name. "
            "Add a new column instead."
        ),
        "update-without-where": (
            "Updates every row of {table} in one transaction: other writes to them wait until the "
            "migration commits. Update a large table in batches."
        ),
        "delete-without-where": (
            "Deletes every row of {table}: the data is lost, and other writes to them wait until "
            "the migration commits."
        ),
        "lock-table": (
            "Locks {table}: requests that need a conflicting lock wait until the migration commits."
        ),
        "cluster": (
            "Rewrites {table} in the order of an index: requests that use it wait until the "
            "migration commits."
        ),
        "reindex-without-concurrently": (
            "Builds indexes again without CONCURRENTLY: writes to the table, and most reads, wait. "
            "Use REINDEX ... CONCURRENTLY in an autocommit_block."
        ),
        "vacuum-full": (
            "VACUUM FULL rewrites a table while requests that use it wait, and fails in the "
            "transaction of a migration. Use an autocommit_block, at a quiet time."
        ),
        "rebuilds-table": (
            "Rebuilds {table}: every row is copied, and writes wait until the migration commits. "
            "The data of a column that the new table lacks is lost."
        ),
    }
)

ON_SQLITE = frozenset(
    {"drop-table", "drop-column", "rename-table", "rename-column", "not-null-without-default"}
    | {"update-without-where", "delete-without-where", "rebuilds-table"}
)
"""The rules that apply to SQLite; all of them apply to PostgreSQL."""
