"""A command that gets a signal finishes what it has started, until the second one."""

import asyncio
import os
import signal
from uuid import UUID

import pytest

from tenantry.catalog.run_tenants import MigrationRunEnded
from tenantry.cli import migrating
from tenantry.kit.context import system_context
from tenantry.services import Services, open_services
from tenantry.settings import Settings
from tests.integration.gates import WAIT_SECONDS_MAX, Gate, tenants


async def test_a_refused_command_ends_after_the_tenants_that_it_has_started(
    gated: Settings, gate: Gate
):
    async with open_services(gated) as services:

        async def begin() -> UUID:
            os.kill(os.getpid(), signal.SIGINT)
            await _stopping(services)
            gate.open()
            raise MigrationRunEnded

        await tenants(services, 1)
        gate.build()
        await services.fleet.plan(system_context("ada"), triggered_by="ada")
        await gate.reached(1)

        with pytest.raises(MigrationRunEnded):
            await migrating.work_on(services, begin)

        assert services.worker.is_idle


async def test_a_second_signal_interrupts_them(gated: Settings, gate: Gate):
    async with open_services(gated) as services:

        async def begin() -> UUID:
            os.kill(os.getpid(), signal.SIGINT)
            await _stopping(services)
            os.kill(os.getpid(), signal.SIGINT)
            return await asyncio.get_running_loop().create_future()

        await tenants(services, 1)
        gate.build()
        await services.fleet.plan(system_context("ada"), triggered_by="ada")
        await gate.reached(1)

        with pytest.raises(asyncio.CancelledError):
            await migrating.work_on(services, begin)

        assert not services.worker.is_idle
        gate.open()


async def _stopping(services: Services) -> None:
    async with asyncio.timeout(WAIT_SECONDS_MAX):
        while not services.worker.is_stopping:  # noqa: ASYNC110 - it is no event
            await asyncio.sleep(0.01)
