"""A blog whose tenant waits for the revision that counts its posts."""

import httpx
import pytest

from tests.acceptance.shapes import POST_SUMMARY, must_be, page_of
from tests.acceptance.support import MIGRATE_ALL, OWN_POSTS, POSTS, database_of, ok, refused
from tests.acceptance.test_public_blog import publish
from tests.conftest import UNDO_HEAD, World

TAGGED = {"tag": "Numbers"}


@pytest.fixture(name="outdated")
async def _outdated(world: World) -> World:
    """A world in which acme stands one revision back, with a few posts."""
    for number in range(3):
        await publish(world, f"Post {number}", "numbers", "\u00dcber", days_ago=number + 1)
    await publish(world, "A draft", "numbers", is_published=False)
    await world.services.databases.forget(world.acme.tenant.id)
    raw = database_of(world, world.acme.tenant)
    for sql in UNDO_HEAD:
        raw.run(sql)
    return world


async def numbers(client: httpx.AsyncClient) -> tuple[int, int, int, int]:
    """Return how many posts there are, and of one tag, and how many of both are shown."""
    page, tagged = ok(await client.get(POSTS)), ok(await client.get(POSTS, params=TAGGED))
    must_be(page, page_of(POST_SUMMARY))
    return page["totalCount"], tagged["totalCount"], len(page["items"]), len(tagged["items"])


class TestOutdatedBlog:
    async def test_is_read_by_everybody_as_before(self, outdated: World) -> None:
        """Pages, tags and posts, without an entity tag, of which there is no version."""
        client = outdated.public(outdated.acme)

        assert await numbers(client) == (4, 3, 4, 3)
        assert ok(await client.get(f"{POSTS}/post-1"))["title"] == "Post 1"
        refused(await client.get(f"{POSTS}/a-draft"), 404)
        beyond = ok(await client.get(POSTS, params={"page": 7}))
        assert (beyond["items"], beyond["totalCount"]) == ([], 4)
        answer = await client.get(POSTS, headers={"if-none-match": "*"})
        ok(answer)
        assert "etag" not in answer.headers
        assert answer.headers["cache-control"] == "private, no-cache"

    async def test_is_not_written_yet(self, outdated: World) -> None:
        """503 for this tenant alone, until it is migrated; people are served meanwhile."""
        owner = await outdated.owner(outdated.acme)
        body = {"title": "A", "content": "B"}

        refused(await owner.get(OWN_POSTS), 503)
        refused(await owner.post(OWN_POSTS, json=body), 503)
        ok(await owner.get("/api/tenant/auth/profile"))
        ok(await (await outdated.owner(outdated.globex)).post(OWN_POSTS, json=body), 201)

    async def test_is_whole_after_the_migration(self, outdated: World) -> None:
        """At once and in the same process: counts, tags and search of what was there."""
        client, owner = outdated.public(outdated.acme), await outdated.owner(outdated.acme)
        before = ok(await client.get(POSTS))

        ok(await (await outdated.admin()).post(MIGRATE_ALL))

        assert await numbers(client) == (4, 3, 4, 3)
        after = await client.get(POSTS)
        assert ok(after) == before
        assert after.headers["etag"]
        for query, titles in {
            "status=draft": ["A draft"],
            "tag=numbers&status=published": ["Post 0", "Post 1", "Post 2"],
            "tag=%C3%BCber": ["Post 2", "Post 1", "Post 0"],
            "search=CONTENT%20OF%20POST%201": ["Post 1"],
        }.items():
            page = ok(await owner.get(f"{OWN_POSTS}?{query}"))
            assert [post["title"] for post in page["items"]] == titles
            assert page["totalCount"] == len(titles)
        ok(await owner.post(OWN_POSTS, json={"title": "New", "content": ""}), 201)
