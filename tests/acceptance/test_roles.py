"""The roles of users in their tenant: what each may do, from the next request on."""

import asyncio
from collections.abc import Awaitable
from dataclasses import dataclass
from typing import Any
from uuid import UUID

import httpx
import pytest

from tenantry.access.principal import ALL_SCOPES, Person, Role
from tenantry.app import app_over
from tenantry.kit.clock import utc_now
from tenantry.kit.context import system_context
from tenantry.services import open_services
from tenantry.tenant import tokens
from tests.acceptance.assistants import assistant, data_of
from tests.acceptance.support import OWN_POSTS, PROFILE, TENANTS, done, ok, refused
from tests.conftest import PASSWORD, World, client_of

ROLES = ("owner", "editor", "author", "reader")
BIN = "/api/tenant/blog/deleted-posts"
POST = {"title": "A title", "content": "A text"}


@dataclass
class People:
    """A world with one user of acme for each role.

    Attributes:
        users: As an admin sees them, by role.
    """

    world: World
    admin: httpx.AsyncClient
    users: dict[str, dict[str, Any]]

    @property
    def tenant(self) -> UUID:
        return self.world.acme.tenant.id

    def path(self, role: str) -> str:
        return f"{TENANTS}/{self.world.acme.tenant.id}/users/{self.users[role]['id']}"

    async def client(self, role: str) -> httpx.AsyncClient:
        """Return a client with a session of the user who had this role at first."""
        return self.world.client(**await self.headers(role))

    async def headers(self, role: str) -> dict[str, str]:
        of, user = self.world.acme, self.users[role]
        person = Person(
            UUID(user["id"]), user["email"], Role.TENANT_USER, 0, tenant_id=of.tenant.id
        )
        token = (await self.world.services.tokens.issue(person, now=utc_now())).token
        return {"authorization": f"Bearer {token}", "x_api_key": of.key.secret}

    async def mcp_token(self, role: str) -> str:
        services, tenant = self.world.services, self.world.acme.tenant
        issued = await tokens.issue(
            system_context("test"),
            services.catalog,
            await services.databases.open(tenant, writes=True),
            tenant.id,
            name="assistant",
            user_id=UUID(self.users[role]["id"]),
            scopes=ALL_SCOPES,
            expires_at=None,
        )
        return issued.secret


@pytest.fixture(name="people")
async def _people(world: World) -> People:
    admin, users = await world.admin(), {}
    for role in ROLES:
        body = {"email": f"{role}@acme.example.org", "fullName": role, "password": PASSWORD}
        path = f"{TENANTS}/{world.acme.tenant.id}/users"
        users[role] = created(await admin.post(path, json={**body, "role": role}))
    return People(world, admin, users)


def created(response: httpx.Response) -> Any:
    return ok(response, 201)


async def changes(client: httpx.AsyncClient, post_id: str, version: int) -> list[httpx.Response]:
    """Return the responses to every kind of change of a published post; it is deleted at last."""
    path = f"{OWN_POSTS}/{post_id}"
    return [
        await client.put(path, json={**POST, "content": f"{version}"}),
        await client.put(path, json={**POST, "content": f"{version} draft", "publish": False}),
        await client.post(f"{path}/publish"),
        await client.post(f"{path}/unpublish"),
        await client.post(f"{path}/versions/1/restore"),
        await client.delete(path),
        await client.post(f"{BIN}/{post_id}/restore"),
        await client.delete(path),
        await client.delete(f"{BIN}/{post_id}"),
    ]


async def test_an_author_changes_only_their_own_posts(people: People):
    """Also its versions, and in the bin; an editor and an owner change all of them."""
    author, editor = await people.client("author"), await people.client("editor")
    own = created(await author.post(OWN_POSTS, json={**POST, "publish": True}))
    others = created(await editor.post(OWN_POSTS, json={**POST, "publish": True}))
    deleted = created(await editor.post(OWN_POSTS, json=POST))
    done(await editor.delete(f"{OWN_POSTS}/{deleted['id']}"))

    for answer in (await changes(author, others["id"], 1))[:6]:
        refused(answer, 403)
    refused(await author.post(f"{BIN}/{deleted['id']}/restore"), 403)
    refused(await author.delete(f"{BIN}/{deleted['id']}"), 403)
    assert ok(await author.get(f"{OWN_POSTS}/{others['id']}")) == others
    for answer in await changes(author, own["id"], 1):
        assert answer.is_success, answer.text
    ok(await editor.post(f"{BIN}/{deleted['id']}/restore"))
    for answer in await changes(editor, others["id"], 1):
        assert answer.is_success, answer.text


