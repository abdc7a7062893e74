"""``where`` over HTTP: the tenants of the map, backups, checks for drift and moves."""

from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest

from tenantry.db.urls import sqlite_path
from tenantry.settings import SERVER_DEFAULT, Settings
from tests.acceptance.support import HISTORY, MIGRATE_ALL, ok, patch_tenant, refused
from tests.conftest import World
from tests.integration.queued import JOBS, TENANTS, done, ended

FAR = "far"
MAP, MOVE_ALL = f"{TENANTS}/map", f"{TENANTS}/move-all"
NONE = "`plan=fre` selects nothing. Check its labels and values."
NONE_SERVED = NONE.replace("nothing", "nothing that is served")
BACKUPS, DRIFT, CHECK = "/api/admin/backups", "/api/admin/drift", "/api/admin/drift/check"


@pytest.fixture(name="settings")
def _settings(settings: Settings) -> Settings:
    """With a second tenant server: another folder, or the same server under another name."""
    url = settings.servers["default"].address
    far = url if sqlite_path(url) is None else f"sqlite:///{settings.data_dir / FAR}"
    servers = {**settings.tenant_servers, FAR: {"url": far}}
    return Settings(**{**settings.model_dump(exclude_unset=True), "tenant_servers": servers})


@pytest.fixture(name="admin")
async def _admin(world: World) -> AsyncIterator[httpx.AsyncClient]:
    """An admin, of a fleet in which acme alone has the plan `free`."""
    await patch_tenant(world, world.acme, labels={"plan": "free"})
    async with await world.admin() as client:
        yield client


async def audited(admin: httpx.AsyncClient, action: str) -> Any:
    log = ok(await admin.get("/api/admin/audit-log", params={"action": action}))
    return {one["field"]: one["new"] for one in log["items"][0]["changes"]}


class TestWhere:
    async def test_selects_the_tenants_of_the_map(self, world: World, admin: httpx.AsyncClient):
        async def names(**query: str) -> list[str]:
            return [one["name"] for one in ok(await admin.get(MAP, params=query))["items"]]

        assert await names(where="plan=free") == ["acme"]
        assert await names(where="plan!=free") == ["globex"]
        assert await names(where="plan!=free", after=str(world.globex.tenant.id)) == []
        assert await names() == ["acme", "globex"]

    async def test_selects_the_tenants_to_back_up_without_the_catalog(
        self, world: World, admin: httpx.AsyncClient
    ):
        both = {"where": "plan=free", "tenantIds": [str(world.globex.tenant.id)]}
        assert ok(await admin.post(BACKUPS, json=both), 202) == {"count": 0}

        queued = ok(await admin.post(BACKUPS, json={"where": "plan=free"}), 202)

        assert queued == {"count": 1}
        [job] = ok(await admin.get(JOBS))["items"]
        assert job["tenantName"] == "acme"
        assert await audited(admin, "backup.queue") == {"jobs": 1, "where": "plan=free"}

    async def test_selects_the_tenants_that_are_checked_for_drift(self, admin: httpx.AsyncClient):
        job = await done(admin, CHECK, where="plan=free")

        assert job["note"].startswith("1 compared, 0 drifted, 0 not at the head")
        assert (await audited(admin, "drift.queue"))["where"] == "plan=free"
        assert (await done(admin, CHECK))["note"].startswith("2 compared")
        page = ok(await admin.get(DRIFT, params={"where": "plan=free"}))
        assert (page["items"], page["totalCount"]) == ([], 0)

    async def test_selects_the_tenants_that_are_moved(self, admin: httpx.AsyncClient):
        body = {"toServer": FAR, "where": "plan=free"}
        elsewhere = {**body, "fromServer": FAR, "toServer": SERVER_DEFAULT}
        assert ok(await admin.post(MOVE_ALL, json=elsewhere), 202) == {"count": 0}

        assert ok(await admin.post(MOVE_ALL, json=body), 202) == {"count": 1}

        [job] = ok(await admin.get(JOBS))["items"]
        assert (await ended(admin, job["id"]))["state"] == "done"
        servers = {one["name"]: one["serverName"] for one in ok(await admin.get(TENANTS))["items"]}
        assert servers == {"acme": FAR, "globex": SERVER_DEFAULT}
        assert ok(await admin.post(MOVE_ALL, json=body), 202) == {"count": 0}

    async def test_that_selects_no_tenant_is_refused_by_all_that_act(
        self, admin: httpx.AsyncClient
    ):
        """A mistyped label must not look like success. What is done already is none."""
        acts: list[tuple[str, dict[str, object]]] = [
            (MIGRATE_ALL, {}),
            (MIGRATE_ALL, {"dryRun": True}),
            (MIGRATE_ALL, {"onlyBehind": True}),
            (BACKUPS, {}),
            (CHECK, {}),
            (MOVE_ALL, {"toServer": FAR}),
        ]
        before = ok(await admin.get(HISTORY))["totalCount"]
        for path, more in acts:
            none = NONE_SERVED if path in {BACKUPS, MOVE_ALL} else NONE
            refused(await admin.post(path, json={"where": "plan=fre", **more}), 400, none)
        assert ok(await admin.get(JOBS))["items"] == []
        assert ok(await admin.get(HISTORY))["totalCount"] == before

        body = {"where": "plan=free", "onlyBehind": True}
        assert ok(await admin.post(MIGRATE_ALL, json=body))["total"] == 0
        for path in (TENANTS, MAP, DRIFT):
            assert ok(await admin.get(path, params={"where": "plan=fre"}))["items"] == []

    async def test_that_is_wrong_is_refused_alike_by_all(self, admin: httpx.AsyncClient):
        """Also a mistyped member, which would move every tenant of a server."""
        for where in ("", "plan=", "Plan!=free", "plan='\0'"):
            for path in (TENANTS, MAP, DRIFT):
                refused(await admin.get(path, params={"where": where}), 400)
            for path, more in ((BACKUPS, {}), (CHECK, {}), (MOVE_ALL, {"toServer": FAR})):
                refused(await admin.post(path, json={"where": where, **more}), 400)
        for body in ({}, {"fromServer": SERVER_DEFAULT, "were": "plan=free"}):
            refused(await admin.post(MOVE_ALL, json={"toServer": FAR, **body}), 400)
        refused(await admin.post(CHECK, json={"were": "plan=free"}), 400)
        assert ok(await admin.get(JOBS))["items"] == []
