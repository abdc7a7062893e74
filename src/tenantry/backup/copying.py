"""What every backup, restore and copy needs."""

from dataclasses import dataclass
from pathlib import Path

from tenantry.backup.archive import Keys
from tenantry.backup.archives import Archives
from tenantry.catalog.database import Catalog
from tenantry.db.postgres.tools import PostgresTools
from tenantry.fleet.drift import DriftCheck
from tenantry.fleet.lifecycle import Lifecycle
from tenantry.fleet.wave_check import NO_CHECK, WaveCheck
from tenantry.kit.sizes import NO_MARK, FreeSpaceMark
from tenantry.tenant.databases import TenantDatabases
from tenantry.work.ledger import Ledger


@dataclass(frozen=True, kw_only=True)
class Copying:
    """What every backup, restore and copy needs.

    Attributes:
        scratch: The folder for temporary copies of SQLite files.
        catalog_url: The catalog itself, which is backed up with the tenants.
        archives: Of the target that the settings name.
        check_wave: Runs the operator's check of a wave.
        error_rate_seconds: How long the check of the error rate waits for requests.
    """

    ledger: Ledger
    catalog_url: str
    lifecycle: Lifecycle
    drift: DriftCheck
    tools: PostgresTools
    keys: Keys
    archives: Archives
    scratch: Path
    mark: FreeSpaceMark = NO_MARK
    check_wave: WaveCheck = NO_CHECK
    error_rate_seconds: float = 0.0

    @property
    def catalog(self) -> Catalog:
        """The catalog."""
        return self.ledger.catalog

    @property
    def databases(self) -> TenantDatabases:
        """The databases of the tenants."""
        return self.ledger.databases
