"""Approved plans: make a plan of a dry run, and compare it with what a run would do now."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from datetime import timedelta
from enum import StrEnum
from hashlib import sha256
from typing import TYPE_CHECKING
from uuid import UUID

import msgspec

from tenantry.catalog.stored_plans import PlanTenant, StoredPlan
from tenantry.fleet.dry_run import Preview, TenantPreview
from tenantry.fleet.pending_revisions import PendingRevision
from tenantry.fleet.run_options import EVERY_ACTIVE_TENANT, BadRunOptions, RunOptions
from tenantry.kit.context import OperationContext
from tenantry.kit.errors import Conflict
from tenantry.kit.ids import new_id

if TYPE_CHECKING:
    from tenantry.settings import Settings

DIFFERENCES_SHOWN_MAX = 5
COMMAND_LINE = "cli:"
"""The prefix of the actors of commands, which together count as one person."""

_MEMBERS = {
    "retry_of": "retryOf",
    "max_failures": "maxFailures",
    "max_error_rate": "maxErrorRate",
    "tenant_ids": "tenantIds",
    "wave_max_failures": "waveMaxFailures",
}


class PlanChanged(Conflict):
    """The plan is not what a run would do now. Make a new plan with a dry run."""


class PlanExpired(Conflict):
    """The plan has expired. Make a new plan with a dry run."""


class PlanRequired(Conflict):
    """A run needs a plan here (TENANTRY_REQUIRE_PLAN): make a dry run, and start its plan."""


class OwnPlan(Conflict):
    """Another person has to start this plan: you made it (TENANTRY_REQUIRE_PLAN=other)."""


class Requirement(StrEnum):
    """Which plans a run needs."""

    NONE = ""
    ANY = "1"
    OF_ANOTHER = "other"


@dataclass(frozen=True, kw_only=True)
class Rules:
    """What the settings say about plans.

    Attributes:
        kept: How long a plan can be started.
        required: Which plan a run needs.
    """

    kept: timedelta = timedelta(days=30)
    required: Requirement = Requirement.NONE

    @classmethod
    def of(cls, settings: "Settings") -> "Rules":
        """Return the rules of these settings."""
        kept = timedelta(days=settings.plan_days)
        return cls(kept=kept, required=Requirement(settings.require_plan))

    def check(self, ctx: OperationContext, plan: StoredPlan | None) -> None:
        """Check that *ctx* may start a run with this plan, or without one.

        Raises:
            PlanRequired, OwnPlan, PlanExpired: It may not.
        """
        if plan is None:
            if self.required is not Requirement.NONE:
                raise PlanRequired
            return
        if plan.expires_at <= ctx.now:
            raise PlanExpired
        if self.required is Requirement.OF_ANOTHER and _person(plan.actor) == _person(ctx.actor):
            raise OwnPlan


def make_plan(
    ctx: OperationContext,
    preview: Preview,
    options: RunOptions,
    *,
    hashes: Mapping[str, str],
    head: str,
    is_rehearsed: bool,
    kept: timedelta,
) -> tuple[StoredPlan, list[PlanTenant]]:
    """Return the plan of a preview, and its tenants.

    Args:
        ctx: Who makes it, and when.
        preview: What was found.
        options: The options of the run.
        hashes: The hash of each file of the revisions, by its name.
        head: The revision that the tenants reach.
        is_rehearsed: Whether the pending revisions were executed.
        kept: How long it can be started.
    """
    tenants = [_tenant(one, is_rehearsed=is_rehearsed) for one in preview.details]
    # The tenants of the plan are those that were named.
    stored = replace(options, tenant_ids=None if options.tenant_ids is None else [])
    records = [msgspec.to_builtins({one.name: getattr(stored, one.name) for one in fields(stored)})]
    files = [{"name": name, "sha256": hashes[name]} for name in sorted(hashes)]
    revisions = [msgspec.to_builtins(one) for one in preview.revisions]
    seen = [
        (one.tenant_id, one.position, one.pending, one.has_passed, one.wave, one.sort_key)
        for one in tenants
    ]
    everything = msgspec.json.encode([records, files, revisions, seen, head, is_rehearsed])
    plan = StoredPlan(
        id=new_id(),
        created_at=ctx.now,
        expires_at=ctx.now + kept,
        actor=ctx.actor,
        is_rehearsed=is_rehearsed,
        options=records,
        label=options.label,
        head=head,
        digest=sha256(everything).hexdigest(),
        files=files,
        revisions=revisions,
        total_count=preview.total,
        pending_count=preview.pending,
        passed_count=sum(one.has_passed for one in tenants),
        up_to_date_count=preview.up_to_date,
        failed_count=preview.failed,
        slowest=msgspec.to_builtins(preview.slowest),
        estimated_ms=preview.estimated_ms,
    )
    return plan, tenants


def planned_options(
    plan: StoredPlan, given: RunOptions, tenant_ids: Collection[UUID]
) -> RunOptions:
    """Return the options of a plan with these tenants.

    Raises:
        BadRunOptions: One of the *given* options is another one.
    """
    options: RunOptions = msgspec.convert(plan.options[0], RunOptions)
    if options.tenant_ids is not None:
        options = replace(options, tenant_ids=list(tenant_ids))
    for one in fields(given):
        value, planned = getattr(given, one.name), getattr(options, one.name)
        if one.name == "tenant_ids" and None not in (value, planned):
            value, planned = set(value), set(planned)
        if value not in (getattr(EVERY_ACTIVE_TENANT, one.name), planned):
            member = _MEMBERS.get(one.name, one.name)
            raise BadRunOptions(
                f"`{member}` is not that of the plan. Leave it out, or make a plan with it."
            )
    return options


def changes_of_files(plan: StoredPlan, hashes: Mapping[str, str], head: str) -> list[str]:
    """Return how the files and the head differ from those of the plan."""
    changes = [] if head == plan.head else [f"the head is {head}, not {plan.head}"]
    return [*changes, *file_changes(plan.hashes, hashes)]


def changes_of_tenants(
    planned: Mapping[UUID, PlanTenant], selected: Mapping[UUID, str], *, passed_only: bool
) -> list[str]:
    """Return how the *selected* tenants, with their names, differ from the *planned* ones."""
    new = {} if passed_only else {one: name for one, name in selected.items() if one not in planned}
    gone = [one.tenant_name for key, one in planned.items() if key not in selected]
    return [
        *(f"{name} is not in the plan" for name in new.values()),
        *(f"{name} of the plan would not be in the run" for name in gone),
    ]


def changes_found(
    plan: StoredPlan, planned: Mapping[UUID, PlanTenant], found: Preview
) -> list[str]:
    """Return how the databases and the SQL differ from those of the plan."""
    return [*_moved(planned, found.details), *_sql_changes(plan, found.revisions)]


def check_same(changes: Sequence[str]) -> None:
    """Check that there are no *changes*.

    Raises:
        PlanChanged: There are; the message has the first ones.
    """
    if changes:
        raise PlanChanged(
            f"The plan is not what a run would do now: {summary(changes)} Nothing was started. "
            "Make a new plan with a dry run."
        )


def file_changes(planned: Mapping[str, str], found: Mapping[str, str]) -> list[str]:
    """Return how the files *found* differ from the *planned* ones."""
    names = sorted(planned.keys() | found.keys())
    return [
        f"{name} {_change_of(planned.get(name), found.get(name))}"
        for name in names
        if planned.get(name) != found.get(name)
    ]


def summary(changes: Sequence[str]) -> str:
    """Return the first changes as a sentence, and the number of the others."""
    more = len(changes) - DIFFERENCES_SHOWN_MAX
    text = "; ".join(changes[:DIFFERENCES_SHOWN_MAX])
    differences = "1 more difference" if more == 1 else f"{more:,} more differences"
    return f"{text}; and {differences}." if more > 0 else f"{text}."


def _person(actor: str) -> str:
    return COMMAND_LINE if actor.startswith(COMMAND_LINE) else actor


def _tenant(found: TenantPreview, *, is_rehearsed: bool) -> PlanTenant:
    return PlanTenant(
        tenant_id=found.tenant_id,
        tenant_name=found.tenant_name,
        position=found.current_revision,
        pending=found.pending_migrations,
        error=found.error,
        cause=found.cause,
        has_passed=is_rehearsed and found.error is None and found.pending_migrations is not None,
        wave=found.wave,
        sort_key=found.sort_key,
    )


def _change_of(planned: str | None, found: str | None) -> str:
    if planned is None:
        return "is new"
    return "is missing" if found is None else "has changed"


def _moved(planned: Mapping[UUID, PlanTenant], found: Sequence[TenantPreview]) -> Iterator[str]:
    for one in found:
        before = planned[one.tenant_id]
        if one.current_revision != before.position:
            now, then = (at or "unknown" for at in (one.current_revision, before.position))
            yield f"{one.tenant_name} is at {now}, not {then}"
        elif one.pending_migrations != before.pending:
            yield f"{one.tenant_name} would get {one.pending_migrations or 'nothing'}"


def _sql_changes(plan: StoredPlan, found: Sequence[PendingRevision]) -> Iterator[str]:
    planned = {(one["revision"], one["engine"]): one["sql_sha256"] for one in plan.revisions}
    for one in found:
        key = one.revision, one.engine
        if planned.get(key, one.sql_sha256) != one.sql_sha256:
            yield f"the SQL of {one.revision} on {one.engine} has changed"
