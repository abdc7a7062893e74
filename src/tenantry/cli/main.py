"""``tenantry``: the groups of commands, put together."""

import sys
from io import TextIOWrapper

import typer

from tenantry.cli import admins, adoption, doctor, migrations, serve, tenants
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
cli.command("doctor")(doctor.doctor)
tenants.group.command("adopt")(adoption.adopt)
cli.add_typer(admins.group, name="admin")
cli.add_typer(tenants.group, name="tenant")
cli.add_typer(migrations.group, name="migrate")


def main() -> None:
    """Run the command line."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            # A name that the terminal has no letters for must not end the command.
            stream.reconfigure(errors="backslashreplace")
    cli()
