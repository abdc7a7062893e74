"""Create the objects for backups from the settings."""

from secrets import token_hex

from tenantry.access.signing import secret_file, secret_of
from tenantry.backup.archive import Keys
from tenantry.backup.archives import Archives
from tenantry.backup.job_worker import JobWorker
from tenantry.backup.jobs import Copying
from tenantry.backup.queueing import Queueing
from tenantry.db.postgres.tools import PostgresTools
from tenantry.fleet.drift import DriftCheck
from tenantry.fleet.lifecycle import Lifecycle
from tenantry.kit.sizes import mark_of
from tenantry.settings import Settings


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
    settings: Settings, lifecycle: Lifecycle, drift: DriftCheck
) -> tuple[Copying, Queueing, JobWorker]:
    """Return what backups need, what queues the jobs of admins, and what runs them."""
    copying = Copying(
        catalog=lifecycle.catalog,
        catalog_url=settings.catalog,
        databases=lifecycle.databases,
        lifecycle=lifecycle,
        heartbeat=lifecycle.heartbeat,
        tools=PostgresTools(settings.pg_tools),
        keys=archive_keys(settings),
        scratch=settings.data_dir / "scratch",
        mark=mark_of(settings.free_space_mark),
    )
    archives = Archives(settings.archives, copying.keys)
    worker = JobWorker(copying, archives, drift, concurrency=settings.job_concurrency)
    queueing = Queueing(copying=copying, archives=archives, hint=worker.hint)
    return copying, queueing, worker
