"""GET /api/admin/migration-runs, one of them, its tenants; the map, and the health."""

import asyncio

from tenantry.catalog import workers
from tenantry.catalog.workers import SILENCE_MS, InWork, Report
from tenantry.kit.ids import new_id
from tenantry.kit.request_log import ERRORS_KEPT_MAX
from tenantry.tenant.overview import POSTS_SHOWN_MAX
from testkit import raw_sql
from tests.acceptance.blogs import blog_of
from tests.acceptance.shapes import (
    RUN,
    RUN_TENANT,
    is_a,
    is_count,
    is_flag,
    is_guid,
    is_instant,
    is_text,
    list_of,
    maybe,
    must_be,
    one_of,
    page_of,
)
from tests.acceptance.support import (
    MIGRATE_ALL,
    TENANTS,
    UNKNOWN_ID,
    database_of,
    ok,
    patch_tenant,
    refused,
)
from tests.conftest import World

RUNS = "/api/admin/migration-runs"
MAP = f"{TENANTS}/map"
HEALTH = "/api/admin/health"
MAP_TENANT = {
    "id": is_guid,
    "name": is_text,
    "place": one_of("head", "behind", "unknown"),
    "isActive": is_flag,
    "isReadOnly": is_flag,
    "revision": maybe(is_text),
    "server": is_text,
    "cause": maybe(is_text),
    "failingRunId": maybe(is_guid),
    "driftedAt": maybe(is_instant),
}
APPLIED = {
    "stream": is_text,
    "revision": is_text,
    "runId": is_guid,
    "hasRun": is_flag,
    "appliedAt": is_instant,
}
WORKER = {
    "id": is_guid,
    "program": is_text,
    "seenAt": is_instant,
    "isAlive": is_flag,
    "inWorkCount": is_count,
    "abandonedCount": is_count,
    "isThis": is_flag,
}
SERVER = {"name": is_text, "engine": one_of("sqlite", "postgresql"), "awaySince": maybe(is_instant)}
POST = {
    "id": is_guid,
    "title": is_text,
    "authorName": is_text,
    "createdAt": is_instant,
    "publishedAt": maybe(is_instant),
}
CONTENT = {
    "sizeBytes": is_count,
    "sizeBytesMax": maybe(is_count),
    "postCount": is_count,
    "publishedCount": is_count,
    "posts": list_of(POST),
}
ERROR = {
    "at": is_instant,
    "method": is_text,
    "path": is_text,
    "statusCode": is_count,
    "error": maybe(is_text),
    "requestId": is_text,
}


async def destroyed(world: World) -> None:
    await world.services.databases.forget(world.globex.tenant.id)
    database_of(world, world.globex.tenant).destroy()


class TestRuns:
    async def test_have_their_options_and_the_causes_of_their_failures(self, world: World) -> None:
        admin = await world.admin()
        await destroyed(world)
        ok(await admin.post(MIGRATE_ALL, json={"label": "spring", "maxFailures": 1}))

        page = ok(await admin.get(RUNS))
        must_be(page, page_of(RUN))
        [run] = page["items"]
        assert (run["state"], run["label"], run["maxFailures"]) == ("failed", "spring", 1)
        assert ok(await admin.get(f"{RUNS}/{run['id']}")) == run
        assert ok(await admin.get(RUNS, params={"isFinished": "false"}))["items"] == []

        path = f"{RUNS}/{run['id']}/tenants"
        every = ok(await admin.get(path))
        must_be(every, {"items": list_of(RUN_TENANT)})
        failed = ok(await admin.get(path, params={"onlyFailed": "true"}))["items"]
        assert [one["customerName"] for one in failed] == [world.globex.tenant.name]
        assert [one for one in every["items"] if one["status"] == "Failed"] == failed
        assert (failed[0]["isAttempted"], bool(failed[0]["cause"])) == (True, True)

    async def test_tell_what_was_not_attempted(self, world: World) -> None:
        admin = await world.admin()
        ok(await admin.post(MIGRATE_ALL, json={"waves": [1]}))

        [run] = ok(await admin.get(RUNS))["items"]

        assert (run["state"], run["notAttemptedCount"], run["failedCount"]) == ("stopped", 1, 1)
        found = ok(await admin.get(f"{RUNS}/{run['id']}/tenants"))["items"]
        assert sorted(one["isAttempted"] for one in found) == [False, True]

    async def test_of_an_unknown_run_are_404(self, world: World) -> None:
        admin = await world.admin()
        for path in (f"{RUNS}/{UNKNOWN_ID}", f"{RUNS}/{UNKNOWN_ID}/tenants"):
            refused(await admin.get(path), 404)


class TestMap:
    async def test_has_every_tenant_with_its_place(self, world: World) -> None:
        """In the order of their creation; one that failed with the cause."""
        admin = await world.admin()
        await destroyed(world)
        ok(await admin.post(MIGRATE_ALL))
        await patch_tenant(world, world.acme, isActive=False)

        found = ok(await admin.get(MAP))

        must_be(found, {"head": is_text, "items": list_of(MAP_TENANT), "nextAfter": maybe(is_guid)})
        acme, globex = found["items"]
        assert (acme["name"], acme["isActive"], acme["cause"]) == ("acme", False, None)
        assert (globex["name"], bool(globex["cause"])) == ("globex", True)
        later = ok(await admin.get(MAP, params={"after": acme["id"]}))
        assert [one["id"] for one in later["items"]] == [globex["id"]]
        refused(await admin.get(MAP, params={"after": "no id"}), 400)


