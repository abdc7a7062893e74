"""Migrate the catalog itself. In its own module, because this imports Alembic."""

import structlog

from tenantry.catalog.stream import STREAM
from tenantry.kit.errors import Unavailable
from tenantry.kit.ids import new_id
from tenantry.migration.errors import explain
from tenantry.migration.migrator import Migrator
from tenantry.migration.run_scripts import RunScripts
from tenantry.migration.streams import Streams, UnknownRevision

_log = structlog.get_logger(__name__)


class CatalogUnusable(Unavailable):
    """The catalog cannot be reached or migrated."""


async def upgrade_catalog(url: str, migrator: Migrator) -> None:
    """Migrate the catalog at *url* to the head; one that is newer than this code is used unchanged.

    Raises:
        CatalogUnusable: It cannot be reached or migrated, or is a database of another program.
        UnknownRevision: It is of another program, or older than what this code can read.
    """
    scripts = RunScripts(Streams(STREAM))
    try:
        await migrator.initialise(url, scripts, run_id=new_id(), needs_empty=True)
    except UnknownRevision:
        found = (await migrator.read_state(url, scripts.streams)).revision
        if found.own < STREAM.head:
            raise
        _log.info("the catalog is newer than this code", revision=found.own)
    except Exception as error:
        raise CatalogUnusable(f"The catalog cannot be used: {explain(error)}") from error
