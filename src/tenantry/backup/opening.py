"""Create the objects for backups from the settings."""

from secrets import token_hex

from tenantry.access.signing import secret_file, secret_of
from tenantry.backup.archive import Keys
from tenantry.backup.archives import Archives
from tenantry.backup.copying import Copying
from tenantry.backup.job_kinds import kinds_of
from tenantry.db.postgres.tools import PostgresTools
from tenantry.fleet.drift import DriftCheck
from tenantry.fleet.lifecycle import Lifecycle
from tenantry.fleet.wave_check import WaveCheck
from tenantry.kit.sizes import mark_of
from tenantry.settings import Settings
from tenantry.work.ledger import Ledger
from tenantry.work.queue import Queue
from tenantry.work.worker import JobWorker


def archive_keys(settings: Settings) -> Keys:
    """Return the keys of archives: of the secret key, and of the old one."""
    old = settings.secret_key_old.get_secret_value()
    return Keys([secret_of(settings), *([old] if old else [])])


def existing_keys(settings: Settings) -> Keys:
    """Return the keys of archives. If there is no secret key, none is created, and none fits."""
    if settings.secret_key.get_secret_value() or secret_file(settings).exists():
        return archive_keys(settings)
    return Keys([token_hex()])


def backups_of(
    settings: Settings, ledger: Ledger, lifecycle: Lifecycle
) -> tuple[Copying, Queue, JobWorker]:
    """Return what backups need, what queues the jobs of admins, and what runs them."""
    keys, scratch = archive_keys(settings), settings.data_dir / "scratch"
    copying = Copying(
        ledger=ledger,
        catalog_url=settings.catalog,
        lifecycle=lifecycle,
        drift=DriftCheck(
            catalog=lifecycle.catalog,
            databases=lifecycle.databases,
            migrator=lifecycle.migrator,
            templates=lifecycle.templates,
            streams=lifecycle.streams,
            concurrency=settings.migrate_concurrency,
        ),
        tools=PostgresTools(settings.pg_tools),
        keys=keys,
        archives=Archives(settings.archives, keys),
        scratch=scratch,
        mark=mark_of(settings.free_space_mark),
        check_wave=WaveCheck(
            settings.wave_check.get_secret_value(), seconds=settings.wave_check_seconds
        ),
        error_rate_seconds=settings.error_rate_seconds,
    )
    kinds = kinds_of(copying)
    worker = JobWorker(ledger, kinds, concurrency=settings.job_concurrency, scratch=scratch)
    return copying, Queue(ledger=ledger, kinds=kinds, hint=worker.hint), worker
