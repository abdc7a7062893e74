"""Waves that are checked by the share of 5xx answers to their tenants, in all processes."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from uuid import UUID

import pytest

from tenantry.catalog import runs, workers
from tenantry.catalog.pace import PACE
from tenantry.catalog.runs import MigrationRun, RunState
from tenantry.catalog.tenants import Tenant
from tenantry.fleet import error_rate
from tenantry.fleet.error_rate import ErrorRateUnknown
from tenantry.fleet.run_options import BadRunOptions, Hold, RunOptions
from tenantry.kit.context import system_context
from tenantry.kit.ids import new_id
from tenantry.services import Services, open_services
from tenantry.settings import Settings
from tests.integration.gates import Gate, tenants

ADA = system_context("ada")
END_SECONDS_MAX = 60
# What happens while a run holds is done within it, also on a busy machine.
WAIT_SECONDS = 6.0
READ_SECONDS = 2 * PACE.beat_seconds  # then each process has seen that there is no run


@pytest.fixture(name="rated")
def _rated(gated: Settings) -> Settings:
    return gated.model_copy(update={"error_rate_seconds": WAIT_SECONDS})


async def fleet(services: Services, gate: Gate, count: int) -> list[Tenant]:
    """Return new tenants that a run would migrate, in the order of its waves."""
    made = await tenants(services, count)
    gate.build()
    gate.open()
    return made


def answer(services: Services, tenant: Tenant, *, successes: int, errors: int) -> None:
    """Let a process have answered requests of a tenant."""
    for status in [200] * successes + [500] * errors:
        services.metrics.requests.count("GET", "/api/tenant/posts", status, 1.0, tenant.id)


async def start(
    services: Services, rate: str | None = "1%", *, hold: Hold = False, has_waves: bool = True
) -> UUID:
    waves = [1, "100%"] if has_waves else None
    options = RunOptions(waves=waves, hold=hold, max_error_rate=rate)
    return await services.fleet.plan(ADA, triggered_by="ada", options=options)


async def until_holding(services: Services, run_id: UUID) -> MigrationRun:
    async with asyncio.timeout(END_SECONDS_MAX):
        while True:
            run = await runs.get(services.catalog, run_id)
            if run.holding_wave is not None:
                return run
            await asyncio.sleep(0.02)


@asynccontextmanager
async def another(services: Services) -> AsyncIterator[None]:
    """Let another process live, that does not report, for as long as the block lasts."""

    async def live(worker_id: UUID) -> None:
        while True:
            await workers.beat(services.catalog, worker_id)
            await asyncio.sleep(0.5)

    living = asyncio.create_task(live(new_id()))
    try:
        yield
    finally:
        living.cancel()
        await asyncio.wait([living])


class TestErrorRate:
    async def test_holds_the_run_for_the_errors_of_every_process(self, rated: Settings, gate: Gate):
        async with open_services(rated) as services, open_services(rated) as other:
            made = await fleet(services, gate, 3)
            answer(other, made[0], successes=40, errors=0)
            await asyncio.sleep(READ_SECONDS)
            run_id = await start(services)
            run = await until_holding(services, run_id)
            assert "The check has not ended yet." in (run.held_because or "")

            answer(services, made[0], successes=8, errors=0)
            answer(other, made[0], successes=1, errors=1)
            run = await services.fleet.wait(run_id)

            assert (run.state, run.success_count) == (RunState.HOLDING, 1)
            assert run.held_because == (
                "Wave 1 of 2 has ended. The check has failed: 1 of 10 answers to the tenants of "
                "the waves so far are errors of the server: 10.0%; before the run 0.0%."
            )
            await services.fleet.resume(ADA, run_id, wave=1)
            assert (await services.fleet.wait(run_id)).success_count == 3

    async def test_continues_with_as_many_errors_as_before_and_with_those_of_other_tenants(
        self, rated: Settings, gate: Gate
    ):
        async with open_services(rated) as services:
            made = await fleet(services, gate, 3)
            answer(services, made[0], successes=90, errors=10)
            await asyncio.sleep(READ_SECONDS)
            run_id = await start(services)
            await until_holding(services, run_id)
            answer(services, made[0], successes=90, errors=10)
            answer(services, made[1], successes=0, errors=50)

            run = await services.fleet.wait(run_id)

            assert (run.state, run.success_count) == (RunState.SUCCESS, 3)

    async def test_counts_errors_right_after_the_start_as_those_of_the_run(
        self, rated: Settings, gate: Gate
    ):
        async with open_services(rated) as services:
            made = await fleet(services, gate, 2)
            run_id = await start(services)
            answer(services, made[0], successes=0, errors=1)
            run = await services.fleet.wait(run_id)
            assert "1 of 1 answers" in (run.held_because or "")

    async def test_is_unknown_if_a_living_process_does_not_report(
        self, rated: Settings, gate: Gate
    ):
        async with open_services(rated) as services:
            await fleet(services, gate, 2)
            run = await until_holding(services, await start(services))
            async with another(services):
                with pytest.raises(ErrorRateUnknown, match="1 of 2 processes"):
                    await error_rate.check(
                        services.catalog, run, wait_seconds=2.0, reports_seconds=6.0
                    )

    async def test_is_a_percentage_of_a_run_with_waves_that_holds_for_no_person(
        self, rated: Settings
    ):
        async with open_services(rated, works=False) as services:
            for rate in ("1", "101%", "-1%", "1.%", "x%", ""):
                with pytest.raises(BadRunOptions, match="percentage"):
                    await start(services, rate)
            with pytest.raises(BadRunOptions, match="needs `waves`"):
                await start(services, has_waves=False)
            for hold in (True, [1]):
                with pytest.raises(BadRunOptions, match="without a person"):
                    await start(services, hold=hold)

    async def test_of_a_plan_is_that_of_its_run(self, rated: Settings, gate: Gate):
        async with open_services(rated) as services:
            await fleet(services, gate, 2)
            options = RunOptions(waves=[1, "100%"], max_error_rate="0.5%")
            plan = (await services.fleet.preview(ADA, options, rehearse=False)).plan
            assert plan is not None
            run_id = await services.fleet.plan(ADA, triggered_by="ada", plan_id=plan.id)
            run = await services.fleet.wait(run_id)
            assert (run.max_error_rate, run.holds) == ("0.5%", [1])
            assert (run.state, run.success_count) == (RunState.SUCCESS, 2)
