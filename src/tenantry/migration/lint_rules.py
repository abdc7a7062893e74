"""The rules of the hints about statements: what each means, and how bad it is.

The names never change: programs and comments in revisions have them. `tenantry.migration.lint`
decides which statement a rule is about.
"""

from collections.abc import Mapping
from enum import StrEnum
from functools import partial
from types import MappingProxyType
from typing import NamedTuple

MANUAL = "https://www.postgresql.org/docs/current/"


class Level(StrEnum):
    """How bad a finding is, the worst first.

    * ERROR: it loses data, fails, or breaks the running release.
    * WARNING: it blocks requests while it runs; or a comment that has no effect.
    * INFO: it is not checked, or is a trap for later.
    """

    ERROR = "error"
    WARNING = "warning"
    INFO = "info"

    def includes(self, other: "Level") -> bool:
        """Return whether *other* is this level, or a worse one."""
        return [*Level].index(other) <= [*Level].index(self)


class Rule(NamedTuple):
    """A rule.

    Attributes:
        level: How bad a finding is.
        message: What happens, and what to do instead; ``{table}`` is what the statement names.
        page: The page in PostgreSQL's manual that describes the statement, below `MANUAL`; empty
            if the rule is not about a statement.
    """

    level: Level
    message: str
    page: str = "sql-altertable.html"


_error, _warning, _info = (partial(Rule, level) for level in Level)