async def test_an_author_sees_which_posts_are_their_own(people: People):
    """By the id in their profile; also in lists and in the bin, and of none without a user."""
    author, editor = await people.client("author"), await people.client("editor")
    unbound = people.world.client(
        x_mcp_token=await people.world.mcp_token(people.world.acme, bound=False)
    )
    me = ok(await author.get(PROFILE))["id"]
    others = people.users["editor"]["id"]
    written = [(author, me), (editor, others), (unbound, None)]

    posts = [created(await client.post(OWN_POSTS, json=POST)) for client, _ in written]
    listed = {one["id"]: one["authorId"] for one in ok(await author.get(OWN_POSTS))["items"]}
    saved = ok(await editor.put(f"{OWN_POSTS}/{posts[0]['id']}", json={**POST, "title": "New"}))
    done(await editor.delete(f"{OWN_POSTS}/{posts[0]['id']}"))
    binned = ok(await author.get(BIN))["items"]

    for post, (_, whose) in zip(posts, written, strict=True):
        assert post["authorId"] == listed[post["id"]] == whose
    assert saved["authorId"] == binned[0]["authorId"] == me


async def test_a_post_without_an_author_is_of_no_author(people: People):
    """Neither of a session nor of an McpToken without a user."""
    author = await people.client("author")
    unbound = people.world.client(
        x_mcp_token=await people.world.mcp_token(people.world.acme, bound=False)
    )
    post = created(await unbound.post(OWN_POSTS, json=POST))

    refused(await author.put(f"{OWN_POSTS}/{post['id']}", json=POST), 403)
    refused(await author.delete(f"{OWN_POSTS}/{post['id']}"), 403)
    done(await unbound.delete(f"{OWN_POSTS}/{post['id']}"))


async def test_a_reader_reads_drafts_and_writes_nothing(people: People):
    """But their own profile and password."""
    reader, editor = await people.client("reader"), await people.client("editor")
    draft = created(await editor.post(OWN_POSTS, json=POST))
    path = f"{OWN_POSTS}/{draft['id']}"

    assert ok(await reader.get(path)) == draft
    assert ok(await reader.get(OWN_POSTS))["totalCount"] == 2
    assert ok(await reader.get(f"{path}/versions"))["totalCount"] == 1
    refused(await reader.post(OWN_POSTS, json=POST), 403)
    refused(await reader.post(OWN_POSTS, json={}), 403)
    for answer in await changes(reader, draft["id"], 1):
        refused(answer, 403)
    own = people.users["reader"]
    assert ok(await reader.get("/api/tenant/auth/role")) == {"role": "reader"}
    body = {"fullName": "Reader", "email": own["email"]}
    assert ok(await reader.put("/api/tenant/auth/profile", json=body))["fullName"] == "Reader"
    passwords = {"currentPassword": PASSWORD, "newPassword": "another quite long passphrase"}
    assert (await reader.put("/api/tenant/auth/change-password", json=passwords)).is_success


async def test_a_changed_role_holds_at_the_next_request_in_every_process(people: People):
    """Sessions go on, and no process keeps the role of before."""
    headers = await people.headers("editor")
    async with open_services(people.world.services.settings) as other:
        clients = (people.world.client(**headers), client_of(app_over(other), **headers))
        posts = [created(await one.post(OWN_POSTS, json=POST)) for one in clients]
        for role, status in (("reader", 403), ("author", 200), ("reader", 403), ("owner", 200)):
            changed = ok(await people.admin.patch(people.path("editor"), json={"role": role}))
            assert changed["role"] == role
            for number, client in enumerate(clients):
                path, body = f"{OWN_POSTS}/{posts[number]['id']}", {**POST, "content": role}
                assert (await client.put(path, json=body)).status_code == status


async def test_an_mcp_token_may_never_do_more_than_its_user(people: People):
    """With all scopes: it lists no tool that the role forbids, and follows a change at once."""
    editor = await people.client("editor")
    others = created(await editor.post(OWN_POSTS, json=POST))
    token = await people.mcp_token("author")
    over_http = people.world.client(x_mcp_token=token)
    async with assistant(people.world, token) as client:
        own = data_of(await client.call_tool("create_post", {"title": "Mine", "content": "A"}))
        data_of(await client.call_tool("publish_post", {"slug": own["slug"]}))
        failed = await client.call_tool("delete_post", {"slug": others["slug"]})
        assert failed.is_error
        refused(await over_http.delete(f"{OWN_POSTS}/{others['id']}"), 403)

        ok(await people.admin.patch(people.path("author"), json={"role": "reader"}))

        assert data_of(await client.call_tool("whoami"))["role"] == "reader"
        listed = {one.name for one in (await client.list_tools()).tools}
    assert {"get_post", "list_versions", "update_profile"} <= listed
    assert not listed & {"create_post", "update_post", "publish_post", "unpublish_post"}
    assert "delete_post" not in listed
    refused(await over_http.delete(f"{OWN_POSTS}/{own['id']}"), 403)
    refused(await over_http.post(OWN_POSTS, json=POST), 403)


