"""Places, the tasks that wait for one, and the pause before a retry."""

import asyncio

import pytest

from tenantry.access import request_limits
from tenantry.kit.backoff import backoff_seconds
from tenantry.kit.turns import NoTurn, Turns


class TestTurns:
    async def test_refuse_a_task_that_has_waited_too_long(self):
        turns = Turns(1)
        await turns.take()

        with pytest.raises(NoTurn):
            await turns.take(seconds=0.01)

        turns.give_back()
        assert turns.free == 1

    async def test_bound_how_many_tasks_wait(self):
        turns = Turns(1, waiting_max=1)
        await turns.take("a")
        waiting = asyncio.create_task(turns.take("a"))
        await asyncio.sleep(0)

        with pytest.raises(NoTurn):
            await turns.take("a")

        turns.give_back()
        await waiting
        assert not turns.waiting

    async def test_keep_a_place_that_comes_with_the_cancellation_of_its_task(self):
        turns = Turns(1)
        await turns.take()
        leaving = asyncio.create_task(turns.take(seconds=10))
        await asyncio.sleep(0)

        turns.give_back()
        leaving.cancel()
        await asyncio.wait([leaving])

        assert leaving.cancelled()
        assert turns.free == 1


class TestTheBackoff:
    @pytest.mark.parametrize(("tries", "pause"), [(1, 0.1), (2, 0.2), (5, 1.0), (5_000, 1.0)])
    def test_doubles_up_to_its_limit(self, tries: int, pause: float):
        found = [backoff_seconds(0.1, tries, longest=1.0) for _ in range(50)]

        assert pause / 2 <= min(found) < max(found) <= pause

    def test_is_random_as_a_whole_for_tasks_that_collide(self):
        assert min(backoff_seconds(1.0, jitter=1) for _ in range(200)) < 0.5


async def test_the_places_of_a_tenant_stay_taken_when_those_of_idle_tenants_are_dropped():
    share = request_limits.FairShare(in_work_max=1, wait_seconds_max=0.01)
    await share.enter(0)
    for key in range(1, request_limits.TENANTS_MAX + 2):
        await share.enter(key)
        share.leave(key)

    with pytest.raises(request_limits.TooManyAtOnce):
        await share.enter(0)
    share.leave(0)
    assert await share.enter(0) == 0.0
