"""Findings of the linter about revisions."""

from tenantry.migration.lint_rules import Level
from tenantry.schemas.base import Schema


class LintFinding(Schema, frozen=True):
    """A finding about a revision.

    Attributes:
        rule: The name of the rule, which stays the same in later releases.
        level: How bad it is.
        message: What can happen, and what to do instead.
        revision: The id of the revision.
        file: The file of the revision, relative to the current folder if it is below it.
        line: The line that sends the statement; null if it is not known.
        table: The table, index, type or schema that the statement names; null if it names none.
        engines: The engines on which it holds.
    """

    rule: str
    level: Level
    message: str
    revision: str
    file: str
    line: int | None
    table: str | None
    engines: list[str]


class LintReport(Schema, frozen=True):
    """The findings about revisions.

    Attributes:
        revision_count: How many revisions were checked.
        findings: The findings, by revision and line.
    """

    revision_count: int
    findings: list[LintFinding]