async def test_a_user_has_the_role_that_an_admin_chose(people: People):
    """An owner without a choice; the entity tag has the role, and the audit log its changes."""
    base = f"{TENANTS}/{people.world.acme.tenant.id}/users"
    body = {"email": "new@acme.example.com", "fullName": "New", "password": PASSWORD}
    assert created(await people.admin.post(base, json=body))["role"] == "owner"
    refused(await people.admin.post(base, json={**body, "role": "Owner"}), 400)
    refused(await people.admin.patch(people.path("reader"), json={"role": "admin"}), 400)
    before = await people.admin.get(people.path("reader"))

    after = await people.admin.patch(people.path("reader"), json={"role": "editor"})
    same = await people.admin.patch(people.path("reader"), json={"role": "editor"})

    assert {
        one["email"].split("@")[0]: one["role"] for one in ok(await people.admin.get(base))["items"]
    } == {
        "owner": "owner",
        "editor": "editor",
        "author": "author",
        "reader": "editor",
        "new": "owner",
    }
    assert before.headers["etag"] != after.headers["etag"] == same.headers["etag"]
    headers = {"if-match": before.headers["etag"]}
    refused(
        await people.admin.patch(people.path("reader"), json={"role": "author"}, headers=headers),
        412,
    )
    entries = ok(await people.admin.get(f"{TENANTS}/{people.world.acme.tenant.id}/audit-log"))[
        "items"
    ]
    logged = [one for one in entries if one["target"] == people.users["reader"]["id"]]
    assert [one["action"] for one in logged] == ["user.update", "user.create"]
    assert {"field": "role", "old": "reader", "new": "editor"} in logged[0]["changes"]


class TestLastOwner:
    @pytest.mark.parametrize("change", [{"isActive": False}, {"role": "editor"}, None])
    async def test_stays_an_active_owner(self, people: People, change: dict[str, Any] | None):
        """Until there is another one; an inactive owner does not count."""
        admin, base = people.admin, f"{TENANTS}/{people.world.acme.tenant.id}/users"
        first, second = f"{base}/{people.world.acme.owner.id}", people.path("owner")

        async def leave(path: str) -> httpx.Response:
            if change is None:
                return await admin.delete(path)
            return await admin.patch(path, json=change)

        ok(await admin.patch(second, json={"isActive": False}))
        answer = await leave(first)
        refused(answer, 409)
        assert answer.headers["x-error-code"] == "last_owner"
        # What leaves the owner one is no concern, and what leaves the owner as they are neither.
        ok(await admin.patch(first, json={"fullName": "First", "isActive": True, "role": "owner"}))
        ok(await admin.patch(people.path("reader"), json={"isActive": False}))
        done(await admin.delete(people.path("author")))
        ok(await admin.patch(second, json={"isActive": True}))

        assert (await leave(first)).is_success
        refused(await leave(second), 409)

    async def test_is_one_of_twenty_who_all_leave_at_once(self, world: World):
        """By admins in two processes: demoted, deactivated and deleted; one is refused."""
        admin, base = await world.admin(), f"{TENANTS}/{world.acme.tenant.id}/users"
        paths = [f"{base}/{world.acme.owner.id}"]
        for number in range(19):
            body = {"email": f"{number}@acme.example.org", "fullName": f"{number}"}
            made = created(await admin.post(base, json={**body, "password": PASSWORD}))
            paths.append(f"{base}/{made['id']}")
        async with open_services(world.services.settings) as other:
            headers = {"authorization": admin.headers["authorization"]}
            clients = (admin, client_of(app_over(other), **headers))

            def leave(number: int) -> Awaitable[httpx.Response]:
                client, path = clients[number % 2], paths[number]
                changes = ({"role": "reader"}, {"isActive": False}, None)[number % 3]
                return client.patch(path, json=changes) if changes else client.delete(path)

            answers = await asyncio.gather(*map(leave, range(20)))

        assert sorted(answer.status_code for answer in answers) == [200] * 19 + [409]
        left = ok(await admin.get(base, params={"pageSize": 100}))["items"]
        assert len([one for one in left if one["isActive"] and one["role"] == "owner"]) == 1


