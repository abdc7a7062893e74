"""``tenantry serve``: answer requests, and work on migration runs."""

import signal
from typing import Annotated

import structlog
import typer

from tenantry.cli import options, output, server, session
from tenantry.cli.commands import new_group
from tenantry.cli.exit_status import ExitStatus
from tenantry.schemas.base import Schema

_log = structlog.get_logger(__name__)

Port = Annotated[
    int | None,
    typer.Option(min=1, max=65535, help="The port to listen on. Default: TENANTRY_PORT."),
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
    as_json: options.Json = False,
) -> None:
    """Serve the API until SIGTERM or Ctrl-C."""
    settings = session.configure(log_level="info", host=host, port=port)

    def announce() -> None:
        url = settings.local_url
        if as_json:
            output.show_json(Serving(url))
        else:
            output.show_line(f"Tenantry answers at {url}")
        _log.info("serving", url=url)

    with server.sole_server(settings), server.listening(settings.host, settings.port) as sockets:
        ended_by = server.serve(settings, sockets, on_answering=announce)
    if ended_by is signal.SIGINT:
        raise typer.Exit(ExitStatus.INTERRUPTED)
