"""A change holds at once here, and within a second in every other process."""

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any
from uuid import UUID

import httpx
import msgspec
import pytest
import sqlalchemy as sa

from tenantry.access import credentials
from tenantry.access.identify import Credentials
from tenantry.app import app_over
from tenantry.catalog.cache import CatalogCache
from tenantry.catalog.pace import PACE, Pace
from tenantry.catalog.session import CatalogSession
from tenantry.catalog.tables import admin
from tenantry.db.statements import Statement
from tenantry.kit.context import system_context
from tenantry.services import Services, open_services
from tenantry.settings import Settings
from testkit import raw_sql
from testkit.postgres import Server, own_server
from tests.conftest import SECRET_KEY, World, client_of, make_world
from tests.originals import Content

HELD_SECONDS_MAX = 1.0
# Also of a busy machine, and of a server that starts.
ANSWER_SECONDS_MAX = 100.0
# A pause of a busy machine is no reason to read what is remembered again.
PATIENT = Pace(fresh_seconds=60.0)
POSTS = "/api/public/blog/posts"
DRAFTS = "/api/tenant/blog/posts"


@asynccontextmanager
async def another(settings: Settings) -> AsyncIterator[Services]:
    """Another process, as far as the cache is concerned."""
    async with open_services(settings) as services:
        yield services


async def seconds_until(status: int, ask: Callable[[], Awaitable[httpx.Response]]) -> float:
    """Return the seconds until the last request began that got another status.

    What such a request takes does not count: on a busy machine it is seconds.
    """
    began, last = time.monotonic(), 0.0
    while True:
        asked = time.monotonic() - began
        if (answer := await ask()).status_code == status:
            return last
        assert asked < ANSWER_SECONDS_MAX, answer.text
        last = asked
        await asyncio.sleep(0.02)


class TestRememberedCaller:
    """The credentials of a caller are verified once, and remembered."""

    @pytest.fixture(name="services")
    async def _services(
        self, settings: Settings, copied: Content | None
    ) -> AsyncIterator[Services]:
        _ = copied  # first
        async with open_services(settings, pace=PATIENT) as services:
            yield services

    async def test_is_forgotten_when_the_session_or_the_key_expires(self, world: World):
        services, ctx = world.services, system_context("test")
        expires_at = ctx.now + timedelta(minutes=2)
        key = await credentials.issue_key(
            ctx, services.catalog, world.acme.tenant.id, expires_at=expires_at
        )
        bearer = f"Bearer {await world.token(world.acme)}"
        lasting = Credentials(bearer, world.acme.key.secret)
        ending = Credentials(bearer, key.secret)
        await services.catalog.cache.check_epoch()
        identified = [await services.identifier.tenant(ctx, one) for one in (lasting, ending)]
        recall = services.identifier.recall

        assert [recall("tenant", one, ctx.now) for one in (lasting, ending)] == identified
        assert recall("tenant", ending, expires_at) is None
        assert recall("tenant", lasting, expires_at) == identified[0]
        session_ends = datetime.fromtimestamp(identified[0].claims.exp, UTC)
        assert recall("tenant", lasting, session_ends) is None
        assert recall("public", lasting, ctx.now) is None, "an API key alone was not verified"

    async def test_is_forgotten_when_the_catalog_changes(self, world: World):
        services, ctx = world.services, system_context("test")
        sent = Credentials(api_key=world.acme.key.secret)
        await services.catalog.cache.check_epoch()
        identified = await services.identifier.public(ctx, sent)
        assert services.identifier.recall("public", sent, ctx.now) == identified

        await services.lifecycle.update(ctx, world.acme.tenant, is_active=False)

        assert services.identifier.recall("public", sent, ctx.now) is None


