"""The composition root: the only place that creates and closes the services."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from concurrent.futures import Executor
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from functools import partial

import structlog

from tenantry.access.attached_urls import AttachedUrls
from tenantry.access.identify import Identifier, Usage
from tenantry.access.login_throttle import Throttle
from tenantry.access.passwords import Passwords
from tenantry.access.request_limits import RateLimits
from tenantry.access.sign_ins import SignIns
from tenantry.access.signing import SigningKeys, secret_of
from tenantry.access.tokens import Tokens
from tenantry.backup.copying import Copying
from tenantry.backup.opening import backups_of
from tenantry.catalog import audit, jobs, outbox, password_attempts, stored_plans, tenant_counts
from tenantry.catalog.attached import attach, check_no_fleet
from tenantry.catalog.database import Catalog
from tenantry.catalog.opening import is_at_head, open_catalog
from tenantry.catalog.pace import PACE, Pace
from tenantry.catalog.password_attempts import limits_of
from tenantry.catalog.upgrading import upgrade_catalog
from tenantry.db.factory import open_tenant_server
from tenantry.db.servers import Server
from tenantry.db.sessions import DatabaseUnavailable
from tenantry.db.sqlite import files
from tenantry.db.urls import sqlite_path
from tenantry.db.write_fence import check_not_fenced
from tenantry.fleet.adoption import Adoption
from tenantry.fleet.approval import Rules
from tenantry.fleet.attached import AttachedFiles, ListedFleet, open_servers
from tenantry.fleet.attaching import Attaching
from tenantry.fleet.deletion import Deletion
from tenantry.fleet.drift import DriftCheck
from tenantry.fleet.dry_run import Previewer
from tenantry.fleet.error_rate import AnswerCounts
from tenantry.fleet.export import Export
from tenantry.fleet.fleet_metrics import keep_reading
from tenantry.fleet.lifecycle import Lifecycle
from tenantry.fleet.migration_runs import Fleet
from tenantry.fleet.placement import Placement
from tenantry.fleet.templates import Templates
from tenantry.fleet.watchers import Watchers
from tenantry.fleet.worker import Worker
from tenantry.kit import private
from tenantry.kit.clock import utc_now
from tenantry.kit.context import HOUSEKEEPING, system_context
from tenantry.kit.metrics import Metrics
from tenantry.kit.request_log import RecentErrors
from tenantry.kit.sizes import mark_of
from tenantry.kit.tasks import kept_running
from tenantry.kit.threads import DaemonThreads
from tenantry.migration.errors import explain
from tenantry.migration.migrator import Migrator, time_limits_of
from tenantry.migration.streams import BadStream, NoRevisions, Streams
from tenantry.settings import Settings
from tenantry.tenant.audit import LOG, Prune, Retention
from tenantry.tenant.blog import deleted
from tenantry.tenant.blog.folding import Folding
from tenantry.tenant.databases import ELSEWHERE, Attached, TenantDatabases
from tenantry.tenant.storage import Storage
from tenantry.tenant.stream import streams_of
from tenantry.work.delivery import Deliveries
from tenantry.work.heartbeat import Heartbeat
from tenantry.work.ledger import Ledger
from tenantry.work.post_hooks import PostHooks
from tenantry.work.queue import Queue
from tenantry.work.worker import JobWorker

HOUSEKEEPING_SECONDS = 5.0
JOBS_KEPT = timedelta(days=90)
"""For how long ended jobs are listed."""
# Threads for provisioning, which must not wait for migrations or dry runs: those have as many
# threads as databases that they migrate, or read, concurrently.
THREADS_BESIDE = 4

_log = structlog.get_logger(__name__)


@dataclass(frozen=True, kw_only=True)
class Services:
    """Everything that a door needs. It is passed explicitly; there are no globals."""

    settings: Settings
    catalog: Catalog
    databases: TenantDatabases
    identifier: Identifier
    storage: Storage
    folding: Folding
    fleet: Fleet
    worker: Worker
    watchers: Watchers
    lifecycle: Lifecycle
    deletion: Deletion
    export: Export
    adoption: Adoption
    attaching: Attaching
    drift: DriftCheck
    copying: Copying
    queue: Queue
    job_worker: JobWorker
    migrator: Migrator
    passwords: Passwords
    throttle: Throttle
    sign_ins: SignIns
    signing_keys: SigningKeys
    tokens: Tokens
    usage: Usage
    rate_limits: RateLimits
    heartbeat: Heartbeat
    metrics: Metrics
    recent_errors: RecentErrors = field(default_factory=RecentErrors)
    streams: Callable[[], Streams]
    attached: ListedFleet | None

    @property
    def patience_seconds(self) -> float:
        """How long a run waits for a server, or for the catalog, that is away."""
        return self.settings.server_patience_s


@asynccontextmanager
async def open_services(
    settings: Settings,
    *,
    works: bool = True,
    changes: bool = True,
    pace: Pace = PACE,
    attached: ListedFleet | None = None,
) -> AsyncIterator[Services]:
    """Build the services of one process, and close them when the block ends.

    Args:
        settings: The settings of the process.
        works: Whether it works on migration runs, and removes what dead processes have left
            incomplete.
        changes: Whether it may change anything; if not, it does not even write a heartbeat, and
            the catalog can be read-only if it is at the head.
        pace: How often it reads and writes the catalog.
        attached: The fleet of which the catalog is the state; None if it has tenants.

    Raises:
        BadList, NotAFleet: As for `attach`, or the list has too many servers.
        CatalogUnusable: The catalog cannot be reached or migrated.
        NoRevisions: The user's directory has no revisions, or is not an Alembic directory.
        StateOfFleet: The catalog is the state of a fleet of attached databases.
        WrongSecretKey: The catalog was sealed with another key.
    """
    private.make_folder(settings.data_dir)
    operated = _operated(settings, attached)
    count = sum(operated.concurrencies.values()) + settings.reads_max
    threads = DaemonThreads(count + THREADS_BESIDE, "migrate")
    services = _build(settings, threads, pace, operated)
    try:
        await _prepare(services, changes=changes)
        async with _background(services, pace, works=works, changes=changes):
            yield services
            if changes:
                await services.worker.stop()
        if changes:
            await services.usage.write()
            await services.sign_ins.write()
            await services.heartbeat.end()
    finally:
        await services.databases.close()
        await services.catalog.close()
        services.passwords.close()
        services.folding.close()
        threads.shutdown()


@dataclass(frozen=True)
class _Operated:
    """The databases of a process: their servers, how many are migrated at a time, their streams."""

    servers: Mapping[str, Server]
    concurrencies: Mapping[str, int]
    streams: Callable[[], Streams]
    attached: ListedFleet | None


def _operated(settings: Settings, attached: ListedFleet | None) -> _Operated:
    if attached is None:
        servers = {
            name: open_tenant_server(settings, one) for name, one in settings.servers.items()
        }
        each = {**settings.concurrencies, ELSEWHERE: settings.migrate_concurrency}
        return _Operated(servers, each, partial(streams_of, settings), None)
    servers = open_servers(attached.options, attached.listed)
    each = dict.fromkeys(servers, attached.options.concurrency)
    return _Operated(servers, each, attached.options.streams, attached)


def _build(settings: Settings, threads: Executor, pace: Pace, operated: _Operated) -> Services:
    catalog, servers, streams = open_catalog(settings, pace), operated.servers, operated.streams
    keys = SigningKeys(catalog, secret_of(settings), settings.secret_key_old.get_secret_value())
    databases = TenantDatabases(servers, _attached_to(operated, AttachedUrls(catalog, keys.seal)))
    passwords = Passwords(threads=settings.password_threads, chars_min=settings.password_min_length)
    tokens = Tokens(keys, lifetime=timedelta(minutes=settings.token_minutes))
    usage = Usage(catalog)
    migrator = Migrator(threads, time_limits_of(settings), driver=settings.migration_driver)
    heartbeat = Heartbeat(catalog, pace)
    ledger = Ledger(catalog=catalog, databases=databases, heartbeat=heartbeat)
    metrics = _metrics(settings, catalog, servers, passwords)
    lifecycle = Lifecycle(
        catalog=catalog,
        databases=databases,
        migrator=migrator,
        templates=Templates(ledger, migrator),
        passwords=passwords,
        placement=Placement(settings.servers),
        ledger=ledger,
        streams=streams,
    )
    most, each = settings.migrate_concurrency, operated.concurrencies
    connect_seconds = settings.connect_timeout_s
    work_on = partial(Worker, concurrency=each, patience_seconds=settings.server_patience_s)
    worker = work_on(catalog, databases, migrator, heartbeat, streams, metrics=metrics, pace=pace)
    copying, queue, job_worker = backups_of(settings, ledger, lifecycle)
    previewer = Previewer(databases, migrator, concurrency=most, concurrencies=each)
    start = partial(Fleet, metrics=metrics, rules=Rules.of(settings), pace=pace)
    return Services(
        settings=settings,
        catalog=catalog,
        databases=databases,
        identifier=Identifier(catalog, tokens, usage),
        storage=_storage(settings, databases),
        folding=Folding(),
        fleet=start(catalog, worker, previewer, streams, has_check=copying.check_wave.is_set),
        worker=worker,
        watchers=Watchers(catalog, worker),
        lifecycle=lifecycle,
        deletion=Deletion(lifecycle=lifecycle, kept=timedelta(days=settings.deleted_days)),
        export=Export(catalog=catalog, databases=databases, connect_seconds=connect_seconds),
        adoption=Adoption(lifecycle=lifecycle),
        attaching=Attaching(lifecycle=lifecycle, seal=keys.seal, servers=settings.servers),
        drift=copying.drift,
        copying=copying,
        queue=queue,
        job_worker=job_worker,
        migrator=migrator,
        passwords=passwords,
        throttle=Throttle(catalog, limits_of(settings), metrics),
        sign_ins=SignIns(catalog),
        signing_keys=keys,
        tokens=tokens,
        usage=usage,
        rate_limits=RateLimits(settings.requests_per_minute),
        heartbeat=heartbeat,
        metrics=metrics,
        streams=streams,
        attached=operated.attached,
    )


def _attached_to(operated: _Operated, urls: AttachedUrls) -> Attached | None:
    return None if operated.attached else Attached(urls.find, AttachedFiles())


async def _prepare(services: Services, *, changes: bool) -> None:
    settings = services.settings
    await asyncio.to_thread(_check_revisions, services.streams())
    path = sqlite_path(settings.catalog)
    if path is not None:  # also one that another process is creating
        await asyncio.to_thread(files.create, path)
    if not changes:
        await check_not_fenced(settings.catalog, timeout_seconds=settings.connect_timeout_s)
    if changes or not await is_at_head(services.catalog):
        await upgrade_catalog(settings.catalog, services.migrator)
    await services.catalog.cache.check_epoch()
    if services.attached is None:
        await check_no_fleet(services.catalog)
    else:
        await attach(services.catalog, system_context("start"), services.attached.listed)
    await services.signing_keys.ensure(system_context("start"))
    if changes:
        await services.heartbeat.beat()


def _check_revisions(streams: Streams) -> None:
    """Check that the user's folder has a revision: otherwise every tenant is at the head.

    Other errors in revisions are ignored here: they fail the next migration, and tenants are
    served until then.

    Raises:
        NoRevisions: It has no revisions, or is not an Alembic directory.
    """
    try:
        _ = streams.head
    except NoRevisions:
        raise
    except BadStream:
        pass


@asynccontextmanager
async def _background(
    services: Services, pace: Pace, *, works: bool, changes: bool
) -> AsyncIterator[None]:
    hooks, heartbeat = services.settings.hooks, services.heartbeat
    deliveries = Deliveries(services.catalog, heartbeat, hooks, pace=pace)
    works_on: list[Callable[[], Awaitable[None]]] = [services.catalog.cache.keep_checking]
    if changes:
        services.metrics.watch_heartbeat(heartbeat.silent_seconds)
        answers = AnswerCounts(services.catalog, services.metrics, pace)
        report = partial(answers.added_to, services.worker.report)
        works_on += [partial(heartbeat.keep_beating, report), answers.keep_counting]
    if works:
        works_on += (
            services.worker.work,
            partial(_keep_house, services),
            partial(keep_reading, services.catalog, services.streams, services.metrics, hooks),
        )
        if services.attached is None:
            works_on.append(partial(_prune_tenants, services))
        if any(one.tenants for one in hooks.values()):
            posts = PostHooks(services.catalog, services.databases, heartbeat, hooks, pace=pace)
            works_on.append(posts.work)
        if hooks:
            works_on.append(deliveries.work)
        if services.settings.job_concurrency:
            works_on.append(services.job_worker.work)
    async with kept_running(works_on):
        yield
        if works:
            await deliveries.drain()


async def _keep_house(services: Services) -> None:
    logged = ""
    while True:
        await services.databases.close_unused()
        try:
            # First what tenants wait for; a purge can wait for a server that is away.
            await services.job_worker.reap()
            await services.fleet.remove_unplanned()
            await services.deletion.purge_expired(system_context(HOUSEKEEPING))
            await stored_plans.prune(services.catalog, now=utc_now())
            if services.settings.hooks:
                await outbox.prune(services.catalog, now=utc_now())
            await jobs.prune(services.catalog, before=utc_now() - JOBS_KEPT)
            await services.usage.write()
            await services.sign_ins.write()
            await password_attempts.forget(services.catalog)
            await tenant_counts.merge(services.catalog)
            await services.signing_keys.retire(
                system_context(HOUSEKEEPING), token_lifetime=services.tokens.lifetime
            )
            if days := services.settings.audit_days:
                await audit.LOG.prune(services.catalog, before=utc_now() - timedelta(days=days))
            logged = ""
        except DatabaseUnavailable as error:
            if (cause := explain(error)) != logged:  # not every 5 s
                _log.warning("housekeeping postponed", cause=cause)
            logged = cause
        await asyncio.sleep(HOUSEKEEPING_SECONDS)


async def _prune_tenants(services: Services) -> None:
    """Prune audit logs and bins of tenants, in a separate task: a slow database delays no other."""
    days = services.settings.audit_days
    retention = Retention(services.catalog, services.databases)
    while True:
        now = utc_now()
        works: list[Prune] = [partial(deleted.purge_expired, now=now)]
        if days:
            works.insert(0, partial(LOG.prune, before=now - timedelta(days=days)))
        await retention.prune(now=now, works=works)
        await asyncio.sleep(HOUSEKEEPING_SECONDS)


def _metrics(
    settings: Settings, catalog: Catalog, servers: Mapping[str, Server], passwords: Passwords
) -> Metrics:
    metrics, mark = Metrics(), mark_of(settings.free_space_mark)
    metrics.watch_pool("catalog", catalog.budget)
    for name, server in servers.items():
        metrics.watch_pool(f"tenants/{name}", server.budget)
        metrics.watch_space(f"tenants/{name}", server.folder, mark)
    metrics.watch_queue(lambda: passwords.pending_count)
    return metrics


def _storage(settings: Settings, databases: TenantDatabases) -> Storage:
    mark = mark_of(settings.free_space_mark)
    return Storage(databases, mark=mark, tenant_bytes_max=settings.tenant_size_max)
