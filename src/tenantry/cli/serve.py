"""``tenantry serve``: answer requests, and work on migration runs."""

import signal
from contextlib import nullcontext
from functools import partial
from typing import Annotated

import structlog
import typer

from tenantry.cli import session
from tenantry.cli.commands import new_group
from tenantry.cli.exit_status import ExitStatus, Misuse
from tenantry.cli.printing import output
from tenantry.cli.serving import processes, server
from tenantry.db.urls import sqlite_path
from tenantry.schemas.base import Schema

_log = structlog.get_logger(__name__)

Port = Annotated[
    int | None,
    typer.Option(min=1, max=65535, help="The port to listen on. Default: TENANTRY_PORT."),
]


Workers = Annotated[
    int,
    typer.Option(
        min=1,
        max=processes.PROCESSES_MAX,
        help="Serving processes, about one for each core; more than one needs a PostgreSQL "
        "catalog. Limits and connections in the settings are for each process.",
    ),
]


class Serving(Schema, frozen=True):
    """The URL of the server."""

    url: str


group = new_group()


@group.command("serve")
def serve(
    *,
    host: Annotated[
        str | None, typer.Option(help="The address to listen on. Default: TENANTRY_HOST.")
    ] = None,
    port: Port = None,
    workers: Workers = 1,
) -> None:
    """Serve the API until SIGTERM or Ctrl-C.

    With several processes, SIGHUP replaces them one after another, without a failed request.
    """
    settings = session.configure(log_level="info", host=host, port=port)
    is_on_sqlite = sqlite_path(settings.catalog) is not None
    if is_on_sqlite and workers > 1:
        raise Misuse(
            "With a SQLite catalog, one process serves: use PostgreSQL for --workers, or omit it."
        )

    def announce(has_admin: bool) -> None:  # noqa: FBT001 - the only argument of a callback
        url = settings.local_url
        if not output.shown_as_json(Serving(url)):
            output.show_line(f"Tenantry answers at {url}")
            if not has_admin:
                output.show_line(
                    "There is no admin yet. In another terminal, with the same settings: "
                    f"`tenantry admin create EMAIL`. Then log in at {settings.base_url}/console"
                )
        _log.info("serving", url=url)

    with (
        server.locked(settings.data_dir) if is_on_sqlite else nullcontext(),
        server.listening(settings.host, settings.port, workers) as groups,
    ):
        if workers == 1:
            ended_by = server.serve(settings, groups[0], on_answering=announce)
        else:
            ended_by = processes.serve_all(
                settings, groups, on_answering=partial(announce, has_admin=True)
            )
    if ended_by is signal.SIGINT:
        raise typer.Exit(ExitStatus.INTERRUPTED)
