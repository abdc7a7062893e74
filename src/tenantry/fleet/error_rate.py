"""The share of 5xx answers to the tenants of a run that holds after a wave.

Each process counts its answers in memory. While such a run holds, it publishes the sum over the
tenants of the waves that have ended with its heartbeat, and one job adds up the processes. The
answers of a process that has died are lost with it.
"""

import asyncio
from collections.abc import Callable
from uuid import UUID

import msgspec
import structlog

from tenantry.catalog import holds, runs, workers
from tenantry.catalog.pace import PACE, Pace
from tenantry.catalog.runs import MigrationRun
from tenantry.catalog.session import CatalogSession
from tenantry.catalog.workers import Report, WaveAnswers
from tenantry.db.sessions import DatabaseUnavailable
from tenantry.kit.errors import Conflict
from tenantry.kit.metrics import Metrics
from tenantry.kit.request_log import TENANTS_COUNTED_MAX, Answers
from tenantry.migration.errors import explain

REPORTS_SECONDS_MAX = 30.0
RETRY_SECONDS = 0.5

_log = structlog.get_logger(__name__)


class ErrorRateExceeded(Conflict):
    """Too many answers to the tenants of a wave are errors; the message says how many."""


class ErrorRateUnknown(Conflict):
    """Not all processes have counted their answers; the message says why."""


class AnswerCounts:
    """Counts what this process has answered to the tenants of runs that hold."""

    def __init__(self, catalog: CatalogSession, metrics: Metrics, pace: Pace = PACE) -> None:
        self._catalog = catalog
        self._metrics = metrics
        self._pace = pace
        self._before = Answers()
        self._before_runs: dict[UUID, Answers] = {}
        self._tenants: dict[tuple[UUID, int], frozenset[int]] = {}
        self._found: list[WaveAnswers] = []

    def added_to(self, report: Callable[[], Report]) -> Report:
        """Return a report with the counts."""
        return msgspec.structs.replace(report(), answers=self._found)

    async def keep_counting(self) -> None:
        """Count at the pace of the heartbeat, until cancelled."""
        while True:
            try:
                await self._count()
            except DatabaseUnavailable as error:
                _log.info("answers not counted", cause=explain(error))
            await asyncio.sleep(self._pace.beat_seconds)

    async def _count(self) -> None:
        now = self._metrics.requests.answers.copy()
        found = await holds.rated(self._catalog)
        # A run that is seen for the first time has begun after the copy before: so that none of
        # its errors are taken for errors before it.
        self._before_runs = {one.id: self._before_runs.get(one.id, self._before) for one in found}
        self._before = now
        tenants: dict[tuple[UUID, int], frozenset[int]] = {}
        for run in found:
            if run.holding_wave is not None and not run.is_left_to_person:
                key = run.id, run.holding_wave
                tenants[key] = self._tenants.get(key) or await self._ended(run.id)
        self._tenants = tenants
        self._found = [
            await asyncio.to_thread(_sums, *key, ended, self._before_runs[key[0]], now)
            for key, ended in tenants.items()
        ]

    async def _ended(self, run_id: UUID) -> frozenset[int]:
        batches = runs.each_ended(self._catalog, run_id)
        return frozenset([one.tenant_id.int async for items in batches for one in items])


def _sums(
    run_id: UUID, wave: int, tenants: frozenset[int], before: Answers, now: Answers
) -> WaveAnswers:
    def total(counts: dict[int, int]) -> int:
        return sum(counts[one] for one in counts.keys() & tenants)

    count, errors = total(before.counts), total(before.errors)
    return WaveAnswers(
        run_id=run_id,
        wave=wave,
        before=count,
        before_errors=errors,
        since=total(now.counts) - count,
        since_errors=total(now.errors) - errors,
        is_complete=len(now.counts) < TENANTS_COUNTED_MAX,
    )


async def check(
    catalog: CatalogSession,
    run: MigrationRun,
    *,
    wait_seconds: float,
    reports_seconds: float = REPORTS_SECONDS_MAX,
) -> None:
    """Check the error rate of a run that holds, after *wait_seconds* for requests.

    It is exceeded if the share of 5xx answers since the run began is above the share before it,
    in the same processes and of the same tenants, by more than the rate of the run. Without
    answers before, that share is 0; without answers since, nothing is exceeded.

    Raises:
        ErrorRateExceeded: It is exceeded.
        ErrorRateUnknown: A living process has not reported within *reports_seconds*, or does
            not count all tenants.
    """
    assert run.holding_wave is not None
    assert run.max_error_rate is not None
    await asyncio.sleep(wait_seconds)
    found = await _reported(catalog, run.id, run.holding_wave, reports_seconds)
    before, since = sum(one.before for one in found), sum(one.since for one in found)
    errors = sum(one.since_errors for one in found)
    share_before = sum(one.before_errors for one in found) / before if before else 0.0
    if since and errors / since > share_before + float(run.max_error_rate[:-1]) / 100:
        raise ErrorRateExceeded(
            f"{errors:,} of {since:,} answers to the tenants of the waves so far are errors of the "
            f"server: {errors / since:.1%}; before the run {share_before:.1%}."
        )


async def _reported(
    catalog: CatalogSession, run_id: UUID, wave: int, seconds: float
) -> list[WaveAnswers]:
    """Return the answers of each living process."""
    try:
        async with asyncio.timeout(seconds):
            while True:
                processes = await workers.published(catalog)
                reports = [one.answers_of(run_id, wave) for one in processes]
                found = [one for one in reports if one is not None]
                if len(found) == len(processes):
                    break
                await asyncio.sleep(RETRY_SECONDS)
    except TimeoutError:
        raise ErrorRateUnknown(
            f"{len(processes) - len(found)} of {len(processes)} processes have not reported what "
            "they answered. Is each of this release, and are there not too many such runs?"
        ) from None
    if not all(one.is_complete for one in found):
        raise ErrorRateUnknown(
            f"a process has answered {TENANTS_COUNTED_MAX:,} tenants, and counts no more."
        )
    return found
