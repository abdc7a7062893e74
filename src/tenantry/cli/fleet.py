"""``tenantry fleet``: migrate databases that are not Tenantry's.

The commands are those of ``tenantry migrate``, on a fleet that options name.
"""

import inspect
from collections.abc import Callable
from copy import copy
from dataclasses import replace
from functools import wraps
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any, get_args

import typer

from tenantry.catalog.attached import BadList
from tenantry.cli import (
    linting,
    migrations,
    run_options,
    run_reading,
    session,
)
from tenantry.cli.commands import JSON, new_group, spread, with_parameters
from tenantry.cli.fleet_place import STATE_DEFAULT, FleetPlace
from tenantry.cli.wording import FLEET, of_fleet

group = new_group("Migrate databases that you already have, with your Alembic project.")

LIST_MISSING = "Name the databases: --urls FILE, --glob PATTERN, or --from URL --query SQL."
ADMIN_DEFAULT = "admin@example.com"
SERVICE_ONLY = ("by", "hold_check", "max_error_rate")
"""Options that need an admin, requests, or a serving process."""


def _on_state(
    *,
    state: Annotated[
        str,
        typer.Option(
            metavar="FILE|URL", help="Where runs are recorded: a SQLite file, or PostgreSQL."
        ),
    ] = STATE_DEFAULT,
    migrations_folder: Annotated[
        Path | None,
        typer.Option(
            "--migrations", help="The Alembic directory. Default: that of alembic.ini here."
        ),
    ] = None,
) -> FleetPlace:
    return FleetPlace(state=state, migrations=migrations_folder)


def _on_list(
    *,
    urls: Annotated[
        str | None,
        typer.Option(metavar="FILE", help="A file with a URL in each line; `-`: from stdin."),
    ] = None,
    pattern: Annotated[
        str | None,
        typer.Option("--glob", metavar="PATTERN", help="SQLite files, such as `data/*.db`."),
    ] = None,
    source: Annotated[
        str | None, typer.Option("--from", metavar="URL", help="The database to ask with --query.")
    ] = None,
    query: Annotated[
        str | None,
        typer.Option(
            metavar="SQL", help="Returns `url`, and perhaps `name`; other columns are labels."
        ),
    ] = None,
    no_log: Annotated[
        bool,
        typer.Option(
            "--no-log",
            help="Create no table in the databases. After a kill, what was applied is unknown "
            "but for the revision; there is no undo, and no autocommit_block.",
        ),
    ] = False,
    **place: Any,
) -> FleetPlace:
    if (source is None) != (query is None):
        raise BadList("Use --from and --query together.")
    given = sum(one is not None for one in (urls, pattern, source))
    if given != 1:
        raise BadList("Use one of --urls, --glob, and --from." if given else LIST_MISSING)
    return replace(
        _on_state(**place),
        urls=urls,
        pattern=pattern,
        source=None if source is None or query is None else (source, query),
        has_log=not no_log,
    )


def _on_fleet(
    function: Callable[..., Any], place_of: Callable[..., FleetPlace]
) -> Callable[..., Any]:
    """Return a command of `tenantry migrate` with the options of a fleet, which it works on."""
    function = spread(function)
    own = inspect.signature(function).parameters.values()
    added = {**inspect.signature(place_of).parameters, **inspect.signature(_on_state).parameters}
    added.pop("place", None)
    kept = (_reworded(one) for one in own if one.name not in SERVICE_ONLY)

    @wraps(function)
    def run(*args: Any, **given: Any) -> Any:
        named = {name: given.pop(name) for name in added}
        # Typer has no public function for this.
        context = typer.main.get_current_context()  # type: ignore[attr-defined]
        context.meta[FLEET] = True
        context.obj = place_of(**named)
        return function(*args, **given)

    return with_parameters(run, [*kept, JSON, *added.values()])


def _retry(
    run: Annotated[str, typer.Argument(help="The id of the run.")],
    *,
    max_failures: run_options.MaxFailures = None,
    label: run_options.Label = None,
) -> None:
    how = run_options.Conduct(max_failures=max_failures, label=label)
    migrations.migrate_fleet(retry=run, how=how)