class TestChange:
    """Made in one process; the other has the value in its cache."""

    async def test_of_a_revoked_key_holds_in_the_other_process(
        self, world: World, settings: Settings
    ):
        async with another(settings) as other, world.public(world.acme) as here:
            there = client_of(app_over(other), x_api_key=world.acme.key.secret)
            assert (await there.get(POSTS)).status_code == 200
            assert (await here.get(POSTS)).status_code == 200

            await credentials.revoke_key(
                system_context("test"),
                world.services.catalog,
                world.acme.tenant.id,
                world.acme.key.key.id,
            )

            assert (await here.get(POSTS)).status_code == 401
            assert await seconds_until(401, lambda: there.get(POSTS)) < HELD_SECONDS_MAX
            await there.aclose()

    async def test_of_a_revoked_token_holds_in_the_other_process(
        self, world: World, settings: Settings
    ):
        secret = await world.mcp_token(world.acme)
        async with another(settings) as other, world.client(x_mcp_token=secret) as here:
            there = client_of(app_over(other), x_mcp_token=secret)
            assert (await there.get(POSTS)).status_code == 200
            assert (await here.get(POSTS)).status_code == 200
            (token,) = raw_sql.rows(settings.catalog, "SELECT id FROM mcp_token")[0]

            await credentials.revoke_mcp_token(
                system_context("test"),
                world.services.catalog,
                world.acme.tenant.id,
                UUID(str(token)),
            )

            assert (await here.get(POSTS)).status_code == 401
            assert await seconds_until(401, lambda: there.get(POSTS)) < HELD_SECONDS_MAX
            await there.aclose()

    async def test_of_a_suspended_tenant_holds_in_the_other_process_and_so_does_its_return(
        self, world: World, settings: Settings
    ):
        async with another(settings) as other, world.public(world.acme) as here:
            there = client_of(app_over(other), x_api_key=world.acme.key.secret)
            for active, status in ((False, 403), (True, 200)):
                assert (await there.get(POSTS)).status_code != status
                tenant = msgspec.structs.replace(world.acme.tenant, is_active=not active)

                await world.services.lifecycle.update(
                    system_context("test"), tenant, is_active=active
                )

                assert (await here.get(POSTS)).status_code == status
                assert await seconds_until(status, lambda: there.get(POSTS)) < HELD_SECONDS_MAX
            await there.aclose()

    async def test_of_a_read_only_tenant_holds_in_the_other_process_and_so_does_its_return(
        self, world: World, settings: Settings
    ):
        token = f"Bearer {await world.token(world.acme)}"
        async with another(settings) as other:
            there = client_of(app_over(other), authorization=token, x_api_key=world.acme.key.secret)
            here = await world.owner(world.acme)
            for is_read_only, status in ((True, 403), (False, 201)):
                tenant = msgspec.structs.replace(world.acme.tenant, is_read_only=not is_read_only)
                draft = {"title": "A draft", "content": "Text."}

                await world.services.lifecycle.update(
                    system_context("test"), tenant, is_read_only=is_read_only
                )

                assert (await here.post(DRAFTS, json=draft)).status_code == status
                writing = partial(there.post, DRAFTS, json=draft)
                assert await seconds_until(status, writing) < HELD_SECONDS_MAX
            await there.aclose()
            await here.aclose()

    async def test_of_the_modules_holds_in_the_other_process(
        self, world: World, settings: Settings
    ):
        async with another(settings) as other, world.public(world.acme) as here:
            there = client_of(app_over(other), x_api_key=world.acme.key.secret)
            assert (await there.get(POSTS)).status_code == 200

            await world.services.lifecycle.update(
                system_context("test"), world.acme.tenant, module_keys=["mcp"]
            )

            assert (await here.get(POSTS)).status_code == 403
            assert await seconds_until(403, lambda: there.get(POSTS)) < HELD_SECONDS_MAX
            await there.aclose()

    async def test_of_an_admin_holds_in_the_other_process(self, world: World, settings: Settings):
        async with another(settings) as other, await world.admin() as here:
            there = client_of(app_over(other), authorization=f"Bearer {await world.admin_token()}")
            path = "/api/admin/tenants"
            assert (await there.get(path)).status_code == 200
            assert (await here.get(path)).status_code == 200

            async with world.services.catalog.change(
                system_context("test"), "test", "admin"
            ) as session:
                await session.execute(Statement[Any](sa.update(admin).values(is_active=False)))

            assert (await here.get(path)).status_code == 403
            assert await seconds_until(403, lambda: there.get(path)) < HELD_SECONDS_MAX
            await there.aclose()


