"""/api/admin/tenants: create, list, show, suspend, activate and change tenants."""

import asyncio
import socket
from pathlib import Path
from typing import Any

import pytest

from tenantry.access import admins
from tenantry.app import app_over
from tenantry.kit.context import system_context
from tenantry.services import open_services
from tenantry.settings import Settings
from testkit.raw_sql import Raw
from tests.acceptance.shapes import CREATED_TENANT, TENANT, must_be, page_of
from tests.acceptance.support import (
    BROKEN_JSON,
    LOGIN,
    MODULES,
    POSTS,
    PROFILE,
    TENANTS,
    UNKNOWN_ID,
    add_user,
    catalog_of,
    database_of,
    encoded,
    ok,
    patch_tenant,
    refused,
    session,
)
from tests.conftest import PASSWORD, World, client_of

OWNER = {"email": "ann@initech.example.com", "fullName": "Ann", "password": PASSWORD}
INITECH = {"name": "Initech", "owner": OWNER}

BAD_TENANTS: tuple[Any, ...] = (
    {"name": "Initech"},
    {"owner": OWNER},
    {"name": None, "owner": OWNER},
    {"name": "Initech", "owner": None},
    {"name": "Initech", "owner": "ann"},
    {"name": "", "owner": OWNER},
    {"name": "  ", "owner": OWNER},
    {"name": "x" * 5_000, "owner": OWNER},
    {"name": "Ini\0tech", "owner": OWNER},
    {"name": "Ini\ud800tech", "owner": OWNER},
    {"name": "Initech", "owner": {**OWNER, "email": "ann"}},
    {"name": "Initech", "owner": {**OWNER, "fullName": ""}},
    {"name": "Initech", "owner": {**OWNER, "password": "short"}},
    {"name": "Initech", "owner": {**OWNER, "password": "password1"}},
    {"name": "Initech", "owner": {**OWNER, "password": OWNER["email"]}},
    {"name": "Initech", "owner": {**OWNER, "password": f"{PASSWORD}\0"}},
    {"name": "Initech", "owner": {"email": OWNER["email"]}},
    {"name": "Initech", "owner": OWNER, "modules": ["shop"]},
    {"name": "Initech", "owner": OWNER, "modules": "blog"},
    {"name": "Initech", "owner": OWNER, "modules": None},
    {"name": "Initech", "owner": OWNER, "modules": [1]},
)
BAD_CHANGES: tuple[Any, ...] = (
    {"name": ""},
    {"name": None},
    {"name": 1},
    {"name": "x" * 5_000},
    {"isActive": None},
    {"isActive": "false"},
    {"isActive": 0},
    {"modules": None},
    {"modules": ["shop"]},
    {"modules": {}},
)


