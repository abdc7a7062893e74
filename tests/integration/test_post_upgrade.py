"""A database of the release before, with posts, is upgraded by the engine of the product."""

import pytest

from testkit import raw_sql
from tests.acceptance.assistants import assistant, data_of
from tests.acceptance.support import MIGRATE_ALL, OWN_POSTS, POSTS, TENANTS, ok, refused
from tests.conftest import HEAD, UNDO_ALL, UNDO_HEAD, World

COLUMNS = (
    "id, slug, title, content, excerpt, author_id, author_name, tags, created_at, updated_at,"
    " published_at"
)


def url_of(world: World) -> str:
    tenant = world.acme.tenant
    return world.services.databases.server(tenant.server_name).url(tenant.database_name)


@pytest.fixture(name="old")
def _old(world: World) -> World:
    """The world with the database of acme as the release before has left it."""
    raw_sql.run(url_of(world), *UNDO_ALL)
    assert raw_sql.rows(url_of(world), "SELECT version_num FROM tenantry_version") == [("0001",)]
    return world


async def test_posts_are_read_before_the_upgrade_and_written_after_it(old: World) -> None:
    """A write is 503, which may be retried, of this tenant alone; nothing is lost."""
    owner, public, other = await old.owner(old.acme), old.public(old.acme), old.public(old.globex)
    shown = ok(await public.get(f"{POSTS}/hello-from-acme"))
    rows = raw_sql.rows(url_of(old), f"SELECT {COLUMNS} FROM tenantry_post")
    path = f"{OWN_POSTS}/{shown['id']}"
    before = await owner.get(path)
    lists = [
        await owner.get(OWN_POSTS, params=params)
        for params in ({}, {"status": "draft"}, {"status": "published", "search": "hello"})
    ]
    for answer in (
        await owner.post(OWN_POSTS, json={"title": "A", "content": "B"}),
        await owner.put(path, json={"title": "A", "content": "B"}),
        await owner.delete(path),
        await owner.get(f"{path}/versions"),
        await owner.get("/api/tenant/blog/deleted-posts"),
    ):
        refused(answer, 503)
        assert answer.headers["x-error-code"] == "tenant_outdated"
        assert answer.headers["retry-after"]
    ok(await (await old.owner(old.globex)).get(OWN_POSTS))
    ok(await owner.get("/api/tenant/auth/profile"))

    run = ok(await (await old.admin()).post(MIGRATE_ALL))

    assert run["failed"] == 0
    assert raw_sql.rows(url_of(old), "SELECT version_num FROM tenantry_version") == [(HEAD,)]
    assert raw_sql.rows(url_of(old), f"SELECT {COLUMNS} FROM tenantry_post") == rows
    assert ok(await public.get(f"{POSTS}/hello-from-acme")) == shown
    assert ok(await other.get(POSTS))["totalCount"] == 1
    after = await owner.get(path)
    assert (ok(after), after.headers["etag"]) == (ok(before), before.headers["etag"])
    assert [ok(one)["totalCount"] for one in lists] == [1, 0, 1]
    assert ok(await owner.get(OWN_POSTS)) == ok(lists[0])
    post = ok(after)
    assert (post["version"], post["hasDraft"], post["content"]) == (1, False, shown["content"])
    ok(await owner.put(path, json={"title": post["title"], "content": "New"}))
    first = ok(await owner.get(f"{path}/versions/1"))
    assert (first["content"], first["kind"]) == (shown["content"], "release")


async def test_editors_and_assistants_read_the_posts_of_a_tenant_that_stays_read_only(
    old: World,
) -> None:
    """No run upgrades it."""
    admin, tenant = await old.admin(), f"{TENANTS}/{old.acme.tenant.id}"
    ok(await admin.patch(tenant, json={"isReadOnly": True}))
    ok(await admin.post(MIGRATE_ALL))
    assert raw_sql.rows(url_of(old), "SELECT version_num FROM tenantry_version") == [("0001",)]

    owner = await old.owner(old.acme)
    reader = old.client(x_mcp_token=await old.mcp_token(old.acme, "content:read"))
    for client in (owner, reader):
        (post,) = ok(await client.get(OWN_POSTS))["items"]
        assert ok(await client.get(f"{OWN_POSTS}/{post['id']}"))["slug"] == "hello-from-acme"
    async with assistant(old, await old.mcp_token(old.acme)) as client:
        found = data_of(await client.call_tool("get_post", {"slug": "hello-from-acme"}))
        assert (found["version"], found["hasDraft"]) == (1, False)


async def test_drafts_are_read_before_schedules_can_be_made(world: World) -> None:
    """In a database of the release before, everything that it has is read."""
    owner, public = await world.owner(world.acme), world.public(world.acme)
    post = ok(await owner.get(OWN_POSTS))["items"][0]
    path = f"{OWN_POSTS}/{post['id']}"
    draft = {"title": "New", "content": "New text", "publish": False}
    post = ok(await owner.put(path, json=draft))
    reader = world.client(x_mcp_token=await world.mcp_token(world.acme, "content:read"))
    reads = [
        (client, one)
        for client in (owner, reader)
        for one in (path, OWN_POSTS, f"{OWN_POSTS}?status=published&tag=news&search=e")
    ]
    reads += [(public, one) for one in (POSTS, f"{POSTS}?tag=news", f"{POSTS}/hello-from-acme")]
    before = [ok(await client.get(one)) for client, one in reads]
    raw_sql.run(url_of(world), *UNDO_HEAD)
    await world.services.databases.forget(world.acme.tenant.id)

    assert [ok(await client.get(one)) for client, one in reads] == before
    assert ok(await owner.get(f"{path}/versions"))["totalCount"] == 2
    for answer in (
        await owner.put(path, json=draft),
        await owner.put(f"{path}/schedule", json={}),
    ):
        refused(answer, 503)
        assert answer.headers["x-error-code"] == "tenant_outdated"

    ok(await (await world.admin()).post(MIGRATE_ALL))

    assert [ok(await client.get(one)) for client, one in reads] == before
    assert ok(await owner.put(f"{path}/schedule", json={})) == post


async def test_the_release_before_writes_to_an_upgraded_database(world: World) -> None:
    """It knows nothing of the new columns: its statements are those of its own tables."""
    owner = await world.owner(world.acme)
    post = ok(await owner.get(OWN_POSTS))["items"][0]
    made = "'01a21c8000007000a000000000000001', 'old', 'Old', 'Text', 'Text', NULL, '', ''"
    times = "'2026-01-01 00:00:00.000000', '2026-01-01 00:00:00.000000', NULL"
    raw_sql.run(
        url_of(world),
        f"INSERT INTO tenantry_post ({COLUMNS}) VALUES ({made}, {times})",
        "UPDATE tenantry_post SET content = 'Of the release before', "
        "updated_at = '2026-01-02 00:00:00.000000' WHERE slug = 'hello-from-acme'",
    )

    listed = ok(await owner.get(OWN_POSTS))["items"]
    changed = ok(await owner.get(f"{OWN_POSTS}/{post['id']}"))

    assert {one["title"]: one["version"] for one in listed} == {"Old": 1, post["title"]: 2}
    assert changed["content"] == "Of the release before"
