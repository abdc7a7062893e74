"""``tenantry fleet serve``: the console over the databases of a fleet, for this machine alone."""

import asyncio
import shlex
import shutil
import signal
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager, nullcontext
from pathlib import Path

import structlog
import typer

from tenantry.access import admins
from tenantry.catalog import admins as catalog_admins
from tenantry.catalog.attached import BadList, NotAFleet
from tenantry.catalog.upgrading import CatalogUnusable
from tenantry.cli import session
from tenantry.cli.admins import change
from tenantry.cli.database_urls import check_argument
from tenantry.cli.exit_status import ExitStatus
from tenantry.cli.fleet_place import FleetPlace
from tenantry.cli.passwords import generate_password
from tenantry.cli.printing import output
from tenantry.cli.serving import server
from tenantry.db.urls import sqlite_path
from tenantry.fleet.attached import ListedFleet
from tenantry.schemas.base import Schema
from tenantry.services import Services, open_services
from tenantry.settings import Settings

LOOPBACK = "127.0.0.1"

_log = structlog.get_logger(__name__)


class ServingFleet(Schema, frozen=True):
    """The console of a fleet.

    Attributes:
        url: Where it is.
        email: The admin to whom the password was given; null if none was.
        password: A new password, which is printed once; null if the admin keeps the old one.
    """

    url: str
    email: str | None
    password: str | None


def serve(place: FleetPlace, *, port: int | None, email: str, new_password: bool) -> None:
    """Serve the console of a fleet until SIGTERM or Ctrl-C; see ``tenantry fleet serve``.

    Raises:
        AdminNotFound: A new password is for an admin who does not exist.
        PasswordInArgument: The URL of the state or of the source of the list has a password, which
            the list of processes would show for as long as this serves.
        Exception: As for `FleetPlace.working`, and as for `server.serve`.
    """
    check_argument("--state", place.state)
    check_argument("--from", place.source[0] if place.source else "")
    settings = place.configure_server(host=LOOPBACK, port=port)
    attached = ListedFleet(options=place.options(settings), listed=asyncio.run(place.read()))
    issued: list[str] = []

    @asynccontextmanager
    async def opening(settings: Settings) -> AsyncIterator[Services]:
        async with open_services(settings, attached=attached) as services:
            password = await _password(services, email, is_new=new_password)
            issued.extend([password] if password else [])
            yield services

    def announce(_has_admin: bool) -> None:  # noqa: FBT001 - the only argument of a callback
        url = f"{settings.local_url}/console"
        serving = ServingFleet(url, email if issued else None, next(iter(issued), None))
        chosen = f"--email {shlex.quote(email)}" + (f" --port {port}" if port else "")
        remedy = f"`{place.command('serve')} {chosen} --new-password` makes another one."
        with output.only_once("The password is", remedy) if issued else nullcontext():
            if not output.shown_as_json(serving):
                output.show_line(f"The console of the fleet: {url}")
                if issued:
                    output.show_line(f"Sign in as {email} with the password {issued[0]}")
        _log.info("serving", url=url)

    is_file = sqlite_path(settings.catalog) is not None
    with (
        server.listening(settings.host, settings.port) as groups,
        _holding(settings.data_dir, is_locked=is_file),
    ):
        ended_by = server.serve(settings, groups[0], on_answering=announce, opening=opening)
    if ended_by is signal.SIGINT:
        raise typer.Exit(ExitStatus.INTERRUPTED)


@contextmanager
def _holding(folder: Path, *, is_locked: bool) -> Iterator[None]:
    """Hold the folder of a server; remove it if it is new, and the list or the state is refused.

    Until then, nothing in the state is sealed with the key in the folder.
    """
    is_new = not folder.exists()
    with server.locked(folder) if is_locked else nullcontext():
        try:
            yield
        except (BadList, NotAFleet, CatalogUnusable):
            if is_new:
                shutil.rmtree(folder, ignore_errors=True)
            raise


async def _password(services: Services, email: str, *, is_new: bool) -> str | None:
    """Create the admin of a fleet without one; return their new password, if they get one."""
    catalog, ctx = services.catalog, session.context()
    password = generate_password(chars_min=services.settings.password_min_length)
    if not await catalog_admins.every(catalog):
        await admins.create(ctx, catalog, services.passwords, email=email, password=password)
    elif not is_new:
        return None
    else:
        await change(services, email, password=password, is_active=True)
    return password
