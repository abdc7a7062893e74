"""POST /api/admin/tenants/migrate-all with a body, or with a preference."""

import asyncio
import dataclasses
import json
from typing import Any

import pytest

from tenantry.api.door import Api
from tenantry.api.table import ENDPOINTS
from tenantry.db.urls import sqlite_path
from tenantry.fleet.lifecycle import Provisioned
from tenantry.kit.request_log import AccessLog
from testkit import raw_sql
from tests.acceptance.migrations import Migrations, WithMigrations
from tests.acceptance.shapes import (
    MIGRATION_RESULT,
    MIGRATION_RUN,
    Shape,
    is_a,
    is_count,
    is_flag,
    is_guid,
    is_text,
    list_of,
    maybe,
    must_be,
    one_of,
)
from tests.acceptance.sockets import served
from tests.acceptance.support import (
    HISTORY,
    MIGRATE_ALL,
    UNKNOWN_ID,
    catalog_of,
    database_of,
    lost,
    ok,
    patch_tenant,
    refused,
    until,
)
from tests.conftest import PASSWORD, World

PREVIEW: Shape = {
    "total": is_count,
    "pending": is_count,
    "upToDate": is_count,
    "failed": is_count,
    "details": list_of(
        {
            "customerId": is_guid,
            "customerName": is_text,
            "currentRevision": maybe(is_text),
            "pendingMigrations": maybe(is_text),
            "error": maybe(is_text),
        }
    ),
    "revisions": list_of(
        {
            "revision": is_text,
            "engine": one_of("sqlite", "postgresql"),
            "runsAs": one_of("recorded", "live", "autocommit"),
            "liveReason": maybe(is_text),
            "sql": maybe(is_text),
            "isCut": is_flag,
            "findings": list_of(
                {
                    "rule": is_text,
                    "message": is_text,
                    "statementNumber": is_count,
                    "table": maybe(is_text),
                }
            ),
            "lost": list_of({}),
        }
    ),
    "durations": list_of(
        {"pendingMigrations": is_text, "medianMs": is_count, "customerCount": is_count}
    ),
    "expectedMs": maybe(is_count),
    "plan": maybe(is_a({"id": is_guid, "digest": is_text})),
    "slowest": list_of({"customerId": is_guid, "tenant": is_text, "durationMs": is_count}),
    "estimatedMs": maybe(is_count),
}


async def ordered(world: World, **body: object) -> Any:
    """Return the result of a run with this body, which must add up."""
    data = ok(await (await world.admin()).post(MIGRATE_ALL, json=body))
    must_be(data, MIGRATION_RESULT)
    assert data["total"] == data["success"] + data["failed"] == len(data["details"])
    return data


async def previewed(world: World, **body: object) -> Any:
    """Return the result of a dry run, which must add up."""
    data = ok(await (await world.admin()).post(MIGRATE_ALL, json={"dryRun": True, **body}))
    must_be(data, PREVIEW)
    assert data["total"] == data["pending"] + data["upToDate"] + data["failed"]
    assert data["total"] == len(data["details"])
    return data


async def last_run(world: World) -> Any:
    admin = await world.admin()
    return ok(await admin.get(HISTORY, params={"pageSize": 1}))["items"][0]


async def ended(world: World) -> Any:
    """Return the last run when it has ended."""
    return await until(lambda: last_run(world), lambda run: run["finishedAt"])


async def count_runs(world: World) -> int:
    return int(ok(await (await world.admin()).get(HISTORY))["totalCount"])


def errors_of(data: Any) -> dict[str, str | None]:
    return {one["customerName"]: one["error"] for one in data["details"]}


async def break_up(world: World, of: Provisioned) -> None:
    await world.services.databases.forget(of.tenant.id)
    database_of(world, of.tenant).destroy()


