"""``tenantry``: the table of commands."""

import sys
from io import TextIOWrapper
from typing import Annotated, Any

import typer

from tenantry.cli.commands import DeferredCommand, Root

# The summaries repeat those of the modules, which take a second to import.
COMMANDS = (
    DeferredCommand("demo", "Create sample tenants and serve them.", "tenantry.cli.demo.command"),
    DeferredCommand("serve", "Serve the API until SIGTERM or Ctrl-C.", "tenantry.cli.serve"),
    DeferredCommand(
        "worker",
        "Work on migration runs and queued jobs, without serving requests.",
        "tenantry.cli.worker",
    ),
    DeferredCommand(
        "doctor", "Check settings, databases, folders and revisions.", "tenantry.cli.doctor.report"
    ),
    DeferredCommand("openapi", "Print the OpenAPI description.", "tenantry.cli.openapi"),
    DeferredCommand("admin", "Manage the admins of the service.", "tenantry.cli.admins"),
    DeferredCommand(
        "tenant", "Manage tenants.", "tenantry.cli.tenants", reading="tenantry.cli.tenant_reading"
    ),
    DeferredCommand("user", "Manage the users of a tenant.", "tenantry.cli.users"),
    DeferredCommand("key", "Manage the API keys of a tenant.", "tenantry.cli.keys"),
    DeferredCommand("token", "Manage the McpTokens of a tenant.", "tenantry.cli.tokens"),
    DeferredCommand("audit", "Read the audit log.", "tenantry.cli.audit"),
    DeferredCommand("signing-key", "Manage the keys that sign logins.", "tenantry.cli.signing"),
    DeferredCommand("secret", "Manage the secret key.", "tenantry.cli.secret_key"),
    DeferredCommand(
        "backup",
        "Back up tenants, and restore them from archives.",
        "tenantry.cli.backups",
        reading="tenantry.cli.job_reading",
    ),
    DeferredCommand(
        "fleet",
        "Migrate databases that you already have, with your Alembic project.",
        "tenantry.cli.fleet",
    ),
    DeferredCommand("catalog", "Move the catalog.", "tenantry.cli.catalog_moving"),
    DeferredCommand(
        "drift",
        "Find tenants with a schema that has drifted.",
        "tenantry.cli.drift",
        reading="tenantry.cli.drift_reading",
    ),
    DeferredCommand(
        "hooks",
        "Show and test the targets of notifications.",
        "tenantry.cli.hooks",
    ),
    DeferredCommand(
        "collation",
        "Rebuild indexes after an upgrade of the libraries that sort text.",
        "tenantry.cli.collations",
    ),
    DeferredCommand(
        "migrate",
        "Migrate every tenant database.",
        "tenantry.cli.migrations",
        reading="tenantry.cli.run_reading",
    ),
)


class _Tenantry(Root):
    def __init__(self, **attrs: Any) -> None:
        super().__init__(**attrs)
        for command in COMMANDS:
            self.add_command(command)


cli = typer.Typer(
    name="tenantry",
    cls=_Tenantry,
    context_settings={"help_option_names": ["-h", "--help"]},
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)


def _show_version(value: bool) -> None:  # noqa: FBT001 - typer calls it
    if value:
        from tenantry.kit.release import VERSION  # noqa: PLC0415 - reads the installed metadata

        typer.echo(f"tenantry {VERSION}")
        raise typer.Exit


@cli.callback()
def root(
    *,
    version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_show_version, is_eager=True, help="Print the release, and exit."
        ),
    ] = False,
) -> None:
    """A content-management API with a database for every tenant."""
    del version


def main() -> None:
    """Run the command line."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            # A name that the terminal cannot encode must not end the command.
            stream.reconfigure(errors="backslashreplace")
    cli()
