"""``tenantry``: the groups of commands, put together."""

import sys
from io import TextIOWrapper

import typer

from tenantry.cli import (
    admins,
    adoption,
    audit,
    doctor,
    keys,
    migrations,
    openapi,
    revision_template,
    serve,
    signing,
    tenants,
    tokens,
    users,
    worker,
)
from tenantry.cli.demo import command as demo
from tenantry.cli.exits import Commands

cli = typer.Typer(
    name="tenantry",
    help="A content-management API with a database for every tenant.",
    cls=Commands,
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
cli.command("demo")(demo.demo)
cli.command("serve")(serve.serve)
cli.command("worker")(worker.worker)
cli.command("doctor")(doctor.doctor)
cli.command("openapi")(openapi.openapi)
tenants.group.command("adopt")(adoption.adopt)
migrations.group.command("new")(revision_template.new)
cli.add_typer(admins.group, name="admin")
cli.add_typer(tenants.group, name="tenant")
cli.add_typer(users.group, name="user")
cli.add_typer(keys.group, name="key")
cli.add_typer(tokens.group, name="token")
cli.add_typer(audit.group, name="audit")
cli.add_typer(signing.group, name="signing-key")
cli.add_typer(migrations.group, name="migrate")


def main() -> None:
    """Run the command line."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            # A name that the terminal has no letters for must not end the command.
            stream.reconfigure(errors="backslashreplace")
    cli()
