"""The versions of a post are listed, shown, compared and restored; a deleted post comes back."""

from collections.abc import AsyncIterator
from datetime import timedelta
from typing import Any

import pytest

from tenantry.db.sessions import RejectedByDatabase
from tenantry.kit.clock import utc_now
from tenantry.tenant.blog import deleted
from tests.acceptance.blogs import Blog, blog_of
from tests.acceptance.support import OWN_POSTS, POSTS, UNKNOWN_ID, database_of, done, ok, refused
from tests.conftest import World

DELETED = "/api/tenant/blog/deleted-posts"


@pytest.fixture(name="blog")
async def _blog(world: World) -> AsyncIterator[Blog]:
    async with blog_of(world) as blog:
        yield blog


def versions_of(post: Any, more: str = "") -> str:
    return f"{OWN_POSTS}/{post['id']}/versions{more}"


async def written(blog: Blog) -> Any:
    """Return a published post with three versions, of which the first is published."""
    post = await blog.publish("Post", "one\ntwo\nthree", tags=["a"], excerpt="E")
    await blog.change(post, content="one\nTWO\nthree", publish=False, note="Louder")
    return await blog.change(post, title="Post 3", content="one\nTWO\nthree", publish=False)


class TestVersions:
    async def test_are_listed_and_shown(self, blog: Blog) -> None:
        post = await written(blog)

        page = ok(await blog.owner.get(versions_of(post)))
        second = ok(await blog.owner.get(versions_of(post, "/2")))

        listed = [(one["number"], one["title"], one["note"]) for one in page["items"]]
        assert listed == [(3, "Post 3", ""), (2, "Post", "Louder"), (1, "Post", "")]
        assert [bool(one["publishedAt"]) for one in page["items"]] == [False, False, True]
        assert second["content"] == "one\nTWO\nthree"
        assert {name: second[name] for name in page["items"][1]} == page["items"][1]
        assert (second["authorName"], second["kind"]) == ("Owner acme-canary", "session")

    async def test_are_compared(self, blog: Blog) -> None:
        """With the one before, or with another; equal ones have no difference."""
        post = await written(blog)

        before = ok(await blog.owner.get(versions_of(post, "/2/difference")))
        first = ok(await blog.owner.get(versions_of(post, "/1/difference")))
        other = ok(await blog.owner.get(versions_of(post, "/3/difference?against=1")))
        same = ok(await blog.owner.get(versions_of(post, "/3/difference?against=3")))

        lines = ["@@ -1,3 +1,3 @@", " one", "-two", "+TWO", " three"]
        assert before == {"number": 2, "against": 1, "changes": [], "lines": lines}
        assert other["changes"] == [{"field": "title", "old": "Post", "new": "Post 3"}]
        assert other["lines"] == lines
        assert (first["against"], first["changes"][0]["new"]) == (0, "Post")
        assert first["lines"][1:] == ["-", "+one", "+two", "+three"]
        assert (same["changes"], same["lines"]) == ([], [])

    async def test_are_restored_as_the_latest(self, blog: Blog) -> None:
        """Of a published post as its draft; a false If-Match is 412."""
        post = await written(blog)
        stale = {"if-match": '"stale"'}
        refused(await blog.owner.post(versions_of(post, "/1/restore"), headers=stale), 412)

        restored = ok(await blog.owner.post(versions_of(post, "/1/restore")))

        assert (restored["version"], restored["content"]) == (4, "one\ntwo\nthree")
        assert restored["title"] == "Post"
        latest = ok(await blog.owner.get(versions_of(post)))["items"][0]
        assert (latest["number"], latest["note"]) == (4, "Restored from version 1.")

    async def test_of_a_text_that_is_no_version_yet_is_in_the_list(self, blog: Blog) -> None:
        """The release before has written it."""
        raw = database_of(blog.world, blog.world.acme.tenant)
        post = await blog.write("Post", "Text")
        raw.run("UPDATE tenantry_post SET version = 0, saved_at = NULL")
        raw.run("DELETE FROM tenantry_post_version")

        (only,) = ok(await blog.owner.get(versions_of(post)))["items"]

        assert (only["number"], only["kind"], only["title"]) == (1, "release", "Post")
        assert ok(await blog.owner.get(versions_of(post, "/1")))["content"] == "Text"

    async def test_that_are_missing_are_404(self, blog: Blog) -> None:
        post = await written(blog)

        for more in ("/4", "/0", "/01", "/x", "/9999999999", "/4/difference", "/9/restore"):
            method = "POST" if more.endswith("restore") else "GET"
            refused(await blog.owner.request(method, versions_of(post, more)), 404)
        refused(await blog.owner.get(versions_of({"id": UNKNOWN_ID})), 404)
        other = await blog.owner_of(blog.world.globex)
        refused(await other.get(versions_of(post)), 404)
        refused(await other.get(versions_of(post, "/1")), 404)
        reader = await blog.token("content:read")
        refused(await reader.get(versions_of(post)), 404)
        refused(await reader.get(versions_of(post, "/1")), 404)
        assert ok(await reader.get(DELETED))["items"] == []

    @pytest.mark.parametrize("number", [2**31, 2**63, 10**21])
    async def test_with_a_number_that_none_has_are_404(self, blog: Blog, number: int) -> None:
        post = await written(blog)

        for more in (f"/{number}", f"/1/difference?against={number}"):
            refused(await blog.owner.get(versions_of(post, more)), 404)

    async def test_of_a_deleted_post_are_404(self, blog: Blog) -> None:
        """Of one in the bin, and of one that the release before has deleted, which has no bin."""
        raw = database_of(blog.world, blog.world.acme.tenant)
        binned, gone = await blog.write("Binned"), await blog.write("Gone")
        await blog.delete(binned)
        raw.run("DELETE FROM tenantry_post WHERE slug = 'gone'")

        for post in (binned, gone):
            for more in ("", "/1", "/1/difference"):
                refused(await blog.owner.get(versions_of(post, more)), 404)