class TestBody(WithMigrations):
    async def test_that_breaks_a_rule_runs_nothing(self, world: World) -> None:
        """400 with the member's name; null is no way to leave something out."""
        admin = await world.admin()
        inactive = await world.provision("inactive")
        await patch_tenant(world, inactive, isActive=False)

        for member, value in (
            ("tenantIds", None),
            ("tenantIds", "all"),
            ("tenantIds", ["x"]),
            ("tenantIds", [None]),
            ("tenantIds", [UNKNOWN_ID]),
            ("tenantIds", [str(world.acme.tenant.id), str(inactive.tenant.id)]),
            ("retryOf", None),
            ("retryOf", "x"),
            ("waves", None),
            ("waves", []),
            ("waves", [0]),
            ("waves", ["0%"]),
            ("waves", ["101%"]),
            ("waves", ["ten"]),
            ("waves", [1.5]),
            ("waves", [2, 1]),
            ("waves", ["colour=green"]),
            ("waves", ["name=nobody", 1]),
            ("waves", [1, "name=acme"]),
            ("order", "size"),
            ("order", "name"),
            ("waveMaxFailures", [0]),
            ("waveMaxFailures", 0),
            ("maxFailures", None),
            ("maxFailures", -1),
            ("maxFailures", "5"),
            ("maxFailures", "101%"),
            ("label", None),
            ("label", 1),
            ("label", "a\nb"),
            ("label", "a" * 1_000),
            ("hold", None),
            ("hold", True),
            ("hold", "always"),
            ("hold", [1]),
            ("hold", ["1"]),
            ("onlyBehind", None),
            ("onlyBehind", "true"),
            ("dryRun", None),
            ("dryRun", "true"),
            ("rehearse", 1),
            ("rehearse", True),
        ):
            answer = await admin.post(MIGRATE_ALL, json={member: value})
            assert member in refused(answer, 400), (member, value)
        for unknown in ("dryrun", "dry_run", "DryRun", "tenants", "waves "):
            assert unknown in refused(await admin.post(MIGRATE_ALL, json={unknown: True}), 400)
        refused(await admin.post(MIGRATE_ALL, json={"retryOf": UNKNOWN_ID}), 404)

        assert await count_runs(world) == 0

    async def test_chooses_tenants(self, world: World) -> None:
        """Those that are named, each once, by ids in any case; the list may be empty."""
        acme = str(world.acme.tenant.id)

        one = await ordered(world, tenantIds=[acme, acme.upper()])
        nobody = await ordered(world, tenantIds=[])
        everybody = await ordered(world)

        assert errors_of(one) == {"acme": None}
        assert (nobody["total"], everybody["total"]) == (0, 2)

    async def test_skips_tenants_that_are_seen_at_the_head(self, world: World) -> None:
        """Their databases are not opened: one of them is gone."""
        await break_up(world, world.globex)

        preview = await previewed(world, onlyBehind=True)
        none = await ordered(world, onlyBehind=True)
        failed = await ordered(world)
        again = await ordered(world, onlyBehind=True)

        assert (preview["total"], none["total"]) == (0, 0)
        assert list(errors_of(again)) == ["globex"]
        assert again["failed"] == failed["failed"] == 1

    async def test_tries_the_failed_ones_again(self, world: World) -> None:
        """Of a run without failures it is a run of none."""
        await break_up(world, world.globex)
        await ordered(world)
        failed = await last_run(world)

        again = await ordered(world, retryOf=failed["id"])
        good = await ordered(world, tenantIds=[str(world.acme.tenant.id)])
        none = await ordered(world, retryOf=(await last_run(world))["id"])

        assert list(errors_of(again)) == ["globex"]
        assert (good["success"], none["total"]) == (1, 0)

    async def test_stops_at_too_many_failures(self, world: World) -> None:
        """What has not started has failed, and says why; nothing was applied there."""
        broken = [await world.provision(name) for name in ("broken", "behind")]
        await break_up(world, broken[0])
        names = [str(one.tenant.id) for one in broken]

        data = await ordered(world, tenantIds=names, waves=[1, "100%"], maxFailures=0, label="try")

        assert (data["failed"], data["success"]) == (2, 0)
        assert "does not exist" in (errors_of(data)["broken"] or "")
        assert (errors_of(data)["behind"] or "").startswith("not attempted: ")
        details = {one["customerName"]: one for one in (await last_run(world))["details"]}
        assert details["behind"]["status"] == "Failed"
        assert details["behind"]["appliedMigrations"] == ""

    async def test_holds_after_a_wave_until_it_is_continued(self, world: World) -> None:
        """A caller that waits gets the result so far, and how to continue the run."""
        admin = await world.admin()
        body = {"waves": [1, "100%"], "hold": True}
        held = ok(await admin.post(MIGRATE_ALL, json=body))
        run_id = held["runId"]
        path = f"{HISTORY}/{run_id}/continue"
        listed = ok(await admin.get(f"{HISTORY}/{run_id}"))
        shown = ok(await admin.get(f"/api/admin/migration-runs/{run_id}"))
        wrong = await admin.post(path, json={"wave": 2})
        unknown = await admin.post(f"{HISTORY}/{UNKNOWN_ID}/continue", json={"wave": 1})
        without = await admin.post(path, json={})
        other = await admin.post(MIGRATE_ALL, json={})
        continued = await admin.post(path, json={"wave": 1})
        again = await admin.post(path, json={"wave": 1})
        run = await ended(world)

        why = "Wave 1 of 2 has ended. Continue or cancel the run."
        assert (held["success"], len(held["details"])) == (1, 1)
        for one in (held, listed, shown):
            assert (one["holdingWave"], one["heldBecause"]) == (1, why)
        assert (shown["state"], shown["holds"]) == ("holding", [1])
        for refusal in (wrong, again):
            refused(refusal, 409)
            assert refusal.headers["x-error-code"] == "run_not_holding"
        assert run_id in refused(other, 409)
        assert other.headers["x-error-code"] == "tenants_held"
        refused(unknown, 404)
        refused(without, 400)
        assert continued.status_code == 202
        assert (run["id"], run["successCount"]) == (run_id, run["totalCount"])
        assert "holdingWave" not in run

    async def test_leaves_out_what_the_last_wave_leaves_out(self, world: World) -> None:
        """The waves are sizes of the whole; the shape of the answer is unchanged."""
        data = await ordered(world, waves=["50%"])

        assert (data["total"], data["success"], data["failed"]) == (2, 1, 1)
        [left] = [one for one in data["details"] if one["status"] == "failed"]
        assert left["error"].startswith("not attempted: ")
        must_be(await last_run(world), MIGRATION_RUN)