class TestOwner:
    async def test_manages_the_users_of_their_tenant(self, people: People):
        """With the bodies and the results of the endpoints of admins."""
        owner, base = await people.client("owner"), "/api/tenant/users"
        body = {"email": "new@acme.example.org", "fullName": "New", "password": PASSWORD}

        made = created(await owner.post(base, json={**body, "role": "author"}))
        path = f"{base}/{made['id']}"
        shown = await owner.get(path)
        changed = ok(await owner.patch(path, json={"role": "reader", "isActive": False}))

        assert made["role"] == "author"
        by_admin = f"{TENANTS}/{people.tenant}/users"
        assert ok(shown) == made
        assert changed == {**made, "role": "reader", "isActive": False}
        assert ok(await people.admin.get(f"{by_admin}/{made['id']}")) == changed
        refused(await owner.delete(path, headers={"if-match": shown.headers["etag"]}), 412)
        refused(await owner.post(base, json=body), 409)
        done(await owner.delete(path))
        refused(await owner.get(path), 404)
        assert ok(await owner.get(base))["totalCount"] == 5
        assert ok(await people.admin.get(by_admin)) == ok(await owner.get(base))

    async def test_cannot_set_their_own_password_without_the_old_one(self, people: People):
        owner, base = await people.client("owner"), "/api/tenant/users"
        another = {"password": "another quite long passphrase"}

        message = refused(
            await owner.patch(f"{base}/{people.users['owner']['id']}", json=another), 400
        )

        assert "/api/tenant/auth/change-password" in message
        ok(await owner.patch(f"{base}/{people.users['editor']['id']}", json=another))
        refused(await (await people.client("editor")).get(OWN_POSTS), 401)

    async def test_cannot_demote_themselves_as_the_last_one(self, people: People):
        """And is no owner at the next request after they did it."""
        owner = await people.client("owner")
        path = f"/api/tenant/users/{people.users['owner']['id']}"
        first = f"/api/tenant/users/{people.world.acme.owner.id}"
        done(await owner.delete(first))

        refused(await owner.patch(path, json={"role": "editor"}), 409)
        ok(
            await owner.patch(
                f"/api/tenant/users/{people.users['author']['id']}", json={"role": "owner"}
            )
        )
        ok(await owner.patch(path, json={"role": "editor"}))

        refused(await owner.patch(path, json={"role": "owner"}), 403)

    async def test_rotates_a_key_of_their_tenant(self, people: People):
        """As an admin does: the old one works for the time of grace, and is rotated once."""
        owner, world = await people.client("owner"), people.world
        key = created(await owner.post("/api/tenant/api-keys", json={}))
        path = f"/api/tenant/api-keys/{key['id']}/rotate"

        new = created(await owner.post(path, json={"gracePeriodSeconds": 60}))

        for one in (key, new):
            ok(await world.client(x_api_key=one["key"]).get("/api/public/blog/posts"))
        refused(await owner.post(path, json={}), 409)
        foreign = f"/api/tenant/api-keys/{world.globex.key.key.id}/rotate"
        refused(await owner.post(foreign, json={}), 404)
        editor = await people.client("editor")
        refused(await editor.post(f"/api/tenant/api-keys/{new['id']}/rotate", json={}), 403)

    async def test_manages_the_credentials_of_their_tenant(self, people: People):
        """Keys, and the McpTokens of all users and of none; never those of another tenant."""
        owner, world = await people.client("owner"), people.world
        key = created(await owner.post("/api/tenant/api-keys", json={}))
        of_reader = world.client(x_mcp_token=await people.mcp_token("reader"))
        unbound = world.client(x_mcp_token=await world.mcp_token(world.acme, bound=False))
        other = world.client(x_mcp_token=await world.mcp_token(world.globex))
        ok(await world.client(x_api_key=key["key"]).get("/api/public/blog/posts"))

        keys = ok(await owner.get("/api/tenant/api-keys"))["items"]
        tokens_ = ok(await owner.get("/api/tenant/all-mcp-tokens"))["items"]
        [others] = ok(await people.admin.get(f"{TENANTS}/{world.globex.tenant.id}/mcp-tokens"))[
            "items"
        ]

        assert len(keys) == 2
        assert [one["userId"] for one in tokens_] in (
            [people.users["reader"]["id"], None],
            [None, people.users["reader"]["id"]],
        )
        done(await owner.delete(f"/api/tenant/api-keys/{key['id']}"))
        for one in tokens_:
            done(await owner.delete(f"/api/tenant/all-mcp-tokens/{one['id']}"))
        refused(await owner.delete(f"/api/tenant/all-mcp-tokens/{others['id']}"), 404)
        refused(await owner.delete(f"/api/tenant/api-keys/{world.globex.key.key.id}"), 404)
        refused(await world.client(x_api_key=key["key"]).get("/api/public/blog/posts"), 401)
        for client in (of_reader, unbound):
            refused(await client.get(OWN_POSTS), 401)
        ok(await other.get(OWN_POSTS))
