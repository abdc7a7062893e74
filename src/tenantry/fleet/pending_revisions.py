"""Pending revisions of a run, as a dry run and a stored plan list them."""

from dataclasses import dataclass, field
from enum import StrEnum

import msgspec

from tenantry.catalog.stored_plans import StoredPlan
from tenantry.migration.lint import Finding


class RunsAs(StrEnum):
    """How a revision runs: its statements are known in advance, or only when it runs."""

    RECORDED = "recorded"
    LIVE = "live"
    AUTOCOMMIT = "autocommit"  # live, outside a transaction


@dataclass(frozen=True, kw_only=True, slots=True)
class LostData:
    """What the tenants of a plan lose when a revision is undone: a table, or a column of it.

    Attributes:
        table: Its name.
        column: Its name; None for the whole table.
        count: The rows of the table, or the values of the column, in all tenants together.
        is_more: Whether not all rows were counted, because a table has too many.
        tenant_count: How many tenants have the table or the column.
    """

    table: str
    column: str | None
    count: int
    is_more: bool
    tenant_count: int


@dataclass(frozen=True, kw_only=True, slots=True)
class PendingRevision:
    """A revision that is pending for a tenant of a run.

    Attributes:
        engine: ``sqlite`` or ``postgresql``.
        live_reason: Why it is not recorded, such as ``imports requests``; None if it is.
        sql: Its statements, up to 100,000 characters; None if they are not recorded.
        is_cut: Whether `sql` lacks the rest.
        findings: Hints about its statements, also about those that `sql` lacks; if it runs live,
            about those before it needs the database, and about those of autocommit blocks.
        sql_sha256: A hash of all its statements in hex; None if they are not recorded.
        lost: What is lost when it is undone, as far as its statements are recorded.
    """

    revision: str
    engine: str
    runs_as: RunsAs
    live_reason: str | None
    sql: str | None
    is_cut: bool
    findings: list[Finding]
    sql_sha256: str | None = None
    lost: list[LostData] = field(default_factory=list)


def planned_revisions(plan: StoredPlan) -> list[PendingRevision]:
    """Return the pending revisions of a plan."""
    return [msgspec.convert(one, PendingRevision) for one in plan.revisions]
