"""How a command ends: the one table from error category to exit status."""

import asyncio
import sys
from enum import IntEnum
from typing import Any

import typer
from typer.core import TyperGroup

from tenantry.access.signing import WrongSecretKey
from tenantry.catalog.admins import AdminEmailInUse, AdminNotFound
from tenantry.catalog.credentials import ApiKeyNotFound, McpTokenNotFound
from tenantry.catalog.runs import MigrationRunNotFound
from tenantry.catalog.tenants import TenantNameInUse, TenantNotFound
from tenantry.fleet.lifecycle import ActivationFailed, TenantActive, UnknownServer, WrongName
from tenantry.fleet.migration_runs import RunGoesOn
from tenantry.kit.errors import (
    Conflict,
    Forbidden,
    Invalid,
    NotFound,
    TenantryError,
    Unauthenticated,
    Unavailable,
)
from tenantry.services import CatalogUnusable
from tenantry.settings import BadSettings
from tenantry.tenant.users import EmailInUse, UserNotFound


class ExitStatus(IntEnum):
    """What the end of a command says to whoever started it."""

    OK = 0
    TENANTS_FAILED = 1
    USAGE = 2
    UNUSABLE = 3
    INTERRUPTED = 130


# The first class in an error's ancestry that stands here decides.
STATUS: dict[type[TenantryError], ExitStatus] = {
    BadSettings: ExitStatus.UNUSABLE,
    WrongSecretKey: ExitStatus.UNUSABLE,
    ActivationFailed: ExitStatus.TENANTS_FAILED,
    RunGoesOn: ExitStatus.INTERRUPTED,
    Unavailable: ExitStatus.UNUSABLE,
    Invalid: ExitStatus.USAGE,
    Unauthenticated: ExitStatus.USAGE,
    Forbidden: ExitStatus.USAGE,
    NotFound: ExitStatus.USAGE,
    Conflict: ExitStatus.USAGE,
}

# What to do, where the message itself does not say it.
ADVICE: dict[type[TenantryError], str] = {
    AdminEmailInUse: "`tenantry admin list` shows them.",
    AdminNotFound: "`tenantry admin list` shows them.",
    ApiKeyNotFound: "`tenantry key list TENANT` shows them.",
    CatalogUnusable: "`tenantry doctor` looks closer.",
    EmailInUse: "`tenantry user list TENANT` shows whose.",
    McpTokenNotFound: "`tenantry token list TENANT` shows them.",
    MigrationRunNotFound: "`tenantry migrate history` shows the runs.",
    TenantActive: "`tenantry tenant suspend TENANT` does it.",
    TenantNameInUse: "Choose another name.",
    TenantNotFound: "`tenantry tenant list` shows them.",
    UnknownServer: "TENANTRY_TENANT_SERVERS names them.",
    UserNotFound: "`tenantry user list TENANT` shows them.",
    WrongName: "`tenantry tenant show TENANT` tells it.",
    WrongSecretKey: "Set the one that the catalog was made with.",
}


class Commands(TyperGroup):
    """The commands; an error of ours is one readable line, whichever of them raised it."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Return the arguments of the command.

        Raises:
            typer.Exit: The shell handed over bytes that are not UTF-8.
        """
        try:
            "".join(args).encode()
        except UnicodeEncodeError as error:
            tell("The arguments must be UTF-8 text.")
            raise typer.Exit(ExitStatus.USAGE) from error
        return super().parse_args(ctx, args)

    def invoke(self, ctx: Any) -> Any:
        """Run the command that was asked for.

        Raises:
            typer.Exit: With the status of the error that the command raised.
        """
        try:
            return super().invoke(ctx)
        except TenantryError as error:
            tell(explain(error))
            raise typer.Exit(status_of(error)) from error
        except BrokenPipeError:
            raise  # whoever read our output has had enough; typer ends quietly
        except OSError as error:
            tell(f"{error.strerror or error}: {error.filename}" if error.filename else str(error))
            raise typer.Exit(ExitStatus.UNUSABLE) from error
        except asyncio.CancelledError as error:
            raise typer.Exit(ExitStatus.INTERRUPTED) from error


def status_of(error: TenantryError) -> ExitStatus:
    """Return the exit status that *error* means."""
    return next(STATUS[category] for category in type(error).__mro__ if category in STATUS)


def explain(error: TenantryError) -> str:
    """Return *error* in one line, with what can be done about it."""
    return " ".join(f"{error.message} {ADVICE.get(type(error), '')}".split())


def tell(line: str) -> None:
    """Say one line to the person at the keyboard, whatever becomes of the output."""
    sys.stderr.write(f"tenantry: {line}\n")
