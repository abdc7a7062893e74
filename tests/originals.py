"""A world of each engine that is made once, closed, and then copied for each test."""

import asyncio
import secrets
import shutil
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Protocol

import msgspec

from tenantry.catalog.admins import Admin
from tenantry.fleet.lifecycle import Provisioned
from tenantry.services import Services, open_services
from tenantry.settings import Settings
from testkit.postgres import connected, copy_database

# Where a service runs. Under any other setting that differs, a world must be made, not copied.
PLACES = {"data_dir", "catalog_url", "tenant_server_url"}


@dataclass(frozen=True)
class Content:
    """What a world has in its databases."""

    acme: Provisioned
    globex: Provisioned
    admin_account: Admin


Fill = Callable[[Services], Awaitable[Content]]


class Original(Protocol):
    """A world to copy."""

    def copy_to(self, settings: Settings) -> Content | None:
        """Copy the world to the place of *settings*; if they need another one, return None."""


class FileOriginal:
    """A world on SQLite.

    Args:
        settings: Of a new service.
        fill: Puts the content there.
    """

    def __init__(self, settings: Settings, fill: Fill) -> None:
        self._settings = settings
        self._content = _make(settings, fill)

    def copy_to(self, settings: Settings) -> Content | None:
        """See `Original`."""
        if _differ(settings, self._settings):
            return None
        shutil.copytree(self._settings.data_dir, settings.data_dir)
        return self._content


class ServerOriginal:
    """A world on a PostgreSQL server.

    Args:
        settings: Of a new service.
        fill: Puts the content there.
    """

    def __init__(self, settings: Settings, fill: Fill) -> None:
        self._settings = settings
        self._server = settings.tenant_server_url.get_secret_value()
        self._content = _make(settings, fill)
        # Names that no test cleans up.
        prefix = f"original_{secrets.token_hex(4)}"
        self._names = {
            _name_of(settings): f"{prefix}_catalog",
            self._content.acme.tenant.database_name: f"{prefix}_acme",
            self._content.globex.tenant.database_name: f"{prefix}_globex",
        }
        with connected(self._server) as connection:
            for name, new in self._names.items():
                connection.execute(f"ALTER DATABASE {name} RENAME TO {new}".encode())

    def copy_to(self, settings: Settings) -> Content | None:
        """See `Original`."""
        if _differ(settings, self._settings):
            return None
        acme, globex = (_renamed(one) for one in (self._content.acme, self._content.globex))
        names = (_name_of(settings), acme.tenant.database_name, globex.tenant.database_name)
        with connected(self._server) as connection:
            connection.execute(f"DROP DATABASE IF EXISTS {names[0]}".encode())
            for name, template in zip(names, self._names.values(), strict=True):
                copy_database(connection, name, template=template)
        with connected(settings.catalog) as connection:
            for one in (acme.tenant, globex.tenant):
                connection.execute(
                    "UPDATE tenant SET database_name = %s WHERE id = %s",
                    (one.database_name, one.id),
                )
        return replace(self._content, acme=acme, globex=globex)

    def drop(self) -> None:
        """Drop the databases."""
        with connected(self._server) as connection:
            for name in self._names.values():
                connection.execute(f"DROP DATABASE {name}".encode())


def _make(settings: Settings, fill: Fill) -> Content:
    async def make() -> Content:
        async with open_services(settings) as services:
            return await fill(services)

    # The thread of the tests has an event loop of its own.
    with ThreadPoolExecutor(1) as thread:
        return thread.submit(asyncio.run, make()).result()


def _differ(one: Settings, other: Settings) -> bool:
    return one.model_dump(exclude=PLACES) != other.model_dump(exclude=PLACES)


def _name_of(settings: Settings) -> str:
    return settings.catalog.rpartition("/")[2]


def _renamed(one: Provisioned) -> Provisioned:
    name = f"tenantry_{secrets.token_hex(16)}"
    return replace(one, tenant=msgspec.structs.replace(one.tenant, database_name=name))
