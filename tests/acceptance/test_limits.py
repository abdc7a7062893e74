"""Limits: of the requests of a credential, and of the share of a tenant."""

import asyncio
import contextlib
import re
import sqlite3
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from dataclasses import replace

import httpx
import psycopg
import pytest

from tenantry.access import request_limits
from tenantry.access.request_limits import FairShare, RateLimits
from tenantry.api.door import Api
from tenantry.api.table import ENDPOINTS
from tenantry.backup.cloning import clone
from tenantry.kit.context import system_context
from tenantry.kit.ids import new_id
from tenantry.kit.request_log import AccessLog
from tenantry.services import open_services
from tenantry.settings import Settings
from tenantry.work.progress import Progress
from testkit.faults import Faults
from testkit.raw_sql import Raw
from tests.acceptance.commands import Commands
from tests.acceptance.support import (
    LOGIN,
    MODULES,
    OWN_POSTS,
    POSTS,
    PROFILE,
    TENANTS,
    database_of,
    done,
    ok,
    refused,
    until,
)
from tests.conftest import PASSWORD, World, client_of, make_world
from tests.own_clock import Clock

LOGOUT = "/api/tenant/auth/logout"
PLACES = request_limits.IN_WORK_MAX
# As long as a test may take.
WAIT_SECONDS_MAX = 100.0
POST = {"title": "Too late", "content": "It waited."}
# Structured fields (RFC 9651) of draft-ietf-httpapi-ratelimit-headers.
POLICY = re.compile(r'"(?:credential|tenant)";q=(\d+);w=60')
LEFT = re.compile(r'"(?:credential|tenant)";r=(\d+);t=(\d+)')
LIMIT = 60


@pytest.fixture(name="clock")
def _clock() -> Clock:
    return Clock()


@pytest.fixture(name="limited")
async def _limited(settings: Settings, clock: Clock) -> AsyncIterator[World]:
    """A world with a limit of `LIMIT` requests in a minute of *clock*."""
    async with open_services(
        settings.model_copy(update={"requests_per_minute": LIMIT})
    ) as services:
        world = await make_world(services)
        async with await world.owner(world.acme) as owner:
            assert left_of(ok_of(await owner.get(PROFILE)))[0] == LIMIT
        yield world.with_services(rate_limits=RateLimits(LIMIT, clock))


def left_of(answer: httpx.Response) -> tuple[int, int, int]:
    """Return the quota, what is left of it, and after how long all of it is there again."""
    policy = POLICY.fullmatch(answer.headers["ratelimit-policy"])
    left = LEFT.fullmatch(answer.headers["ratelimit"])
    assert policy is not None
    assert left is not None
    return int(policy[1]), int(left[1]), int(left[2])