class TestWaves(WithMigrations):
    async def test_that_name_their_customers_are_shown_with_their_names(self, world: World) -> None:
        """Also in the plan of a dry run. The shape of the history is unchanged."""
        admin = await world.admin()
        given = {
            "waves": ["name=globex", "100%"],
            "order": "name",
            "waveMaxFailures": ["50%", 3],
        }

        await ordered(world, **given)
        plan_id = (await previewed(world, **given))["plan"]["id"]
        [run] = ok(await admin.get("/api/admin/migration-runs"))["items"]
        plan = ok(await admin.get(f"/api/admin/plans/{plan_id}"))

        assert run["waves"] == [1, 2]
        assert run["waveDetails"] == [
            {"where": "name=globex", "maxFailures": 1},
            {"where": None, "maxFailures": 1},
        ]
        assert {name: plan[name] for name in given} == given
        must_be(await last_run(world), MIGRATION_RUN)


class TestDryRun(WithMigrations):
    @pytest.mark.slow
    async def test_returns_what_is_pending_and_changes_nothing(
        self, world: World, mine: Migrations
    ) -> None:
        """It is not recorded, whatever the other options are."""
        mine.add_table("a1_create_pets", "pets")
        await ordered(world, tenantIds=[str(world.acme.tenant.id)])
        mine.add("a2_fill", "op.execute('INSERT INTO pets (id) VALUES (1)')")
        broken = await world.provision("broken")
        await break_up(world, broken)
        raws = [database_of(world, of.tenant) for of in (world.acme, world.globex)]
        before, runs = [raw.dump() for raw in raws], await count_runs(world)

        data = await previewed(world)
        some = await previewed(
            world, tenantIds=[str(world.acme.tenant.id)], waves=[1], maxFailures=1, label="x"
        )
        refused(
            await (await world.admin()).post(
                MIGRATE_ALL, json={"dryRun": True, "retryOf": UNKNOWN_ID}
            ),
            404,
        )

        assert (data["pending"], data["upToDate"], data["failed"]) == (2, 0, 1)
        by_name = {one["customerName"]: one for one in data["details"]}
        assert by_name["acme"]["pendingMigrations"] == "a2_fill"
        assert by_name["acme"]["currentRevision"].endswith("/a1")
        assert by_name["globex"]["pendingMigrations"] == "a1_create_pets,a2_fill"
        assert by_name["acme"]["error"] is by_name["globex"]["error"] is None
        assert "does not exist" in by_name["broken"]["error"]
        assert (some["total"], some["pending"]) == (1, 1)
        assert [one["revision"] for one in data["revisions"]] == ["a1_create_pets", "a2_fill"]
        assert {one["runsAs"] for one in data["revisions"]} == {"recorded"}
        assert {one["liveReason"] for one in data["revisions"]} == {None}
        assert "CREATE TABLE pets" in data["revisions"][0]["sql"]
        assert [one["revision"] for one in some["revisions"]] == ["a2_fill"]
        assert (data["durations"], data["expectedMs"]) == ([], None)
        assert [raw.dump() for raw in raws] == before
        assert await count_runs(world) == runs

    async def test_says_which_revisions_run_live(self, world: World, mine: Migrations) -> None:
        """Their SQL depends on the database."""
        mine.add_slow("a1_take_a_while", 0.01)

        (found,) = (await previewed(world))["revisions"]

        assert (found["revision"], found["runsAs"]) == ("a1_take_a_while", "live")
        assert found["liveReason"] == "imports time"
        assert (found["sql"], found["isCut"], found["findings"]) == (None, False, [])

    async def test_has_all_revisions(self, world: World, mine: Migrations) -> None:
        """A history of years has hundreds; the text of all of them is limited."""
        names = [f"r{number}_note" for number in range(60)]
        for name in names:
            mine.add(name, "op.execute('SELECT 1')")

        found = (await previewed(world))["revisions"]

        assert [one["revision"] for one in found] == names

    async def test_warns_of_statements(self, world: World, mine: Migrations) -> None:
        """They are hints: the revision is migrated."""
        mine.add_table("a1_create_pets", "pets")
        await ordered(world)
        mine.add(
            "a2_remove_pets",
            "op.execute('DELETE FROM pets WHERE id = 1')\n"
            "    op.create_index('ix_pets', 'pets', ['id'])\n"
            "    op.drop_table('pets')",
        )

        (found,) = (await previewed(world))["revisions"]
        data = await ordered(world)

        index, dropped = ["index-without-concurrently", 2, "pets"], ["drop-table", 3, "pets"]
        expected = [index, dropped] if found["engine"] == "postgresql" else [dropped]
        findings = found["findings"]
        assert [[one[of] for of in ("rule", "statementNumber", "table")] for one in findings] == (
            expected
        )
        assert findings[-1]["message"].startswith("Drops pets: its data is lost")
        assert data["failed"] == 0

    async def test_does_not_warn_of_what_a_comment_allows(
        self, world: World, mine: Migrations
    ) -> None:
        """The same comments hold for `tenantry migrate lint`."""
        mine.add(
            "a1_clean",
            "op.execute('DELETE FROM pets')  # tenantry: allow delete-without-where because new\n"
            "    op.execute('DELETE FROM others')  # tenantry: allow delete-without-where",
        )

        (found,) = (await previewed(world))["revisions"]

        assert [(one["rule"], one["table"]) for one in found["findings"]] == [
            ("delete-without-where", "others"),
            ("bad-allow", None),
        ]

    async def test_expects_the_duration_of_earlier_tenants(
        self, world: World, mine: Migrations
    ) -> None:
        """Only of those with the same pending revisions."""
        mine.add_slow("a1_take_a_while", 0.3)
        await ordered(world, tenantIds=[str(world.acme.tenant.id)])

        data = await previewed(world)

        (found,) = data["durations"]
        assert (found["pendingMigrations"], found["customerCount"]) == ("a1_take_a_while", 1)
        assert found["medianMs"] >= 300
        assert data["expectedMs"] == found["medianMs"]
        mine.add_table("a2_create_pets", "pets")
        assert (await previewed(world))["expectedMs"] is None

    async def test_of_a_rehearsal_names_the_slowest_tenants_and_estimates_the_run(
        self, world: World, mine: Migrations
    ) -> None:
        mine.add_slow("a1_take_a_while", 0.3)

        dry, found = await previewed(world), await previewed(world, rehearse=True)

        assert (dry["slowest"], dry["estimatedMs"]) == ([], None)
        assert {one["tenant"] for one in found["slowest"]} == {"acme", "globex"}
        times = [one["durationMs"] for one in found["slowest"]]
        assert times == sorted(times, reverse=True)
        assert times[1] >= 300
        assert times[0] <= found["estimatedMs"] <= sum(times)
        admin = await world.admin()
        plan = ok(await admin.get(f"/api/admin/plans/{found['plan']['id']}"))
        for name in ("slowest", "estimatedMs"):
            assert plan[name] == found[name]
        page = ok(await admin.get("/api/admin/plans"))
        assert [one["estimatedMs"] for one in page["items"]] == [found["estimatedMs"], None]

    async def test_rehearses(self, world: World, mine: Migrations) -> None:
        """Pending revisions are applied and rolled back; failures are reported."""
        mine.add_table("a1_create_pets", "pets")
        mine.add("a2_wrong", "op.execute('INSERT INTO cats (id) VALUES (1)')")
        raw = database_of(world, world.acme.tenant)
        before = raw.dump()

        looked, rehearsed = await previewed(world), await previewed(world, rehearse=True)

        assert (looked["pending"], rehearsed["failed"]) == (2, 2)
        for one in rehearsed["details"]:
            assert "a2_wrong" in one["error"]
            assert "cats" in one["error"]
        assert raw.dump() == before
        assert "pets" not in raw.tables()
        assert await count_runs(world) == 0