def _reworded(parameter: inspect.Parameter) -> inspect.Parameter:
    """Return a parameter of `tenantry migrate` with the help text for a fleet."""
    kind, *information = get_args(parameter.annotation)
    texts = [copy(one) for one in information]
    for one in texts:
        if one.default == "--tenant":  # in `Annotated`, this is the name
            one.default, one.param_decls = "--database", ("--tenant",)
        one.help = of_fleet(one.help) if one.help else one.help
    return parameter.replace(annotation=Annotated[kind, *texts])


async def _drift() -> None:
    # Imported on demand: other commands need none of what they import.
    await import_module("tenantry.cli.fleet_databases").check_drift(session.place())


async def _stamp(
    revision: Annotated[str, typer.Argument(help="The id of the revision.")],
    *,
    tenant: run_options.Tenants = None,
) -> None:
    stamp = import_module("tenantry.cli.fleet_databases").stamp
    await stamp(session.place(), revision, tenant or ())


def _serve(
    *,
    port: Annotated[
        int | None, typer.Option(min=1, max=65535, help="The port. Default: TENANTRY_PORT.")
    ] = None,
    email: Annotated[
        str, typer.Option(help="The admin, who is created at the first start.")
    ] = ADMIN_DEFAULT,
    new_password: Annotated[
        bool, typer.Option("--new-password", help="Replace the admin's password, and print it.")
    ] = False,
) -> None:
    place = session.place()
    # Imported on demand: it imports the server.
    serving = import_module("tenantry.cli.fleet_serving")
    serving.serve(place, port=port, email=email, new_password=new_password)


def _add(name: str, function: Callable[..., Any], text: str, *, has_list: bool = True) -> None:
    group.command(name, help=text)(_on_fleet(function, _on_list if has_list else _on_state))


_add(
    "migrate",
    migrations.migrate_fleet,
    "Migrate every database of the list to the newest revision.\n\n"
    "The exit status is 1 if a database has failed, and 4 if the run holds after a wave.",
)
_add(
    "plan",
    migrations.plan,
    "Inspect every database, print what a run would do, and store it as a plan.\n\n"
    "No database is changed. The exit status is 1 if one has failed.",
)
_add("retry", _retry, "Migrate the databases that failed in a run, and were not migrated since.")
_add(
    "undo",
    migrations.undo,
    "Undo a run: run the downgrade() of what it has applied to each database.\n\n"
    "Databases that were migrated since are left as they are. The undo is a run of its own.",
)
_add(
    "continue",
    migrations.continue_run,
    "Work on a run that has not ended, like `migrate`; --wave starts its next wave first.",
)
_add(
    "cancel",
    migrations.cancel,
    "Cancel a run: databases in work finish, others are not started.",
    has_list=False,
)
_add(
    "drift",
    _drift,
    "Compare the schema of each database at the head with that of a new database.\n\n"
    "The new one is created on each server, migrated, and dropped. The exit status is 1 if a "
    "database has drifted, or cannot be read.",
)
_add(
    "stamp",
    _stamp,
    "Write the revision of databases whose schema is there already, and migrate nothing.\n\n"
    "A database that is at another revision, or has no table, is left as it is; then the exit "
    "status is 1.",
)
_add(
    "serve",
    _serve,
    "Serve the console of the fleet on this machine, until SIGTERM or Ctrl-C.\n\n"
    "The first start creates an admin, and prints the password. The list is read at the start.",
)
_add("status", run_reading.status, "Show the number of databases at each revision.", has_list=False)
_add("history", run_reading.history, "List the runs, the newest first.", has_list=False)
_add(
    "show",
    run_reading.show,
    "Show one run, and the result of each database.\n\n"
    "The exit status is 1 if a database has failed, with and without --watch.",
    has_list=False,
)
_add(
    "plans",
    run_reading.plans,
    "List the stored plans, the newest first, or show one with the result of each database.",
    has_list=False,
)
group.command("lint")(linting.lint)