class TestCatalogCache:
    async def test_are_remembered_while_nothing_changes(self, services: Services):
        cache, reads = CatalogCache(services.catalog, PATIENT), []

        async def read(session: CatalogSession) -> str:
            del session
            reads.append(1)
            return "value"

        await cache.check_epoch()
        assert [await cache.get("key", read) for _ in range(5)] == ["value"] * 5
        assert len(reads) == 1

    async def test_expire_unless_the_epoch_is_read(self, services: Services):
        """Without a read of the epoch, each is read again after a while."""
        fresh_seconds = 3.0  # the first two reads are within it, also on a busy machine
        cache = CatalogCache(services.catalog, Pace(fresh_seconds=fresh_seconds))
        answers = iter("abc")

        async def read(session: CatalogSession) -> str:
            del session
            return next(answers)

        await cache.check_epoch()
        assert [await cache.get("key", read) for _ in range(2)] == ["a", "a"]
        await asyncio.sleep(fresh_seconds + 0.05)

        assert [await cache.get("key", read) for _ in range(2)] == ["b", "c"]

    async def test_are_dropped_when_the_epoch_is_read_after_a_pause(self, services: Services):
        """What was read during the pause may be older than the epoch that is found then."""
        cache = CatalogCache(services.catalog)
        answers = iter("ab")

        async def read(session: CatalogSession) -> str:
            del session
            return next(answers)

        await cache.check_epoch()
        await cache.get("key", read)
        await asyncio.sleep(PACE.fresh_seconds + 0.05)
        await cache.check_epoch()

        assert await cache.get("key", read) == "b"

    @pytest.mark.parametrize("elsewhere", [False, True], ids=["here", "elsewhere"])
    async def test_do_not_return_by_a_read_that_began_before_a_change(
        self,
        services: Services,
        settings: Settings,
        elsewhere: bool,  # noqa: FBT001
    ):
        """A slow read returns the old value after the cached ones were dropped."""
        cache, began, may_end = services.catalog.cache, asyncio.Event(), asyncio.Event()

        async def slow(session: CatalogSession) -> str:
            del session
            began.set()
            await may_end.wait()
            return "old"

        async def fresh(session: CatalogSession) -> str:
            del session
            return "new"

        await cache.check_epoch()
        reading = asyncio.create_task(cache.get("key", slow))
        await began.wait()
        if elsewhere:
            epoch = "UPDATE catalog SET epoch = epoch + 1"
            await asyncio.to_thread(raw_sql.run, settings.catalog, epoch)
            await cache.check_epoch()
        else:
            async with services.catalog.change(system_context("test"), "test.change", "x"):
                pass
        may_end.set()

        assert await reading == "old"
        assert await cache.get("key", fresh) == "new"

    async def test_stay_true_under_a_storm_of_changes_and_reads(
        self, services: Services, settings: Settings
    ):
        """After its change, a writer never reads an older value."""
        async with another(settings) as other:
            cache = services.catalog.cache
            truth = [0]

            async def read(session: CatalogSession) -> int:
                del session
                value = truth[0]
                await asyncio.sleep(0.002)
                return value + 1  # None is never remembered, and 0 might be taken for it

            async def ask() -> None:
                for _ in range(150):
                    await cache.get("key", read)
                    await asyncio.sleep(0)

            async def change() -> None:
                for _ in range(20):
                    async with services.catalog.change(system_context("t"), "test", "x"):
                        truth[0] += 1
                    assert await cache.get("key", read) == truth[0] + 1

            await asyncio.gather(change(), *(ask() for _ in range(8)))
            assert other.catalog.cache.catalog_id == cache.catalog_id


@pytest.fixture(name="server", scope="module")
def _server() -> Iterator[Server]:
    with own_server() as server:
        yield server


@pytest.mark.slow
class TestCatalogGone:
    async def test_answers_503_and_works_again_when_it_is_back(
        self, server: Server, tmp_path_factory: pytest.TempPathFactory
    ):
        """What is remembered is not believed for long; nothing has to be started again."""
        raw_sql.run(server.url, "CREATE DATABASE gone TEMPLATE template0")
        settings = Settings(
            data_dir=tmp_path_factory.mktemp("data"),
            catalog_url=server.url.rpartition("/")[0] + "/gone",
            tenant_server_url="",  # the tenants are in files, and stay
            secret_key=SECRET_KEY,
        )
        async with open_services(settings) as services:
            world = await make_world(services)
            async with world.public(world.acme) as client, await world.admin() as boss:
                assert (await client.get(POSTS)).status_code == 200
                assert (await boss.get("/api/admin/tenants")).status_code == 200

                await asyncio.to_thread(server.stop)
                await asyncio.sleep(1)
                gone = [await client.get(POSTS), await boss.get("/api/admin/tenants")]
                await asyncio.to_thread(server.start)

                for answer in gone:
                    assert answer.status_code == 503
                    assert int(answer.headers["retry-after"]) >= 1
                    assert set(answer.json()) == {"success", "data", "message"}
                await seconds_until(200, lambda: client.get(POSTS))
                await seconds_until(200, lambda: boss.get("/api/admin/tenants"))
                run_id = await services.fleet.plan(system_context("test"), triggered_by="test")
                async with asyncio.timeout(100):
                    run = await services.fleet.wait(run_id)
                assert (run.success_count, run.failed_count) == (2, 0)