class TestPreference(WithMigrations):
    async def test_of_an_answer_at_once_is_met(self, world: World, mine: Migrations) -> None:
        """202 with the run as it is now and where it can be watched; it goes on to its end."""
        mine.add_slow("a1_take_a_while", 0.3)
        admin = await world.admin()

        answer = await admin.post(MIGRATE_ALL, headers={"Prefer": "respond-async"})
        run = ok(answer, 202)
        must_be(run, MIGRATION_RUN)
        where = answer.headers["location"]
        assert ok(await admin.get(where))["id"] == run["id"]
        now = await ended(world)

        assert where == f"{HISTORY}/{run['id']}"
        assert answer.headers["preference-applied"] == "respond-async"
        assert (run["finishedAt"], run["totalCount"]) == (None, 2)
        assert run["successCount"] + run["failedCount"] == len(run["details"])
        assert (now["successCount"], now["triggeredBy"]) == (2, "ada@example.com")

    async def test_is_read_as_the_standard_says(self, world: World) -> None:
        """One of several, in any case, with parameters; and nothing that only resembles it."""
        admin = await world.admin()

        async def status_of(*values: str) -> int:
            headers = [("Prefer", value) for value in values]
            answer = await admin.post(MIGRATE_ALL, headers=headers, json={"tenantIds": []})
            assert ("preference-applied" in answer.headers) == (answer.status_code == 202)
            return answer.status_code

        for values in (
            ["respond-async"],
            ["Respond-Async"],
            ["respond-async, wait=10"],
            ["wait=10 ,respond-async"],
            ["handling=lenient", "respond-async"],
            ['respond-async; foo="bar, baz"'],
            ['foo="a\\", b", respond-async'],
            ['respond-async=""'],
        ):
            assert await status_of(*values) == 202, values
        for values in (
            [""],
            ["respond-asynchronously"],
            ["not-respond-async"],
            ["return=minimal"],
            ['foo="respond-async"'],
            ['foo="a, respond-async, b"'],
            ["foo; respond-async"],
            ["respond-async=no"],
            ['respond-async="no"'],
        ):
            assert await status_of(*values) == 200, values

    async def test_of_a_dry_run_is_not_met(self, world: World) -> None:
        """There is nothing to watch, so it is answered as ever."""
        admin = await world.admin()

        answer = await admin.post(
            MIGRATE_ALL, headers={"Prefer": "respond-async"}, json={"dryRun": True}
        )

        must_be(ok(answer), PREVIEW)
        assert "preference-applied" not in answer.headers


