"""A database of the release before, with posts, is upgraded by the engine of the product."""

import pytest

from testkit import raw_sql
from tests.acceptance.support import MIGRATE_ALL, OWN_POSTS, POSTS, ok, refused
from tests.conftest import BEFORE_HEAD, HEAD, UNDO_HEAD, World

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
    raw_sql.run(url_of(world), *UNDO_HEAD)
    assert raw_sql.rows(url_of(world), "SELECT version_num FROM tenantry_version") == [
        (BEFORE_HEAD,)
    ]
    return world


async def test_readers_are_served_before_the_upgrade_and_editors_after_it(old: World) -> None:
    """Editors get 503, which they may retry, of this tenant alone; nothing is lost."""
    owner, public, other = await old.owner(old.acme), old.public(old.acme), old.public(old.globex)
    shown = ok(await public.get(f"{POSTS}/hello-from-acme"))
    rows = raw_sql.rows(url_of(old), f"SELECT {COLUMNS} FROM tenantry_post")
    for answer in (
        await owner.get(OWN_POSTS),
        await owner.get(f"{OWN_POSTS}/{shown['id']}"),
        await owner.post(OWN_POSTS, json={"title": "A", "content": "B"}),
        await owner.delete(f"{OWN_POSTS}/{shown['id']}"),
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
    post = ok(await owner.get(f"{OWN_POSTS}/{shown['id']}"))
    assert (post["version"], post["hasDraft"], post["content"]) == (1, False, shown["content"])
    body = {"title": post["title"], "content": "New"}
    ok(await owner.put(f"{OWN_POSTS}/{post['id']}", json=body))
    first = ok(await owner.get(f"{OWN_POSTS}/{post['id']}/versions/1"))
    assert (first["content"], first["kind"]) == (shown["content"], "release")


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
