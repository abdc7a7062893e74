"""What nobody hears from the catalog holds no run up."""

import asyncio
from typing import Any
from uuid import UUID

import pytest

from tenantry.catalog import parts, runs
from tenantry.db.sessions import DatabaseUnavailable
from tenantry.services import Services, system_context
from tests.conftest import provision

pytestmark = pytest.mark.timeout(60)

SECONDS_MAX = 20


async def plan(services: Services) -> UUID:
    return await services.fleet.plan(system_context("ada"), triggered_by="ada")


class TestClaim:
    async def test_that_nobody_heard_of_is_made_again(
        self, services: Services, monkeypatch: pytest.MonkeyPatch
    ):
        """The catalog has it, the connection was lost: this process lives, and holds the parts."""
        for name in ("acme", "globex"):
            await provision(services, name)
        claim, lost = parts.claim, []

        async def claim_and_lose(*args: Any, **options: Any) -> Any:
            found = await claim(*args, **options)
            if found and not lost:
                lost.append(found)
                raise DatabaseUnavailable
            return found

        monkeypatch.setattr(parts, "claim", claim_and_lose)
        async with asyncio.timeout(SECONDS_MAX):
            run = await services.fleet.wait(await plan(services))

        assert lost
        assert (run.success_count, run.failed_count) == (2, 0)

    async def test_that_raises_anything_ends_nothing(
        self, services: Services, monkeypatch: pytest.MonkeyPatch
    ):
        await provision(services, "acme")
        unfinished, raised = runs.unfinished, []

        async def raise_once(*args: Any) -> Any:
            if not raised:
                raised.append(True)
                raise RuntimeError
            return await unfinished(*args)

        monkeypatch.setattr(runs, "unfinished", raise_once)
        async with asyncio.timeout(SECONDS_MAX):
            run = await services.fleet.wait(await plan(services))

        assert (raised, run.success_count) == ([True], 1)
