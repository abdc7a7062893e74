"""Open the catalog, without Alembic: a command that only reads imports little."""

from pathlib import Path
from typing import TYPE_CHECKING

from tenantry.catalog.database import Catalog
from tenantry.catalog.pace import PACE, Pace
from tenantry.db.outage_errors import is_missing_table
from tenantry.db.sessions import DatabaseUnavailable
from tenantry.db.urls import sqlite_path
from tenantry.kit.errors import Unavailable, chain_of
from tenantry.migration.schema_state import READ_VERSION

if TYPE_CHECKING:
    from tenantry.settings import Settings

# Each file is named after its revision, and they are one line; a contract test compares this.
HEAD = max(file.stem for file in Path(__file__).parent.glob("revisions/versions/[0-9]*.py"))[:4]


class CatalogMissing(Unavailable):
    """There is no catalog yet: check the settings, or run `tenantry serve`, which creates it."""


class CatalogUnreachable(DatabaseUnavailable):
    """The catalog cannot be read."""


def open_catalog(settings: "Settings", pace: Pace = PACE) -> Catalog:
    """Return the catalog of the settings, without connecting to it yet."""
    return Catalog(
        settings.catalog,
        connections_max=settings.catalog_connections,
        timeout_seconds=settings.connect_timeout_s,
        synchronous=settings.sqlite_synchronous,
        statement_seconds=settings.statement_timeout_s,
        pace=pace,
        subscribed={name: one.events for name, one in settings.hooks.items()},
    )


async def is_at_head(catalog: Catalog) -> bool:
    """Return whether the catalog needs no migration; False if it cannot be read."""
    try:
        found = await catalog.fetch_one(READ_VERSION)
    except DatabaseUnavailable:
        return False
    return found is not None and found.version_num >= HEAD


async def check_exists(settings: "Settings", catalog: Catalog) -> None:
    """Check that there is a catalog: a command that only reads must not create one elsewhere.

    Raises:
        CatalogMissing: The file is missing, or the database has no version table.
        CatalogUnreachable: The database cannot be reached, or is busy.
    """
    path = sqlite_path(settings.catalog)
    if path is not None and not path.exists():
        raise CatalogMissing
    try:
        await catalog.fetch_one(READ_VERSION)
    except DatabaseUnavailable as error:
        if any(is_missing_table(cause) for cause in chain_of(error)):
            raise CatalogMissing from error
        raise CatalogUnreachable from error