class TestBin:
    async def test_has_a_deleted_post_until_it_is_restored(self, blog: Blog) -> None:
        """As a draft, with its id, its latest text and its versions."""
        post = await written(blog)
        await blog.delete(post)
        (binned,) = ok(await blog.owner.get(DELETED))["items"]

        restored = ok(await blog.owner.post(f"{DELETED}/{post['id']}/restore"))

        assert (binned["id"], binned["title"]) == (post["id"], "Post 3")
        assert binned["deletedBy"] == "Owner acme-canary"
        kept = ("id", "title", "slug", "content", "tags", "authorName", "createdAt")
        assert [restored[name] for name in kept] == [post[name] for name in kept]
        assert (restored["publishedAt"], restored["version"]) == (None, 4)
        assert ok(await blog.owner.get(DELETED))["items"] == []
        page = ok(await blog.owner.get(versions_of(post)))
        assert [one["number"] for one in page["items"]] == [4, 3, 2, 1]
        assert await blog.titles(search="two") == await blog.titles(tag="a") == ["Post 3"]
        refused(await blog.owner.post(f"{DELETED}/{post['id']}/restore"), 404)

    async def test_gives_back_a_post_whose_slug_is_taken(self, blog: Blog) -> None:
        post = await blog.write("Post")
        await blog.delete(post)
        await blog.write("Post")

        assert ok(await blog.owner.post(f"{DELETED}/{post['id']}/restore"))["slug"] == "post-2"

    async def test_is_emptied_by_hand(self, blog: Blog) -> None:
        """The post and its versions are gone for good."""
        post = await written(blog)
        await blog.delete(post)

        done(await blog.owner.delete(f"{DELETED}/{post['id']}"))

        refused(await blog.owner.post(f"{DELETED}/{post['id']}/restore"), 404)
        raw = database_of(blog.world, blog.world.acme.tenant)
        sql = "SELECT count(*) FROM tenantry_post_version WHERE title <> 'Hello from acme'"
        assert raw.run(sql) == [(0,)]

    async def test_is_emptied_after_30_days(self, blog: Blog) -> None:
        post, kept = await written(blog), await blog.write("Kept")
        await blog.delete(post)
        database = await blog.world.services.databases.open(blog.world.acme.tenant, writes=True)

        await deleted.purge_expired(database, now=utc_now() + timedelta(days=29))
        before = ok(await blog.owner.get(DELETED))["totalCount"]
        await deleted.purge_expired(database, now=utc_now() + timedelta(days=31))

        assert (before, ok(await blog.owner.get(DELETED))["totalCount"]) == (1, 0)
        assert ok(await blog.owner.get(versions_of(kept)))["totalCount"] == 1
        refused(await blog.public.get(f"{POSTS}/post"), 404)

    async def test_has_every_version_of_a_post_of_the_release_before(self, blog: Blog) -> None:
        """What a deletion stores for it removes none."""
        raw = database_of(blog.world, blog.world.acme.tenant)
        post = await blog.write("Post", "One")
        post = await blog.change(post, content="Two", publish=True)
        await blog.change(post, content="Three", publish=False)
        raw.run(
            "UPDATE tenantry_post SET content = 'Old release', updated_at = created_at"
            " WHERE slug = 'post'"
        )

        await blog.delete(post)

        kept = raw.run("SELECT number FROM tenantry_post_version WHERE title = 'Post' ORDER BY 1")
        assert kept == [(1,), (2,), (3,), (4,), (5,)]

    async def test_bounds_the_versions_of_a_post_that_comes_and_goes(self, blog: Blog) -> None:
        """Each restore adds a version, and removes the oldest."""
        settings = blog.world.services.settings.model_copy(update={"post_versions": 2})
        async with blog_of(blog.world.with_services(settings=settings)) as few:
            post = await few.write("Post")
            for _ in range(4):
                await few.delete(post)
                ok(await few.owner.post(f"{DELETED}/{post['id']}/restore"))

            page = ok(await few.owner.get(versions_of(post)))

        assert [one["number"] for one in page["items"]] == [5, 4]

    async def test_keeps_no_versions_that_the_release_before_has_left(self, blog: Blog) -> None:
        """It deletes a post without its versions: they go, and those of others stay."""
        raw = database_of(blog.world, blog.world.acme.tenant)
        await blog.write("Gone")
        await blog.delete(await blog.write("Binned"))
        raw.run("DELETE FROM tenantry_post WHERE slug = 'gone'")
        database = await blog.world.services.databases.open(blog.world.acme.tenant, writes=True)

        assert not await deleted.purge_expired(database, now=utc_now())

        left = raw.run("SELECT title FROM tenantry_post_version ORDER BY title")
        assert left == [("Binned",), ("Hello from acme",)]

    async def test_removes_each_expired_post_by_itself(self, blog: Blog) -> None:
        """One transaction for each: what cannot be removed holds up no post before it."""
        raw = database_of(blog.world, blog.world.acme.tenant)
        first, second = await blog.write("First"), await blog.write("Second")
        await blog.delete(first)
        await blog.delete(second)
        raw.run("CREATE TABLE kept (id uuid REFERENCES tenantry_deleted_post (post_id))")
        raw.run("INSERT INTO kept SELECT post_id FROM tenantry_post_version WHERE title = 'Second'")
        database = await blog.world.services.databases.open(blog.world.acme.tenant, writes=True)

        with pytest.raises(RejectedByDatabase):
            await deleted.purge_expired(database, now=utc_now() + timedelta(days=31))

        assert [one["id"] for one in ok(await blog.owner.get(DELETED))["items"]] == [second["id"]]
