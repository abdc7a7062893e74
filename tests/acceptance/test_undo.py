"""Undo a migration run, over HTTP."""

from pathlib import Path

import pytest

from tenantry.settings import Settings
from tests.acceptance.migrations import Migrations
from tests.acceptance.support import MIGRATE_ALL, UNKNOWN_ID, ok, refused
from tests.conftest import World

RUNS = "/api/admin/migration-runs"


def undo_of(run_id: str) -> str:
    return f"/api/admin/tenants/migration-history/{run_id}/undo"


@pytest.fixture(name="mine")
def _mine(tmp_path: Path) -> Migrations:
    """A user's directory of migrations."""
    return Migrations(tmp_path / "migrations")


@pytest.fixture(name="settings")
def _settings(settings: Settings, mine: Migrations) -> Settings:
    return settings.model_copy(update={"tenant_migrations": mine.begin()})


class TestHttp:
    async def test_an_undo_takes_the_options_of_migrate_all_and_is_a_run(
        self, world: World, mine: Migrations
    ) -> None:
        name = mine.add_table("a1_create_pets", "pets")
        file = mine.folder / "versions" / f"{name}.py"
        admin = await world.admin()
        ok(await admin.post(MIGRATE_ALL, json={}))
        [run] = ok(await admin.get(RUNS))["items"]

        empty = await admin.post(undo_of(run["id"]), json={})
        file.write_text(file.read_text().replace("    pass\n", '    op.drop_table("pets")\n'))
        dry = ok(await admin.post(undo_of(run["id"]), json={"dryRun": True, "rehearse": True}))
        done = ok(await admin.post(undo_of(run["id"]), json={"waves": [1, "100%"], "label": "x"}))
        undo = ok(await admin.get(RUNS))["items"][0]
        twice = await admin.post(undo_of(run["id"]), json={})
        of_undo = await admin.post(undo_of(undo["id"]), json={})
        unknown = await admin.post(undo_of(UNKNOWN_ID), json={})
        [entry, _] = ok(await admin.get("/api/admin/tenants/migration-history"))["items"]
        again = ok(await admin.post(MIGRATE_ALL, json={}))

        refused(empty, 409)
        assert empty.headers["x-error-code"] == "no_downgrade"
        assert [one["pendingMigrations"] for one in dry["details"]] == [name] * 2
        assert dry["revisions"][0]["lost"][0] == {
            "table": "pets",
            "column": None,
            "count": 0,
            "isMore": False,
            "customerCount": 2,
        }
        assert (done["success"], done["failed"]) == (2, 0)
        assert (undo["undoes"], run["undoes"]) == (run["id"], None)
        assert (undo["waves"], undo["label"], undo["state"]) == ([1, 2], "x", "success")
        assert (entry["undoes"], entry["details"][0]["appliedMigrations"]) == (run["id"], name)
        refused(twice, 409)
        assert twice.headers["x-error-code"] == "nothing_to_undo"
        refused(of_undo, 409)
        assert of_undo.headers["x-error-code"] == "undo_of_undo"
        refused(unknown, 404)
        assert unknown.headers["x-error-code"] == "migration_run_not_found"
        assert again["success"] == 2, "the next run migrates forward again"
