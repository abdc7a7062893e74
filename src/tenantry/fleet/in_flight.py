"""The tenants that this process has in flight: claimed, and the outcome not yet written."""

from collections import Counter, defaultdict
from collections.abc import Collection, Sequence
from itertools import islice
from uuid import UUID

from tenantry.catalog.run_claims import Returned
from tenantry.catalog.runs import MigrationState, Outcome, RunTenant
from tenantry.catalog.workers import InWork
from tenantry.kit.clock import monotonic_seconds

# As many as a page of a run can show; they are published with every heartbeat.
IN_WORK_MAX = 64


class InFlight:
    """Counts and lists the tenants of migration runs that this process has in flight, by state.

    A tenant is claimed, started, finished and written; or it is claimed and then released.
    One that goes back to the queue is finished here, too, and its return is written.
    Only the methods of this class change these counts, and they never wait.
    """

    def __init__(self) -> None:
        self._claimed = 0
        self._started = 0
        self._finished = 0
        self._is_stopping = False
        self._failures: Counter[UUID] = Counter()
        self._tenants: defaultdict[UUID, set[UUID]] = defaultdict(set)
        self._in_work: dict[tuple[UUID, UUID], tuple[RunTenant, float]] = {}

    @property
    def count(self) -> int:
        """The tenants in flight."""
        return self._claimed + self._started + self._finished

    @property
    def is_idle(self) -> bool:
        """Whether nothing is in flight."""
        return self.count == 0

    @property
    def only_writes(self) -> bool:
        """Whether every tenant in flight waits for its outcome to be written."""
        return self._claimed + self._started == 0

    @property
    def is_stopping(self) -> bool:
        """Whether this process claims and starts no more tenants."""
        return self._is_stopping

    @property
    def in_work(self) -> list[InWork]:
        """The started tenants, the longest at work first, at most `IN_WORK_MAX`."""
        now = monotonic_seconds()
        oldest = islice(self._in_work.values(), IN_WORK_MAX)
        return [
            InWork(
                one.run_id,
                one.tenant_id,
                one.tenant_name,
                one.server_name,
                round((now - since) * 1000),
            )
            for one, since in oldest
        ]

    def failures_unwritten(self, run_id: UUID) -> int:
        """Return how many tenants of a run failed here and are not in the catalog's count yet."""
        return self._failures[run_id]

    def tenants_of(self, run_id: UUID) -> Collection[UUID]:
        """Return the tenants of a run that are in flight, in any state."""
        return self._tenants.get(run_id, ())

    def claimed(self, items: Sequence[RunTenant]) -> None:
        """Add tenants that were claimed in the catalog."""
        self._claimed += len(items)
        for one in items:
            self._tenants[one.run_id].add(one.tenant_id)

    def started(self, item: RunTenant) -> None:
        """Move one tenant from claimed to started."""
        self._in_work[item.run_id, item.tenant_id] = (item, monotonic_seconds())
        self._claimed -= 1
        self._started += 1

    def released(self, item: RunTenant) -> None:
        """Remove one tenant that was claimed and will not start here."""
        self._claimed -= 1
        self._tenants[item.run_id].discard(item.tenant_id)

    def finished(self, outcome: Outcome | Returned) -> None:
        """Move one tenant from started to finished."""
        self._in_work.pop((outcome.item.run_id, outcome.item.tenant_id), None)
        self._started -= 1
        self._finished += 1
        if _is_failure(outcome):
            self._failures[outcome.item.run_id] += 1

    def written(self, outcomes: Sequence[Outcome | Returned]) -> None:
        """Remove tenants with written outcomes, or that another process has taken over."""
        self._finished -= len(outcomes)
        for one in outcomes:
            self._tenants[one.item.run_id].discard(one.item.tenant_id)
        if self.is_idle:
            self._tenants.clear()
        self._failures -= Counter(one.item.run_id for one in outcomes if _is_failure(one))

    def stop(self) -> None:
        """Claim and start no more tenants, from now on."""
        self._is_stopping = True

    def reset(self) -> None:
        """Remove everything: the tasks that worked on it have ended. A stop stays."""
        self._claimed = self._started = self._finished = 0
        self._failures.clear()
        self._tenants.clear()
        self._in_work.clear()


def _is_failure(outcome: Outcome | Returned) -> bool:
    return outcome.item.state == MigrationState.FAILED.value