class TestEarlyFailure:
    async def test_that_fails_early_has_its_own_status(self, world: World) -> None:
        """An error that is known before the first space, after ten seconds, is like any other."""
        bearer = f"Bearer {await world.admin_token()}"

        async with served(world.app) as at, at.client(authorization=bearer) as admin:
            refused(await admin.post(MIGRATE_ALL, json={"retryOf": UNKNOWN_ID}), 404)
            refused(await admin.post(MIGRATE_ALL, json={"tenantIds": [UNKNOWN_ID]}), 400)


class TestLongCall(WithMigrations):
    @pytest.fixture(name="world")
    async def _world(self, world: World) -> World:
        """A world that keeps calls alive after a tenth of a second, not after ten."""
        endpoints = [
            dataclasses.replace(one, keep_alive_seconds=one.keep_alive_seconds and 0.1)
            for one in ENDPOINTS
        ]
        api = Api(endpoints, world.services, AccessLog(as_json=True))
        return dataclasses.replace(world, app=api)

    @pytest.mark.slow
    async def test_is_kept_alive_and_answers_as_ever(self, world: World, mine: Migrations) -> None:
        """Spaces ahead of the JSON, of a run and of a rehearsal."""
        mine.add_slow("a1_take_a_while", 0.3)
        bearer = f"Bearer {await world.admin_token()}"

        async with served(world.app) as at:
            for body in (b'{"dryRun": true, "rehearse": true}', b""):
                async with at.line() as line:
                    head = await line.ask("POST", MIGRATE_ALL, body, authorization=bearer)
                    assert await line.chunk() == b" "
                    answer = json.loads(await line.rest())

                assert (head.status, head.said["content-type"]) == (200, "application/json")
                assert answer["data"]["total"] == 2
                must_be(answer["data"], MIGRATION_RESULT if not body else PREVIEW)

    async def test_is_accepted_late_if_its_plan_takes_long(self, world: World) -> None:
        """No space is sent before a 202: it would send the status 200."""
        catalog = world.services.settings.catalog
        is_file = sqlite_path(catalog) is not None
        lock = ["BEGIN IMMEDIATE"] if is_file else ["BEGIN", "LOCK TABLE migration_run"]
        admin = await world.admin()

        with raw_sql.connected(catalog) as query:
            for statement in lock:
                query(statement)
            asking = asyncio.create_task(
                admin.post(MIGRATE_ALL, headers={"Prefer": "respond-async"})
            )
            await asyncio.sleep(0.5)
            query("ROLLBACK")
        answer = await asking

        assert answer.status_code == 202
        must_be(answer.json()["data"], MIGRATION_RUN)

    async def test_is_cut_when_the_process_stops(self, world: World, mine: Migrations) -> None:
        """The run goes on elsewhere; the response is visibly incomplete."""
        mine.add_slow("a1_take_a_while", 0.5)
        bearer = f"Bearer {await world.admin_token()}"

        async with served(world.app) as at, at.line() as line:
            head = await line.ask("POST", MIGRATE_ALL, authorization=bearer)
            assert await line.chunk() == b" "
            await until(lambda: count_runs(world), bool)
            stopping = asyncio.create_task(world.services.worker.stop())
            with pytest.raises(asyncio.IncompleteReadError):
                await line.rest()
            await stopping

        assert head.status == 200
        assert (await last_run(world))["finishedAt"] is None

    @pytest.mark.slow
    async def test_is_cut_when_its_caller_loses_access(
        self, world: World, mine: Migrations
    ) -> None:
        """The names of the tenants are not for an admin who was deactivated during the run."""
        mine.add_slow("a1_take_a_while", 1.5)
        admin = await world.admin()
        body = {"email": "eve@example.com", "fullName": "Eve", "password": PASSWORD}
        eve = ok(await admin.post("/api/admin/admins", json=body), 201)
        login = {"email": "eve@example.com", "password": PASSWORD}
        token = ok(await world.stranger().post("/api/admin/auth/login", json=login))["token"]

        async with served(world.app) as at, at.line() as line:
            await line.ask("POST", MIGRATE_ALL, authorization=f"Bearer {token}")
            assert await line.chunk() == b" "
            await until(lambda: count_runs(world), bool)
            ok(await admin.patch(f"/api/admin/admins/{eve['id']}", json={"isActive": False}))
            with pytest.raises(asyncio.IncompleteReadError):
                await line.rest()

        assert (await ended(world))["successCount"] == 2

    @pytest.mark.slow
    @pytest.mark.parametrize("engine", ["postgresql"])
    async def test_is_cut_when_the_catalog_is_lost(self, world: World, mine: Migrations) -> None:
        """After the first space, a cut is the only signal; the run still ends."""
        mine.add_slow("a1_take_a_while", 0.5)
        bearer = f"Bearer {await world.admin_token()}"

        async with served(world.app) as at, at.line() as line:
            await line.ask("POST", MIGRATE_ALL, authorization=bearer)
            assert await line.chunk() == b" "
            await until(lambda: count_runs(world), bool)
            with lost(catalog_of(world)), pytest.raises(asyncio.IncompleteReadError):
                await line.rest()

        assert (await ended(world))["successCount"] == 2

    async def test_completes_the_run_after_a_disconnect(
        self, world: World, mine: Migrations
    ) -> None:
        """The run ends without its client."""
        mine.add_slow("a1_take_a_while", 0.3)
        bearer = f"Bearer {await world.admin_token()}"

        async with served(world.app) as at, at.line() as line:
            await line.ask("POST", MIGRATE_ALL, authorization=bearer)
            await until(lambda: count_runs(world), bool)
            line.hang_up()
        run = await ended(world)

        assert run["successCount"] == 2


