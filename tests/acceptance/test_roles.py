"""The roles of users in their tenant: what each may do, from the next request on."""

from dataclasses import dataclass
from typing import Any
from uuid import UUID

import httpx
import pytest

from tenantry.access.principal import ALL_SCOPES, Person, Role
from tenantry.app import app_over
from tenantry.kit.clock import utc_now
from tenantry.services import open_services, system_context
from tenantry.tenant import tokens
from tests.acceptance.assistants import assistant, data_of
from tests.acceptance.support import OWN_POSTS, TENANTS, done, ok, refused
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
    profile = ok(await reader.get("/api/tenant/auth/profile"))
    assert profile["role"] == "reader"
    body = {"fullName": "Reader", "email": own["email"]}
    assert ok(await reader.put("/api/tenant/auth/profile", json=body))["role"] == "reader"
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
