"""GET /api/admin/tenants/migration-history, and one run of it."""

from datetime import timedelta

from tenantry.access import admins
from tenantry.kit.clock import utc_now
from tenantry.kit.context import system_context
from tests.acceptance.shapes import MIGRATION_RUN, instant, must_be, page_of
from tests.acceptance.support import (
    ADMIN_LOGIN,
    HISTORY,
    MIGRATE_ALL,
    UNKNOWN_ID,
    database_of,
    ok,
    patch_tenant,
    refused,
)
from tests.conftest import PASSWORD, World


class TestListRuns:
    async def test_is_empty_at_first(self, world: World) -> None:
        """Page 1 of pages of 10, of which there are none."""
        page = ok(await (await world.admin()).get(HISTORY))

        assert page == {"items": [], "page": 1, "pageSize": 10, "totalCount": 0, "totalPages": 0}

    async def test_has_a_record_of_every_call(self, world: World) -> None:
        """Written by the call itself: who, when, how many, and the outcome of each tenant."""
        admin = await world.admin()
        await world.services.databases.forget(world.globex.tenant.id)
        database_of(world, world.globex.tenant).destroy()
        before = utc_now()

        answer = ok(await admin.post(MIGRATE_ALL))
        page = ok(await admin.get(HISTORY))

        must_be(page, page_of(MIGRATION_RUN))
        assert (page["page"], page["pageSize"]) == (1, 10)
        assert (page["totalCount"], page["totalPages"]) == (1, 1)
        [run] = page["items"]
        assert run["triggeredBy"] == "ada@example.com"
        assert (run["totalCount"], run["successCount"], run["failedCount"]) == (2, 1, 1)
        assert run["totalCount"] == run["successCount"] + run["failedCount"] == answer["total"]
        assert before - timedelta(seconds=1) < instant(run["startedAt"])
        assert instant(run["startedAt"]) <= instant(run["finishedAt"]) <= utc_now()
        by_name = {detail["customerName"]: detail for detail in run["details"]}
        answered = {detail["customerName"]: detail for detail in answer["details"]}
        for of in (world.acme, world.globex):
            detail = by_name[of.tenant.name]
            assert detail["customerId"] == str(of.tenant.id)
            assert detail["databaseName"] == of.tenant.database_name
            assert instant(run["startedAt"]) <= instant(detail["startedAt"])
            assert instant(detail["startedAt"]) <= instant(detail["finishedAt"])
            assert instant(detail["finishedAt"]) <= instant(run["finishedAt"])
        # The same outcome, in the two spellings of the API.
        assert (answered["acme"]["status"], by_name["acme"]["status"]) == ("success", "Success")
        assert (answered["globex"]["status"], by_name["globex"]["status"]) == ("failed", "Failed")
        assert by_name["acme"]["errorMessage"] is answered["acme"]["error"] is None
        assert by_name["globex"]["errorMessage"] == answered["globex"]["error"] != ""
        # Null means that nothing was pending, so only a success has it.
        assert by_name["acme"]["appliedMigrations"] is None
        assert by_name["globex"]["appliedMigrations"] == ""

    async def test_returns_pages_newest_first(self, world: World) -> None:
        """Ten on a page unless another size is asked for."""
        admin = await world.admin()
        await patch_tenant(world, world.globex, isActive=False)
        for _ in range(12):
            ok(await admin.post(MIGRATE_ALL))

        first = ok(await admin.get(HISTORY))
        explicit = ok(await admin.get(HISTORY, params={"page": 1, "pageSize": 10}))
        second = ok(await admin.get(HISTORY, params={"page": 2}))
        fives = ok(await admin.get(HISTORY, params={"page": 3, "pageSize": 5}))
        beyond = ok(await admin.get(HISTORY, params={"page": 4, "pageSize": 5}))
        wide = ok(await admin.get(HISTORY, params={"pageSize": 10**24}))

        assert first == explicit
        assert (len(first["items"]), len(second["items"])) == (10, 2)
        assert (first["totalCount"], first["totalPages"]) == (12, 2)
        runs = first["items"] + second["items"]
        started = [instant(run["startedAt"]) for run in runs]
        assert started == sorted(started, reverse=True)
        assert len({run["id"] for run in runs}) == 12
        assert (fives["page"], fives["pageSize"], fives["totalPages"]) == (3, 5, 3)
        assert [run["id"] for run in fives["items"]] == [run["id"] for run in runs[10:]]
        assert (beyond["items"], beyond["page"], beyond["totalCount"]) == ([], 4, 12)
        assert (wide["pageSize"], len(wide["items"])) == (100, 12)

    async def test_refuses_a_bad_query(self, world: World) -> None:
        """400: page and pageSize are numbers from one."""
        admin = await world.admin()

        for query in (
            "page=0",
            "page=-1",
            "pageSize=0",
            "pageSize=-1",
            "page=a",
            "pageSize=ten",
            "page=%00",
            "page=1&page=1",
        ):
            refused(await admin.get(f"{HISTORY}?{query}"), 400)

    async def test_keeps_the_names_of_then(self, world: World) -> None:
        """Who triggered a run, and what a tenant was called, do not change afterwards."""
        await admins.create(
            system_context("test"),
            world.services.catalog,
            world.services.passwords,
            email="Grace@Example.com",
            password=PASSWORD,
        )
        login = {"email": "grace@example.com", "password": PASSWORD}
        token = ok(await world.stranger().post(ADMIN_LOGIN, json=login))["token"]
        grace = world.client(authorization=f"Bearer {token}")
        ok(await grace.post(MIGRATE_ALL))
        await patch_tenant(world, world.acme, name="renamed")
        ok(await (await world.admin()).post(MIGRATE_ALL))

        new, old = ok(await grace.get(HISTORY))["items"]

        assert old["triggeredBy"] == "Grace@Example.com"
        assert new["triggeredBy"] == "ada@example.com"
        assert sorted(one["customerName"] for one in old["details"]) == ["acme", "globex"]
        assert sorted(one["customerName"] for one in new["details"]) == ["globex", "renamed"]


class TestShowRun:
    async def test_returns_the_record(self, world: World) -> None:
        """As the list has it; the id in any case."""
        admin = await world.admin()
        ok(await admin.post(MIGRATE_ALL))
        [listed] = ok(await admin.get(HISTORY))["items"]

        shown = ok(await admin.get(f"{HISTORY}/{listed['id']}"))

        must_be(shown, MIGRATION_RUN)
        assert shown == listed
        assert ok(await admin.get(f"{HISTORY}/{listed['id'].upper()}")) == shown

    async def test_is_404_for_what_is_not_there(self, world: World) -> None:
        """An id of no run, or no id at all."""
        admin = await world.admin()
        ok(await admin.post(MIGRATE_ALL))
        tenants = str(world.acme.tenant.id)

        for unknown in (
            UNKNOWN_ID,
            tenants,
            "1",
            "rubbish",
            UNKNOWN_ID.replace("-", ""),
            f"{{{UNKNOWN_ID}}}",
        ):
            refused(await admin.get(f"{HISTORY}/{unknown}"), 404)