BAD_ALLOW, RUNS_LIVE = "bad-allow", "runs-live"
RULES: Mapping[str, Rule] = MappingProxyType(
    {
        "index-without-concurrently": _warning(
            "Adds an index without CONCURRENTLY: writes to {table} wait until the migration "
            "commits. Use op.create_index(..., postgresql_concurrently=True) in an "
            "autocommit_block, in a separate revision.",
            "sql-createindex.html#SQL-CREATEINDEX-CONCURRENTLY",
        ),
        "drop-index-without-concurrently": _warning(
            "Drops the index {table} without CONCURRENTLY: requests that use its table wait until "
            "the migration commits. Use op.drop_index(..., postgresql_concurrently=True) in an "
            "autocommit_block.",
            "sql-dropindex.html",
        ),
        "not-in-transaction": _error(
            "PostgreSQL rejects this command in the transaction of a migration, and SQLite VACUUM. "
            "Use an autocommit_block on PostgreSQL; run VACUUM of SQLite outside migrations.",
            "sql-createindex.html#SQL-CREATEINDEX-CONCURRENTLY",
        ),
        "column-type": _warning(
            "Changes the type of a column: this may rewrite {table}, and requests that use it "
            "wait until the migration commits. Add a new column, and copy the values in batches.",
        ),
        "column-rewrites-table": _warning(
            "Adds a column with a value computed for each row: {table} is rewritten, and requests "
            "that use it wait. Add the column without it, and fill it in batches.",
        ),
        "rewrites-table": _warning(
            "Rewrites {table}: requests that use it wait until the migration commits. Do this at "
            "a quiet time, or copy the rows to a new table in batches.",
        ),
        "not-null-without-default": _error(
            "Adds a NOT NULL column without a default: this fails if {table} has rows. Add a "
            "server_default, or allow NULL.",
        ),
        "set-not-null": _warning(
            "Sets NOT NULL: requests that use {table} wait while each row is checked, and the "
            "migration fails if one has NULL. A valid CHECK (... IS NOT NULL) makes it quick.",
        ),
        "foreign-key-without-not-valid": _warning(
            "Adds a foreign key without NOT VALID: writes to {table} and to the referenced table "
            "wait while each row is checked. Use postgresql_not_valid=True, and VALIDATE "
            "CONSTRAINT in a later run.",
        ),
        "check-without-not-valid": _warning(
            "Adds a CHECK without NOT VALID: requests that use {table} wait while each row is "
            "checked. Use postgresql_not_valid=True, and VALIDATE CONSTRAINT in a later run.",
        ),
        "constraint-without-using-index": _warning(
            "Adds a constraint that builds an index: requests that use {table} wait. Create a "
            "unique index with CONCURRENTLY first, and add the constraint with USING INDEX.",
        ),
        "exclusion-constraint": _warning(
            "Adds an exclusion constraint: requests that use {table} wait while its index is "
            "built, and no other way exists. Do this at a quiet time.",
            "sql-createtable.html#SQL-CREATETABLE-EXCLUDE",
        ),
        "domain-constraint": _warning(
            "Adds a constraint to the domain {table} without NOT VALID: each row of each table "
            "with the domain is checked while writes wait. Use NOT VALID, and VALIDATE CONSTRAINT "
            "in a later run.",
            "sql-alterdomain.html",
        ),
        "scan-after-alter": _warning(
            "Changes or validates rows of {table} after ALTER TABLE in the same transaction: "
            "requests wait for its lock for that long. Do this in a later run.",
            "explicit-locking.html#LOCKING-TABLES",
        ),
        "drop-table": _error(
            "Drops {table}: its data is lost, and a release that still uses it fails. Drop it "
            "when no process uses it.",
            "sql-droptable.html",
        ),
        "drop-column": _error(
            "Drops a column of {table}: its data is lost, and a release that still uses it fails. "
            "Drop it when no process uses it.",
        ),
        "drop-schema": _error(
            "Drops {table}, a schema or a database, with what is in it. Drop its tables by name "
            "first, when no process uses them.",
            "sql-dropschema.html",
        ),
        "cascade": _error(
            "CASCADE also drops or empties what depends on {table}: columns, constraints, views, "
            "rows of other tables. Name each of them in a statement of its own.",
            "ddl-depend.html",
        ),
        "truncate": _error("Truncates {table}: all of its rows are lost.", "sql-truncate.html"),
        "rename-table": _error(
            "Renames {table}, or moves it to another schema: the running release fails until it "
            "uses the new name. Add a table or a view instead.",
        ),
        "rename-column": _error(
            "Renames a column of {table}: the running release fails until it uses the new name. "
            "Add a new column instead.",
        ),
        "rename-schema": _error(
            "Renames the schema {table}: the running release fails until it uses the new name.",
            "sql-alterschema.html",
        ),
        "rename-enum-value": _error(
            "Renames a value of the enum {table}: the running release fails when it reads or "
            "writes it. Add a value, and change the rows in batches.",
            "sql-altertype.html",
        ),
        "enum-value-in-transaction": _warning(
            "Adds a value to the enum {table}: a pending revision that uses the value fails, "
            "because all of a tenant run in one transaction. Use an autocommit_block.",
            "sql-altertype.html",
        ),
        "json-column": _info(
            "Adds a column of the type json, which has no equality: SELECT DISTINCT and GROUP BY "
            "over {table} fail. Use jsonb.",
            "datatype-json.html",
        ),
        "update-without-where": _warning(
            "Updates every row of {table} in one transaction: other writes to them wait until the "
            "migration commits. Update a large table in batches.",
            "sql-update.html",
        ),
        "delete-without-where": _error(
            "Deletes every row of {table}: the data is lost, and other writes to them wait until "
            "the migration commits.",
            "sql-delete.html",
        ),
        "lock-table": _warning(
            "Locks {table}: requests that need a conflicting lock wait until the migration "
            "commits. Leave it out: each statement takes the lock that it needs.",
            "sql-lock.html",
        ),
        "cluster": _warning(
            "Rewrites {table} in the order of an index: requests that use it wait until the "
            "migration commits. Do this at a quiet time.",
            "sql-cluster.html",
        ),
        "reindex-without-concurrently": _warning(
            "Builds indexes again without CONCURRENTLY: writes to the table, and most reads, wait. "
            "Use REINDEX ... CONCURRENTLY in an autocommit_block.",
            "sql-reindex.html#SQL-REINDEX-CONCURRENTLY",
        ),
        "refresh-without-concurrently": _warning(
            "Refreshes {table} without CONCURRENTLY: reads of it wait until the migration commits. "
            "Use CONCURRENTLY, which needs a unique index.",
            "sql-refreshmaterializedview.html",
        ),
        "detach-partition-without-concurrently": _warning(
            "Detaches a partition without CONCURRENTLY: requests that use {table} wait until the "
            "migration commits. Use DETACH PARTITION ... CONCURRENTLY in an autocommit_block.",
        ),
        "vacuum-full": _warning(
            "VACUUM FULL rewrites a table while requests that use it wait. Use VACUUM without "
            "FULL, or do this at a quiet time.",
            "sql-vacuum.html",
        ),
        "rebuilds-table": _warning(
            "Rebuilds {table}: every row is copied, and writes wait until the migration commits. "
            "The data of a column that the new table lacks is lost.",
        ),
        RUNS_LIVE: _info(
            "Runs live: not checked, because it {table}. Rehearse it: `tenantry migrate plan "
            "--rehearse`.",
            "",
        ),
        BAD_ALLOW: _warning(
            "This comment allows nothing: {table}. The form is `# tenantry: allow RULE because "
            "REASON`.",
            "",
        ),
    }
)

ON_SQLITE = frozenset(
    {"drop-table", "drop-column", "rename-table", "rename-column", "not-null-without-default"}
    | {"update-without-where", "delete-without-where", "rebuilds-table", "not-in-transaction"}
)
"""The rules about statements that apply to SQLite; all of them apply to PostgreSQL."""