class TestTenantMigrations:
    async def test_are_its_log_and_its_latest_failure(self, world: World) -> None:
        admin = await world.admin()
        await destroyed(world)
        ok(await admin.post(MIGRATE_ALL))

        acme = ok(await admin.get(f"{TENANTS}/{world.acme.tenant.id}/migrations"))
        globex = ok(await admin.get(f"{TENANTS}/{world.globex.tenant.id}/migrations"))

        must_be(acme, {"items": list_of(APPLIED), "failure": lambda value: value is None})
        assert acme["items"]
        assert globex["items"] is None
        assert globex["failure"]["errorMessage"]
        refused(await admin.get(f"{TENANTS}/{UNKNOWN_ID}/migrations"), 404)

    async def test_say_which_were_applied_by_a_run(self, world: World) -> None:
        """The others were applied when the tenant was created: no run has their id."""
        admin = await world.admin()
        ok(await admin.post(MIGRATE_ALL))
        [run] = ok(await admin.get(RUNS))["items"]
        path = f"{TENANTS}/{world.acme.tenant.id}/migrations"

        created = ok(await admin.get(path))["items"]
        raw = database_of(world, world.acme.tenant)
        raw.run("UPDATE tenantry_migration_log SET run_id = ?", run["id"].replace("-", ""))
        applied = ok(await admin.get(path))["items"]

        assert {one["hasRun"] for one in created} == {False}
        assert {(one["runId"], one["hasRun"]) for one in applied} == {(run["id"], True)}


class TestOverview:
    async def test_has_the_size_the_posts_and_the_last_use(self, world: World) -> None:
        """Posts are counted, and the newest ones are listed, without their texts."""
        admin = await world.admin()
        address = f"{TENANTS}/{world.acme.tenant.id}/overview"
        before = ok(await admin.get(address))
        assert before["lastUsedAt"] is None
        async with blog_of(world) as blog:
            await blog.publish("First")
            for number in range(POSTS_SHOWN_MAX):
                await blog.write(f"Draft {number}")
        await world.services.usage.write()

        found = ok(await admin.get(address))

        must_be(found, {"lastUsedAt": is_instant, "contents": is_a(CONTENT)})
        content = found["contents"]
        added = POSTS_SHOWN_MAX + 1
        assert content["postCount"] - before["contents"]["postCount"] == added
        assert content["publishedCount"] - before["contents"]["publishedCount"] == 1
        assert content["sizeBytes"] > 10_000
        titles = [one["title"] for one in content["posts"]]
        assert titles == [f"Draft {number}" for number in reversed(range(POSTS_SHOWN_MAX))]

    async def test_says_that_a_database_cannot_be_read(self, world: World) -> None:
        await destroyed(world)
        path = f"{TENANTS}/{world.globex.tenant.id}/overview"
        assert ok(await (await world.admin()).get(path))["contents"] is None

    async def test_of_an_unknown_tenant_is_404(self, world: World) -> None:
        path = f"{TENANTS}/{UNKNOWN_ID}/overview"
        refused(await (await world.admin()).get(path), 404)


class TestHealth:
    async def test_has_the_workers_and_the_servers(self, world: World) -> None:
        found = ok(await (await world.admin()).get(HEALTH))

        shape = {
            "release": is_text,
            "now": is_instant,
            "workers": list_of(WORKER),
            "servers": list_of(SERVER),
            "errors": list_of(ERROR),
        }
        must_be(found, shape)
        assert found["errors"] == []
        assert [one["isAlive"] for one in found["workers"] if one["isThis"]] == [True]
        assert [one["awaySince"] for one in found["servers"]] == [None]

    async def test_of_a_silent_worker_has_nothing_in_work(self, world: World) -> None:
        """What another worker has claimed since is not abandoned either."""
        catalog, dead = world.services.catalog, new_id()
        tenant = world.acme.tenant
        work = InWork(new_id(), tenant.id, tenant.name, tenant.server_name, 100)
        await workers.beat(catalog, dead, Report(in_work=[work]))
        admin = await world.admin()

        async def counts() -> list[tuple[object, ...]]:
            found = ok(await admin.get(HEALTH))["workers"]
            members = ("isAlive", "inWorkCount", "abandonedCount")
            return [tuple(one[name] for name in members) for one in found if not one["isThis"]]

        assert await counts() == [(True, 1, 0)]
        age = f"UPDATE worker SET seen_at_ms = seen_at_ms - {SILENCE_MS + 1_000} WHERE program = ''"
        await asyncio.to_thread(raw_sql.run, world.services.settings.catalog, age)
        assert await counts() == [(False, 0, 0)]

    async def test_has_the_recent_errors_of_this_process(self, world: World) -> None:
        """Of the service, not those of clients; the newest first, without the path's values."""
        admin = await world.admin()
        await destroyed(world)
        refused(await admin.get(f"{TENANTS}/{UNKNOWN_ID}"), 404)
        users = f"{TENANTS}/{world.globex.tenant.id}/users"
        failed = [await admin.get(users) for _ in range(ERRORS_KEPT_MAX + 1)]

        found = ok(await admin.get(HEALTH))["errors"]

        assert {one.status_code for one in failed} == {503}
        ids = [one.headers["x-request-id"] for one in failed]
        assert [one["requestId"] for one in found] == ids[:0:-1]
        assert {(one["method"], one["path"], one["statusCode"]) for one in found} == {
            ("GET", "/api/admin/tenants/{tenantId}/users", 503)
        }
