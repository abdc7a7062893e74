"""The options of ``migrate plan`` and ``migrate all``."""

from collections.abc import Sequence
from typing import Annotated

import typer

from tenantry.catalog.database import Catalog
from tenantry.catalog.runs import MigrationRunNotFound
from tenantry.catalog.waves import CREATION, ORDERS
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
Waves = Annotated[
    list[str] | None,
    typer.Option(
        "--wave",
        metavar="N|N%|WHERE",
        help="Tenants started up to this wave, or, in the first waves, those that an expression "
        "selects: `canary=yes`; the next one starts when all of them have ended.",
    ),
]
Order = Annotated[
    str,
    typer.Option(
        metavar="|".join(ORDERS),
        help="The order of the tenants, with --wave: by a label or the size of their databases, "
        "too, as `label:tier` or, the largest first, `-size`.",
    ),
]
WaveMaxFailures = Annotated[
    list[str] | None,
    typer.Option(
        metavar="N|N%",
        help="Stop the run when more tenants of a wave have failed; first for wave 1. Default: "
        "0 for wave 1, if others follow.",
    ),
]
MaxFailures = Annotated[
    str | None,
    typer.Option(metavar="N|N%", help="Stop the run when more tenants than this have failed."),
]
Hold = Annotated[
    bool, typer.Option("--hold", help="After each wave, hold until `migrate continue`.")
]
HoldAfter = Annotated[
    list[int] | None,
    typer.Option(metavar="WAVE", help="Hold after this wave, by its number. Can be repeated."),
]
HoldCheck = Annotated[
    bool,
    typer.Option("--hold-check", help="After each wave, hold until TENANTRY_WAVE_CHECK succeeds."),
]
MaxErrorRate = Annotated[
    str | None,
    typer.Option(
        metavar="N%",
        help="Hold after a wave when more of the answers to its tenants are 5xx than before the "
        "run, by this percentage; else continue.",
    ),
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


async def options_of(
    catalog: Catalog,
    *,
    named: Sequence[str] | None,
    retry: str | None = None,
    waves: Sequence[str] | None = None,
    order: str = CREATION,
    wave_max_failures: Sequence[str] | None = None,
    max_failures: str | None = None,
    label: str | None = None,
    only_behind: bool = False,
    where: str | None = None,
    hold: bool = False,
    hold_after: Sequence[int] | None = None,
    hold_check: bool = False,
    max_error_rate: str | None = None,
    plan: str | None = None,
) -> RunOptions:
    """Return the options of a run; `fleet` checks them.

    Without a *plan*, a failure in the first of several waves stops it by default.

    Raises:
        BadRunOptions: There are several kinds of holds.
        TenantNotFound: A tenant in *named* does not exist.
        MigrationRunNotFound: *retry* is not an id.
    """
    budgets: Sequence[Amount] | None = [_amount(one) for one in wave_max_failures or ()] or None
    if budgets is None and plan is None and len(waves or ()) > 1:
        budgets = CANARY_BUDGET
    if hold + hold_check + bool(hold_after) > 1:
        raise BadRunOptions("Use one of --hold, --hold-after and --hold-check.")
    found = [(await find_tenant(catalog, one)).id for one in named] if named else None
    return RunOptions(
        tenant_ids=found,
        retry_of=None if retry is None else read_id(retry, MigrationRunNotFound),
        waves=[_amount(one) for one in waves] if waves else None,
        order=order,
        wave_max_failures=budgets,
        max_failures=None if max_failures is None else _amount(max_failures),
        label=label,
        only_behind=only_behind,
        where=where,
        hold=CHECK if hold_check else hold_after or hold,
        max_error_rate=max_error_rate,
    )


def _amount(text: str) -> Amount:
    return int(text) if text.isascii() and text.isdigit() else text
