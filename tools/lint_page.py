"""The rules of the linter: `docs/reference/lint-rules.md`, from `tenantry.migration.lint_rules`."""

from collections.abc import Iterator

from tenantry.migration.lint_rules import BAD_ALLOW, MANUAL, ON_SQLITE, RULES, RUNS_LIVE, Rule

STATEMENTS = {
    "index-without-concurrently": "`CREATE INDEX` without `CONCURRENTLY`",
    "drop-index-without-concurrently": "`DROP INDEX` without `CONCURRENTLY`",
    "not-in-transaction": "`CONCURRENTLY`, `VACUUM`, `CREATE DATABASE`, `CREATE TABLESPACE` or "
    "`ALTER SYSTEM` outside an `autocommit_block`; on SQLite `VACUUM`",
    "column-type": "`ALTER COLUMN … TYPE`, which may rewrite the table",
    "column-rewrites-table": "`ADD COLUMN` with `DEFAULT gen_random_uuid()` or another known "
    "volatile function, `SERIAL`, `AS IDENTITY` or `STORED`",
    "rewrites-table": "`SET LOGGED`, `SET UNLOGGED`, `SET TABLESPACE`, `SET ACCESS METHOD`, or "
    "`ALTER COLUMN … SET EXPRESSION`",
    "not-null-without-default": "`ADD COLUMN … NOT NULL` without a default",
    "set-not-null": "`ALTER COLUMN … SET NOT NULL`, or `ADD … NOT NULL` without `NOT VALID`",
    "foreign-key-without-not-valid": "`ADD FOREIGN KEY` without `NOT VALID`; `ADD COLUMN … "
    "DEFAULT … REFERENCES`",
    "check-without-not-valid": "`ADD CHECK` without `NOT VALID`; `ADD COLUMN … CHECK`",
    "constraint-without-using-index": "`ADD UNIQUE` or `ADD PRIMARY KEY` without `USING INDEX`; "
    "`ADD COLUMN … UNIQUE` or `… PRIMARY KEY`",
    "exclusion-constraint": "`ADD CONSTRAINT … EXCLUDE`",
    "domain-constraint": "`ALTER DOMAIN … ADD` without `NOT VALID`, or `… SET NOT NULL`",
    "scan-after-alter": "`UPDATE … WHERE`, `DELETE … WHERE` or `VALIDATE CONSTRAINT` after "
    "`ALTER TABLE` of the same table",
    "drop-table": "`DROP TABLE`",
    "drop-column": "`DROP COLUMN`",
    "drop-schema": "`DROP SCHEMA` or `DROP DATABASE`",
    "cascade": "`DROP … CASCADE` or `TRUNCATE … CASCADE`",
    "truncate": "`TRUNCATE`",
    "rename-table": "`ALTER TABLE … RENAME TO` or `… SET SCHEMA`",
    "rename-column": "`RENAME COLUMN`",
    "rename-schema": "`ALTER SCHEMA … RENAME TO`",
    "rename-enum-value": "`ALTER TYPE … RENAME VALUE`",
    "enum-value-in-transaction": "`ALTER TYPE … ADD VALUE` outside an `autocommit_block`",
    "json-column": "`ADD COLUMN … json`",
    "update-without-where": "`UPDATE` without `WHERE`",
    "delete-without-where": "`DELETE` without `WHERE`",
    "lock-table": "`LOCK TABLE`",
    "cluster": "`CLUSTER`",
    "reindex-without-concurrently": "`REINDEX` without `CONCURRENTLY`",
    "refresh-without-concurrently": "`REFRESH MATERIALIZED VIEW` without `CONCURRENTLY`",
    "detach-partition-without-concurrently": "`DETACH PARTITION` without `CONCURRENTLY`",
    "vacuum-full": "`VACUUM FULL`",
    "rebuilds-table": "the statements of Alembic's batch mode that replace a table",
    RUNS_LIVE: "a revision whose statements are not all known without a database",
    BAD_ALLOW: "a comment without a reason, of an unknown rule, or without a finding",
}
"""What each rule is about, for people; the code that decides is `tenantry.migration.lint`."""


def parts() -> Iterator[str]:
    """Yield the parts of the page."""
    yield (
        "The rules by which `tenantry migrate lint`, a plan and the console warn of statements in "
        "revisions: see [Check migrations in CI](../howto/lint-in-ci.md). `error`: it loses data, "
        "fails, or breaks the running release. `warning`: it blocks requests. `info`: it is not "
        "checked, or is a trap for later. The names stay the same in later releases."
    )
    yield (
        "There is no finding about a table that the same revision has created, because it is "
        "empty and no request uses it; about a statement that cannot be parsed; and about the body "
        "of a function, a trigger or a `DO` block. PostgreSQL's manual says [which lock waits for "
        f"which]({MANUAL}explicit-locking.html#LOCKING-TABLES)."
    )
    for name, rule in RULES.items():
        yield f"## {name}"
        yield f"About: {STATEMENTS[name]}. Level: `{rule.level}`.{_engines(name, rule)}"
        yield rule.message.format(table="NAME" if rule.page else "…")


def _engines(name: str, rule: Rule) -> str:
    if not rule.page:
        return ""
    engines = "PostgreSQL and SQLite" if name in ON_SQLITE else "PostgreSQL"
    manual = rule.page.partition(".")[0]
    return f" Engines: {engines}. Manual: [{manual}]({MANUAL}{rule.page})."