class TestCreateTenant:
    async def test_returns_the_tenant_its_key_and_its_owner(self, world: World) -> None:
        """201; the key is shown once and opens the tenant; its owner can log in."""
        admin = await world.admin()

        answer = await admin.post(TENANTS, json=INITECH)

        made = ok(answer, 201)
        must_be(made, CREATED_TENANT)
        assert answer.headers["cache-control"] == "no-store"
        assert made["name"] == "Initech"
        assert made["isActive"] is True
        assert made["modules"] == ["blog", "mcp"]
        assert made["apiKey"].startswith("tnk_")
        assert made["owner"]["email"] == OWNER["email"]
        assert made["owner"]["fullName"] == "Ann"
        key = world.client(x_api_key=made["apiKey"])
        assert ok(await key.get(POSTS))["totalCount"] == 0
        login = {"email": OWNER["email"], "password": PASSWORD}
        token = ok(await key.post(LOGIN, json=login))["token"]
        owner = world.client(x_api_key=made["apiKey"], authorization=f"Bearer {token}")
        assert ok(await owner.get(PROFILE)) == made["owner"]
        shown = (await admin.get(f"{TENANTS}/{made['id']}")).text
        assert made["apiKey"] not in shown
        assert ok(await admin.get(f"{TENANTS}/{made['id']}")) == {
            name: made[name] for name in TENANT
        }

    async def test_makes_a_database_of_its_own_at_the_head(self, world: World) -> None:
        """Each customer has its own database and its own key; nothing is shared."""
        admin = await world.admin()
        made = ok(await admin.post(TENANTS, json={**INITECH, "modules": ["mcp"]}), 201)
        tenants = ok(await admin.get(TENANTS))["items"]

        assert made["modules"] == ["mcp"]
        assert len({one["databaseName"] for one in tenants}) == 3
        assert len({one["id"] for one in tenants}) == 3
        assert len({world.acme.key.secret, world.globex.key.secret, made["apiKey"]}) == 3
        assert {one["schemaRevision"] for one in tenants} == {made["schemaRevision"]}
        await add_user(world, world.acme, "only@acme.example.com")
        assert "only@acme.example.com" in database_of(world, world.acme.tenant).dump()
        assert "only@acme.example.com" not in database_of(world, world.globex.tenant).dump()
        [(version,)] = database_of(world, world.acme.tenant).run(
            "SELECT version_num FROM tenantry_version"
        )
        assert made["schemaRevision"] == version

    async def test_refuses_a_name_that_is_taken(self, world: World) -> None:
        """409, whatever the case and the composition; of many at once, one gets it."""
        admin = await world.admin()
        ok(await admin.post(TENANTS, json={**INITECH, "name": "Caf\u00e9"}), 201)
        for name in ("acme", "ACME", "cafe\u0301", "CAFE\u0301"):
            refused(await admin.post(TENANTS, json={**INITECH, "name": name}), 409)

        answers = await asyncio.gather(*(admin.post(TENANTS, json=INITECH) for _ in range(5)))

        assert sorted(answer.status_code for answer in answers) == [201, 409, 409, 409, 409]
        assert ok(await admin.get(TENANTS))["totalCount"] == 4

    async def test_refuses_a_bad_body(self, world: World) -> None:
        """400, and nothing is left of it: the name is free."""
        admin = await world.admin()

        for broken in BROKEN_JSON:
            refused(await admin.post(TENANTS, content=broken), 400)
        for body in BAD_TENANTS:
            refused(await admin.post(TENANTS, content=encoded(body)), 400)

        assert ok(await admin.get(TENANTS))["totalCount"] == 2
        [(count,)] = catalog_of(world).run("SELECT count(*) FROM tenant")
        assert count == 2
        ok(await admin.post(TENANTS, json=INITECH), 201)


class TestCreateTenantWithoutServer:
    @pytest.fixture(name="settings")
    def _settings(self, settings: Settings, tmp_path: Path, engine: str) -> Settings:
        (tmp_path / "file").touch()
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        nowhere = {
            "sqlite": f"sqlite:///{tmp_path}/file/tenants",
            "postgresql": f"postgresql://postgres@127.0.0.1:{port}/postgres",
        }[engine]
        values = {name: getattr(settings, name) for name in type(settings).model_fields}
        return Settings(**{**values, "tenant_servers": {}, "tenant_server_url": nowhere})

    async def test_is_all_or_nothing(self, settings: Settings) -> None:
        """503 when the database cannot be made; no trace is left, and the name is free."""
        async with open_services(settings) as services:
            context = system_context("test")
            await admins.create(
                context, services.catalog, services.passwords, email="a@b.org", password=PASSWORD
            )
            client = client_of(app_over(services))
            login = {"email": "a@b.org", "password": PASSWORD}
            token = ok(await client.post("/api/admin/auth/login", json=login))["token"]
            client.headers["authorization"] = f"Bearer {token}"

            answers = [await client.post(TENANTS, json=INITECH) for _ in range(2)]

            for answer in answers:
                refused(answer, 503)
                assert str(settings.data_dir) not in answer.text
            assert ok(await client.get(TENANTS))["items"] == []
            raw = Raw(settings.catalog)
            assert raw.run("SELECT * FROM api_key") == []
            ready = raw.run("SELECT name FROM tenant WHERE state = 'ready'")
            assert ready == []


