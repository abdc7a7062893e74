"""``tenantry hooks``: the targets of notifications. It imports only what reads the catalog."""

from typing import Annotated

import typer

from tenantry.cli import session
from tenantry.cli.commands import new_group
from tenantry.cli.exit_status import ExitStatus
from tenantry.cli.printing import output
from tenantry.kit.errors import NotFound
from tenantry.schemas.hooks import HookList, HookResponse, HookTestList, HookTestResponse
from tenantry.work import delivery
from tenantry.work.hook_status import status_of

group = new_group("Show and test the targets of notifications.")


class HookNotFound(NotFound):
    """TENANTRY_HOOKS has no target of this name."""


@group.command("list")
async def show_hooks() -> None:
    """List the targets in TENANTRY_HOOKS, with the last attempt to deliver something to each."""
    settings = session.configure()
    async with session.reading(settings) as services:
        found = HookList.of_statuses(await status_of(services.catalog, settings.hooks))
    columns = [
        "Target",
        "URL",
        output.number("Waiting"),
        output.number("Dropped"),
        output.unwrapped("Last attempt"),
        "Result",
    ]
    rows = [
        (one.name, one.url, one.queued_count, one.dropped_count, *_last(one)) for one in found.items
    ]
    output.show_list(found, columns, rows)


@group.command("test")
async def send_test(
    target: Annotated[
        str | None,
        typer.Argument(metavar="[TARGET]", help="A name in TENANTRY_HOOKS; all by default."),
    ] = None,
) -> None:
    """Send a test message to targets, once and at once. Exits with 3 if one did not accept it."""
    hooks = session.configure().hooks
    if target is not None and target not in hooks:
        raise HookNotFound
    found: list[HookTestResponse] = []
    for name in sorted(hooks) if target is None else [target]:
        found.append(HookTestResponse(name, *await delivery.test(hooks[name])))
        if not output.wants_json():
            done = "delivered" if found[-1].is_delivered else "not delivered"
            output.show_line(f"{name}: {done}, {found[-1].result}")
    if not output.shown_as_json(HookTestList(found)) and not hooks:
        output.note("TENANTRY_HOOKS has no targets.")
    if not all(one.is_delivered for one in found):
        raise typer.Exit(ExitStatus.UNUSABLE)


def _last(one: HookResponse) -> tuple[str, str]:
    if one.last is None:
        return "never", ""
    return output.minute(one.last.attempted_at), f"{one.last.event}: {one.last.result}"
