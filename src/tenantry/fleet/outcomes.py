"""Outcomes of tenants' migrations, and the writer that stores them in batches."""

import asyncio
import contextlib
from collections.abc import Callable, Sequence
from datetime import datetime

import msgspec
import structlog

from tenantry.catalog import outbox, run_claims, run_tenants
from tenantry.catalog.database import Catalog
from tenantry.catalog.pace import Pace
from tenantry.catalog.run_claims import Returned
from tenantry.catalog.run_tenants import Recorded
from tenantry.catalog.runs import MigrationState, Outcome, RunTenant
from tenantry.db.sessions import DatabaseUnavailable
from tenantry.fleet.in_flight import InFlight
from tenantry.kit.clock import monotonic_seconds, utc_now
from tenantry.migration.errors import explain, failure_cause
from tenantry.work.heartbeat import Heartbeat

WRITTEN_MAX = 256
# How long an outcome waits for others, so that one transaction writes several. If no other tenant
# is in flight, it does not wait.
LINGER_SECONDS = 0.1
UNWRITABLE = "This error could not be stored; see the log."

_log = structlog.get_logger(__name__)


class OutcomeWriter:
    """Writes the outcomes of this process, and returns tenants of unreachable servers to the queue.

    Args:
        in_flight: Counts the tenants without a written outcome, which bounds this queue.
        written: Called with the recorded outcomes, without those of tenants that another process
            has taken over.
        pace: How often it tries, and how many items may start at once if a wave begins.
    """

    def __init__(
        self,
        catalog: Catalog,
        heartbeat: Heartbeat,
        in_flight: InFlight,
        *,
        written: Callable[[Recorded], None],
        pace: Pace,
    ) -> None:
        self._catalog = catalog
        self._heartbeat = heartbeat
        self._in_flight = in_flight
        self._written = written
        self._pace = pace
        self._waiting: list[Outcome | Returned] = []
        self._blocked_at: float | None = None
        self._some = asyncio.Event()
        self._enough = asyncio.Event()

    def put(self, outcome: Outcome | Returned) -> None:
        """Queue an outcome, or the return of a tenant."""
        self._waiting.append(outcome)
        self._some.set()
        if self._is_enough:
            self._enough.set()

    async def work(self) -> None:
        """Write queued outcomes, until cancelled."""
        while True:
            await self._some.wait()
            if not self._is_enough:
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(LINGER_SECONDS):
                        await self._enough.wait()
            batch, self._waiting = self._waiting[:WRITTEN_MAX], self._waiting[WRITTEN_MAX:]
            self._enough.clear()
            if not self._waiting:
                self._some.clear()
            await self._write(batch)

    def reset(self) -> None:
        """Drop the queue."""
        self._waiting.clear()
        self._blocked_at = None
        self._some.clear()
        self._enough.clear()

    def is_blocked_for(self, seconds: float) -> bool:
        """Return whether only writes are in flight, and none has succeeded for *seconds*."""
        return (
            self._blocked_at is not None
            and self._in_flight.only_writes
            and monotonic_seconds() - self._blocked_at > seconds
        )

    @property
    def _is_enough(self) -> bool:
        return len(self._waiting) >= min(WRITTEN_MAX, self._in_flight.count)

    async def _write(self, outcomes: list[Outcome | Returned]) -> None:
        ended = [one for one in outcomes if isinstance(one, Outcome)]
        returned = [one for one in outcomes if isinstance(one, Returned)]
        worker_id = self._heartbeat.worker_id
        while True:
            try:
                async with self._catalog.begin() as session:
                    recorded = await run_tenants.record(
                        session, ended, worker_id, opened_max=self._pace.opened_max
                    )
                    await run_claims.give_back(session, returned, worker_id)
                    told, subscribed = recorded.notices, self._catalog.subscribed
                    await outbox.add(session, subscribed, told, now=utc_now())
            except DatabaseUnavailable as error:
                self._blocked_at = self._blocked_at or monotonic_seconds()
                _log.warning(
                    "catalog unavailable, writing later",
                    outcomes=len(outcomes),
                    cause=explain(error),
                )
                await asyncio.sleep(self._pace.retry_seconds)
            except Exception:  # noqa: BLE001 - one bad outcome must not block the others
                _log.exception("outcomes not written", outcomes=len(outcomes))
                break
            else:
                self._blocked_at = None
                self._in_flight.written(outcomes)
                self._written(recorded)
                return
        if len(outcomes) == 1:
            await self._defer(outcomes[0])
        else:
            for outcome in outcomes:
                await self._write([outcome])

    async def _defer(self, outcome: Outcome | Returned) -> None:
        """Queue an outcome again that could not be written, reduced to values that can be.

        The state of the tenant and the names of applied revisions are kept, in ASCII; the error is
        replaced by `UNWRITABLE`.
        """
        item = outcome.item
        _log.error(
            "outcome not written",
            tenant=str(item.tenant_id),
            run=str(item.run_id),
            state=item.state,
            applied=item.applied,
            error=item.error,
        )
        self._blocked_at = self._blocked_at or monotonic_seconds()
        await asyncio.sleep(self._pace.retry_seconds)
        if isinstance(outcome, Returned):
            self.put(outcome)
            return
        plain = msgspec.structs.replace(
            item,
            applied=item.applied and _in_ascii(item.applied),
            error=item.error and UNWRITABLE,
            cause=item.error and UNWRITABLE,
        )
        self.put(Outcome(plain))


def succeeded(
    item: RunTenant, *, applied: Sequence[str], started_at: datetime, position: str | None
) -> Outcome:
    """Return the outcome of a tenant that is at the head, with the revisions *applied*."""
    return _ended(item, MigrationState.SUCCESS, ",".join(applied) or None, started_at, position)


def failed(
    item: RunTenant,
    error: Exception,
    *,
    started_at: datetime,
    applied: Sequence[str] = (),
    position: str | None = None,
) -> Outcome:
    """Return the outcome of a tenant that failed with *error*; *applied* was committed before."""
    reason = explain(error)
    _log.info(
        "tenant failed",
        tenant=str(item.tenant_id),
        run=str(item.run_id),
        error=reason,
        exc_info=error,
    )
    item = msgspec.structs.replace(item, error=reason, cause=failure_cause(error))
    return _ended(item, MigrationState.FAILED, ",".join(applied), started_at, position)


def not_attempted(
    item: RunTenant,
    reason: str,
    *,
    applied: Sequence[str] = (),
    position: str | None = None,
) -> Outcome:
    """Return the outcome of a tenant that was not started; *reason* begins "not attempted"."""
    item = msgspec.structs.replace(item, error=reason, cause=reason)
    return _ended(item, MigrationState.FAILED, ",".join(applied), utc_now(), position)


def _ended(
    item: RunTenant,
    state: MigrationState,
    applied: str | None,
    started_at: datetime,
    position: str | None,
) -> Outcome:
    ended = msgspec.structs.replace(
        item,
        state=state.value,
        applied=applied,
        started_at=started_at,
        finished_at=max(started_at, utc_now()),  # the clock may have been set back
    )
    return Outcome(ended, position)


def _in_ascii(text: str) -> str:
    return text.replace("\0", "").encode("ascii", "backslashreplace").decode()
