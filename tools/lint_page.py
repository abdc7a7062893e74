"""The rules of the linter: `docs/reference/lint-rules.md`, from `tenantry.migration.lint_rules`."""

from collections.abc import Iterator

from tenantry.migration.lint_rules import MANUAL, RULES, Rule


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
        yield f"About: {rule.about}. Level: `{rule.level}`.{_engines(rule)}"
        yield rule.message.format(table="NAME" if rule.url else "…")


def _engines(rule: Rule) -> str:
    if not rule.url:
        return ""
    engines = "PostgreSQL and SQLite" if rule.engine == "both" else rule.engine
    page = rule.url.removeprefix(MANUAL).partition(".")[0]
    return f" Engine: {engines}. Manual: [{page}]({rule.url})."