class TestListTenants:
    async def test_returns_a_page_by_name(self, world: World) -> None:
        """Ten on a page; sizes over 100 are served as 100; past the end there is nothing."""
        admin = await world.admin()

        page = ok(await admin.get(TENANTS))
        second = ok(await admin.get(TENANTS, params={"page": 2, "pageSize": 1}))
        wide = ok(await admin.get(TENANTS, params={"pageSize": 101}))
        beyond = ok(await admin.get(TENANTS, params={"page": 3, "pageSize": 2}))

        must_be(page, page_of(TENANT))
        assert [one["name"] for one in page["items"]] == ["acme", "globex"]
        assert (page["page"], page["pageSize"]) == (1, 10)
        assert (page["totalCount"], page["totalPages"]) == (2, 1)
        assert [one["name"] for one in second["items"]] == ["globex"]
        assert (second["totalCount"], second["totalPages"]) == (2, 2)
        assert wide["pageSize"] == 100
        assert beyond["items"] == []
        assert (beyond["page"], beyond["totalPages"]) == (3, 1)

    async def test_searches_and_filters(self, world: World) -> None:
        """By part of the name in any case, by activity, by revision; wildcards match themselves."""
        admin = await world.admin()
        await patch_tenant(world, world.globex, isActive=False)
        await patch_tenant(world, world.acme, name="ac_me 100%")
        revision = ok(await admin.get(f"{TENANTS}/{world.acme.tenant.id}"))["schemaRevision"]

        async def names(**query: str) -> list[str]:
            page = ok(await admin.get(TENANTS, params=query))
            assert page["totalCount"] == len(page["items"])
            return [one["name"] for one in page["items"]]

        assert await names(search="GLOB") == ["globex"]
        assert await names(search="e") == ["ac_me 100%", "globex"]
        assert await names(search="nothing") == []
        assert await names(search=str(world.globex.tenant.id)) == ["globex"]
        assert await names(search=world.globex.tenant.database_name) == ["globex"]
        assert await names(server="elsewhere") == await names(isFailing="true") == []
        assert await names(search="%") == ["ac_me 100%"]
        assert await names(search="_") == ["ac_me 100%"]
        assert await names(search="\\") == []
        assert await names(isActive="true") == ["ac_me 100%"]
        assert await names(isActive="false") == ["globex"]
        assert await names(isActive="false", search="ac") == []
        assert await names(revision=revision) == ["ac_me 100%", "globex"]
        assert await names(revision="9999") == []
        empty = ok(await admin.get(TENANTS, params={"search": "nothing"}))
        assert (empty["totalCount"], empty["totalPages"]) == (0, 0)

    async def test_refuses_a_bad_query(self, world: World) -> None:
        """400: pages begin at one, and a flag is a flag."""
        admin = await world.admin()

        for query in ("page=0", "pageSize=0", "pageSize=-5", "page=x", "isActive=maybe"):
            refused(await admin.get(f"{TENANTS}?{query}"), 400)


class TestShowTenant:
    async def test_returns_it(self, world: World) -> None:
        """By its id, in any case; a malformed or unknown id is 404."""
        admin = await world.admin()
        tenant_id = str(world.acme.tenant.id)

        tenant = ok(await admin.get(f"{TENANTS}/{tenant_id}"))

        must_be(tenant, TENANT)
        assert tenant["name"] == "acme"
        assert tenant["databaseName"] == world.acme.tenant.database_name
        assert ok(await admin.get(f"{TENANTS}/{tenant_id.upper()}")) == tenant
        for unknown in (
            UNKNOWN_ID,
            "acme",
            tenant_id[:-1],
            tenant_id.replace("-", ""),
            f"{tenant_id} ",
        ):
            refused(await admin.get(f"{TENANTS}/{unknown}"), 404)


