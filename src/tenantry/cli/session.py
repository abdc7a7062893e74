"""Settings, logs and services for one command."""

import contextlib
import os
import pwd
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import msgspec
import typer.main

from tenantry.kit import log
from tenantry.kit.context import OperationContext
from tenantry.services import Services, open_services, system_context
from tenantry.settings import Settings, read_settings

# The user who logged in to this machine; on Linux it stays the same after `sudo` and `su`.
LOGIN_USER = Path("/proc/self/loginuid")
NO_LOGIN_USER = 2**32 - 1


def context() -> OperationContext:
    """Return the context of a command: the operating system's user, and the command's name.

    The arguments are omitted, because they can be secrets.
    """
    # Typer has no public function for this.
    command = typer.main.get_current_context(silent=True)  # type: ignore[attr-defined]
    return msgspec.structs.replace(
        system_context(f"cli:{_user_name()}@{socket.gethostname()}"),
        command=None if command is None else command.command_path,
    )


def _user_name() -> str:
    """Return the name of the user who logged in; if unknown, of the user of this process."""
    user_id = os.getuid()
    with contextlib.suppress(OSError, ValueError):
        logged_in = int(LOGIN_USER.read_text())
        user_id = user_id if logged_in == NO_LOGIN_USER else logged_in
    try:
        return pwd.getpwuid(user_id).pw_name
    except KeyError:
        return f"uid-{user_id}"


def configure(*, log_level: str = "warning", **overrides: object) -> Settings:
    """Return the settings of this process, and set up its logs.

    Args:
        log_level: The lowest level that is logged, unless `TENANTRY_LOG_LEVEL` is set.
        overrides: Values of options; None if an option is not given.

    Raises:
        BadSettings: A setting is invalid or unknown.
    """
    settings = read_settings(**overrides)
    is_set = "log_level" in settings.model_fields_set
    log.configure(log_format=settings.log_format, level=settings.log_level if is_set else log_level)
    return settings


@asynccontextmanager
async def opened(settings: Settings | None = None) -> AsyncIterator[Services]:
    """Open the services for a command that reads, or makes one change.

    It does not work on migration runs: a command such as a list must not have to finish the
    migration of a tenant before it exits.

    Args:
        settings: Those of `configure`, if the command needs them itself.

    Raises:
        BadSettings: A setting is invalid or unknown.
        CatalogUnusable: The catalog cannot be reached, or cannot be brought up to date.
        WrongSecretKey: The catalog was sealed with another key.
    """
    async with open_services(settings or configure(), works=False) as services:
        yield services


@asynccontextmanager
async def reading(settings: Settings | None = None) -> AsyncIterator[Services]:
    """Open the services for a command that only reads: it writes nothing, not even a heartbeat.

    So it works while the disk is full, or the catalog's server is a standby.

    Raises:
        Exception: As for `opened`.
    """
    async with open_services(settings or configure(), works=False, changes=False) as services:
        yield services