class TestRateLimit:
    async def test_is_sent_with_every_response_to_a_credential(self, world: World) -> None:
        """Also with an error; a client without credentials gets none."""
        token = await world.mcp_token(world.acme)
        async with (
            await world.owner(world.acme) as owner,
            world.public(world.acme) as public,
            world.client(x_mcp_token=token) as assistant,
            await world.admin() as admin,
            world.stranger() as stranger,
        ):
            for client, path, status in (
                (owner, PROFILE, 200),
                (owner, f"{OWN_POSTS}?page=x", 400),
                (public, POSTS, 200),
                (assistant, MODULES, 200),
                (admin, TENANTS, 200),
            ):
                answer = await client.get(path)
                assert answer.status_code == status
                quota, remaining, reset = left_of(answer)
                assert 0 <= remaining < quota
                assert reset >= 1

            for path in (PROFILE, "/livez"):
                assert "ratelimit" not in (await stranger.get(path)).headers

    @pytest.mark.slow
    async def test_refuses_what_is_too_much(self, limited: World, clock: Clock) -> None:
        """With a time to wait, and without an effect on others."""
        async with (
            await limited.owner(limited.acme) as owner,
            limited.public(limited.acme) as public,
        ):
            left = [left_of(ok_of(await owner.get(PROFILE)))[1] for _ in range(LIMIT)]
            assert left == list(reversed(range(LIMIT)))
            answer = await owner.get(PROFILE)

            refused(answer, 429)
            assert answer.headers["x-error-code"] == "too_many_requests"
            assert int(answer.headers["retry-after"]) == 1
            assert left_of(answer)[1] == 0
            ok(await public.get(POSTS))
            clock.seconds += 1
            ok(await owner.get(PROFILE))
            refused(await owner.get(PROFILE), 429)

    @pytest.mark.slow
    async def test_of_a_key_does_not_hold_for_logins(self, limited: World) -> None:
        """A website that uses up the quota of its key does not keep the users out."""
        async with limited.public(limited.acme) as public:
            answers = [await public.get(POSTS) for _ in range(LIMIT + 1)]
            refused(answers[-1], 429)

            body = {"email": limited.acme.owner.email, "password": PASSWORD}
            assert left_of(ok_of(await public.post(LOGIN, json=body)))[1] < LIMIT

    @pytest.mark.slow
    async def test_is_checked_before_the_database_is_used(self, limited: World) -> None:
        """That the session has ended is in the tenant's database, which is not read."""
        async with await limited.owner(limited.acme) as owner:
            done(await owner.post(LOGOUT))

            answers = [await owner.get(MODULES) for _ in range(LIMIT)]

            refused(answers[0], 401)
            refused(answers[-1], 429)

    async def test_of_a_tenant_is_set_by_an_admin(self, world: World) -> None:
        async with await world.admin() as admin, await world.owner(world.acme) as owner:
            path = f"{TENANTS}/{world.acme.tenant.id}"
            assert ok(await admin.get(path))["requestsPerMinute"] == 0
            assert left_of(await owner.get(PROFILE))[0] == 60_000

            changed = ok(await admin.patch(path, json={"requestsPerMinute": 120}))
            assert changed["requestsPerMinute"] == 120
            assert left_of(await owner.get(PROFILE))[0] == 120
            async with await world.owner(world.globex) as other:
                assert left_of(await other.get(PROFILE))[0] == 60_000

            ok(await admin.patch(path, json={"requestsPerMinute": 0}))
            assert left_of(await owner.get(PROFILE))[0] == 60_000
            refused(await admin.patch(path, json={"requestsPerMinute": -1}), 400)

    async def test_of_a_tenant_holds_for_all_of_its_users_and_mcp_tokens(
        self, world: World, clock: Clock
    ) -> None:
        """New credentials do not raise it. The API keys have a quota of their own."""
        world = world.with_services(rate_limits=RateLimits(LIMIT, clock))
        async with await world.admin() as admin, await world.owner(world.acme) as owner:
            path = f"{TENANTS}/{world.acme.tenant.id}"
            ok(await admin.patch(path, json={"requestsPerMinute": LIMIT}))
            tokens = [await world.mcp_token(world.acme, bound=False) for _ in range(3)]
            answers = []
            for token in tokens:
                async with world.client(x_mcp_token=token) as assistant:
                    answers += [await assistant.get(MODULES) for _ in range(22)]

            assert '"tenant"' in answers[0].headers["ratelimit-policy"]
            assert sum(answer.status_code == 429 for answer in answers) == len(answers) - LIMIT
            refused(await owner.get(PROFILE), 429)
            async with world.public(world.acme) as public:
                assert left_of(ok_of(await public.get(POSTS)))[:2] == (60, 59)
            async with await world.owner(world.globex) as other:
                ok(await other.get(PROFILE))

    @pytest.mark.slow
    async def test_of_a_user_holds_for_the_mcp_tokens_that_are_bound_to_the_user(
        self, limited: World
    ) -> None:
        tokens = [await limited.mcp_token(limited.acme) for _ in range(2)]
        for token in tokens:
            async with limited.client(x_mcp_token=token) as assistant:
                answers = [await assistant.get(PROFILE) for _ in range(40)]

        refused(answers[-1], 429)
        unbound = await limited.mcp_token(limited.acme, bound=False)
        async with limited.client(x_mcp_token=unbound) as assistant:
            ok(await assistant.get(MODULES))

    @pytest.mark.slow
    async def test_of_a_user_is_not_used_up_by_the_user_of_a_clone(self, limited: World) -> None:
        """The users of a clone have the same ids as those of its original."""
        ctx, copying = system_context("test"), limited.services.copying
        made = await clone(ctx, copying, limited.acme.tenant, name="Staging", progress=Progress())
        assert made.key is not None
        copied = replace(limited.acme, tenant=made.tenant, key=made.key)
        async with await limited.owner(copied) as staging:
            answers = [await staging.get(PROFILE) for _ in range(LIMIT + 1)]
        refused(answers[-1], 429)

        async with await limited.owner(limited.acme) as owner:
            assert left_of(ok_of(await owner.get(PROFILE)))[1] == LIMIT - 1


