"""Plans of migration runs, over HTTP."""

from pathlib import Path
from typing import Any

import httpx
import pytest

from tenantry.kit.context import system_context
from tenantry.settings import Settings
from tests.acceptance.migrations import Migrations
from tests.acceptance.support import MIGRATE_ALL, UNKNOWN_ID, ok, refused
from tests.conftest import World, provision

PLANS = "/api/admin/plans"
RUNS = "/api/admin/migration-runs"


@pytest.fixture(name="mine")
def _mine(tmp_path: Path) -> Migrations:
    """A user's directory of migrations."""
    return Migrations(tmp_path / "migrations")


@pytest.fixture(name="settings")
def _settings(settings: Settings, mine: Migrations) -> Settings:
    return settings.model_copy(update={"tenant_migrations": mine.begin()})


async def planned(admin: httpx.AsyncClient, **body: object) -> Any:
    """Make a dry run, and return its plan."""
    return ok(await admin.post(MIGRATE_ALL, json={"dryRun": True, **body}))["plan"]


class TestPlan:
    async def test_is_listed_and_shown_and_remembered_by_its_run(
        self, world: World, mine: Migrations
    ) -> None:
        mine.add_table("a1_create_pets", "pets")
        admin = await world.admin()

        plan = await planned(admin, label="trial", waves=[1, "100%"])
        [listed] = ok(await admin.get(PLANS))["items"]
        shown = ok(await admin.get(f"{PLANS}/{plan['id']}"))
        none = ok(await admin.get(f"{PLANS}/{plan['id']}?details=none"))
        result = ok(await admin.post(MIGRATE_ALL, json={"plan": plan["id"]}))
        [run] = ok(await admin.get(RUNS))["items"]
        after = ok(await admin.get(f"{PLANS}/{plan['id']}"))
        unknown = await admin.get(f"{PLANS}/{UNKNOWN_ID}")

        assert plan == {"id": listed["id"], "digest": listed["digest"]}
        assert (listed["label"], listed["waves"], listed["runId"]) == ("trial", [1, "100%"], None)
        assert (listed["totalCount"], listed["pendingCount"], listed["isRehearsed"]) == (
            2,
            2,
            False,
        )
        assert listed.items() <= shown.items()
        assert [one["pendingMigrations"] for one in shown["details"]] == ["a1_create_pets"] * 2
        assert {one["revision"] for one in shown["revisions"]} == {"a1_create_pets"}
        assert {len(one["sqlSha256"]) for one in shown["revisions"]} == {64}
        assert "CREATE TABLE pets" in shown["revisions"][0]["sql"]
        assert "user:a1_create_pets" in {one["name"] for one in shown["files"]}
        assert none["details"] == []
        assert (result["success"], result["failed"]) == (2, 0)
        assert (run["planId"], run["waves"]) == (plan["id"], [1, 2])
        assert "heldBecause" not in run
        assert after["runId"] == run["id"]
        refused(unknown, 404)

    async def test_is_refused_when_something_else_would_run(
        self, world: World, mine: Migrations
    ) -> None:
        """A revision was deployed, or a tenant created, between the look and the click."""
        mine.add_table("a1_create_pets", "pets")
        admin = await world.admin()
        plan = await planned(admin)
        await provision(world.services, "newcomer")
        tenant = await admin.post(MIGRATE_ALL, json={"plan": plan["id"]})
        plan = await planned(admin)
        mine.add("a2_drop_pets", "op.drop_table('pets')")
        revision = await admin.post(MIGRATE_ALL, json={"plan": plan["id"]})
        again = ok(await admin.get(RUNS))["items"]

        for answer, words in ((tenant, "newcomer"), (revision, "user:a2_drop_pets is new")):
            refused(answer, 409)
            assert answer.headers["x-error-code"] == "plan_changed"
            assert words in answer.json()["message"]
        assert again == []

    async def test_is_used_once(self, world: World) -> None:
        admin = await world.admin()
        plan = await planned(admin)
        ok(await admin.post(MIGRATE_ALL, json={"plan": plan["id"]}))
        second = await admin.post(MIGRATE_ALL, json={"plan": plan["id"]})

        refused(second, 409)
        assert second.headers["x-error-code"] == "plan_used"

    async def test_refuses_what_contradicts_it(self, world: World) -> None:
        admin = await world.admin()
        plan = await planned(admin)
        for body, status in (
            ({"plan": plan["id"], "maxFailures": 1}, 400),
            ({"plan": plan["id"], "dryRun": True}, 400),
            ({"plan": plan["id"], "passedOnly": True}, 400),
            ({"passedOnly": True}, 400),
            ({"plan": "latest"}, 400),
            ({"plan": UNKNOWN_ID}, 404),
        ):
            refused(await admin.post(MIGRATE_ALL, json=body), status)


class TestRequirement:
    @pytest.fixture(name="settings")
    def _settings(self, settings: Settings, mine: Migrations) -> Settings:
        return settings.model_copy(
            update={"tenant_migrations": mine.begin(), "require_plan": "other"}
        )

    async def test_is_met_by_the_plan_of_another_admin(self, world: World) -> None:
        admin = await world.admin()
        without = await admin.post(MIGRATE_ALL)
        plan = await planned(admin)
        own = await admin.post(MIGRATE_ALL, json={"plan": plan["id"]})
        by_command = await world.services.fleet.preview(
            system_context("cli:bob@here"), rehearse=False
        )
        assert by_command.plan is not None
        other = await admin.post(MIGRATE_ALL, json={"plan": str(by_command.plan.id)})

        for answer, code in ((without, "plan_required"), (own, "own_plan")):
            refused(answer, 409)
            assert answer.headers["x-error-code"] == code
        ok(other)