class TestCancel(WithMigrations):
    @pytest.mark.slow
    async def test_starts_nothing_more(self, world: World, mine: Migrations) -> None:
        """202: tenants in work are finished, the others are not attempted."""
        mine.add_slow("a1_take_a_while", 0.6)
        more = [await world.provision(name) for name in ("third", "fourth")]
        assert len(more) == 2
        admin = await world.admin()
        call = asyncio.create_task(admin.post(MIGRATE_ALL))
        await until(lambda: count_runs(world), bool)
        run = await last_run(world)

        answer = await admin.post(f"{HISTORY}/{run['id']}/cancel")
        data = ok(await call)

        assert answer.status_code == 202
        assert set(answer.json()) == {"success", "message"}
        assert answer.json()["success"] is True
        assert data["total"] == data["success"] + data["failed"] == 4
        assert data["failed"] >= 2
        left = [one["error"] for one in data["details"] if one["status"] == "failed"]
        assert set(left) == {"not attempted: run cancelled"}
        refused(await admin.post(f"{HISTORY}/{run['id']}/cancel"), 409)

    async def test_of_no_run_is_404(self, world: World) -> None:
        """An unknown or malformed id; and only an admin may cancel."""
        admin = await world.admin()

        for unknown in (UNKNOWN_ID, "1"):
            refused(await admin.post(f"{HISTORY}/{unknown}/cancel"), 404)
        refused(await world.stranger().post(f"{HISTORY}/{UNKNOWN_ID}/cancel"), 401)