class TestLimitCommand:
    def test_sets_the_size_limit_of_a_tenant(self, tenantry: Commands) -> None:
        tenantry.create_tenant("acme")

        shown = tenantry("tenant", "limit", "acme", "--size", "20GB", "--json").data

        assert shown["sizeBytesMax"] == 20 * 10**9
        assert shown["requestsPerMinute"] == 0
        assert "20 GB" in tenantry("tenant", "show", "acme").stdout
        assert (
            tenantry("tenant", "limit", "acme", "--size", "0", "--json").data["sizeBytesMax"] == 0
        )
        for size in ("20", "x", "-1"):
            assert tenantry("tenant", "limit", "acme", "--size", size).status != 0
        assert tenantry("tenant", "limit", "acme").status != 0

    def test_sets_the_limit_of_a_tenant(self, tenantry: Commands) -> None:
        tenantry.create_tenant("acme")

        shown = tenantry("tenant", "limit", "acme", "--requests-per-minute", "120", "--json").data

        assert shown["requestsPerMinute"] == 120
        assert tenantry("tenant", "show", "acme", "--json").data["requestsPerMinute"] == 120
        assert "120" in tenantry("tenant", "show", "acme").stdout


class TestFairShare:
    @pytest.fixture(name="asked")
    def _asked(self, faults: Faults) -> list[int]:
        """The tenant of each request that has asked for a place."""
        asked: list[int] = []

        async def note(_share: FairShare, key: int) -> None:
            asked.append(key)

        faults.before(FairShare, "enter", note)
        return asked

    @pytest.fixture(name="patient")
    def _patient(self, world: World) -> World:
        """A world in which a request waits for its turn for as long as a test may take."""
        share = FairShare(wait_seconds_max=WAIT_SECONDS_MAX)
        api = Api(ENDPOINTS, world.services, AccessLog(as_json=True), fair_share=share)
        return replace(world, app=api)

    async def test_bounds_the_concurrent_requests_of_a_tenant(self, world: World) -> None:
        """What waits too long is refused, and other tenants are not delayed."""
        hold = asyncio.Event()
        share = FairShare(wait_seconds_max=0.3)
        acme, globex = world.acme.tenant.id.int, world.globex.tenant.id.int

        held = [
            asyncio.create_task(in_turn(share, acme, hold.wait))
            for _ in range(request_limits.IN_WORK_MAX)
        ]
        await asyncio.sleep(0)
        with pytest.raises(request_limits.TooManyAtOnce):
            await in_turn(share, acme, nothing)
        await in_turn(share, globex, nothing)
        waiting = asyncio.create_task(in_turn(share, acme, nothing))
        await asyncio.sleep(0)
        hold.set()

        await waiting
        await asyncio.gather(*held)
        waited = [await share.enter(acme) for _ in range(request_limits.IN_WORK_MAX)]
        assert not any(waited), "every place is free again"

    async def test_is_waited_for_before_the_database_is_used(self, world: World) -> None:
        """That the session has ended is in the tenant's database, which is not read."""
        never = FairShare(in_work_max=0, wait_seconds_max=0.2)
        api = Api(ENDPOINTS, world.services, AccessLog(as_json=True), fair_share=never)
        async with await world.owner(world.acme) as owner:
            done(await owner.post(LOGOUT))
            refused(await owner.get(MODULES), 401)

            async with client_of(api, **owner.headers) as late:
                refused(await late.get(MODULES), 429)

    @pytest.mark.slow
    async def test_authenticates_again_after_a_long_wait(
        self, patient: World, asked: list[int]
    ) -> None:
        """Otherwise a suspended tenant could act for as long as a request may wait."""
        world, name = patient, {"fullName": "Ada", "email": "owner@acme.example.com"}
        async with await world.owner(world.acme) as owner, await world.admin() as admin:
            with writes_locked(database_of(world, world.acme.tenant)):
                held = [asyncio.create_task(owner.put(PROFILE, json=name)) for _ in range(PLACES)]
                await until_asked(asked, PLACES)
                waiting = asyncio.create_task(owner.post(OWN_POSTS, json=POST))
                await until_asked(asked, PLACES + 1)
                ok(await admin.patch(f"{TENANTS}/{world.acme.tenant.id}", json={"isActive": False}))
                await asyncio.sleep(request_limits.LONG_WAIT_SECONDS)
            await asyncio.wait(held)

            refused(await waiting, 403)

    @pytest.mark.slow
    async def test_bounds_the_bodies_that_are_decoded(
        self, patient: World, asked: list[int]
    ) -> None:
        """A decoded body takes many times its size, so it is decoded in the request's turn."""
        world, name = patient, {"fullName": "Ada", "email": "owner@acme.example.com"}
        async with await world.owner(world.acme) as owner:
            with writes_locked(database_of(world, world.acme.tenant)):
                held = [asyncio.create_task(owner.put(PROFILE, json=name)) for _ in range(PLACES)]
                await until_asked(asked, PLACES)
                waiting = asyncio.create_task(owner.post(OWN_POSTS, content=b"{"))
                await until_asked(asked, PLACES + 1)
                await asyncio.wait([waiting], timeout=1)
                assert not waiting.done(), "it would be refused as soon as it is decoded"
            await asyncio.wait(held)

            refused(await waiting, 400)

    async def test_is_passed_on_by_a_request_that_stops_waiting(self) -> None:
        hold, share, acme = asyncio.Event(), FairShare(in_work_max=1), new_id().int
        held = asyncio.create_task(in_turn(share, acme, hold.wait))
        waiting = [asyncio.create_task(in_turn(share, acme, nothing)) for _ in range(4)]
        await asyncio.sleep(0)

        waiting[0].cancel()
        hold.set()
        await held
        await asyncio.wait(waiting)

        assert [one.cancelled() for one in waiting] == [True, False, False, False]
        assert await share.enter(acme) == 0.0, "the place is free again"


@contextlib.contextmanager
def writes_locked(raw: Raw) -> Iterator[None]:
    """Let every write to a user of a tenant's database wait for the end of the block."""
    if raw.url.startswith("sqlite"):
        path = raw.url.removeprefix("sqlite:///")
        with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as connection:
            connection.execute("BEGIN IMMEDIATE")
            yield
    else:
        with psycopg.connect(raw.url) as connection:
            connection.execute("LOCK TABLE tenantry_user IN SHARE MODE")
            yield


async def until_asked(asked: list[int], count: int) -> None:
    """Wait until so many requests have asked for a place, and have one or wait for it."""
    await until(lambda: asyncio.sleep(0, len(asked)), lambda found: found >= count)


async def nothing() -> None:
    """Do nothing."""


async def in_turn(share: FairShare, tenant: int, work: Callable[[], Awaitable[object]]) -> None:
    await share.enter(tenant)
    try:
        await work()
    finally:
        share.leave(tenant)


def ok_of(answer: httpx.Response) -> httpx.Response:
    ok(answer)
    return answer
