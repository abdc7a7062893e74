"""Metrics of one process: counters, and gauges that are read for each scrape.

Counters are plain numbers, so that a request costs a dictionary lookup; prometheus-client
formats them. No label contains a tenant: there may be a hundred thousand, and metrics are read by
people who need not know them.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property, partial
from importlib import import_module
from itertools import accumulate
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from tenantry.kit.clock import utc_now
from tenantry.kit.release import VERSION
from tenantry.kit.request_log import BUCKETS_MS, RequestCounts
from tenantry.kit.sizes import FreeSpaceMark, space_above

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry
    from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

# The labels of the counters; a run with a failed tenant counts as failed.
SUCCESS, FAILED = "success", "failed"
WRONG_PASSWORD, TOO_MANY = "wrong password", "too many attempts"

_ROUTE = ("method", "route")


@dataclass(frozen=True, kw_only=True, slots=True)
class FleetState:
    """The state of the whole service, the same in every process.

    Attributes:
        tenants_behind: Active tenants that were not last seen at the head.
        tenants_failing: Active tenants for which the latest migration failed.
        held_runs: Migration runs that wait for a person, or for a process with their revisions.
        queued_jobs: Jobs that wait for a process.
        failed_jobs: Jobs that failed in the last hour and were not cancelled, by their kind.
        oldest_job_at: When the first of the queued jobs was queued.
        oldest_run_at: When the oldest unfinished migration run began.
        last_backup_at: When the newest successful backup ended.
        oldest_notification_at: When the oldest undelivered notification was queued.
    """

    tenants_behind: int
    tenants_failing: int
    held_runs: int
    queued_jobs: int
    failed_jobs: Mapping[str, int]
    oldest_job_at: datetime | None
    oldest_run_at: datetime | None
    last_backup_at: datetime | None
    oldest_notification_at: datetime | None


class Pool(Protocol):
    """The connections of this process to one server."""

    connections_max: int

    @property
    def open_count(self) -> int:
        """How many connections are open."""

    @property
    def idle_count(self) -> int:
        """How many of them are unused."""


class Metrics:
    """The metrics of one process.

    Attributes:
        fleet: The state of the service; None if it is not known.
        requests: The counts of requests.
    """

    def __init__(self) -> None:
        self.requests = RequestCounts()
        # Zeros are included, so that the first failure is an increase.
        self._tenants = Counter({SUCCESS: 0, FAILED: 0})
        self._runs = Counter({SUCCESS: 0, FAILED: 0})
        self._login_failures = Counter({WRONG_PASSWORD: 0, TOO_MANY: 0})
        self._pools: dict[str, Pool] = {}
        self._refused_connections: Counter[str] = Counter()
        self._unavailable: Counter[str] = Counter()
        self._read_connections: Callable[[], int] = int
        self._read_queue: Callable[[], int] = int
        self._read_silence: Callable[[], float] = float
        self._spaces: dict[str, Callable[[], int]] = {}
        self.fleet: FleetState | None = None

    @cached_property
    def registry(self) -> "CollectorRegistry":
        """The registry of prometheus-client; not its global one."""
        prometheus = import_module("prometheus_client")
        registry: CollectorRegistry = prometheus.CollectorRegistry(auto_describe=False)
        registry.register(self)
        prometheus.ProcessCollector(registry=registry)
        return registry

    def count_tenant(self, outcome: str) -> None:
        """Count one tenant of a migration run that this process has ended."""
        self._tenants[outcome] += 1

    def count_run(self, outcome: str) -> None:
        """Count one migration run that this process has ended."""
        self._runs[outcome] += 1

    def count_login_failure(self, reason: str) -> None:
        """Count one rejected password."""
        self._login_failures[reason] += 1

    def count_refused_connection(self, reason: str) -> None:
        """Count one client connection that was closed for *reason*, the name of an error."""
        self._refused_connections[reason] += 1

    def count_unavailable(self, error: type[Exception]) -> None:
        """Count one request that was rejected with *error*, and may be retried later."""
        self._unavailable[error.__name__] += 1

    def watch_connections(self, read: Callable[[], int]) -> None:
        """Include the number of client connections from now on."""
        self._read_connections = read

    def watch_pool(self, server: str, pool: Pool) -> None:
        """Include the connections to *server* from now on."""
        self._pools[server] = pool

    def watch_queue(self, read: Callable[[], int]) -> None:
        """Include the passwords that are hashed or queued from now on."""
        self._read_queue = read

    def watch_heartbeat(self, read: Callable[[], float]) -> None:
        """Include the seconds since the last heartbeat of this process from now on."""
        self._read_silence = read

    def watch_space(self, server: str, folder: Path | None, mark: FreeSpaceMark) -> None:
        """Include the bytes that may be written until *mark* is free, if *server* is a folder.

        There is no sample while the folder does not exist.
        """
        if folder is not None:
            self._spaces[server] = partial(space_above, folder, mark)

    def render(self) -> bytes:
        """Return all metrics, in the text format of Prometheus (version 0.0.4)."""
        rendered: bytes = import_module("prometheus_client").generate_latest(self.registry)
        return rendered

    def collect(self) -> "Iterator[Metric]":
        """Yield all metrics for prometheus-client, in any thread."""
        build = _gauge(
            "tenantry_build_info", "The release of this process; always 1.", labels=["version"]
        )
        build.add_metric([VERSION], 1)
        yield build
        yield from self._collect_requests()
        yield _counter(
            "tenantry_migrated_tenants", "Tenants migrated by this process.", self._tenants
        )
        yield _counter("tenantry_migration_runs", "Runs ended by this process.", self._runs)
        yield _counter(
            "tenantry_login_failures", "Passwords refused.", self._login_failures, label="reason"
        )
        yield from self._collect_pools()
        yield _gauge("tenantry_connections", "Connections of clients.", self._read_connections())
        yield _counter(
            "tenantry_refused_connections",
            "Connections of clients closed for what was sent, or because there were too many.",
            self._refused_connections,
            label="reason",
        )
        yield _counter(
            "tenantry_unavailable",
            "Requests rejected with 429, 503 or 507: a limit, a full disk, a database down.",
            self._unavailable,
            label="reason",
        )
        yield from self._collect_fleet()
        queue = "Passwords that are being hashed, or wait for it."
        yield _gauge("tenantry_hashing_queue", queue, self._read_queue())
        silence = "Since this process has written its heartbeat into the catalog."
        yield _gauge("tenantry_heartbeat_age_seconds", silence, self._read_silence())
        yield self._collect_spaces()

    def _collect_requests(self) -> "Iterator[Metric]":
        requests = _families().CounterMetricFamily(
            "tenantry_requests", "Requests answered.", labels=[*_ROUTE, "status"]
        )
        for (method, route, status), found in list(self.requests.counted.items()):
            requests.add_metric([method, route, str(status)], found.count)
        yield requests
        durations = _families().HistogramMetricFamily(
            "tenantry_request_duration_seconds", "From the head to the answer.", labels=_ROUTE
        )
        bounds = [*(str(bound / 1000) for bound in BUCKETS_MS), "+Inf"]
        for labels, took in list(self.requests.durations.items()):
            buckets = list(zip(bounds, accumulate(took.counts), strict=True))
            durations.add_metric(labels, buckets, took.ms / 1000)
        yield durations

    def _collect_fleet(self) -> "Iterator[Metric]":
        fleet, now = self.fleet, utc_now()
        if fleet is None:
            return
        numbers = (
            ("tenants_behind", "Active tenants that are not at the head.", fleet.tenants_behind),
            ("tenants_failing", "Tenants whose latest migration failed.", fleet.tenants_failing),
            ("held_runs", "Runs that wait for a person or for revisions.", fleet.held_runs),
            ("queued_jobs", "Jobs that wait for a process.", fleet.queued_jobs),
        )
        ages = (
            ("oldest_queued_job", "Since the oldest queued job was queued.", fleet.oldest_job_at),
            ("active_run", "Since the oldest unfinished run began.", fleet.oldest_run_at),
            ("last_backup", "Since the newest backup ended.", fleet.last_backup_at),
            (
                "oldest_notification",
                "Since the oldest undelivered notification was queued.",
                fleet.oldest_notification_at,
            ),
        )
        for name, help_text, count in numbers:
            yield _gauge(f"tenantry_{name}", help_text, count)
        for name, help_text, since in ages:
            if since is not None:
                age = max(0.0, (now - since).total_seconds())
                yield _gauge(f"tenantry_{name}_age_seconds", help_text, age)
        failed = "Jobs that failed in the last hour and were not cancelled, by their kind."
        failures = _gauge("tenantry_failed_jobs", failed, labels=["kind"])
        for kind, count in fleet.failed_jobs.items():
            failures.add_metric([kind], count)
        yield failures

    def _collect_pools(self) -> "Iterator[Metric]":
        help_text = "Connections of this process to a server, by its name."
        connections = _gauge("tenantry_pool_connections", help_text, labels=["server", "state"])
        limits = _gauge(
            "tenantry_pool_connections_max", "The limit of these connections.", labels=["server"]
        )
        for server, pool in self._pools.items():
            connections.add_metric([server, "open"], pool.open_count)
            connections.add_metric([server, "idle"], pool.idle_count)
            limits.add_metric([server], pool.connections_max)
        yield connections
        yield limits

    def _collect_spaces(self) -> "Metric":
        help_text = "Bytes until writes are rejected, on the disk of a SQLite server."
        spaces = _gauge("tenantry_writable_bytes", help_text, labels=["server"])
        for server, read in self._spaces.items():
            with suppress(OSError):
                spaces.add_metric([server], read())
        return spaces


def _families() -> Any:
    """Return the families of prometheus-client, which no command that publishes none imports."""
    return import_module("prometheus_client.core")


def _gauge(
    name: str, help_text: str, value: float | None = None, *, labels: Sequence[str] | None = None
) -> "GaugeMetricFamily":
    gauge: GaugeMetricFamily = _families().GaugeMetricFamily(name, help_text, value, labels)
    return gauge


def _counter(
    name: str, help_text: str, counted: Counter[str], *, label: str = "outcome"
) -> "Metric":
    counter: CounterMetricFamily = _families().CounterMetricFamily(name, help_text, labels=[label])
    for value, count in sorted(counted.copy().items()):
        counter.add_metric([value], count)
    return counter
