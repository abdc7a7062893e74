"""The options of ``migrate plan``, ``migrate all`` and ``migrate undo``."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated

import typer

from tenantry.catalog.database import Catalog
from tenantry.catalog.runs import MigrationRunNotFound
from tenantry.catalog.waves import CREATION, ORDERS
from tenantry.cli import options
from tenantry.cli.completion import run_ids, tenant_names
from tenantry.cli.finding import find_tenant, read_id
from tenantry.fleet.run_options import CANARY_BUDGET, CHECK, Amount, BadRunOptions, RunOptions

Tenants = Annotated[
    list[str] | None,
    typer.Option(
        "--tenant",
        help="Only this tenant, by id or name. Can be repeated.",
        autocompletion=tenant_names,
    ),
]
Retry = Annotated[
    str | None,
    typer.Option(
        metavar="RUN", help="Only the tenants that failed in this run.", autocompletion=run_ids
    ),
]
MaxFailures = Annotated[
    str | None,
    typer.Option(metavar="N|N%", help="Stop the run when more tenants than this have failed."),
]
Label = Annotated[str | None, typer.Option(help="A label for the run, also in the audit log.")]
OnlyBehind = Annotated[
    bool,
    typer.Option(
        "--only-behind",
        help="Only tenants that the catalog does not show at the head, or that failed last.",
    ),
]
PlanId = Annotated[
    str | None,
    typer.Option(
        "--plan",
        metavar="PLAN",
        help="Run exactly this plan, which `migrate plan` has made; other options must be its own.",
    ),
]
PassedOnly = Annotated[
    bool,
    typer.Option("--passed-only", help="With --plan: only the tenants that its rehearsal passed."),
]


@dataclass(frozen=True, kw_only=True)
class Conduct:
    """How a run is to go: the options of its tenants, its waves and its limits."""

    where: options.Where = None
    wave: Annotated[
        list[str] | None,
        typer.Option(
            metavar="N|N%|WHERE",
            help="Tenants started up to this wave, or, in the first waves, those that an "
            "expression selects: `canary=yes`; the next one starts when all of them have ended.",
        ),
    ] = None
    order: Annotated[
        str,
        typer.Option(
            metavar="|".join(ORDERS),
            help="The order of the tenants, with --wave: by a label or the size of their "
            "databases, too, as `label:tier` or, the largest first, `-size`.",
        ),
    ] = CREATION
    wave_max_failures: Annotated[
        list[str] | None,
        typer.Option(
            metavar="N|N%",
            help="Stop the run when more tenants of a wave have failed; first for wave 1. Default: "
            "0 for wave 1, if others follow.",
        ),
    ] = None
    hold: Annotated[
        bool, typer.Option("--hold", help="After each wave, hold until `migrate continue`.")
    ] = False
    hold_after: Annotated[
        list[int] | None,
        typer.Option(metavar="WAVE", help="Hold after this wave, by its number. Can be repeated."),
    ] = None
    hold_check: Annotated[
        bool,
        typer.Option(
            "--hold-check", help="After each wave, hold until TENANTRY_WAVE_CHECK succeeds."
        ),
    ] = False
    max_error_rate: Annotated[
        str | None,
        typer.Option(
            metavar="N%",
            help="Hold after a wave when more of the answers to its tenants are 5xx than before "
            "the run, by this percentage; else continue.",
        ),
    ] = None
    max_failures: MaxFailures = None
    label: Label = None


async def options_of(
    catalog: Catalog,
    how: Conduct,
    *,
    named: Sequence[str] | None,
    retry: str | None = None,
    only_behind: bool = False,
    plan: str | None = None,
    undoes: str | None = None,
) -> RunOptions:
    """Return the options of a run; `fleet` checks them.

    Without a *plan*, a failure in the first of several waves stops it by default.

    Raises:
        BadRunOptions: There are several kinds of holds.
        TenantNotFound: A tenant in *named* does not exist.
        MigrationRunNotFound: *retry* or *undoes* is not an id.
    """
    budgets: Sequence[Amount] | None = [_amount(one) for one in how.wave_max_failures or ()] or None
    if budgets is None and plan is None and len(how.wave or ()) > 1:
        budgets = CANARY_BUDGET
    if how.hold + how.hold_check + bool(how.hold_after) > 1:
        raise BadRunOptions("Use one of --hold, --hold-after and --hold-check.")
    found = [(await find_tenant(catalog, one)).id for one in named] if named else None
    return RunOptions(
        tenant_ids=found,
        retry_of=None if retry is None else read_id(retry, MigrationRunNotFound),
        waves=[_amount(one) for one in how.wave] if how.wave else None,
        order=how.order,
        wave_max_failures=budgets,
        max_failures=None if how.max_failures is None else _amount(how.max_failures),
        label=how.label,
        only_behind=only_behind,
        where=how.where,
        hold=CHECK if how.hold_check else how.hold_after or how.hold,
        max_error_rate=how.max_error_rate,
        undoes=None if undoes is None else read_id(undoes, MigrationRunNotFound),
    )


def _amount(text: str) -> Amount:
    return int(text) if text.isascii() and text.isdigit() else text
