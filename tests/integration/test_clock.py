"""A clock that is set back while a run goes on."""

from datetime import timedelta

import msgspec

from tenantry.catalog import workers
from tenantry.kit.clock import utc_now
from tenantry.kit.context import system_context
from tenantry.kit.ids import new_id
from tests.acceptance.support import catalog_of
from tests.conftest import World

HOUR_MS = 3_600_000


class TestRun:
    async def test_ends_no_earlier_than_it_began(self, world: World):
        """Though the process that ends it has another clock than the one that began it."""
        services = world.services
        later = utc_now() + timedelta(hours=1)
        ctx = msgspec.structs.replace(system_context("ada"), now=later)
        run_id = await services.fleet.plan(ctx, triggered_by="ada")

        run = await services.fleet.wait(run_id)

        assert run.finished_at is not None
        assert run.finished_at >= run.started_at >= later - timedelta(seconds=1)


class TestHeartbeat:
    async def test_of_the_future_does_not_hold_anything(self, world: World):
        """A process that died before the clock was set back is silent five seconds later."""
        services = world.services
        dead = new_id()
        await workers.beat(services.catalog, dead)
        raw = catalog_of(world)
        raw.run("UPDATE worker SET seen_at_ms = seen_at_ms + ? WHERE id = ?", HOUR_MS, dead)

        await services.heartbeat.beat()

        own = services.heartbeat.worker_id
        [(seen,)] = raw.run("SELECT seen_at_ms FROM worker WHERE id = ?", dead)
        [(now,)] = raw.run("SELECT seen_at_ms FROM worker WHERE id = ?", own)
        assert seen < now + 1_000