class TestUpdateTenant:
    async def test_suspends_and_activates(self, world: World) -> None:
        """Every credential is 403 at the very next request; sessions live on afterwards."""
        owner = await session(world, world.acme)
        token = world.client(x_mcp_token=await world.mcp_token(world.acme))
        requests = (
            lambda: owner.get(PROFILE),
            lambda: owner.get(MODULES),
            lambda: token.get(MODULES),
            lambda: token.get(PROFILE),
            lambda: token.get(POSTS),
            lambda: world.public(world.acme).get(POSTS),
        )
        for request in requests:
            ok(await request())

        for _ in range(2):
            suspended = await patch_tenant(world, world.acme, isActive=False)
            assert suspended["isActive"] is False
            for request in requests:
                refused(await request(), 403)
            ok(await world.public(world.globex).get(POSTS))
            active = await patch_tenant(world, world.acme, isActive=True)
            assert active["isActive"] is True
            for request in requests:
                ok(await request())

    async def test_changes_the_name_and_the_modules(self, world: World) -> None:
        """What is left out stays as it is; an empty change changes nothing."""
        before = await patch_tenant(world, world.acme)

        renamed = await patch_tenant(world, world.acme, name="Acme Inc.")
        changed = await patch_tenant(world, world.acme, modules=["mcp", "mcp"])
        own_name = await patch_tenant(world, world.acme, name="ACME INC.")

        assert renamed == {**before, "name": "Acme Inc."}
        assert changed == {**renamed, "modules": ["mcp"]}
        assert own_name == {**changed, "name": "ACME INC."}
        assert await patch_tenant(world, world.acme) == own_name

    async def test_refuses_an_impossible_change(self, world: World) -> None:
        """409 for a taken name, 404 for an unknown tenant, 400 for a bad body; nothing changes."""
        admin = await world.admin()
        path = f"{TENANTS}/{world.acme.tenant.id}"
        before = ok(await admin.get(path))

        refused(await admin.patch(path, json={"name": "GLOBEX", "isActive": False}), 409)
        for broken in BROKEN_JSON[1:6]:
            refused(await admin.patch(path, content=broken), 400)
        for body in BAD_CHANGES:
            refused(await admin.patch(path, content=encoded(body)), 400)
        refused(await admin.patch(f"{TENANTS}/{UNKNOWN_ID}", json={"name": "x"}), 404)
        refused(await admin.patch(f"{TENANTS}/{UNKNOWN_ID}", json={"name": 1}), 400)
        refused(await admin.patch(f"{TENANTS}/acme", json={"name": "x"}), 404)

        assert ok(await admin.get(path)) == before

    async def test_stays_inactive_when_it_cannot_be_migrated(self, world: World) -> None:
        """Activation first brings the tenant to the head; if that fails it is 409."""
        admin = await world.admin()
        path = f"{TENANTS}/{world.acme.tenant.id}"
        await patch_tenant(world, world.acme, isActive=False)
        await world.services.databases.forget(world.acme.tenant.id)
        database_of(world, world.acme.tenant).destroy()

        message = refused(await admin.patch(path, json={"isActive": True, "name": "new"}), 409)

        assert "inactive" in message
        after = ok(await admin.get(path))
        assert (after["isActive"], after["name"]) == (False, "acme")
        refused(await world.public(world.acme).get(POSTS), 403)

    async def test_keeps_both_of_two_changes_at_once(self, world: World) -> None:
        """A change of one member does not undo a change of another at the same moment."""
        admin = await world.admin()
        path = f"{TENANTS}/{world.acme.tenant.id}"

        for number in range(5):
            ok(await admin.patch(path, json={"isActive": True, "modules": []}))
            answers = await asyncio.gather(
                admin.patch(path, json={"isActive": False}),
                admin.patch(path, json={"name": f"acme {number}"}),
                admin.patch(path, json={"modules": ["blog"]}),
            )
            for answer in answers:
                ok(answer)
            after = ok(await admin.get(path))
            assert (after["isActive"], after["name"], after["modules"]) == (
                False,
                f"acme {number}",
                ["blog"],
            )
