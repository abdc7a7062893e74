"""Settings, logs and services for one command."""

import contextlib
import os
import pwd
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias, cast

import typer.main

from tenantry.catalog.database import Catalog
from tenantry.catalog.opening import check_exists, is_at_head, open_catalog
from tenantry.db.factory import open_tenant_server
from tenantry.db.write_fence import check_not_fenced
from tenantry.kit import log
from tenantry.kit.clock import utc_now
from tenantry.kit.context import OperationContext
from tenantry.kit.ids import new_id
from tenantry.tenant.databases import TenantDatabases

if TYPE_CHECKING:
    from tenantry.fleet.attached import AttachedFleet
    from tenantry.migration.streams import Streams
    from tenantry.services import Services
    from tenantry.settings import Settings

# The user who logged in to this machine; on Linux it stays the same after `sudo` and `su`.
LOGIN_USER = Path("/proc/self/loginuid")
NO_LOGIN_USER = 2**32 - 1


@dataclass(frozen=True, kw_only=True)
class Reading:
    """What a command that only reads needs: less than the services, which take long to import."""

    catalog: Catalog
    databases: TenantDatabases
    streams: "Callable[[], Streams]"


RunServices: TypeAlias = "Services | AttachedFleet"
"""What a command needs to work on migration runs."""


class Place(Protocol):
    """On what the commands of a group work, if not on the service of the settings."""

    def command(self, name: str) -> str:
        """Return the words of a command of the group."""

    def working(self, *, works: bool) -> "AbstractAsyncContextManager[AttachedFleet]":
        """Open it to work on runs, or, without *works*, for one change."""

    def reading(self) -> AbstractAsyncContextManager[Reading]:
        """Open it for a command that only reads."""


def place() -> Place | None:
    """Return on what the running command works; None for the service of the settings."""
    running = _running()
    return running and cast("Place | None", running.obj)


def command(name: str, *arguments: object) -> str:
    """Return a command of the group of the running one, for a note: `migrate all`, for example."""
    where = place()
    words = [where.command(name) if where else f"tenantry migrate {name}", *map(str, arguments)]
    return f"`{' '.join(words)}`"


def starter() -> str | None:
    """Return who starts the runs of a fleet, which has no admins; None for a service."""
    return None if place() is None else context().actor


def working() -> AbstractAsyncContextManager[RunServices]:
    """Open the services for a command that works on migration runs; see `opened`.

    Failures of tenants are in the result, and not in the logs.
    """
    if (where := place()) is not None:
        return where.working(works=True)
    opening: AbstractAsyncContextManager[Services] = _services().open_services(
        configure(log_level="error")
    )
    return opening


def context() -> OperationContext:
    """Return the context of a command: the operating system's user, and the command's name.

    The arguments are omitted, because they can be secrets.
    """
    command = _running()
    return OperationContext(
        request_id=str(new_id()),
        now=utc_now(),
        actor=f"cli:{_user_name()}@{socket.gethostname()}",
        address="local",
        command=None if command is None else command.command_path,
    )


def _running() -> Any:
    # Typer has no public function for this.
    return typer.main.get_current_context(silent=True)  # type: ignore[attr-defined]


def _services() -> Any:
    # Imported on demand: they import Alembic, and take longer than most commands.
    return import_module("tenantry.services")


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


def configure(*, log_level: str = "warning", **overrides: object) -> "Settings":
    """Return the settings of this process, and set up its logs.

    Args:
        log_level: The lowest level that is logged, unless `TENANTRY_LOG_LEVEL` is set.
        overrides: Values of options; None if an option is not given.

    Raises:
        BadSettings: A setting is invalid or unknown.
    """
    # Imported on demand: a fleet needs no settings, and pydantic takes a while.
    settings: Settings = import_module("tenantry.settings").read_settings(**overrides)
    is_set = "log_level" in settings.model_fields_set
    log.configure(log_format=settings.log_format, level=settings.log_level if is_set else log_level)
    return settings


def opened(
    settings: "Settings | None" = None, *, changes: bool = True
) -> "AbstractAsyncContextManager[Services]":
    """Open the services for a command that makes one change, or needs them to read.

    It does not work on migration runs: a command such as a backup must not have to finish the
    migration of a tenant before it exits.

    Args:
        settings: Those of `configure`, if the command needs them itself.
        changes: Whether it may change anything; if not, it does not even write a heartbeat.

    Raises:
        BadSettings: A setting is invalid or unknown.
        CatalogUnusable: The catalog cannot be reached, or cannot be brought up to date.
        WrongSecretKey: The catalog was sealed with another key.
    """
    if (where := place()) is not None:
        # Commands of runs alone are in a fleet.
        return cast("AbstractAsyncContextManager[Services]", where.working(works=False))
    opening: AbstractAsyncContextManager[Services] = _services().open_services(
        settings or configure(), works=False, changes=changes
    )
    return opening


def reading(settings: "Settings | None" = None) -> AbstractAsyncContextManager[Reading]:
    """Open the catalog for a command that only reads: it writes nothing, not even a heartbeat.

    So it works while the disk is full, or the catalog's server is a standby. An old catalog is
    migrated first; a missing one is not created, because the settings may name a wrong place.

    Raises:
        BadSettings: A setting is invalid or unknown.
        CatalogUnusable: The catalog cannot be reached, or cannot be brought up to date.
        CatalogMissing: There is none.
        WritesRejected: It was moved to another database, or is being moved.
        WrongSecretKey: The catalog was sealed with another key.
    """
    where = place()
    return _reading(settings or configure()) if where is None else where.reading()


@asynccontextmanager
async def _reading(settings: "Settings") -> AsyncIterator[Reading]:
    catalog = open_catalog(settings)
    servers = {name: open_tenant_server(settings, one) for name, one in settings.servers.items()}
    databases = TenantDatabases(servers)
    try:
        await check_exists(settings, catalog)
        await check_not_fenced(settings.catalog, timeout_seconds=settings.connect_timeout_s)
        if not await is_at_head(catalog):
            async with opened(settings, changes=False):
                pass
        await catalog.cache.check_epoch()
        await _check_secret(settings, catalog)
        yield Reading(
            catalog=catalog,
            databases=databases,
            # Imported on demand: it reads the revisions, with Alembic.
            streams=lambda: import_module("tenantry.tenant.stream").streams_of(settings),
        )
    finally:
        await databases.close()
        await catalog.close()


async def _check_secret(settings: "Settings", catalog: Catalog) -> None:
    """Check the secret key, so that a command shows a wrong one before a process has it."""
    signing = import_module("tenantry.access.signing")  # a fleet has no keys
    old = settings.secret_key_old.get_secret_value()
    await signing.SigningKeys(catalog, signing.existing_secret(settings), old).ring()
